/* config.c - configuration files: one flat mapping of option names to scalars.
 *
 * libyaml's events are taken one by one and what is no such mapping is refused when it
 * begins: its documents would first read the whole file, in a time that grows with the
 * square of its depth. */
#include "cli.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

enum { CONFIG_BYTES = 256 << 10 }; /* of a file; all options at their longest are fewer */

typedef struct config_file {
    const char *path;
    dt_kept **kept;
    dt_layer *layer;
    yaml_parser_t parser;
    yaml_event_t event; /* the one looked at; owned */
} config_file;

/* libyaml counts lines and columns from 0, editors from 1. */
static unsigned config_line(const yaml_mark_t *m)
{
    return (unsigned)m->line + 1;
}

static unsigned config_column(const yaml_mark_t *m)
{
    return (unsigned)m->column + 1;
}

#define config_fail(c, mark, fmt, ...)                                                             \
    dt_fail(DT_CONFIG, "%s:%u:%u: " fmt, (c)->path, config_line(mark), config_column(mark),        \
            __VA_ARGS__)

static const char *config_kind(const yaml_event_t *e)
{
    return e->type == YAML_MAPPING_START_EVENT    ? "a mapping"
           : e->type == YAML_SEQUENCE_START_EVENT ? "a list"
                                                  : "an alias";
}

/* The text of a scalar, or NULL when it holds a zero byte. */
static const char *config_scalar(const yaml_event_t *e)
{
    const char *text = (const char *)e->data.scalar.value;
    return strlen(text) == e->data.scalar.length ? text : NULL;
}

/* YAML's word for no value, as long as it is neither quoted nor tagged. */
static bool config_null(const yaml_event_t *e)
{
    static const char *const spelling[] = {"", "~", "null", "Null", "NULL"};

    if (e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE || !e->data.scalar.plain_implicit)
        return false;
    for (size_t i = 0; i < DT_COUNT_OF(spelling); i++)
        if (strcmp((const char *)e->data.scalar.value, spelling[i]) == 0)
            return true;
    return false;
}

/* A reader error knows an offset in bytes, the others a line and a column. */
static dt_status config_unparsable(const config_file *c)
{
    const yaml_parser_t *parser = &c->parser;

    if (parser->error == YAML_MEMORY_ERROR)
        return dt_fail(DT_NOMEM, "%s: no memory to read it", c->path);
    if (parser->error == YAML_READER_ERROR)
        return dt_fail(DT_CONFIG, "%s: byte %zu: not YAML: %s", c->path, parser->problem_offset,
                       parser->problem);
    return config_fail(c, &parser->problem_mark, "not YAML: %s%s%s",
                       parser->context ? parser->context : "", parser->context ? ", " : "",
                       parser->problem);
}

/* The next event in place of the last one. */
static dt_status config_next(config_file *c)
{
    yaml_event_delete(&c->event);
    return yaml_parser_parse(&c->parser, &c->event) ? DT_OK : config_unparsable(c);
}

/* The event is a key. */
static dt_status config_key(const config_file *c, const dt_option_row **row)
{
    const yaml_event_t *e = &c->event;
    const char *name = e->type == YAML_SCALAR_EVENT ? config_scalar(e) : NULL;

    if (!name)
        return config_fail(c, &e->start_mark, "want the name of an option, not %s",
                           e->type == YAML_SCALAR_EVENT ? "a zero byte" : config_kind(e));
    *row = dt_option_find(name);
    if (!*row)
        return config_fail(c, &e->start_mark, "unknown option '%s'; did you mean %s?", name,
                           dt_option_nearest(name));
    const dt_layer_value *v = &c->layer->value[*row - dt_option_table];
    if (v->text)
        return config_fail(c, &e->start_mark, "'%s' is given twice, first at %s", name, v->place);
    return DT_OK;
}

