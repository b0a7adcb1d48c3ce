/* option_forms.c - texts of options that have a form: --bn, --save-every and kin. */
#include "options.h"

dt_option_form dt_option_meaning(const dt_option_syntax *syntax, const char *text)
{
    dt_option_form f;

    memset(&f, 0, sizeof f);
    (void)syntax->parse(text, &f);
    return f;
}

static bool parse_bn(const char *text, dt_option_form *f)
{
    static const struct {
        const char *name;
        int64_t group;
    } words[] = {{"local", 0}, {"sync", INT64_MAX}, {"node", -1}};
    static const char prefix[] = "group:";
    const char *end;

    for (size_t i = 0; i < DT_COUNT_OF(words); i++)
        if (strcmp(text, words[i].name) == 0) {
            f->bn = words[i].group;
            return true;
        }
    return strncmp(text, prefix, sizeof prefix - 1) == 0 &&
           dt_whole_parse(text + sizeof prefix - 1, &end, &f->bn) && *end == '\0' && f->bn > 0;
}
const dt_option_syntax dt_bn_syntax = {
    parse_bn, "local (each shard's own statistics), sync (all shards), node (the shards of a node) "
              "or group:N with N >= 1 (N neighbouring shards)"};

static bool parse_save_every(const char *text, dt_option_form *f)
{
    static const struct {
        const char *unit;
        double seconds;
    } table[] = {{"s", 1}, {"m", 60}, {"h", 3600}};
    const char *end;
    double x;

    f->save_every.steps = 0;
    f->save_every.seconds = 0;
    if (!dt_real_parse(text, &end, &x) || x < 0 || x >= 1e12)
        return false;
    if (*end == '\0' && x == floor(x)) {
        f->save_every.steps = (int64_t)x;
        return true;
    }
    for (size_t i = 0; i < DT_COUNT_OF(table); i++)
        if (strcmp(end, table[i].unit) == 0)
            f->save_every.seconds = x * table[i].seconds;
    return f->save_every.seconds > 0;
}
const dt_option_syntax dt_save_every_syntax = {
    parse_save_every, "a number of steps, or a time like 30s, 10m or 2h; 0 for never"};

static bool parse_stop_after(const char *text, dt_option_form *f)
{
    return parse_save_every(text, f) && f->save_every.steps == 0;
}
const dt_option_syntax dt_stop_after_syntax = {parse_stop_after,
                                               "a time like 30s, 10m or 2h; 0 for never"};

static bool parse_keep_every(const char *text, dt_option_form *f)
{
    const char *end;

    f->keep_every = -1;
    return strcmp(text, "epoch") == 0 ||
           (dt_whole_parse(text, &end, &f->keep_every) && *end == '\0' && f->keep_every >= 0);
}
const dt_option_syntax dt_keep_every_syntax = {parse_keep_every,
                                               "a number of steps, 0 for none, or epoch"};

static bool parse_trace(const char *text, dt_option_form *f)
{
    const char *at = strstr(text, ".json@"), *end;
    int64_t *steps = f->trace.steps;

    f->trace.file = at ? (int)(at - text) + 5 : (int)strlen(text);
    steps[0] = 1, steps[1] = 20;
    return !at || (dt_whole_parse(at + 6, &end, &steps[0]) && *end == ':' &&
                   dt_whole_parse(end + 1, &end, &steps[1]) && *end == '\0' && steps[0] > 0 &&
                   steps[0] <= steps[1]);
}
const dt_option_syntax dt_trace_syntax = {
    parse_trace, "FILE.json, or FILE.json@A:B with the first and the last step, from 1, such as "
                 "trace.json@1:20"};

/* A word of `words`; one that is in `taking`, too, may have a number behind it: WORD:NUMBER. */
static bool read_worded(const char *text, const char *words, const char *taking, double low,
                        double high, dt_option_form *f)
{
    const char *end = text + strcspn(text, ":");
    double *x = &f->worded.number;
    const bool whole = (size_t)(end - text) < sizeof f->worded.word;

    snprintf(f->worded.word, sizeof f->worded.word, "%.*s", (int)(end - text), text);
    if (*end && dt_words_have(taking, f->worded.word) && !dt_real_parse(end + 1, &end, x))
        return false;
    return whole && dt_words_have(words, f->worded.word) && !*end && *x >= low && *x <= high;
}

static bool parse_lr_scale(const char *text, dt_option_form *f)
{
    f->worded.number = 256;
    return read_worded(text, " none linear sqrt", " linear sqrt", 1, 1e8, f);
}
const dt_option_syntax dt_lr_scale_syntax = {
    parse_lr_scale, "none, linear:N or sqrt:N, where --lr is for a global batch of N, 1 to 1e8"};

static bool parse_grad_compress(const char *text, dt_option_form *f)
{
    f->worded.number = 0.001;
    return read_worded(text, DT_COMPRESS_LIST(DT_WORD), " 2bit", 1e-30, 1e6, f);
}
const dt_option_syntax dt_grad_compress_syntax = {
    parse_grad_compress, "none, bf16, 2bit or 2bit:T with T from 1e-30 to 1e6"};

static bool parse_milestones(const char *at, dt_option_form *f)
{
    int *count = &f->milestones.count;

    for (*count = 0; *at; ++*count) {
        double *x = &f->milestones.fraction[*count];
        if (*count == DT_MAX_MILESTONES || !dt_real_parse(at, &at, x) || *x < 0 || *x > 1)
            return false;
        const bool comma = *at == ',' && at[1] != '\0';
        if (*at && !comma)
            return false;
        at += comma;
    }
    return true;
}
const dt_option_syntax dt_milestones_syntax = {
    parse_milestones, "fractions of the run from 0 to 1, at most 32, such as 0.5,0.75"};
