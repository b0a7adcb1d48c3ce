/* settings.c - options from all places, one layer after the other. */
#include "cli.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

void dt_settings_release(dt_settings *s)
{
    dt_kept_release(&s->kept);
    free(s->operand);
    s->operand = NULL;
}

/* ---- Environment ----------------------------------------------------------------- */

/* Variables of this name that are no options: of builds, of tests, the decoder's own, and
 * dtrain launch's. */
static bool is_ours(const char *name)
{
    static const char *const ours[] = {"BIN",  "SOURCE", "BUILD",      "BUILD_DIR",
                                       "ASAN", "COMMIT", "TEST_LIMIT", "DECODER_PROCESS",
                                       "TOKEN"};

    for (size_t i = 0; i < DT_COUNT_OF(ours); i++)
        if (strcmp(name, ours[i]) == 0)
            return true;
    return false;
}

/* A variable that is no option is likely one that is meant to be: nothing else would tell. */
static void environment_doubt(const char *name)
{
    const char *nearest = dt_option_nearest(name);
    char upper[64], meant[128] = "";
    size_t i = 0;

    if (is_ours(name))
        return;
    for (; nearest[i] && i + 1 < sizeof upper; i++)
        upper[i] = (char)toupper((unsigned char)nearest[i]);
    upper[i] = '\0';
    if (2 * dt_text_distance(name, nearest) <= strlen(name))
        snprintf(meant, sizeof meant, "; did you mean DTRAIN_%s?", upper);
    dt_warn("DTRAIN_%s in the environment is no option and is ignored%s", name, meant);
}

/* One "DTRAIN_NAME=value". */
static dt_status environment_take(dt_settings *s, const char *variable, dt_layer *layer,
                                  const char **config)
{
    const char *rest = variable + strlen("DTRAIN_"), *equals = strchr(rest, '=');
    char name[64], lower[64];
    size_t n = 0;

    if (!equals || (size_t)(equals - rest) >= sizeof name)
        return DT_OK;
    for (; rest + n < equals; n++) {
        name[n] = rest[n];
        lower[n] = (char)tolower((unsigned char)rest[n]);
    }
    name[n] = lower[n] = '\0';
    if (strcmp(lower, "config") == 0) {
        *config = equals + 1;
        return DT_OK;
    }
    const dt_option_row *row = dt_option_find(lower);
    if (!row) {
        environment_doubt(name);
        return DT_OK;
    }
    dt_layer_value *value = &layer->value[row - dt_option_table];
    value->text = equals + 1;
    return dt_kept_text(&s->kept, &value->place, "DTRAIN_%s", name);
}

static dt_status environment_read(dt_settings *s, char **environment, dt_layer *layer,
                                  const char **config)
{
    for (; *environment; environment++)
        if (strncmp(*environment, "DTRAIN_", strlen("DTRAIN_")) == 0)
            DT_TRY(environment_take(s, *environment, layer, config));
    return DT_OK;
}

/* ---- Layers ---------------------------------------------------------------------- */

/* A batch given one way replaces one that an earlier layer gave the other way. */
static dt_status layer_batch(const dt_layer *layer, dt_options *o)
{
    const ptrdiff_t i = dt_option_find("batch") - dt_option_table;
    const ptrdiff_t j = dt_option_find("global_batch") - dt_option_table;
    const dt_layer_value *batch = &layer->value[i], *global = &layer->value[j];
    const bool has_batch = batch->text && o->batch;
    const bool has_global = global->text && o->global_batch;

    if (has_batch && has_global)
        return dt_fail(layer->code,
                       "%s: %s per shard and %s: %s over all shards are both given; "
                       "give one of them",
                       batch->place, batch->text, global->place, global->text);
    if (has_batch)
        o->global_batch = 0;
    if (has_global)
        o->batch = 0;
    return DT_OK;
}

static dt_status layer_apply(const dt_layer *layer, dt_options *o)
{
    for (size_t i = 0; i < DT_SETTINGS; i++) {
        const dt_layer_value v = layer->value[i];
        if (v.text && !v.text[0] && layer->code == DT_USAGE)
            return dt_fail(DT_USAGE,
                           "%s: nothing is given; leave the option out, or is a variable "
                           "of the shell not set?",
                           v.place);
        if (v.text)
            DT_TRY(dt_option_set(&dt_option_table[i], o, v.text, v.place, layer->code));
    }
    return layer_batch(layer, o);
}

static dt_status layers_apply(const dt_layer layer[DT_LAYERS], dt_options *o)
{
    for (int i = 0; i < DT_LAYERS; i++)
        DT_TRY(layer_apply(&layer[i], o));
    return DT_OK;
}

/* An unset variable of a shell, most likely: not what a run without options is. */
static dt_status config_named(const char *argument, const char *variable)
{
    if (argument)
        return argument[0] ? DT_OK : dt_fail(DT_USAGE, "--config: the name of the file is empty");
    return variable[0]
               ? DT_OK
               : dt_fail(DT_CONFIG, "DTRAIN_CONFIG: the name of the file is empty; unset it");
}

