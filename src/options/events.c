/* events.c - YAML files of one mapping. What is none is refused where it begins. */
#include "events.h"

dt_status dt_events_place(const dt_events *e, yaml_mark_t mark, dt_status code)
{
    return dt_fail_place(code, "%s:%zu:%zu: ", e->path, mark.line + 1, mark.column + 1);
}

dt_status dt_events_next(dt_events *e)
{
    const yaml_parser_t *p = &e->parser;

    yaml_event_delete(&e->event);
    if (yaml_parser_parse(&e->parser, &e->event))
        return DT_OK;
    if (p->error == YAML_READER_ERROR) /* knows an offset, no line */
        return dt_fail(DT_CONFIG, "%s: byte %zu: not YAML: %s", e->path, p->problem_offset,
                       p->problem);
    return dt_events_fail(e, p->problem_mark, "not YAML: %s%s%s", p->context ? p->context : "",
                          p->context ? ", " : "", p->problem ? p->problem : "no memory to read it");
}

const char *dt_events_text(const dt_events *e)
{
    const char *text = (const char *)e->event.data.scalar.value;

    if (e->event.type != YAML_SCALAR_EVENT || strlen(text) != e->event.data.scalar.length)
        return NULL;
    return text;
}

dt_status dt_events_mapping(dt_events *e, dt_events_pair *pair, void *context)
{
    for (;;) {
        DT_TRY(dt_events_next(e));
        if (e->event.type == YAML_MAPPING_END_EVENT)
            return DT_OK;
        DT_TRY(pair(e, context));
    }
}

static dt_status events_stream(dt_events *e, dt_events_pair *pair, void *context)
{
    for (bool seen = false;;) {
        DT_TRY(dt_events_next(e));
        const yaml_event_type_t type = e->event.type;
        if (type == YAML_STREAM_END_EVENT)
            return DT_OK;
        if (type == YAML_STREAM_START_EVENT || type == YAML_DOCUMENT_START_EVENT ||
            type == YAML_DOCUMENT_END_EVENT)
            continue;
        if (type != YAML_MAPPING_START_EVENT || seen)
            return dt_events_fail(e, e->event.start_mark,
                                  "expected one document with lines of key: value");
        seen = true;
        DT_TRY(dt_events_mapping(e, pair, context));
    }
}

dt_status dt_events_read(dt_events *e, const char *path, const char *text, size_t length,
                         dt_events_pair *pair, void *context)
{
    *e = (dt_events){.path = path};
    if (!yaml_parser_initialize(&e->parser))
        return dt_fail(DT_NOMEM, "%s: no memory to read it", path);
    yaml_parser_set_input_string(&e->parser, (const unsigned char *)text, length);
    const dt_status st = events_stream(e, pair, context);
    yaml_event_delete(&e->event);
    yaml_parser_delete(&e->parser);
    return st;
}
