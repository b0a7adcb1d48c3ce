/* options.c - the option table: defaults, names, what options mean, and how they fit together.
 * Where values come from (files, environment, command line) is cli's. */
#include "options.h"
#include <ctype.h>
#include <stddef.h>

const dt_option_row dt_option_table[] = {
#define X(type, field, scope, value, low, high, choices, group, metavar, help)                     \
    {#field,                                                                                       \
     DT_OPTION_##type,                                                                             \
     DT_SCOPE_##scope,                                                                             \
     offsetof(dt_options, field),                                                                  \
     low,                                                                                          \
     high,                                                                                         \
     choices,                                                                                      \
     group,                                                                                        \
     metavar,                                                                                      \
     help},
    DT_OPTION_LIST(X)
#undef X
};
const size_t dt_option_count = DT_COUNT_OF(dt_option_table);

void dt_options_init(dt_options *o)
{
    *o = (dt_options){
#define X(type, field, scope, value, ...) .field = value,
        DT_OPTION_LIST(X)
#undef X
    };
}

/* ---- Names ----------------------------------------------------------------------- */

static int name_char(char c)
{
    return c == '-' ? '_' : tolower((unsigned char)c);
}

size_t dt_text_distance(const char *a, const char *b)
{
    enum { LONGEST = 63 };
    size_t row[LONGEST + 1];
    const size_t na = strnlen(a, LONGEST), nb = strnlen(b, LONGEST);

    for (size_t j = 0; j <= nb; j++)
        row[j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t best = diagonal + (name_char(a[i - 1]) != name_char(b[j - 1]));
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[nb];
}

const dt_option_row *dt_option_find(const char *name)
{
    for (size_t i = 0; i < dt_option_count; i++) {
        const char *a = dt_option_table[i].name, *b = name;
        while (*a != '\0' && (*a == *b || (*a == '_' && *b == '-')))
            a++, b++;
        if (*a == '\0' && *b == '\0')
            return &dt_option_table[i];
    }
    return NULL;
}

const char *dt_option_nearest(const char *name)
{
    size_t best = 0;
    for (size_t i = 1; i < dt_option_count; i++)
        if (dt_text_distance(name, dt_option_table[i].name) <
            dt_text_distance(name, dt_option_table[best].name))
            best = i;
    return dt_option_table[best].name;
}

/* ---- What options mean ----------------------------------------------------------- */

dt_net_spec dt_options_net(const dt_options *o, int classes)
{
    return (dt_net_spec){.net = o->net,
                         .variant = o->variant,
                         .stem = o->stem,
                         .image_size = (int)o->image_size,
                         .classes = classes,
                         .width_divisor = (int)o->width_divisor};
}

const char *dt_option_isa_then(const char *text)
{
    return text && strcmp(text, dt_isa_name(DT_ISA_AMX)) == 0 ? "auto" : text;
}

/* The sample code behind the Ascend tutorial writes its loss out, with an epsilon; PyTorch,
 * and so the other tutorials and variants, take the logarithm of a softmax as one function.
 * And MindSpore's vision.Resize makes bytes of bytes. */
void dt_options_resolve(dt_options *o, const dt_net *net)
{
    const bool mindspore = strcmp(dt_net_spec_of(net)->variant, "mindspore") == 0;

    if (o->loss_epsilon < 0)
        o->loss_epsilon = mindspore ? 1e-24 : 0;
    if (strcmp(o->resize, "auto") == 0)
        o->resize = mindspore ? "uint8" : "float";
}

/* ---- Together -------------------------------------------------------------------- */

dt_status dt_options_check(dt_options *o, int world)
{
    const int64_t accum = o->accum ? o->accum : 1;
    const int64_t shards = o->shards ? o->shards : world * accum;

    if (world > shards)
        return dt_fail(DT_CONFIG,
                       "%d ranks for %lld shards: some would have no work; start at "
                       "most %lld ranks, or give a new run --shards %d or more",
                       world, (long long)shards, (long long)shards, world);
    if (o->accum && shards != world * accum)
        return dt_fail(DT_CONFIG,
                       "--shards %lld and --accum %lld contradict each other: %d ranks x "
                       "%lld are %lld shards; leave one of them auto",
                       (long long)shards, (long long)accum, world, (long long)accum,
                       (long long)(world * accum));
    if (o->emulate && strcmp(o->isa, dt_isa_name(DT_ISA_AMX)) != 0)
        return dt_fail(DT_CONFIG, "--emulate is for --isa amx, and --isa is %s", o->isa);
    int64_t group, steps;
    double seconds;
    DT_TRY(dt_bn_parse(o->bn, shards, &group));
    DT_TRY(dt_save_every_parse(o->save_every, &steps, &seconds));
    const int64_t global = o->global_batch ? o->global_batch : o->batch * shards;
    if (!global)
        return dt_fail(DT_CONFIG, "--batch and --global-batch are both auto; give one");

    const dt_option_row *limits[] = {dt_option_find("shards"), dt_option_find("global_batch")};
    const int64_t values[] = {shards, global};
    for (int i = 0; i < 2; i++)
        if ((double)values[i] > limits[i]->high)
            return dt_fail(DT_CONFIG, "%s would be %lld, at most %.15g is possible",
                           limits[i]->name, (long long)values[i], limits[i]->high);
    o->global_batch = global;
    o->shards = shards;
    o->batch = 0;
    o->accum = 0;
    return DT_OK;
}