dt_status dt_settings_init(dt_settings *s, int argc, char **argv, char **environment)
{
    const char *named = NULL, *config = NULL;

    *s = (dt_settings){.command = &dt_command_train,
                       .layer = {{.code = DT_CONFIG}, {.code = DT_CONFIG}, {.code = DT_USAGE}}};
    dt_options_init(&s->options);
    DT_TRY(dt_arguments_read(s, argc, argv, &s->layer[DT_ARGUMENTS_LAYER], &named));
    if (s->command->bare)
        return DT_OK;
    DT_TRY(environment_read(s, environment, &s->layer[DT_VARIABLES_LAYER], &config));
    if (named || config)
        DT_TRY(config_named(named, config));
    if (named)
        config = named;
    if (config)
        DT_TRY(dt_config_read(&s->kept, config, &s->layer[DT_FILE_LAYER]));
    return layers_apply(s->layer, &s->options);
}

/* ---- A run that is resumed --------------------------------------------------------- */

/* The file with a run's options, as rank 0 hands it to all. */
typedef struct saved {
    char path[PATH_MAX]; /* "": there is none */
    uint64_t length;
    unsigned char *text; /* owned */
} saved;

/* The text at v->path. */
static dt_status saved_read(saved *v)
{
    size_t length = 0;

    DT_TRY(dt_config_load(v->path, &v->text, &length));
    v->length = length;
    return DT_OK;
}

static dt_status saved_load(const dt_settings *s, saved *v)
{
    if (s->command != &dt_command_train)
        return DT_OK;
    DT_TRY(dt_resume_options(&s->options, v->path));
    return v->path[0] ? saved_read(v) : DT_OK;
}

static dt_status saved_send(saved *v, dt_comm *c)
{
    dt_status st = DT_OK;

    DT_TRY(dt_comm_bcast(c, v->path, sizeof v->path, 0));
    DT_TRY(dt_comm_bcast(c, &v->length, sizeof v->length, 0));
    if (!v->text && v->path[0])
        st = dt_calloc(&v->text, v->length + 1, 1, "the options of the run");
    DT_TRY(dt_comm_agree(c, st));
    return v->path[0] ? dt_comm_bcast(c, v->text, v->length, 0) : DT_OK;
}

/* A run writes all options, in the table's order. */
static dt_status saved_whole(const saved *v, const dt_layer *layer)
{
    const size_t last = DT_SETTINGS - 1;

    if (layer->value[last].text)
        return DT_OK;
    return dt_fail(DT_CONFIG,
                   "%s ends before '%s', the last of the options that a run saves: it was cut; "
                   "put options.yaml of a checkpoint in its place",
                   v->path, dt_option_table[last].name);
}

static dt_status saved_apply(const saved *v, dt_settings *s)
{
    dt_layer layer = {.code = DT_CONFIG};

    DT_TRY(dt_config_parse(&s->kept, v->path, v->text, v->length, &layer));
    DT_TRY(saved_whole(v, &layer));
    for (size_t i = 0; i < DT_SETTINGS; i++)
        if (dt_option_table[i].scope >= DT_SCOPE_HERE)
            layer.value[i].text = NULL;
    dt_layer_value *isa = &layer.value[dt_option_find("isa") - dt_option_table];
    if (!layer.value[dt_option_find("emulate") - dt_option_table].text)
        isa->text = dt_option_isa_then(isa->text);
    dt_options_init(&s->options);
    DT_TRY(layer_apply(&layer, &s->options));
    return layers_apply(s->layer, &s->options);
}

dt_status dt_settings_resume(dt_settings *s, dt_comm *c)
{
    saved v = {.text = NULL};
    dt_status st = DT_OK;

    DT_GO(st, dt_comm_agree(c, dt_comm_rank(c) == 0 ? saved_load(s, &v) : DT_OK), out);
    DT_GO(st, saved_send(&v, c), out);
    st = dt_comm_agree(c, v.path[0] ? saved_apply(&v, s) : DT_OK);

out:
    free(v.text);
    return st;
}

dt_status dt_settings_try(const char *path)
{
    dt_settings s = {.command = &dt_command_train};
    saved v = {.text = NULL};
    dt_status st = DT_OK;

    snprintf(v.path, sizeof v.path, "%s", path);
    DT_GO(st, saved_read(&v), out);
    st = saved_apply(&v, &s);

out:
    free(v.text);
    dt_settings_release(&s);
    return st;
}

/* ---- Ranks compared ------------------------------------------------------------------ */

/* The words that are no options, as one text; cut where they are longer. */
static void settings_operands(const dt_settings *s, char *text, size_t room)
{
    size_t used = 0;
    for (int i = 0; i < s->operands && used < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%s", i ? " " : "", s->operand[i]);
}

dt_status dt_settings_same(const dt_settings *s, dt_comm *c)
{
    dt_field field[2 + DT_SETTINGS];
    char *text = NULL;
    dt_status st = dt_comm_agree(
        c, dt_calloc(&text, 1 + DT_SETTINGS, DT_OPTION_CHARS, "the texts of options"));
    if (st != DT_OK)
        goto out;
    field[0] = (dt_field){"command", s->command->name};
    for (size_t i = 0; i < DT_SETTINGS; i++) {
        const dt_option_row *row = &dt_option_table[i];
        field[1 + i] =
            (dt_field){row->name, dt_option_text(row, &s->options, text + i * DT_OPTION_CHARS,
                                                 DT_OPTION_CHARS)};
    }
    settings_operands(s, text + DT_SETTINGS * DT_OPTION_CHARS, DT_OPTION_CHARS);
    field[1 + DT_SETTINGS] = (dt_field){"arguments", text + DT_SETTINGS * DT_OPTION_CHARS};
    st = dt_comm_same(c, field, 2 + DT_SETTINGS);
out:
    free(text);
    return st;
}
