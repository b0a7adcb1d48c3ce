/* bench.c - pictures of what `dtrain bench --json` printed: layers, scaling, exchanges. */
#include "seen.h"

#include <stdlib.h>

static const char *text_of(const json_t *j, const char *key)
{
    const char *text = json_string_value(json_object_get(j, key));
    return text ? text : "?";
}

/* The first object with the same text under the key as object i. */
static size_t first_like(const json_t *array, const char *key, size_t i)
{
    size_t k = 0;
    while (strcmp(text_of(json_array_get(array, k), key), text_of(json_array_get(array, i), key)))
        k++;
    return k;
}

/* Objects that are alike under `key` become a block of data with a name; the columns are numbers.
 * DT_FORMAT: one is missing. */
static dt_status put_groups(const dt_figure *f, const json_t *array, const char *key,
                            const char *const column[3])
{
    const size_t n = json_array_size(array);
    size_t groups = 0;

    fputs("$d << EOD\n", f->script);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = i; first_like(array, key, i) == i && k < n; k++)
            for (int c = 0; first_like(array, key, k) == i && c < 3; c++) {
                const json_t *value = json_object_get(json_array_get(array, k), column[c]);
                if (!json_is_number(value))
                    return DT_FORMAT;
                fprintf(f->script, "%.6g%s", json_number_value(value), c < 2 ? " " : "\n");
            }
        fputs(first_like(array, key, i) == i ? "\n\n" : "", f->script);
    }
    fprintf(f->script, "EOD\narray T[%zu]\n", n);
    for (size_t i = 0; i < n; i++)
        if (first_like(array, key, i) == i)
            dt_figure_name(f, groups++, text_of(json_array_get(array, i), key));
    fprintf(f->script, "N = %zu\n", groups);
    return DT_OK;
}

/* Lying bars of column A, with column B inside them; one for each block. */
#define BARS(a, name_a, b, name_b)                                                                 \
    "unset ylabel\nset xrange [0:*]\nset yrange [N-0.5:-0.5]\n"                                    \
    "set ytics ()\nset for [i=1:N] ytics add (T[i] i-1)\n"                                         \
    "plot $d using " a ":(column(-2)):(0):" a ":(column(-2)-0.35):(column(-2)+0.35) "              \
    "with boxxyerror lc rgb '#9ecae1' title '" name_a "', "                                        \
    "$d using " b ":(column(-2)):(0):" b ":(column(-2)-0.2):(column(-2)+0.2) "                     \
    "with boxxyerror lc rgb '#d55e00' title '" name_b "'\n"

/* ---- The three pictures ---------------------------------------------------------------------- */

static int longest_first(const void *a, const void *b)
{
    const double x = dt_json_number(*(json_t *const *)a, "seconds");
    const double y = dt_json_number(*(json_t *const *)b, "seconds");
    return (x < y) - (x > y);
}

/* The passes that take longest, under the name of their layer and pass: *some is new. */
static dt_status longest(json_t *passes, json_t **some)
{
    enum { SHOWN = 16 };
    const size_t n = json_array_size(passes);
    json_t **pass = NULL;

    DT_TRY(dt_calloc(&pass, n, sizeof *pass, "the passes"));
    for (size_t i = 0; i < n; i++)
        pass[i] = json_array_get(passes, i);
    qsort(pass, n, sizeof *pass, longest_first);
    *some = json_array();
    for (size_t i = 0; i < n && i < SHOWN; i++) {
        const char *name = text_of(pass[i], "name");
        json_object_set_new(pass[i], "label",
                            json_sprintf("%s %s", name[0] ? name : text_of(pass[i], "operation"),
                                         text_of(pass[i], "pass")));
        json_array_append(*some, pass[i]);
    }
    free(pass);
    return *some ? DT_OK : dt_fail(DT_NOMEM, "no memory for the passes");
}

