/* report.h - what a run prints on standard output; private to src/train. Rank 0 alone
 * reports. Everything is Local, takes no memory after open, and reads no clock: times
 * are those of the records. Where out cannot be written, one warning says so, and the rest
 * is silence: metrics.jsonl has all of it.
 *
 * How to be a style: write one file report_<name>.c that defines dt_report_row_<name>,
 * and add one row to DT_REPORT_LIST (train.h). */
#ifndef DT_REPORT_H
#define DT_REPORT_H
#include "store/store.h"

typedef struct dt_report_setup {
    const char *style; /* a row of DT_REPORT_LIST */
    FILE *out;         /* borrowed */
    int64_t epochs, steps_per_epoch, total_steps;
    double log_every; /* seconds between lines where there is no terminal */
} dt_report_setup;

struct dt_report_row;
typedef struct dt_report {
    const struct dt_report_row *row; /* NULL: out could not be written, and nothing is any more */
    dt_report_setup setup;
    bool terminal, unicode; /* out is a terminal; the locale's characters are UTF-8 */

    /* The styles' own, zero at first. Of this epoch's steps so far: */
    double seconds;
    int64_t images;
    /* of the bar: the epoch as last shown, running means per refresh, and whether the
     * cursor stands behind it: */
    double shown_seconds, smooth_steps, smooth_seconds;
    int64_t shown_step;
    bool bar;
    /* and since the last line: */
    double line_seconds;
    int64_t line_images;
} dt_report;

typedef struct dt_report_row {
    const char *name;
    /* Each may be NULL: nothing to print. */
    void (*start)(dt_report *r);
    void (*step)(dt_report *r, const dt_step_record *s);
    void (*epoch)(dt_report *r, const dt_epoch_record *e);
    void (*finish)(dt_report *r, const dt_end_record *end);
} dt_report_row;
#define X(name) extern const dt_report_row dt_report_row_##name;
DT_REPORT_LIST(X)
#undef X

/* DT_CONFIG: unknown style. */
dt_status dt_report_open(dt_report *r, const dt_report_setup *setup) DT_MUST_CHECK;
/* Before the first step. */
void dt_report_start(dt_report *r);
void dt_report_step(dt_report *r, const dt_step_record *s);
void dt_report_epoch(dt_report *r, const dt_epoch_record *e);
/* The last call, after success and after failure: in every style the hashes of a run
 * that has ended well, then the style's own last words. */
void dt_report_finish(dt_report *r, const dt_end_record *end);

/* Steps of an epoch (from 1); --max-steps may cut the last one. */
int64_t dt_report_epoch_steps(const dt_report *r, int64_t epoch);
/* x as NumPy prints a float32: the fewest digits that give the same number back.
 * Returns out. */
enum { DT_FLOAT32_CHARS = 32 };
const char *dt_float32_text(double x, char out[DT_FLOAT32_CHARS]);

#endif
