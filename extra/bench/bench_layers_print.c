/* bench_layers_print.c - the profile of `bench --layers` as tables, and as JSON. */
#include "bench_layers.h"

static const dt_field totals[DT_TOTAL_COUNT] = {DT_TOTAL_LIST(DT_FIELD_OF)};

/* What a layer's line and a phase's have in common, in the tables and in JSON. */
static const struct {
    const char *key, *head; /* head NULL: in JSON only */
    int width, digits;
    double scale; /* of the number in the tables */
} columns[] = {
    {"seconds", "ms", 9, 3, 1e3},    {"share", "share %", 7, 1, 100},
    {"flops", NULL, 0, 0, 1},        {"gflop_per_s", "GFLOP/s", 8, 1, 1},
    {"bytes", "MB", 8, 2, 1e-6},     {"limit_s", "limit ms", 9, 3, 1e3},
    {"efficiency", "eff.", 5, 2, 1},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

typedef struct values {
    double of[COLUMNS]; /* in their order */
} values;

static values values_of(const dt_bench_layers *l, const dt_bench_cost *c)
{
    const double per_second = c->seconds > 0 ? 1 / c->seconds : 0;
    const double share = l->step_s > 0 ? c->seconds / l->step_s : 0;

    return (values){{c->seconds, share, c->flops, 1e-9 * c->flops * per_second, c->bytes,
                     c->limit_s, c->limit_s * per_second}};
}

/* ---- Text ------------------------------------------------------------------------------------ */

/* "-" for what does not apply. c NULL: the heads of the columns. */
static void print_cost(const dt_bench_layers *l, const dt_bench_cost *c)
{
    const values v = c ? values_of(l, c) : (values){{0}};

    for (int i = 0; i < COLUMNS; i++)
        if (columns[i].head && v.of[i] > 0)
            printf(" %*.*f", columns[i].width, columns[i].digits, columns[i].scale * v.of[i]);
        else if (columns[i].head)
            printf(" %*s", columns[i].width, c ? "-" : columns[i].head);
}

static void print_peaks(const dt_bench_layers *l)
{
    const dt_peaks *p = &l->peaks;

    printf("\npeaks of rank 0 of %d (%d thread%s):", l->ranks, l->threads,
           l->threads == 1 ? "" : "s");
    for (int type = 0; type < DT_DTYPES; type++)
        printf(" %s %.1f GFLOP/s (%s),", dt_dtype_name((dt_dtype)type), 1e-9 * p->flops[type],
               p->flops_by[type]);
    printf(" memory %.1f GB/s\n"
           "limit: flops at the peak of %s, or bytes read and written once at the memory's, the "
           "longer of the two\n"
           "eff.: limit / time, above 1 where caches serve what is counted as memory's; times "
           "are means per step\n",
           1e-9 * p->bytes_per_s, dt_dtype_name(l->type));
}

static void print_head(const char *what)
{
    printf("\n%4s  %-18s %-22s %-8s", "step", what, "name", "pass");
    print_cost(NULL, NULL);
    puts("  limit");
}

static void print_pass(const dt_bench_layers *l, const dt_bench_pass *p)
{
    printf("%4zu  %-18s %-22s %-8s", p->step, p->layer.op, p->layer.name, p->name);
    print_cost(l, &p->cost);
    printf("  %s\n", p->limit);
}

static double gap(const dt_bench_pass *p)
{
    return p->cost.seconds - p->cost.limit_s;
}

/* Those furthest from their limits, in time: where work on the program pays most. */
static void print_gaps(const dt_bench_layers *l)
{
    enum { SHOWN = 10 };
    const dt_bench_pass *most[SHOWN + 1]; /* falling, and one to fall out */
    size_t n = 0;

    for (size_t i = 0; i < l->passes; i++) {
        size_t at = n;
        for (; at > 0 && gap(most[at - 1]) < gap(&l->pass[i]); at--)
            most[at] = most[at - 1];
        most[at] = &l->pass[i];
        n = DT_MIN(n + 1, (size_t)SHOWN);
    }
    print_head("largest gaps");
    for (size_t i = 0; i < n; i++)
        print_pass(l, most[i]);
}

static void print_total(const dt_bench_layers *l, const char *name, const dt_bench_cost *c)
{
    printf("%-55s", name);
    print_cost(l, c);
    putchar('\n');
}

void dt_bench_layers_print(const dt_bench_layers *l)
{
    const dt_bench_cost step = {.seconds = l->step_s};

    print_head("operation");
    for (size_t i = 0; i < l->passes; i++)
        print_pass(l, &l->pass[i]);
    print_gaps(l);
    putchar('\n');
    print_total(l, "phase", NULL);
    for (int i = 0; i < DT_TOTAL_COUNT; i++)
        print_total(l, totals[i].value, &l->total[i]);
    print_total(l, "step", &step);
    print_peaks(l);
}

void dt_bench_layers_compare(const dt_bench_layers *l, const char *const *name, size_t count)
{
    printf("\n%4s  %-18s %-22s %-8s", "step", "ms of a step", "name", "pass");
    for (size_t e = 0; e < count; e++)
        if (l[e].passes)
            printf(" %9s", name[e]);
    puts("  fastest");
    for (size_t i = 0; i < l[0].passes; i++) {
        const dt_bench_pass *p = &l[0].pass[i];
        size_t best = 0;
        if (p->total > DT_TOTAL_weight_gradient)
            continue;
        printf("%4zu  %-18s %-22s %-8s", p->step, p->layer.op, p->layer.name, p->name);
        for (size_t e = 0; e < count; e++) {
            if (l[e].passes == 0)
                continue;
            printf(" %9.3f", 1e3 * l[e].pass[i].cost.seconds);
            if (l[e].pass[i].cost.seconds < l[best].pass[i].cost.seconds)
                best = e;
        }
        printf("  %s\n", name[best]);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Into j, which is returned. */
static json_t *put_cost(json_t *j, const dt_bench_layers *l, const dt_bench_cost *c)
{
    const values v = values_of(l, c);

    for (int i = 0; i < COLUMNS; i++)
        json_object_set_new(j, columns[i].key, json_real(v.of[i]));
    return j;
}

static json_t *json_of_peaks(const dt_bench_layers *l)
{
    json_t *j =
        json_pack("{s:i, s:i, s:f, s:i}", "threads", l->threads, "ranks", l->ranks,
                  "memory_bytes_per_s", l->peaks.bytes_per_s, "stream_mib", l->peaks.stream_mib);

    for (int type = 0; type < DT_DTYPES; type++)
        json_object_set_new(j, dt_dtype_name((dt_dtype)type),
                            json_pack("{s:f, s:s}", "flops_per_s", l->peaks.flops[type], "by",
                                      l->peaks.flops_by[type]));
    return j;
}

json_t *dt_bench_layers_json(const dt_bench_layers *l)
{
    json_t *passes = json_array(), *phases = json_object();

    for (size_t i = 0; i < l->passes; i++) {
        const dt_bench_pass *p = &l->pass[i];
        json_t *j =
            json_pack("{s:I, s:s, s:s, s:s, s:s, s:s, s:s}", "step", (json_int_t)p->step,
                      "operation", p->layer.op, "name", p->layer.name, "output", p->layer.out_shape,
                      "kernels", p->layer.kernels, "pass", p->name, "limit", p->limit);
        json_array_append_new(passes, put_cost(j, l, &p->cost));
    }
    for (int i = 0; i < DT_TOTAL_COUNT; i++)
        json_object_set_new(phases, totals[i].name, put_cost(json_object(), l, &l->total[i]));
    return json_pack("{s:f, s:s, s:o, s:o, s:o}", "mean_step_s", l->step_s, "precision",
                     dt_dtype_name(l->type), "peaks", json_of_peaks(l), "passes", passes, "phases",
                     phases);
}