static dt_status put_layers(const dt_figure *f, const json_t *lines)
{
    const json_t *layers = json_object_get(json_array_get(lines, 0), "layers");
    const json_t *peaks = json_object_get(layers, "peaks");
    json_t *passes = json_object_get(layers, "passes"), *some = NULL;
    const double flops =
        dt_json_number(json_object_get(peaks, text_of(layers, "precision")), "flops_per_s");
    const double bytes = dt_json_number(peaks, "memory_bytes_per_s");

    if (json_array_size(passes) == 0 || !(flops > 0) || !(bytes > 0))
        return DT_FORMAT;
    DT_TRY(put_groups(f, passes, "pass", (const char *const[]){"flops", "bytes", "gflop_per_s"}));
    fprintf(f->script, "P = %.6g\nB = %.6g\n", 1e-9 * flops, 1e-9 * bytes);
    fputs("set title 'roofline'\nset xlabel 'flop per byte of memory'\nset ylabel 'GFLOP/s'\n"
          "set logscale xy\nset samples 1000\nset xrange [0.05:5000]\nset yrange [*:3*P]\n"
          "plot x*B < P ? x*B : P lc rgb '#606060' lw 2 title 'the machine''s limit', "
          "for [i=1:N] $d index i-1 using ($2 > 0 ? $1/$2 : NaN):3 with points lt i title T[i]\n"
          "unset logscale\nset title 'longest passes'\nset xlabel 'ms per step'\n",
          f->script);
    DT_TRY(longest(passes, &some));
    const dt_status st =
        put_groups(f, some, "label", (const char *const[]){"seconds", "limit_s", "flops"});
    json_decref(some);
    fputs(BARS("(1e3*$1)", "time", "(1e3*$2)", "the machine''s limit"), f->script);
    return st;
}

static dt_status put_scaling(const dt_figure *f, const json_t *lines)
{
    const json_t *first = json_array_get(lines, 0);

    DT_TRY(
        put_groups(f, lines, "exchange", (const char *const[]){"ranks", "images_per_s", "step_s"}));
    fprintf(f->script, "A = %.6g\n",
            dt_json_number(first, "images_per_s") / dt_json_number(first, "ranks"));
    fputs("set logscale x 2\nset xlabel 'ranks'\nset yrange [0:*]\nset title 'images/s'\n"
          "plot $d index 0 using 1:($1*A) with lines lc rgb '#606060' dt 2 title 'ideal', "
          "for [i=1:N] $d index i-1 using 1:2 with linespoints lt i title T[i]\n"
          "set title 'images/s of a rank, % of the first line''s'\n"
          "plot for [i=1:N] $d index i-1 using 1:(100*$2/($1*A)) with linespoints lt i title "
          "T[i]\n",
          f->script);
    return DT_OK;
}

static dt_status put_exchanges(const dt_figure *f, const json_t *lines)
{
    DT_TRY(put_groups(f, lines, "exchange",
                      (const char *const[]){"step_s", "exposed_s_at_rank0", "mib_at_rank0"}));
    fputs("set title 'time of a step'\nset xlabel 'ms'\n", f->script);
    fputs(BARS("(1e3*$1)", "step", "(1e3*$2)", "rank 0 waits"), f->script);
    fputs("set title 'messages of rank 0'\nset xlabel 'MiB per step'\n", f->script);
    fputs(BARS("3", "sent and received", "(0)", ""), f->script);
    return DT_OK;
}

dt_status dt_bench_figure(dt_figure *f, const dt_options *o, const char *path)
{
    static const struct {
        const char *option;
        dt_status (*put)(const dt_figure *f, const json_t *lines);
    } pictures[] = {
        {"layers", put_layers}, {"scaling", put_scaling}, {"exchange all", put_exchanges}};
    enum { HEIGHT = 560 };
    const int kind = o->layers ? 0 : o->scaling ? 1 : 2;
    json_t *lines = NULL;

    DT_TRY(dt_figure_open(f, o->out, HEIGHT));
    fputs(f->page ? "set multiplot layout 1,2\nset key tmargin horizontal center\n"
                  : "set key bmargin horizontal\n",
          f->script);
    DT_TRY(dt_json_lines(&lines, path));
    const dt_status st = json_array_size(lines) > 0 ? pictures[kind].put(f, lines) : DT_FORMAT;
    json_decref(lines);
    return st != DT_FORMAT ? st
                           : dt_fail(st, "%s: not what dtrain bench --%s --json prints", path,
                                     pictures[kind].option);
}
