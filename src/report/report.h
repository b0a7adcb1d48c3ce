/* report.h - the records of a run, and the sinks that they go to; the public header of
 * src/report.
 *
 * A run makes a record of every step, every epoch and its end. Each sink does one thing with
 * them: prints lines, draws a bar, writes metrics.jsonl. Rank 0 alone reports. Everything is
 * Local, takes no memory after open, and reads no clock: times are those of the records.
 *
 * To add a sink: write one file sink_<name>.c that defines dt_sink_<name> (sink.h), and add one
 * row to DT_SINK_LIST. */
#ifndef DT_REPORT_H
#define DT_REPORT_H
#include "base/base.h"
#include <stdio.h>

#define DT_SINK_LIST(X) X(auto) X(mindspore) X(cs744) X(jsonl)
enum { DT_SINKS_MAX = 8 }; /* of one run */

/* ---- Records ---------------------------------------------------------------------------- */

typedef struct dt_step_record {
    int64_t epoch, step; /* from 1; the step within its epoch */
    int64_t run_step;    /* from 1, within the run */
    double loss, lr;     /* of the global batch */
    int64_t images;      /* of this step */
    double seconds;      /* wall time of this step */
} dt_step_record;

typedef struct dt_epoch_record {
    int64_t epoch;     /* from 1 */
    double train_loss; /* mean over the epoch's images */
    double test_loss;  /* mean over the test images */
    int64_t correct, test_images;
    int64_t images; /* trained on in this epoch */
    double seconds; /* wall time of training, without the test */
} dt_epoch_record;

typedef struct dt_end_record {
    bool ok; /* false: the run ends with an error; the rest may be zero */
    int64_t steps;
    double seconds;
    char weights_hash[DT_DIGEST_CHARS], state_hash[DT_DIGEST_CHARS];
    const char *folder; /* borrowed */
} dt_end_record;

static inline double dt_images_per_s(int64_t images, double seconds)
{
    return seconds > 0 ? (double)images / seconds : 0;
}
static inline double dt_test_accuracy(const dt_epoch_record *r) /* NaN without a test */
{
    return (double)r->correct / (double)r->test_images;
}

/* ---- A run's report --------------------------------------------------------------------- */

typedef struct dt_report_setup {
    FILE *out; /* of the sinks that print; borrowed */
    int64_t epochs, steps_per_epoch, total_steps;
    double log_every; /* seconds between lines of `auto` */
    /* Of the sinks that write files: */
    int folder;         /* descriptor of the run folder, borrowed */
    const char *path;   /* its name, for messages; borrowed */
    int64_t keep_bytes; /* of metrics.jsonl: what the checkpoint that is resumed has recorded */
} dt_report_setup;

typedef struct dt_sink {
    const struct dt_sink_row *row;
    const dt_report_setup *setup; /* the report's */
    void *own;                    /* row->bytes, zeroed at first */
    bool silent;                  /* out could not be written: nothing is printed any more */
} dt_sink;

typedef struct dt_report {
    dt_report_setup setup;
    dt_sink sink[DT_SINKS_MAX];
    int sinks;
} dt_report;

/* Whether metrics.jsonl in the folder has keep_bytes bytes, which end with a line; changes
 * nothing. One that is missing will begin anew. DT_FORMAT: it is shorter, no line ends there, or
 * it is hard-linked elsewhere; DT_CANTCREATE: it is a link or no file, or cannot be written;
 * DT_IO. */
dt_status dt_report_check(const dt_report_setup *setup) DT_MUST_CHECK;
/* Open the sinks in `names`, separated by blanks. `jsonl` cuts metrics.jsonl to keep_bytes; errors
 * as dt_report_check.
 * DT_CONFIG: an unknown name. On failure the report is closed. */
dt_status dt_report_open(dt_report *r, const char *names,
                         const dt_report_setup *setup) DT_MUST_CHECK;
/* DT_IO: a line of metrics.jsonl could not be written; nothing stays of it. Only
 * the first lost line fails: the others are counted, and a warning reports them when a line is
 * written again. Standard
 * output that cannot be written is a warning, and the end of printing. */
dt_status dt_report_step(dt_report *r, const dt_step_record *s) DT_MUST_CHECK;
dt_status dt_report_epoch(dt_report *r, const dt_epoch_record *e) DT_MUST_CHECK;
/* After success, and after a failure of the run (end->ok is false). */
dt_status dt_report_end(dt_report *r, const dt_end_record *end) DT_MUST_CHECK;
/* The present length of metrics.jsonl, for a checkpoint, and the descriptor to sync first; 0 and
 * -1 without that sink. DT_IO. */
dt_status dt_report_records(const dt_report *r, int64_t *bytes, int *fd) DT_MUST_CHECK;
void dt_report_close(dt_report *r); /* a zeroed r is allowed */

#endif
