/* events.h - a YAML file as libyaml's events, which are taken one by one: libyaml's documents would
 * first read the whole file, in a time that grows with the square of its depth. Private to
 * src/options. */
#ifndef DT_EVENTS_H
#define DT_EVENTS_H
#include "options.h"
#include <yaml.h>

typedef struct dt_events {
    const char *path; /* what messages call the file */
    yaml_parser_t parser;
    yaml_event_t event; /* the one looked at; owned */
} dt_events;

/* The event is a key: take it, and all events of its value. */
typedef dt_status dt_events_pair(dt_events *e, void *context);

/* Of one document, which is a mapping, each pair. A file of comments has none. */
dt_status dt_events_read(dt_events *e, const char *path, const char *text, size_t length,
                         dt_events_pair *pair, void *context) DT_MUST_CHECK;
/* The event begins a mapping: each pair, until it ends. */
dt_status dt_events_mapping(dt_events *e, dt_events_pair *pair, void *context) DT_MUST_CHECK;
/* The next event in place of the last one. DT_CONFIG: no YAML. */
dt_status dt_events_next(dt_events *e) DT_MUST_CHECK;
/* The text of the event, NULL where it is no scalar or holds a zero byte. */
const char *dt_events_text(const dt_events *e);

/* DT_CONFIG with "FILE:LINE:COLUMN: " in front. libyaml counts from 0, editors from 1. */
#define dt_events_fail(e, mark, ...) dt_events_place(e, mark, dt_fail(DT_CONFIG, __VA_ARGS__))
dt_status dt_events_place(const dt_events *e, yaml_mark_t mark, dt_status code);
#endif
