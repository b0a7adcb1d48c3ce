/* layer.c - what one place says about each option: read, applied, and named in messages. */
#include "options.h"
#include <ctype.h>

void dt_layer_release(dt_layer *l)
{
    for (size_t i = 0; i < DT_OPTIONS; i++)
        free(l->value[i].owned);
    *l = (dt_layer){.file = ""};
}

const char *dt_variable_name(const char *option, char name[DT_OPTION_NAME])
{
    snprintf(name, DT_OPTION_NAME, "DTRAIN_%s", option);
    for (char *c = name; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    return name;
}

/* Of a bad value. */
static dt_status code_of(const dt_layer *l)
{
    return l->kind == DT_LAYER_ARGUMENTS ? DT_USAGE : DT_CONFIG;
}

/* Where option i is given, for messages: "--lr", "DTRAIN_LR" or "a.yaml:3:5". */
enum { PLACE_CHARS = PATH_MAX + 64 };
static const char *place_of(const dt_layer *l, size_t i, char place[PLACE_CHARS])
{
    char name[DT_OPTION_NAME];

    if (l->kind == DT_LAYER_ARGUMENTS)
        snprintf(place, PLACE_CHARS, "--%s", dt_argument_name(dt_option_table[i].name, name));
    else if (l->kind == DT_LAYER_VARIABLES)
        dt_variable_name(dt_option_table[i].name, place);
    else
        snprintf(place, PLACE_CHARS, "%.*s:%u:%u", PATH_MAX, l->file, l->value[i].line,
                 l->value[i].column);
    return place;
}

/* A batch per shard or over all shards replaces one that an earlier layer gave the other way. */
static dt_status apply_batch(const dt_layer *l, dt_options *o)
{
    const char *one = l->value[DT_ROW_batch].text, *all = l->value[DT_ROW_global_batch].text;
    const bool batch = one && o->batch, global = all && o->global_batch;
    char place[PLACE_CHARS], other[PLACE_CHARS];

    if (batch && global)
        return dt_fail(code_of(l),
                       "%s: %s per shard and %s: %s over all shards are both given; give one of "
                       "them",
                       place_of(l, DT_ROW_batch, place), one,
                       place_of(l, DT_ROW_global_batch, other), all);
    if (batch)
        o->global_batch = 0;
    if (global)
        o->batch = 0;
    return DT_OK;
}

dt_status dt_layer_apply(const dt_layer *l, dt_options *o)
{
    char place[PLACE_CHARS];

    for (size_t i = 0; i < DT_OPTIONS; i++) {
        const char *text = l->value[i].text;
        if (text && !text[0] && l->kind == DT_LAYER_ARGUMENTS)
            return dt_fail(DT_USAGE,
                           "%s: nothing is given; leave the option out, or is a variable of "
                           "the shell not set?",
                           place_of(l, i, place));
        if (text)
            DT_TRY(dt_option_set(&dt_option_table[i], o, text, place_of(l, i, place), code_of(l)));
    }
    return apply_batch(l, o);
}

dt_status dt_layer_saved(dt_layer *l)
{
    const size_t last = DT_OPTIONS - 1;

    if (!l->value[last].text) /* a run writes all options, in the table's order */
        return dt_fail(DT_CONFIG,
                       "%s ends before '%s', the last of the options that a run saves: it was "
                       "cut; put options.yaml of a checkpoint in its place",
                       l->file, dt_option_table[last].name);
    for (size_t i = 0; i < DT_OPTIONS; i++)
        if (dt_option_table[i].scope >= DT_SCOPE_HERE)
            l->value[i].text = NULL;
    return DT_OK;
}

dt_status dt_options_load(dt_options *o, dt_layer *l, const char *path)
{
    *l = (dt_layer){.kind = DT_LAYER_SAVED};
    dt_options_init(o);
    DT_TRY(dt_config_read(l, path));
    DT_TRY(dt_layer_saved(l));
    return dt_layer_apply(l, o);
}
