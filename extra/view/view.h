/* view.h - looking at runs: pictures, tables, pages; the header of extra/view.
 *
 * Nothing of a run is changed, and it may be going on. Results go to standard output unless --out
 * names a file. gnuplot draws; it is started as a process, without a shell. Everything is Local. */
#ifndef DT_VIEW_H
#define DT_VIEW_H
#include "cli/cli.h"

#include <jansson.h>

void dt_extra_view(void);

/* path[0] to path[count - 1] are the command's words. Errors of all: DT_NOINPUT: a path is no run
 * folder, or cannot be read; DT_UNSUPPORTED: gnuplot is not installed; DT_CANTCREATE, DT_IO;
 * DT_NOMEM. */

/* Curves of the runs over --x; or, with --layers, --scaling, --exchange all or --x lr, of the one
 * file that `bench --json` or `lr-find --json` wrote. DT_USAGE: --out is neither .svg nor .png
 * nor .gp; DT_FORMAT: the file is none of these. */
dt_status dt_view_plot(const dt_options *o, const char *const *path, size_t count) DT_MUST_CHECK;

/* A table with a row for each run in the folder (none given: "runs"), or for the run that it is; of
 * several runs, the options that differ and the results side by side. */
dt_status dt_view_runs(const dt_options *o, const char *const *path, size_t count) DT_MUST_CHECK;

/* The only run as one HTML file, --out, without scripts or references: results, curves, options,
 * machine. DT_USAGE: it does not end in .html. */
dt_status dt_view_report(const dt_options *o, const char *const *path, size_t count) DT_MUST_CHECK;

/* Where each rank of the only run is, or was when it ended. */
dt_status dt_status_show(const dt_options *o, const char *const *path, size_t count) DT_MUST_CHECK;

/* Records of the runs as files that TensorBoard reads, in the folder --out. */
dt_status dt_tensorboard(const dt_options *o, const char *const *path, size_t count) DT_MUST_CHECK;

typedef struct dt_run_view_run {
    const char *path;        /* borrowed */
    char name[NAME_MAX + 1]; /* the folder's, harmless to print */
    /* Records as in metrics.jsonl; each also has what --x names: at_step, at_epoch, at_images, and
     * at_time, in minutes since the first step. Owned, like all below. */
    json_t *steps, *epochs;
    json_t *row; /* of `dtrain runs`: members in the order of its columns; "net" is null */
    char *where; /* what `dtrain status` prints; NULL: nothing */
} dt_run_view_run;
/* Errors: as above. r is to be released whatever the outcome. */
dt_status dt_run_view_open(dt_run_view_run *r, const char *path) DT_MUST_CHECK;
void dt_run_view_release(dt_run_view_run *r);

/* Call `take` for each line of a file that is a JSON object; one warning counts others, except a
 * last line that was cut. DT_NOINPUT, DT_FORMAT: larger than 1 GiB, DT_IO, DT_NOMEM. */
dt_status dt_json_lines(const char *path, void (*take)(void *context, json_t *j),
                        void *context) DT_MUST_CHECK;
double dt_json_number(const json_t *j, const char *key); /* NaN: there is none */

/* All options of a run, name to text, and into its row the network; empty, after a warning, where
 * options.yaml cannot be read. New; NULL: no memory. */
json_t *dt_run_view_options(const dt_run_view_run *r);
/* A member as people read it, of a row; buf may hold it. */
enum { DT_CELL_CHARS = DT_OPTION_CHARS };
const char *dt_run_view_cell(const char *key, const json_t *value, char buf[DT_CELL_CHARS]);

/* A script for gnuplot that is being written. */
typedef struct dt_figure {
    FILE *script; /* a file without a name */
    bool page;    /* a file's picture: all panels in one; else each by itself in the terminal */
    bool plain;   /* it is the script itself that is wanted */
} dt_figure;
/* out: *.svg, *.png or *.gp, a script for SVG, or "" for the terminal; height in pixels, of a width
 * of 1200. DT_USAGE, DT_NOMEM. f is to be closed whatever the outcome. */
dt_status dt_figure_open(dt_figure *f, const char *out, int height) DT_MUST_CHECK;
/* The block `name` of data, and the array T of what its parts are called. parts: name to an array
 * of objects, whose numbers under `column`, up to NULL, are a line; the first column is x.
 * smooth: 0, or a line stands for the mean of so many objects, of more where there are many. */
void dt_figure_data(const dt_figure *f, const char *name, json_t *parts, const char *const *column,
                    size_t smooth);
/* Have it drawn, unless it is plain; *picture [*bytes] is freed by free(). DT_UNSUPPORTED: there is
 * no gnuplot. */
dt_status dt_figure_draw(dt_figure *f, char **picture, size_t *bytes) DT_MUST_CHECK;
/* The same to --out or standard output. */
dt_status dt_figure_show(dt_figure *f, const dt_options *o) DT_MUST_CHECK;
void dt_figure_close(dt_figure *f);

/* The curves of runs, in a figure that is opened here and to be closed whatever the outcome: --x,
 * --smooth. out: as above. */
dt_status dt_curves(dt_figure *f, const dt_options *o, const char *out, const dt_run_view_run *run,
                    size_t count) DT_MUST_CHECK;
/* A picture of bench's lines into f, which is opened and to be closed whatever the outcome. kind: a
 * row of panels. DT_FORMAT. */
dt_status dt_bench_figure(dt_figure *f, const dt_options *o, const char *kind,
                          const char *path) DT_MUST_CHECK;

#endif