/* The event is the value of an option. */
static dt_status config_value(const config_file *c, const dt_option_row *row)
{
    const yaml_event_t *e = &c->event;
    dt_layer_value *v = &c->layer->value[row - dt_option_table];

    if (e->type != YAML_SCALAR_EVENT)
        return config_fail(c, &e->start_mark, "'%s' wants one value, not %s", row->name,
                           config_kind(e));
    const char *text = config_scalar(e);
    if (!text)
        return config_fail(c, &e->start_mark, "the value of '%s' holds a zero byte", row->name);
    if (config_null(e))
        return config_fail(c, &e->start_mark,
                           "'%s' has no value: leave the line out for the default, or "
                           "quote '%s' if you mean the text",
                           row->name, text);
    DT_TRY(dt_kept_text(c->kept, &v->text, "%s", text));
    return dt_kept_text(c->kept, &v->place, "%s:%u:%u", c->path, config_line(&e->start_mark),
                        config_column(&e->start_mark));
}

/* The event begins a document. */
static dt_status config_root(config_file *c)
{
    const dt_option_row *row = NULL;
    const yaml_event_t *e = &c->event;

    if (e->type == YAML_SCALAR_EVENT)
        return config_fail(c, &e->start_mark, "want lines of key: value, not '%s'",
                           config_scalar(e) ? config_scalar(e) : "");
    if (e->type != YAML_MAPPING_START_EVENT)
        return config_fail(c, &e->start_mark, "want lines of key: value, not %s", config_kind(e));
    for (;;) {
        DT_TRY(config_next(c));
        if (e->type == YAML_MAPPING_END_EVENT)
            return DT_OK;
        DT_TRY(config_key(c, &row));
        DT_TRY(config_next(c));
        DT_TRY(config_value(c, row));
    }
}

/* A file of comments holds no document and says nothing. */
static dt_status config_stream(config_file *c)
{
    bool seen = false;

    for (;;) {
        DT_TRY(config_next(c));
        if (c->event.type == YAML_STREAM_END_EVENT)
            return DT_OK;
        if (c->event.type != YAML_DOCUMENT_START_EVENT)
            continue; /* the stream's start, a document's end */
        if (seen)
            return config_fail(c, &c->event.start_mark, "%s", "a second document; want one");
        seen = true;
        DT_TRY(config_next(c));
        DT_TRY(config_root(c));
    }
}

/* O_NONBLOCK: opening a FIFO would wait for its writer. */
dt_status dt_config_load(const char *path, unsigned char **text, size_t *length)
{
    struct stat info;
    dt_status st = DT_OK;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    *text = NULL;
    *length = 0;
    if (fd < 0)
        return dt_fail(DT_NOINPUT, "configuration '%s': %s", path, strerror(errno));
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        st = dt_fail(DT_NOINPUT, "configuration '%s': %s, want a file", path,
                     S_ISDIR(info.st_mode) ? "is a folder" : "is no regular file");
        goto out;
    }
    DT_GO(st, dt_calloc(text, CONFIG_BYTES + 1, 1, "the configuration"), out);
    const int64_t n = dt_read_until(fd, *text, CONFIG_BYTES + 1);
    *length = (size_t)DT_MAX(n, 0);
    if (n < 0)
        st = dt_fail(DT_NOINPUT, "configuration '%s': %s", path, strerror(errno));
    else if (*length > CONFIG_BYTES)
        st = dt_fail(DT_CONFIG,
                     "%s: more than %d bytes: no configuration, which is a few lines of "
                     "key: value",
                     path, CONFIG_BYTES);
out:
    close(fd);
    return st;
}

dt_status dt_config_parse(dt_kept **kept, const char *path, const unsigned char *text,
                          size_t length, dt_layer *layer)
{
    config_file c = {.path = path, .kept = kept, .layer = layer};

    if (!yaml_parser_initialize(&c.parser))
        return dt_fail(DT_NOMEM, "%s: no memory to read it", path);
    yaml_parser_set_input_string(&c.parser, text, length);
    const dt_status st = config_stream(&c);
    yaml_event_delete(&c.event);
    yaml_parser_delete(&c.parser);
    return st;
}

dt_status dt_config_read(dt_kept **kept, const char *path, dt_layer *layer)
{
    unsigned char *text = NULL;
    size_t length = 0;
    dt_status st = dt_config_load(path, &text, &length);

    if (st == DT_OK)
        st = dt_config_parse(kept, path, text, length, layer);
    free(text);
    return st;
}
