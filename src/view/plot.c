/* plot.c - dtrain plot: curves of runs. */
#include "seen.h"

#include <math.h>
#include <stdlib.h>

/* ---- Data ------------------------------------------------------------------------------------ */

static int axis_of(const dt_options *o)
{
    static const char *const names[DT_X_COUNT] = {"step", "epoch", "images", "time"};
    int x = 0;

    while (strcmp(names[x], o->x) != 0)
        x++;
    return x;
}

/* As gnuplot knows it: a gap where the number is not finite. */
static double drawn(double x)
{
    return isfinite(x) ? x : dt_nan_unsigned((double)NAN);
}

/* The mean of the numbers among the last `window` of records first, ..., last of one kind. */
static double mean(const dt_seen_record *first, const dt_seen_record *last, size_t window, int v)
{
    double sum = 0, n = 0;

    for (size_t i = (size_t)(last - first) + 1; i-- > 0 && window > 0;)
        if (first[i].kind == last->kind) {
            window--;
            n += isfinite(first[i].value[v]);
            sum += isfinite(first[i].value[v]) ? first[i].value[v] : 0;
        }
    return drawn(sum / n);
}

/* One block of lines "x value value value"; a run of many steps becomes means of neighbours. */
static void put_run(const dt_figure *f, const dt_seen_run *r, dt_seen_kind kind, int x,
                    size_t smooth)
{
    enum { POINTS = 200 };
    size_t count = 0, at = 0;

    for (size_t i = 0; i < r->records; i++)
        count += r->record[i].kind == kind;
    const size_t stride = (count + POINTS - 1) / POINTS;
    const size_t window = kind == DT_SEEN_EPOCH ? 1 : DT_MAX(stride, smooth);
    fputs("NaN NaN NaN NaN\n", f->script); /* a block is never empty */
    for (const dt_seen_record *s = r->record; s < r->record + r->records; s++)
        if (s->kind == kind && (++at % stride == 0 || at == count))
            fprintf(f->script, "%.8g %.5g %.5g %.5g\n", drawn(s->x[x]),
                    mean(r->record, s, window, 0), mean(r->record, s, window, 1),
                    mean(r->record, s, window, 2));
    fputs("\n\n", f->script);
}

static void put_data(const dt_figure *f, const dt_options *o, const dt_seen_run *run, size_t count)
{
    static const char *const block[] = {[DT_SEEN_STEP] = "$steps", [DT_SEEN_EPOCH] = "$epochs"};

    for (int kind = DT_SEEN_STEP; kind <= DT_SEEN_EPOCH; kind++) {
        fprintf(f->script, "%s << EOD\n", block[kind]);
        for (size_t i = 0; i < count; i++)
            put_run(f, &run[i], (dt_seen_kind)kind, axis_of(o), (size_t)o->smooth);
        fputs("EOD\n", f->script);
    }
    fprintf(f->script, "array T[%zu]\n", count);
    for (size_t i = 0; i < count; i++)
        dt_figure_name(f, i, run[i].name);
}

/* ---- Panels, and the legend in a strip below them -------------------------------------------- */

/* Where no run has a number, the white dot still gives a panel its range. */
static const char panels[] =
    "white = '$o using 1:2 with dots lc rgb ''white'' notitle'\n"
    "$o << EOD\n0 1\nEOD\n"
    "set xrange [0:*]\n"
    "set title 'loss (lines: training, points: test)'\nset logscale y\n"
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

int dt_curves_height(const dt_seen_run *run, size_t count)
{
    size_t longest = 0;

    for (size_t i = 0; i < count; i++)
        longest = DT_MAX(longest, strlen(run[i].name));
    const size_t columns = DT_MAX(ROW_CHARS / (longest + 8), (size_t)1);
    return PANELS_HEIGHT + ROW_HEIGHT * (int)((count + columns - 1) / columns + 1);
}

void dt_curves(const dt_figure *f, const dt_options *o, const dt_seen_run *run, size_t count)
{
    static const char *const labels[DT_X_COUNT] = {"step", "epoch", "images", "minutes"};

    put_data(f, o, run, count);
    fprintf(f->script, "set xlabel '%s'\nstrip = 1 - %d.0 / %d\n", labels[axis_of(o)],
            PANELS_HEIGHT, dt_curves_height(run, count));
    fprintf(f->script, "array K[|T|]\ndo for [i=1:|T|] { K[i] = %s }\n", f->page ? "''" : "T[i]");
    fputs(f->page ? "set multiplot layout 2,2 margins screen 0.075,0.985,strip+0.085,0.945 "
                    "spacing screen 0.095,0.14\n"
                  : "set key bmargin horizontal\n",
          f->script);
    fputs(panels, f->script);
    if (f->page)
        fputs(legend, f->script);
}

/* ---- The command ----------------------------------------------------------------------------- */

static dt_status plot_runs(dt_figure *f, const dt_options *o, const char *const *path, size_t count)
{
    dt_seen_run *run = NULL;
    dt_status st = dt_calloc(&run, count, sizeof *run, "the runs");

    for (size_t i = 0; st == DT_OK && i < count; i++)
        st = dt_seen_open(&run[i], path[i]);
    for (size_t i = 0; st == DT_OK && i < count; i++) /* a/run and b/run */
        for (size_t k = 0; k < i; k++)
            if (strcmp(run[i].name, run[k].name) == 0)
                snprintf(run[i].name, sizeof run[i].name, "%s", path[i]);
    if (st == DT_OK)
        st = dt_figure_open(f, o->out, dt_curves_height(run, count));
    if (st == DT_OK)
        dt_curves(f, o, run, count);
    for (size_t i = 0; run && i < count; i++)
        dt_seen_release(&run[i]);
    free(run);
    return st;
}

dt_status dt_view_plot(const dt_options *o, const char *const *path, size_t count)
{
    const bool bench = o->layers || o->scaling || strcmp(o->exchange, "all") == 0;
    dt_figure f = {.page = false};

    if (o->script[0] && !dt_path_ends(o->script, ".gp"))
        return dt_fail(DT_USAGE, "--script %s: scripts end in .gp", o->script);
    if (bench && count > 1)
        return dt_fail(DT_USAGE, "one file of bench at a time, not %zu", count);
    dt_status st = bench ? dt_bench_figure(&f, o, path[0]) : plot_runs(&f, o, path, count);
    if (st == DT_OK)
        st = dt_figure_show(&f, o);
    dt_figure_close(&f);
    return st;
}
