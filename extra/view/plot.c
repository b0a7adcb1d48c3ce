/* plot.c - dtrain plot: curves of runs. */
#include "view.h"

/* Where no run has a number, the white dot still gives a panel its range. */
static const char panels[] =
    "white = '$o using 1:2 with dots lc rgb ''white'' notitle'\n"
    "$o << EOD\n0 1\nEOD\n"
    "set xrange [0:*]\n"
    "set title 'loss (lines: training, points: test)'\nset logscale y 2\n"
    "plot @white, for [i=1:|T|] $steps index i-1 using 1:2 with lines lt i title K[i], "
    "for [i=1:|T|] $epochs index i-1 using 1:2 with points lt i notitle\n"
    "set title 'test accuracy, %'\nunset logscale y\nset yrange [0:100]\n"
    "plot @white, for [i=1:|T|] $epochs index i-1 using 1:(100*$3) with linespoints lt i title "
    "K[i]\n"
    "set title 'learning rate'\nset yrange [0:*]\n$o << EOD\n0 0\nEOD\n"
    "plot @white, for [i=1:|T|] $steps index i-1 using 1:3 with lines lt i title K[i]\n"
    "set title 'images/s'\n"
    "plot @white, for [i=1:|T|] $steps index i-1 using 1:4 with lines lt i title K[i]\n";

static const char legend[] = "unset title; unset xlabel; unset tics; unset border; unset grid\n"
                             "set lmargin at screen 0.02; set rmargin at screen 0.98\n"
                             "set bmargin at screen 0; set tmargin at screen strip\n"
                             "set key horizontal center center\n"
                             "plot [0:1][0:1] for [i=1:|T|] NaN with lines lt i lw 3 title T[i]\n";

enum { PANELS_HEIGHT = 760, ROW_HEIGHT = 24, ROW_CHARS = 130 };

dt_status dt_curves(dt_figure *f, const dt_options *o, const char *out, const dt_run_view_run *run,
                    size_t count)
{
    const bool minutes = strcmp(o->x, "time") == 0;
    json_t *steps = json_object(), *epochs = json_object();
    size_t longest = 0;
    char x[16];

    snprintf(x, sizeof x, "at_%s", o->x);
    for (size_t i = 0; i < count; i++) {
        longest = DT_MAX(longest, strlen(run[i].name));
        json_object_set_nocheck(steps, run[i].name, run[i].steps);
        json_object_set_nocheck(epochs, run[i].name, run[i].epochs);
    }
    const size_t columns = DT_MAX(ROW_CHARS / (longest + 8), (size_t)1);
    const int height = PANELS_HEIGHT + ROW_HEIGHT * (int)((count + columns - 1) / columns + 1);
    const dt_status st = dt_figure_open(f, out, height);
    if (st == DT_OK) {
        dt_figure_data(f, "$steps", steps,
                       (const char *const[]){x, "loss", "lr", "images_per_s", NULL},
                       (size_t)o->smooth);
        dt_figure_data(f, "$epochs", epochs,
                       (const char *const[]){x, "test_loss", "test_accuracy", NULL}, 0);
        fprintf(f->script, "set xlabel '%s'\nstrip = 1 - %d.0 / %d\n", minutes ? "minutes" : o->x,
                PANELS_HEIGHT, height);
        fprintf(f->script, "array K[|T|]\ndo for [i=1:|T|] { K[i] = %s }\n",
                f->page ? "''" : "T[i]");
        fputs(f->page ? "set multiplot layout 2,2 margins screen 0.075,0.985,strip+0.085,0.945 "
                        "spacing screen 0.095,0.14\n"
                      : "set key bmargin horizontal\n",
              f->script);
        fputs(panels, f->script);
        fputs(f->page ? legend : "", f->script);
    }
    json_decref(steps);
    json_decref(epochs);
    return st;
}

static dt_status plot_runs(dt_figure *f, const dt_options *o, const char *const *path, size_t count)
{
    dt_run_view_run *run = NULL;
    dt_status st = dt_calloc(&run, count, sizeof *run, "the runs");

    for (size_t i = 0; st == DT_OK && i < count; i++)
        st = dt_run_view_open(&run[i], path[i]);
    for (size_t i = 0; st == DT_OK && i < count; i++) /* a/run and b/run */
        for (size_t k = 0; k < i; k++)
            if (strcmp(run[i].name, run[k].name) == 0)
                snprintf(run[i].name, sizeof run[i].name, "%s", path[i]);
    if (st == DT_OK)
        st = dt_curves(f, o, o->out, run, count);
    for (size_t i = 0; run && i < count; i++)
        dt_run_view_release(&run[i]);
    free(run);
    return st;
}

dt_status dt_view_plot(const dt_options *o, const char *const *path, size_t count)
{
    const char *kind = o->layers                         ? "layers"
                       : o->scaling                      ? "scaling"
                       : strcmp(o->x, "lr") == 0         ? "lr-find"
                       : strcmp(o->engine, "all") == 0   ? "engine all"
                       : strcmp(o->exchange, "all") == 0 ? "exchange all"
                                                         : NULL;
    dt_figure f = {.page = false};

    if (kind && count > 1)
        return dt_fail(DT_USAGE, "one file of bench at a time, not %zu", count);
    dt_status st = kind ? dt_bench_figure(&f, o, kind, path[0]) : plot_runs(&f, o, path, count);
    if (st == DT_OK)
        st = dt_figure_show(&f, o);
    dt_figure_close(&f);
    return st;
}
