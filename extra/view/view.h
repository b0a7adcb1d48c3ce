/* view.h - looking at runs: pictures, tables, pages; the public header of extra/view.
 *
 * Nothing of a run is changed, and it may be going on. Results go to standard output unless --out
 * names a file. gnuplot draws; it is started as a process, without a shell. Everything is Local. */
#ifndef DT_VIEW_H
#define DT_VIEW_H
#include "cli/cli.h"

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

#endif
