/* seen.h - what src/view reads and draws with; private to src/view. */
#ifndef DT_SEEN_H
#define DT_SEEN_H
#include "view.h"
#include <jansson.h>

/* ---- Runs -------------------------------------------------------------------------------- */

/* What --x names, in its order: steps, epochs, images, minutes since the first record. */
enum { DT_X_STEP, DT_X_EPOCH, DT_X_IMAGES, DT_X_TIME, DT_X_COUNT };
typedef enum dt_seen_kind { DT_SEEN_STEP, DT_SEEN_EPOCH } dt_seen_kind;
enum {
    DT_SEEN_VALUES = 3
}; /* of a step: loss, rate, images/s; of an epoch: test loss, accuracy, loss */
typedef struct dt_seen_record {
    dt_seen_kind kind;
    double x[DT_X_COUNT], value[DT_SEEN_VALUES]; /* NaN: not recorded */
} dt_seen_record;

typedef struct dt_seen_run {
    const char *path;        /* borrowed */
    char name[NAME_MAX + 1]; /* the folder's, harmless to print */
    char state[64];
    dt_seen_record *record; /* [records], owned, as in metrics.jsonl */
    size_t records;
    int64_t steps, epochs;  /* the last ones */
    double images, seconds; /* of all steps that have both */
    double best, last;      /* accuracy of tests, 0 to 1; NaN: none */
    char weights_hash[DT_DIGEST_CHARS], state_hash[DT_DIGEST_CHARS]; /* "": the run has no end */
} dt_seen_run;
/* Errors: see view.h. r is to be released whatever the outcome. */
dt_status dt_seen_open(dt_seen_run *r, const char *path) DT_MUST_CHECK;
void dt_seen_release(dt_seen_run *r);

/* All lines of a file that are JSON objects, as a new array; one warning counts others, but for a
 * last line that was cut. DT_NOINPUT, DT_FORMAT: larger than 1 GiB, DT_IO, DT_NOMEM. */
dt_status dt_json_lines(json_t **array, const char *path) DT_MUST_CHECK;
double dt_json_number(const json_t *j, const char *key); /* NaN: there is none */

/* All options of a run, name to text; empty, after a warning, where options.yaml cannot be read.
 * NULL: no memory. */
json_t *dt_seen_options(const char *run, dt_options_read *read, void *context);
/* One row of `dtrain runs`: new, members in the order of its columns; NULL: no memory. */
json_t *dt_seen_row(const dt_seen_run *r, const json_t *options);
/* A member as people read it, of a row; buf may hold it. */
enum { DT_CELL_CHARS = DT_OPTION_CHARS };
const char *dt_seen_cell(const char *key, const json_t *value, char buf[DT_CELL_CHARS]);

/* ---- Pictures ---------------------------------------------------------------------------- */

/* A script for gnuplot that is being written. */
typedef struct dt_figure {
    FILE *script; /* a stream into memory */
    char *text;
    size_t bytes;
    bool page; /* a file's picture: all panels in one; else each by itself in the terminal */
} dt_figure;
/* out: *.svg or *.png, or "" for the terminal; height in pixels, of a width of 1200. DT_USAGE,
 * DT_NOMEM. f is to be closed whatever the outcome. */
dt_status dt_figure_open(dt_figure *f, const char *out, int height) DT_MUST_CHECK;
/* A curve's or bar's name, any text: the string T[i + 1] of the script. */
void dt_figure_name(const dt_figure *f, size_t i, const char *name);
/* Have it drawn; *picture [*bytes] is freed by free(). DT_UNSUPPORTED: no gnuplot. */
dt_status dt_figure_draw(dt_figure *f, char **picture, size_t *bytes) DT_MUST_CHECK;
/* Drawn to --out or standard output; where --script is given, only the script is written there. */
dt_status dt_figure_show(dt_figure *f, const dt_options *o) DT_MUST_CHECK;
void dt_figure_close(dt_figure *f);
/* A new file of these bytes in place of `path`. */
dt_status dt_view_write(const char *path, const char *data, size_t bytes) DT_MUST_CHECK;

/* Curves of the runs into f, which is open: --x, --smooth. */
int dt_curves_height(const dt_seen_run *run, size_t count);
void dt_curves(const dt_figure *f, const dt_options *o, const dt_seen_run *run, size_t count);
/* A picture of bench's lines into f, which is opened and to be closed whatever the outcome.
 * DT_FORMAT. */
dt_status dt_bench_figure(dt_figure *f, const dt_options *o, const char *path) DT_MUST_CHECK;

#endif
