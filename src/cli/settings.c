/* settings.c - options from all places, one layer after the other. */
#include "cli.h"
#include <ctype.h>

void dt_settings_release(dt_settings *s)
{
    dt_layer_release(&s->layer[DT_SAVED_LAYER]);
    dt_layer_release(&s->layer[DT_FILE_LAYER]);
    free(s->operand);
    s->operand = NULL;
}

/* ---- Environment ----------------------------------------------------------------- */

/* Variables that are no options: of builds, of tests, the decoder's own, dtrain launch's, and
 * those that modules set, and Kubernetes for a service called dtrain. */
static const char others[] =
    " BIN SOURCE BUILD BUILD_DIR ASAN COMMIT TEST_LIMIT DECODER_PROCESS TOKEN NP ROOT HOME PORT";

/* One "DTRAIN_NAME=value". */
static dt_status take_variable(dt_settings *s, const char *variable, const char **config)
{
    const char *bare = variable + strlen("DTRAIN_"), *equals = strchr(variable, '=');
    char name[DT_OPTION_NAME] = "", meant[DT_OPTION_NAME];

    if (!equals || (size_t)(equals - bare) >= sizeof name)
        return DT_OK;
    memcpy(name, bare, (size_t)(equals - bare));
    if (strcmp(name, "CONFIG") == 0) {
        *config = equals + 1;
        return DT_OK;
    }
    if (dt_words_have(others, name) || strncmp(name, "PORT_", 5) == 0 ||
        strncmp(name, "SERVICE_", 8) == 0)
        return DT_OK;
    for (char *c = name; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    const dt_option_row *row = dt_option_find(name);
    const dt_option_gone *gone = dt_option_gone_find(name);
    const char *option = dt_option_meant(name, false);
    if (gone)
        return dt_fail(DT_CONFIG, "%.*s is gone: %s", (int)(equals - variable), variable,
                       gone->instead);
    if (row)
        s->layer[DT_VARIABLES_LAYER].value[row - dt_option_table].text = equals + 1;
    else
        dt_warn("%.*s in the environment is no option and is ignored%s%s%s",
                (int)(equals - variable), variable, option ? "; did you mean " : "",
                option ? dt_variable_name(option, meant) : "", option ? "?" : "");
    return DT_OK;
}

/* ---- Layers ---------------------------------------------------------------------- */

static dt_status layers_apply(dt_settings *s)
{
    const dt_option_row *own = s->command->own ? dt_option_find(s->command->own) : NULL;

    dt_options_init(&s->options);
    if (own && !s->own) {
        s->own = s->layer[DT_ARGUMENTS_LAYER].value[own - dt_option_table].text;
        s->layer[DT_ARGUMENTS_LAYER].value[own - dt_option_table].text = NULL;
    }
    for (int i = 0; i < DT_LAYERS; i++)
        DT_TRY(dt_layer_apply(&s->layer[i], &s->options));
    if (s->command->models && s->operands > 0)
        s->options.model = s->operand[0];
    return DT_OK;
}

dt_status dt_settings_init(dt_settings *s, int argc, char **argv, char **environment)
{
    const char *argument = NULL, *variable = NULL;

    *s = (dt_settings){.command = &dt_core_command[DT_RUN_TRAIN]};
    s->layer[DT_VARIABLES_LAYER].kind = DT_LAYER_VARIABLES;
    s->layer[DT_ARGUMENTS_LAYER].kind = DT_LAYER_ARGUMENTS;
    dt_options_init(&s->options);
    DT_TRY(dt_arguments_read(s, argc, argv, &argument));
    if (s->command->bare)
        return DT_OK;
    for (; *environment; environment++)
        if (strncmp(*environment, "DTRAIN_", strlen("DTRAIN_")) == 0)
            DT_TRY(take_variable(s, *environment, &variable));
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

    if (s->command->models && s->options.model[0])
        DT_TRY(dt_model_options(s->options.model, v->path));
    else if (s->command == &dt_core_command[DT_RUN_TRAIN])
        DT_TRY(dt_resume_options(&s->options, v->path));
    if (!v->path[0])
        return DT_OK;
    DT_TRY(dt_file_read(AT_FDCWD, v->path, sizeof v->text, &text, &v->length));
    memcpy(v->text, text, v->length);
    free(text);
    return DT_OK;
}

static dt_status saved_apply(dt_settings *s, const saved *v)
{
    dt_layer *l = &s->layer[DT_SAVED_LAYER];

    l->kind = DT_LAYER_SAVED;
    DT_TRY(dt_config_parse(l, v->path, v->text, v->length));
    DT_TRY(dt_layer_saved(l));
    return layers_apply(s);
}

dt_status dt_settings_resume(dt_settings *s, dt_comm *c)
{
    saved *v = NULL;
    dt_status st = DT_OK;

    DT_GO(st, dt_comm_agree(c, dt_calloc(&v, 1, sizeof *v, "the options of the run")), out);
    DT_GO(st, dt_comm_agree(c, c->rank == 0 ? saved_load(s, v) : DT_OK), out);
    DT_GO(st, dt_comm_bcast(c, v, sizeof *v, 0), out);
    if (v->path[0])
        st = saved_apply(s, v);
    st = dt_comm_agree(c, st);
out:
    free(v);
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
