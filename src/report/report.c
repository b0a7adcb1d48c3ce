/* report.c - the table of sinks, and the calls that hand a record to each that is open. */
#include "sink.h"

#include <stdlib.h>

static const dt_sink_row *const sink_rows[] = {
#define X(name) &dt_sink_##name,
    DT_SINK_LIST(X)
#undef X
};

static dt_status sink_open(dt_report *r, const char *name)
{
    const dt_sink_row *row = NULL;

    for (size_t i = 0; i < DT_COUNT_OF(sink_rows); i++)
        if (strcmp(sink_rows[i]->name, name) == 0)
            row = sink_rows[i];
    if (!row || r->sinks == DT_SINKS_MAX)
        return dt_fail(DT_CONFIG, "no sink '%s' for a run's records; there are:%s", name,
                       DT_SINK_LIST(DT_WORD));
    dt_sink *s = &r->sink[r->sinks];
    *s = (dt_sink){.row = row, .setup = &r->setup};
    if (row->bytes > 0)
        DT_TRY(dt_calloc(&s->own, 1, row->bytes, "a run's records"));
    r->sinks++; /* from now on dt_report_close closes it */
    return row->open ? row->open(s) : DT_OK;
}

dt_status dt_report_open(dt_report *r, const char *names, const dt_report_setup *setup)
{
    char list[256], *rest = NULL;

    *r = (dt_report){.setup = *setup};
    snprintf(list, sizeof list, "%s", names);
    for (char *name = strtok_r(list, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
        const dt_status st = sink_open(r, name);
        if (st != DT_OK) {
            dt_report_close(r);
            return st;
        }
    }
    return DT_OK;
}

/* All sinks get the record, whatever becomes of one; the first failure is the outcome. */
#define TO_ALL(call, record)                                                                       \
    dt_status st = DT_OK;                                                                          \
    for (dt_sink *s = r->sink; s < r->sink + r->sinks; s++) {                                      \
        const dt_status one = s->row->call && !s->silent ? s->row->call(s, record) : DT_OK;        \
        st = st == DT_OK ? one : st;                                                               \
    }                                                                                              \
    return st

dt_status dt_report_step(dt_report *r, const dt_step_record *record)
{
    TO_ALL(step, record);
}

dt_status dt_report_epoch(dt_report *r, const dt_epoch_record *record)
{
    TO_ALL(epoch, record);
}

dt_status dt_report_end(dt_report *r, const dt_end_record *record)
{
    TO_ALL(end, record);
}

dt_status dt_report_records(const dt_report *r, int64_t *bytes, int *fd)
{
    *bytes = 0;
    *fd = -1;
    for (int i = 0; i < r->sinks; i++)
        if (r->sink[i].row == &dt_sink_jsonl)
            return dt_jsonl_records(&r->sink[i], bytes, fd);
    return DT_OK;
}

void dt_report_close(dt_report *r)
{
    for (dt_sink *s = r->sink; s < r->sink + r->sinks; s++) {
        if (s->row->close)
            s->row->close(s);
        free(s->own);
    }
    *r = (dt_report){.sinks = 0};
}
