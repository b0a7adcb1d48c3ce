/* settings.c - options from all places, one layer after the other. */
#include "cli.h"
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

void dt_layer_release(dt_layer *l)
{
    for (size_t i = 0; i < DT_OPTIONS; i++)
        free(l->value[i].owned);
    *l = (dt_layer){.file = ""};
}

void dt_settings_release(dt_settings *s)
{
    dt_layer_release(&s->layer[DT_SAVED_LAYER]);
    dt_layer_release(&s->layer[DT_FILE_LAYER]);
    free(s->operand);
    s->operand = NULL;
}

/* ---- Environment ----------------------------------------------------------------- */

/* Variables that are no options: of builds, of tests, the decoder's own, and dtrain launch's. */
static const char others[] =
    " BIN SOURCE BUILD BUILD_DIR ASAN COMMIT TEST_LIMIT DECODER_PROCESS TOKEN";

static void spell_variable(char name[64], const char *option)
{
    snprintf(name, 64, "DTRAIN_%s", option);
    for (char *c = name; *c; c++)
        *c = (char)toupper((unsigned char)*c);
}

/* One "DTRAIN_NAME=value". */
static void take_variable(dt_settings *s, const char *variable, const char **config)
{
    const char *bare = variable + strlen("DTRAIN_"), *equals = strchr(variable, '=');
    char name[64] = "", meant[64];

    if (!equals || (size_t)(equals - bare) >= sizeof name)
        return;
    memcpy(name, bare, (size_t)(equals - bare));
    if (strcmp(name, "CONFIG") == 0) {
        *config = equals + 1;
        return;
    }
    if (dt_words_have(others, name))
        return;
    for (char *c = name; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    const dt_option_row *row = dt_option_find(name);
    if (row) {
        s->layer[DT_VARIABLES_LAYER].value[row - dt_option_table].text = equals + 1;
        return;
    }
    const char *option = dt_option_meant(name, false);
    if (option)
        spell_variable(meant, option);
    dt_warn("%.*s in the environment is no option and is ignored%s%s%s", (int)(equals - variable),
            variable, option ? "; did you mean " : "", option ? meant : "", option ? "?" : "");
}

/* ---- Layers ---------------------------------------------------------------------- */

/* Of a bad value. */
static dt_status layer_code(const dt_settings *s, const dt_layer *l)
{
    return l == &s->layer[DT_ARGUMENTS_LAYER] ? DT_USAGE : DT_CONFIG;
}

/* Where option i is given, for messages: "--lr", "DTRAIN_LR" or "a.yaml:3:5". */
enum { PLACE_CHARS = PATH_MAX + 64 };
static const char *layer_place(const dt_settings *s, const dt_layer *l, size_t i,
                               char place[PLACE_CHARS])
{
    const dt_option_row *row = &dt_option_table[i];
    char name[DT_ARGUMENT_CHARS];

    if (l == &s->layer[DT_ARGUMENTS_LAYER])
        snprintf(place, PLACE_CHARS, "--%s", dt_argument_name(row, name));
    else if (l == &s->layer[DT_VARIABLES_LAYER])
        spell_variable(place, row->name);
    else
        snprintf(place, PLACE_CHARS, "%.*s:%u:%u", PATH_MAX, l->file, l->value[i].line,
                 l->value[i].column);
    return place;
}

/* A batch per shard or over all shards replaces one that an earlier layer gave the other way. */
static dt_status layer_batch(const dt_settings *s, const dt_layer *l, dt_options *o)
{
    const size_t i = (size_t)(dt_option_find("batch") - dt_option_table);
    const size_t j = (size_t)(dt_option_find("global_batch") - dt_option_table);
    const bool batch = l->value[i].text && o->batch, global = l->value[j].text && o->global_batch;
    char place[PLACE_CHARS], other[PLACE_CHARS];

    if (batch && global)
        return dt_fail(layer_code(s, l),
                       "%s: %s per shard and %s: %s over all shards are both given; give one of "
                       "them",
                       layer_place(s, l, i, place), l->value[i].text, layer_place(s, l, j, other),
                       l->value[j].text);
    if (batch)
        o->global_batch = 0;
    if (global)
        o->batch = 0;
    return DT_OK;
}

/* Defaults, then layer after layer. */
static dt_status layers_apply(dt_settings *s)
{
    dt_options_init(&s->options);
    for (const dt_layer *l = s->layer; l < s->layer + DT_LAYERS; l++) {
        char place[PLACE_CHARS];
        for (size_t i = 0; i < DT_OPTIONS; i++) {
            const char *text = l->value[i].text;
            if (text && !text[0] && layer_code(s, l) == DT_USAGE)
                return dt_fail(DT_USAGE,
                               "%s: nothing is given; leave the option out, or is a variable of "
                               "the shell not set?",
                               layer_place(s, l, i, place));
            if (text)
                DT_TRY(dt_option_set(&dt_option_table[i], &s->options, text,
                                     layer_place(s, l, i, place), layer_code(s, l)));
        }
        DT_TRY(layer_batch(s, l, &s->options));
    }
    return DT_OK;
}

dt_status dt_settings_init(dt_settings *s, int argc, char **argv, char **environment)
{
    const char *argument = NULL, *variable = NULL;

    *s = (dt_settings){.command = &dt_command_train};
    dt_options_init(&s->options);
    DT_TRY(dt_arguments_read(s, argc, argv, &argument));
    if (s->command->bare)
        return DT_OK;
    for (; *environment; environment++)
        if (strncmp(*environment, "DTRAIN_", strlen("DTRAIN_")) == 0)
            take_variable(s, *environment, &variable);
    const char *file = argument ? argument : variable;
    if (file && !file[0]) /* a variable of a shell that is not set, most likely */
        return dt_fail(argument ? DT_USAGE : DT_CONFIG, "%s: the name of the file is empty",
                       argument ? "--config" : "DTRAIN_CONFIG");
    if (file)
        DT_TRY(dt_config_read(&s->layer[DT_FILE_LAYER], file));
    return layers_apply(s);
}

/* ---- A run that is resumed --------------------------------------------------------- */

/* The file with a run's options, as rank 0 hands it to all. */
typedef struct saved {
    char path[PATH_MAX]; /* "": there is none */
    size_t length;
    char text[DT_CONFIG_BYTES];
} saved;

static dt_status saved_load(const dt_settings *s, saved *v)
{
    char *text = NULL;

    if (s->command != &dt_command_train)
        return DT_OK;
    DT_TRY(dt_resume_options(&s->options, v->path));
    if (!v->path[0])
        return DT_OK;
    DT_TRY(dt_file_read(AT_FDCWD, v->path, sizeof v->text, &text, &v->length));
    memcpy(v->text, text, v->length);
    free(text);
    return DT_OK;
}

/* The saved layer has been read. */
static dt_status saved_apply(dt_settings *s)
{
    const size_t last = DT_OPTIONS - 1;
    dt_layer *l = &s->layer[DT_SAVED_LAYER];

    if (!l->value[last].text) /* a run writes all options, in the table's order */
        return dt_fail(DT_CONFIG,
                       "%s ends before '%s', the last of the options that a run saves: it was "
                       "cut; put options.yaml of a checkpoint in its place",
                       l->file, dt_option_table[last].name);
    for (size_t i = 0; i < DT_OPTIONS; i++)
        if (dt_option_table[i].scope >= DT_SCOPE_HERE)
            l->value[i].text = NULL;
    return layers_apply(s);
}

dt_status dt_settings_resume(dt_settings *s, dt_comm *c)
{
    saved *v = NULL;
    dt_status st = DT_OK;

    DT_GO(st, dt_comm_agree(c, dt_calloc(&v, 1, sizeof *v, "the options of the run")), out);
    DT_GO(st, dt_comm_agree(c, dt_comm_rank(c) == 0 ? saved_load(s, v) : DT_OK), out);
    DT_GO(st, dt_comm_bcast(c, v, sizeof *v, 0), out);
    if (v->path[0])
        st = dt_config_parse(&s->layer[DT_SAVED_LAYER], v->path, v->text, v->length);
    st = dt_comm_agree(c, st == DT_OK && v->path[0] ? saved_apply(s) : st);
out:
    free(v);
    return st;
}

dt_status dt_settings_try(dt_settings *s, const char *path)
{
    DT_TRY(dt_config_read(&s->layer[DT_SAVED_LAYER], path));
    return saved_apply(s);
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
    dt_field field[2 + DT_OPTIONS];
    char(*text)[DT_OPTION_CHARS] = NULL;
    dt_status st =
        dt_comm_agree(c, dt_calloc(&text, 1 + DT_OPTIONS, sizeof *text, "the texts of options"));

    if (st != DT_OK)
        goto out;
    for (size_t i = 0; i < DT_OPTIONS; i++) {
        const dt_option_row *row = &dt_option_table[i];
        dt_option_text(row, &s->options, text[i], sizeof *text);
        field[1 + i] = (dt_field){row->name, text[i]};
    }
    settings_operands(s, text[DT_OPTIONS], sizeof *text);
    field[0] = (dt_field){"command", s->command->name};
    field[DT_OPTIONS + 1] = (dt_field){"arguments", text[DT_OPTIONS]};
    st = dt_comm_same(c, field, 2 + DT_OPTIONS);
out:
    free(text);
    return st;
}
