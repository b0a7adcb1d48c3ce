/* seen.h - what extra/view reads and draws with; private to extra/view. */
#ifndef DT_SEEN_H
#define DT_SEEN_H
#include "view.h"
#include <jansson.h>

/* ---- Runs -------------------------------------------------------------------------------- */

typedef struct dt_seen_run {
    const char *path;        /* borrowed */
    char name[NAME_MAX + 1]; /* the folder's, harmless to print */
    /* Records as in metrics.jsonl; each also has what --x names: at_step, at_epoch, at_images, and
     * at_time, in minutes since the first step. Owned, like all below. */
    json_t *steps, *epochs;
    json_t *row; /* of `dtrain runs`: members in the order of its columns; "net" is null */
    char *where; /* what `dtrain status` prints; NULL: nothing */
} dt_seen_run;
/* Errors: see view.h. r is to be released whatever the outcome. */
dt_status dt_seen_open(dt_seen_run *r, const char *path) DT_MUST_CHECK;
void dt_seen_release(dt_seen_run *r);

/* Call `take` for each line of a file that is a JSON object; one warning counts others, but for a
 * last line that was cut. DT_NOINPUT, DT_FORMAT: larger than 1 GiB, DT_IO, DT_NOMEM. */
dt_status dt_json_lines(const char *path, void (*take)(void *context, json_t *j),
                        void *context) DT_MUST_CHECK;
double dt_json_number(const json_t *j, const char *key); /* NaN: there is none */

/* All options of a run, name to text, and into its row the network; empty, after a warning, where
 * options.yaml cannot be read. New; NULL: no memory. */
json_t *dt_seen_options(const dt_seen_run *r);
/* A member as people read it, of a row; buf may hold it. */
enum { DT_CELL_CHARS = DT_OPTION_CHARS };
const char *dt_seen_cell(const char *key, const json_t *value, char buf[DT_CELL_CHARS]);

/* ---- Pictures ---------------------------------------------------------------------------- */

/* A script for gnuplot that is being written. */
typedef struct dt_figure {
    FILE *script; /* a file without a name */
    bool page;    /* a file's picture: all panels in one; else each by itself in the terminal */
} dt_figure;
/* out: *.svg, *.png or *.gp, a script for SVG, or "" for the terminal; height in pixels, of a width
 * of 1200. DT_USAGE, DT_NOMEM. f is to be closed whatever the outcome. */
dt_status dt_figure_open(dt_figure *f, const char *out, int height) DT_MUST_CHECK;
/* The block `name` of data, and the array T of what its parts are called. parts: name to an array
 * of objects, whose numbers under `column`, up to NULL, are a line; the first column is x.
 * smooth: 0, or a line stands for the mean of so many objects, of more where there are many. */
void dt_figure_data(const dt_figure *f, const char *name, json_t *parts, const char *const *column,
                    size_t smooth);
/* Have it drawn; *picture [*bytes] is freed by free(). DT_UNSUPPORTED: no gnuplot. */
dt_status dt_figure_draw(dt_figure *f, char **picture, size_t *bytes) DT_MUST_CHECK;
/* Drawn to --out or standard output; where --out ends in .gp, only the script is written there. */
dt_status dt_figure_show(dt_figure *f, const dt_options *o) DT_MUST_CHECK;
void dt_figure_close(dt_figure *f);

/* The curves of runs, in a figure that is opened here and to be closed whatever the outcome: --x,
 * --smooth. out: as above. */
dt_status dt_curves(dt_figure *f, const dt_options *o, const char *out, const dt_seen_run *run,
                    size_t count) DT_MUST_CHECK;
/* A picture of bench's lines into f, which is opened and to be closed whatever the outcome. kind: a
 * row of panels. DT_FORMAT. */
dt_status dt_bench_figure(dt_figure *f, const dt_options *o, const char *kind,
                          const char *path) DT_MUST_CHECK;

#endif
