/* bench.c - pictures of what `bench --json` (layers, scaling, exchanges) and `lr-find --json`
 * printed. */
#include "view.h"

/* Lying bars of column A, with column B inside them; one for each part. */
#define BARS(title, unit, a, name_a, b, name_b)                                                    \
    "set title '" title "'\nset xlabel '" unit "'\n"                                               \
    "unset ylabel\nset xrange [0:*]\nset yrange [|T|-0.5:-0.5]\n"                                  \
    "set ytics ()\nset for [i=1:|T|] ytics add (T[i] i-1)\n"                                       \
    "plot $d using " a ":(column(-2)):(0):" a ":(column(-2)-0.35):(column(-2)+0.35) "              \
    "with boxxyerror lc rgb '#9ecae1' title '" name_a "', "                                        \
    "$d using " b ":(column(-2)):(0):" b ":(column(-2)-0.2):(column(-2)+0.2) "                     \
    "with boxxyerror lc rgb '#d55e00' title '" name_b "'\n"

/* Of each picture its panels: what is one part of the data, the numbers, and gnuplot's commands. */
static const struct {
    const char *kind, *part, *column[4], *commands;
} panels[] = {
    {"layers",
     "pass",
     {"flops", "bytes", "gflop_per_s"},
     "set title 'roofline'\nset xlabel 'flop per byte of memory'\nset ylabel 'GFLOP/s'\n"
     "set logscale xy\nset samples 1000\nset xrange [0.05:5000]\nset yrange [*:3*P]\n"
     "plot x*B < P ? x*B : P lc rgb '#606060' lw 2 title 'the machine''s limit', "
     "for [i=1:|T|] $d index i-1 using ($2 > 0 ? $1/$2 : NaN):3 with points lt i title T[i]\n"
     "unset logscale\n"},
    {"layers",
     "label",
     {"seconds", "limit_s"},
     BARS("longest passes", "ms per step", "(1e3*$1)", "time", "(1e3*$2)", "limit")},
    {"scaling",
     "exchange",
     {"ranks", "images_per_s"},
     "set logscale x 2\nset xlabel 'ranks'\nset yrange [0:*]\nset title 'images/s'\n"
     "plot $d index 0 using 1:($1*A) with lines lc rgb '#606060' dt 2 title 'ideal', "
     "for [i=1:|T|] $d index i-1 using 1:2 with linespoints lt i title T[i]\n"
     "set title 'images/s of a rank, % of the first line''s'\n"
     "plot for [i=1:|T|] $d index i-1 using 1:(100*$2/($1*A)) with linespoints lt i title T[i]\n"},
    {"exchange all",
     "exchange",
     {"step_s", "exposed_s_at_rank0", "mib_at_rank0"},
     BARS("time of a step", "ms", "(1e3*$1)", "step", "(1e3*$2)", "rank 0 waits") //
     BARS("messages of rank 0", "MiB per step", "3", "sent and received", "(0)", "")},
    {"engine all",
     "engine",
     {"step_s", "exposed_s_at_rank0", "images_per_s"},
     BARS("time of a step", "ms", "(1e3*$1)", "step", "(1e3*$2)", "rank 0 waits") //
     BARS("speed", "images/s", "3", "images/s", "(0)", "")},
    {"lr-find",
     "",
     {"lr", "loss", "smoothed"},
     "set logscale x\nset xlabel 'learning rate'\nset title 'loss'\n"
     "plot $d using 1:2 with points lt 2 title 'of a step', "
     "$d using 1:3 with lines lt 1 title 'smoothed'\n"},
};

static const char *text_of(const json_t *j, const char *key)
{
    const char *text = json_string_value(json_object_get(j, key));
    return text ? text : "?";
}

/* Only the passes that take longest stay, the longest first, under the name of layer and pass. */
static void keep_longest(json_t *passes)
{
    enum { SHOWN = 16 };

    for (size_t k = 0; k < SHOWN && k < json_array_size(passes); k++) {
        size_t most = k;
        for (size_t i = k + 1; i < json_array_size(passes); i++)
            if (dt_json_number(json_array_get(passes, i), "seconds") >
                dt_json_number(json_array_get(passes, most), "seconds"))
                most = i;
        json_t *j = json_incref(json_array_get(passes, most));
        const char *name = text_of(j, "name");
        json_object_set_new(
            j, "label",
            json_sprintf("%s %s", name[0] ? name : text_of(j, "operation"), text_of(j, "pass")));
        json_array_remove(passes, most);
        json_array_insert_new(passes, k, j);
    }
    while (json_array_size(passes) > SHOWN)
        json_array_remove(passes, json_array_size(passes) - 1);
}

/* Objects that have the same text under `part` are one. DT_FORMAT: there are none, or a number is
 * missing. */
static dt_status put_data(const dt_figure *f, const json_t *objects, const char *part,
                          const char *const *column)
{
    json_t *parts = json_object(), *j;
    bool whole = json_array_size(objects) > 0;
    size_t i;

    json_array_foreach(objects, i, j)
    {
        const char *name = text_of(j, part);
        if (!json_object_get(parts, name))
            json_object_set_new(parts, name, json_array());
        json_array_append(json_object_get(parts, name), j);
        for (const char *const *c = column; *c; c++)
            whole = whole && json_is_number(json_object_get(j, *c));
    }
    dt_figure_data(f, "$d", parts, column, 0);
    json_decref(parts);
    return whole ? DT_OK : DT_FORMAT;
}

static dt_status put_panels(const dt_figure *f, const char *kind, const json_t *lines)
{
    const json_t *first = json_array_get(lines, 0), *layers = json_object_get(first, "layers");
    const json_t *peaks = json_object_get(layers, "peaks");
    const json_t *peak = json_object_get(peaks, text_of(layers, "precision"));
    json_t *passes = json_object_get(layers, "passes");

    fprintf(f->script, "P = 1e-9 * %.6g\nB = 1e-9 * %.6g\nA = %.6g\n",
            json_number_value(json_object_get(peak, "flops_per_s")),
            json_number_value(json_object_get(peaks, "memory_bytes_per_s")),
            json_number_value(json_object_get(first, "images_per_s")) /
                DT_MAX(json_number_value(json_object_get(first, "ranks")), 1));
    for (size_t i = 0; i < DT_COUNT_OF(panels); i++) {
        if (strcmp(panels[i].kind, kind) != 0)
            continue;
        if (strcmp(panels[i].part, "label") == 0)
            keep_longest(passes);
        DT_TRY(put_data(f, strcmp(kind, "layers") == 0 ? passes : lines, panels[i].part,
                        panels[i].column));
        fputs(panels[i].commands, f->script);
    }
    return DT_OK;
}

static void append(void *lines, json_t *j)
{
    json_array_append(lines, j);
}

dt_status dt_bench_figure(dt_figure *f, const dt_options *o, const char *kind, const char *path)
{
    enum { HEIGHT = 560 };
    const bool rates = strcmp(kind, "lr-find") == 0;
    json_t *lines = json_array();

    DT_TRY(dt_figure_open(f, o->out, HEIGHT));
    fputs(f->page && rates ? "set key tmargin horizontal\n"
          : f->page        ? "set multiplot layout 1,2\nset key tmargin horizontal center\n"
                           : "set key bmargin horizontal\n",
          f->script);
    dt_status st = dt_json_lines(path, append, lines);
    if (st == DT_OK)
        st = put_panels(f, kind, lines);
    json_decref(lines);
    return st == DT_OK ? st
                       : dt_fail(st, "%s: not what dtrain %s%s --json prints", path,
                                 rates ? "" : "bench --", kind);
}
