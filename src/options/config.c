/* config.c - configuration files: one flat mapping of option names to scalars.
 *
 * libyaml's events are taken one by one, and what is no such mapping is refused where it begins:
 * libyaml's documents would first read the whole file, in a time that grows with the square of its
 * depth. */
#include "options.h"
#include <fcntl.h>
#include <stdlib.h>
#include <yaml.h>

typedef struct config {
    const char *path;
    dt_layer *layer;
    yaml_parser_t parser;
    yaml_event_t event; /* the one looked at; owned */
} config;

/* libyaml counts lines and columns from 0, editors from 1. */
#define config_fail(c, mark, ...) config_fail_at((c)->path, mark, dt_fail(DT_CONFIG, __VA_ARGS__))
static dt_status config_fail_at(const char *path, yaml_mark_t mark, dt_status code)
{
    return dt_fail_place(code, "%s:%zu:%zu: ", path, mark.line + 1, mark.column + 1);
}

/* The next event in place of the last one. */
static dt_status config_next(config *c)
{
    const yaml_parser_t *p = &c->parser;

    yaml_event_delete(&c->event);
    if (yaml_parser_parse(&c->parser, &c->event))
        return DT_OK;
    if (p->error == YAML_READER_ERROR) /* knows an offset, no line */
        return dt_fail(DT_CONFIG, "%s: byte %zu: not YAML: %s", c->path, p->problem_offset,
                       p->problem);
    return config_fail(c, p->problem_mark, "not YAML: %s%s%s", p->context ? p->context : "",
                       p->context ? ", " : "", p->problem ? p->problem : "no memory to read it");
}

/* The text of the event, NULL where it is no scalar or holds a zero byte. */
static const char *config_text(const config *c)
{
    const char *text = (const char *)c->event.data.scalar.value;

    if (c->event.type != YAML_SCALAR_EVENT || strlen(text) != c->event.data.scalar.length)
        return NULL;
    return text;
}

/* YAML's words for no value, neither quoted nor tagged. */
static bool config_null(const config *c, const char *text)
{
    return c->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           c->event.data.scalar.plain_implicit &&
           (!text[0] || dt_words_have(" ~ null Null NULL", text));
}

/* The event is a key. */
static dt_status config_key(const config *c, size_t *option)
{
    const char *name = config_text(c);

    if (!name)
        return config_fail(c, c->event.start_mark, "expected the name of an option");
    const dt_option_row *row = dt_option_find(name);
    const char *meant = row ? NULL : dt_option_meant(name, false);
    if (!row)
        return config_fail(c, c->event.start_mark, "unknown option '%s'%s%s%s", name,
                           meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
    *option = (size_t)(row - dt_option_table);
    const dt_layer_value *v = &c->layer->value[*option];
    if (v->text)
        return config_fail(c, c->event.start_mark, "'%s' is given twice, first at %s:%u:%u", name,
                           c->path, v->line, v->column);
    return DT_OK;
}

/* The event is the value of an option. */
static dt_status config_value(const config *c, size_t option)
{
    const char *name = dt_option_table[option].name, *text = config_text(c);
    dt_layer_value *v = &c->layer->value[option];

    if (!text)
        return config_fail(c, c->event.start_mark,
                           "'%s' takes one value without zero bytes, "
                           "expected no list, mapping or alias",
                           name);
    if (config_null(c, text))
        return config_fail(c, c->event.start_mark,
                           "'%s' has no value: leave the line out for the default, or quote '%s' "
                           "if you mean the text",
                           name, text);
    v->owned = strdup(text);
    v->text = v->owned;
    v->line = (unsigned)c->event.start_mark.line + 1;
    v->column = (unsigned)c->event.start_mark.column + 1;
    return v->text ? DT_OK : dt_fail(DT_NOMEM, "%s: no memory to read it", c->path);
}

/* The event begins a mapping. */
static dt_status config_mapping(config *c)
{
    for (size_t option = 0;;) {
        DT_TRY(config_next(c));
        if (c->event.type == YAML_MAPPING_END_EVENT)
            return DT_OK;
        DT_TRY(config_key(c, &option));
        DT_TRY(config_next(c));
        DT_TRY(config_value(c, option));
    }
}

/* A file of comments holds no document and says nothing. */
static dt_status config_stream(config *c)
{
    for (bool seen = false;;) {
        DT_TRY(config_next(c));
        const yaml_event_type_t type = c->event.type;
        if (type == YAML_STREAM_END_EVENT)
            return DT_OK;
        if (type == YAML_STREAM_START_EVENT || type == YAML_DOCUMENT_START_EVENT ||
            type == YAML_DOCUMENT_END_EVENT)
            continue;
        if (type != YAML_MAPPING_START_EVENT || seen)
            return config_fail(c, c->event.start_mark,
                               "expected one document with lines of key: value");
        seen = true;
        DT_TRY(config_mapping(c));
    }
}

dt_status dt_config_parse(dt_layer *layer, const char *path, const char *text, size_t length)
{
    config c = {.path = path, .layer = layer};

    snprintf(layer->file, sizeof layer->file, "%s", path);
    if (!yaml_parser_initialize(&c.parser))
        return dt_fail(DT_NOMEM, "%s: no memory to read it", path);
    yaml_parser_set_input_string(&c.parser, (const unsigned char *)text, length);
    const dt_status st = config_stream(&c);
    yaml_event_delete(&c.event);
    yaml_parser_delete(&c.parser);
    return st;
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
