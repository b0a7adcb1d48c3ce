/* config.c - configuration files, through libyaml: one mapping of names to scalars. */
#include "cli.h"
#include <errno.h>
#include <sys/stat.h>
#include <yaml.h>

typedef struct config_file {
    const char *path;
    dt_settings *settings;
    dt_layer *layer;
    yaml_document_t document;
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

#define config_fail(c, mark, fmt, ...)                                                 \
    dt_fail(DT_CONFIG, "%s:%u:%u: " fmt, (c)->path, config_line(mark),                 \
            config_column(mark), __VA_ARGS__)

static const char *config_kind(const yaml_node_t *node)
{
    return node->type == YAML_MAPPING_NODE ? "a mapping" : "a list";
}

/* The text of a scalar, or NULL when it holds a zero byte. */
static const char *config_scalar(const yaml_node_t *node)
{
    const char *text = (const char *)node->data.scalar.value;
    return strlen(text) == node->data.scalar.length ? text : NULL;
}

static dt_status config_pair(config_file *c, const yaml_node_t *key,
                             const yaml_node_t *node)
{
    const char *name = key->type == YAML_SCALAR_NODE ? config_scalar(key) : NULL;
    if (!name)
        return config_fail(c, &key->start_mark, "want the name of an option, not %s",
                           key->type == YAML_SCALAR_NODE ? "a zero byte"
                                                         : config_kind(key));
    const dt_option_row *row = dt_option_find(name);
    if (!row)
        return config_fail(c, &key->start_mark, "unknown option '%s'; did you mean %s?",
                           name, dt_option_nearest(name));
    dt_layer_value *v = &c->layer->value[row - dt_option_table];
    if (v->text)
        return config_fail(c, &key->start_mark, "'%s' is given twice, first at %s",
                           name, v->place);
    if (node->type != YAML_SCALAR_NODE)
        return config_fail(c, &node->start_mark, "'%s' wants one value, not %s", name,
                           config_kind(node));
    const char *text = config_scalar(node);
    if (!text)
        return config_fail(c, &node->start_mark, "the value of '%s' holds a zero byte",
                           name);
    DT_TRY(dt_settings_keep(c->settings, &v->text, "%s", text));
    return dt_settings_keep(c->settings, &v->place, "%s:%u:%u", c->path,
                            config_line(&node->start_mark),
                            config_column(&node->start_mark));
}

/* The mapping of the file's document; a file of comments has none and says nothing. */
static dt_status config_root(config_file *c)
{
    yaml_document_t *d = &c->document;
    const yaml_node_t *root = yaml_document_get_root_node(d);

    if (!root)
        return DT_OK;
    if (root->type == YAML_SCALAR_NODE)
        return config_fail(c, &root->start_mark, "want lines of key: value, not '%s'",
                           config_scalar(root) ? config_scalar(root) : "");
    if (root->type != YAML_MAPPING_NODE)
        return config_fail(c, &root->start_mark, "want lines of key: value, not %s",
                           config_kind(root));
    for (const yaml_node_pair_t *p = root->data.mapping.pairs.start;
         p < root->data.mapping.pairs.top; p++)
        DT_TRY(config_pair(c, yaml_document_get_node(d, p->key),
                           yaml_document_get_node(d, p->value)));
    return DT_OK;
}

/* A reader error knows an offset in bytes, the others a line and a column. */
static dt_status config_unparsable(const config_file *c, const yaml_parser_t *parser)
{
    if (parser->error == YAML_MEMORY_ERROR)
        return dt_fail(DT_NOMEM, "%s: no memory to read it", c->path);
    if (parser->error == YAML_READER_ERROR)
        return dt_fail(DT_CONFIG, "%s: byte %zu: not YAML: %s", c->path,
                       parser->problem_offset, parser->problem);
    return config_fail(c, &parser->problem_mark, "not YAML: %s%s%s",
                       parser->context ? parser->context : "",
                       parser->context ? ", " : "", parser->problem);
}

static dt_status config_documents(config_file *c, yaml_parser_t *parser)
{
    for (int i = 0;; i++) {
        if (!yaml_parser_load(parser, &c->document))
            return config_unparsable(c, parser);
        const yaml_mark_t mark = c->document.start_mark;
        const bool ends = !yaml_document_get_root_node(&c->document);
        const dt_status st = i == 0 ? config_root(c) : DT_OK;
        yaml_document_delete(&c->document);
        if (st != DT_OK || ends)
            return st;
        if (i > 0)
            return config_fail(c, &mark, "%s", "a second document; want one");
    }
}

dt_status dt_config_read(dt_settings *s, const char *path, dt_layer *layer)
{
    config_file c = {.path = path, .settings = s, .layer = layer};
    yaml_parser_t parser;
    bool initialized = false;
    dt_status st = DT_OK;
    struct stat info;
    FILE *f = NULL;

    if (stat(path, &info) != 0)
        return dt_fail(DT_NOINPUT, "configuration '%s': %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return dt_fail(DT_NOINPUT, "configuration '%s': %s, want a file", path,
                       S_ISDIR(info.st_mode) ? "is a folder" : "is no regular file");
    f = fopen(path, "rb");
    if (!f)
        return dt_fail(DT_NOINPUT, "configuration '%s': %s", path, strerror(errno));
    initialized = yaml_parser_initialize(&parser) != 0;
    if (!initialized) {
        st = dt_fail(DT_NOMEM, "%s: no memory to read it", path);
        goto out;
    }
    yaml_parser_set_input_file(&parser, f);
    st = config_documents(&c, &parser);
out:
    if (initialized)
        yaml_parser_delete(&parser);
    fclose(f);
    return st;
}
