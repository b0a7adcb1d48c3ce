/* config.c - configuration files: one flat mapping of option names to scalars. */
#include "events.h"

/* YAML's words for no value, neither quoted nor tagged. */
static bool config_null(const dt_events *e, const char *text)
{
    return e->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           e->event.data.scalar.plain_implicit &&
           (!text[0] || dt_words_have(" ~ null Null NULL", text));
}

/* The event is a key that is no option's. */
static dt_status config_unknown(const dt_events *e, const char *name)
{
    const char *meant = dt_option_meant(name, false);

    return dt_events_fail(e, e->event.start_mark, "unknown option '%s'%s%s%s", name,
                          meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
}

/* A run of an older version has the number of a word apart, and behind it. */
static dt_status config_join(dt_events *e, dt_layer *layer, const char *option, const char *number)
{
    dt_layer_value *v = &layer->value[dt_option_find(option) - dt_option_table];
    char *text = NULL;

    if (!v->text || !dt_words_have(DT_WORDS_WITH_NUMBER, v->text))
        return DT_OK;
    if (asprintf(&text, "%s:%s", v->text, number) < 0)
        return dt_fail(DT_NOMEM, "%s: no memory to read it", e->path);
    free(v->owned);
    v->text = v->owned = text;
    return DT_OK;
}

/* The event is its key. What cannot have made a difference is left out. */
static dt_status config_gone(dt_events *e, dt_layer *layer, const dt_option_gone *gone)
{
    const yaml_mark_t mark = e->event.start_mark;

    DT_TRY(dt_events_next(e));
    const char *text = dt_events_text(e);
    if (text && layer->kind == DT_LAYER_SAVED)
        return gone->joins ? config_join(e, layer, gone->joins, text) : DT_OK;
    if (text && strcmp(text, gone->value) == 0)
        return DT_OK;
    return dt_events_fail(e, mark, "'%s' is gone: %s", gone->name, gone->instead);
}

static dt_status config_pair(dt_events *e, void *context)
{
    dt_layer *layer = context;
    const char *key = dt_events_text(e);

    if (!key)
        return dt_events_fail(e, e->event.start_mark, "expected the name of an option");
    const dt_option_row *row = dt_option_find(key);
    const dt_option_gone *gone = dt_option_gone_find(key);
    if (gone)
        return config_gone(e, layer, gone);
    if (!row)
        return config_unknown(e, key);
    dt_layer_value *v = &layer->value[row - dt_option_table];
    if (v->text)
        return dt_events_fail(e, e->event.start_mark, "'%s' is given twice, first at %s:%u:%u", key,
                              e->path, v->line, v->column);
    DT_TRY(dt_events_next(e));
    const char *text = dt_events_text(e);
    if (!text)
        return dt_events_fail(e, e->event.start_mark,
                              "'%s' takes one value without zero bytes, "
                              "expected no list, mapping or alias",
                              row->name);
    if (config_null(e, text))
        return dt_events_fail(e, e->event.start_mark,
                              "'%s' has no value: leave the line out for the default, or quote "
                              "'%s' if you mean the text",
                              row->name, text);
    v->owned = strdup(text);
    v->text = v->owned;
    v->line = (unsigned)e->event.start_mark.line + 1;
    v->column = (unsigned)e->event.start_mark.column + 1;
    return v->text ? DT_OK : dt_fail(DT_NOMEM, "%s: no memory to read it", e->path);
}

dt_status dt_config_parse(dt_layer *layer, const char *path, const char *text, size_t length)
{
    dt_events events;

    snprintf(layer->file, sizeof layer->file, "%s", path);
    return dt_events_read(&events, path, text, length, config_pair, layer);
}

dt_status dt_config_read(dt_layer *layer, const char *path)
{
    size_t length = 0;
    char *text = NULL;

    DT_TRY(dt_file_read(AT_FDCWD, path, DT_CONFIG_BYTES, &text, &length));
    const dt_status st = dt_config_parse(layer, path, text, length);
    free(text);
    return st;
}
