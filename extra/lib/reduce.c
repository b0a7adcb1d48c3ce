/* reduce.c - all_reduce, reduce, reduce_scatter: one leaf per rank, all by dt_allreduce. */
#include "lib.h"

/* By dtd_op. */
static const char *const op_name[DTD_OPS] = {"sum", "mean", "prod", "min", "max"};

static dt_status reduce_check(const dt_allreduce_opts *o, dtd_type type, const dtd_group *g)
{
    if (o->to == DT_TO_ROOT)
        DT_TRY(dtd_check_rank(g, "root", o->root));
    DT_TRY(dtd_check_type(type));
    if ((unsigned)o->op >= DTD_OPS)
        return dt_fail(DT_USAGE, "there is no operation %d", (int)o->op);
    if (o->op == DTD_MEAN && !dt_numbers[type].divide)
        return dt_fail(DT_UNSUPPORTED, "%s has no mean: take the sum", dt_numbers[type].name);
    DT_TRY(dtd_check_data(o->mine, o->count, o->counts ? "all" : "x"));
    return o->counts ? dtd_check_data(o->out, o->counts[g->comm->rank], "mine") : DT_OK;
}

/* o: all that the type and the group do not say. */
static dt_status reduce(dtd_call call, dt_allreduce_opts *o, dtd_type type, dtd_group *g)
{
    const dtd_arg arg[] = {
        {"the type", 0, dtd_type_name(type)},
        {"the operation", 0, (unsigned)o->op < DTD_OPS ? op_name[o->op] : "none"},
        {"root", o->root, NULL},
        {"the count", o->to == DT_TO_PARTS ? 0 : (int64_t)o->count, NULL}};

    DT_TRY(dtd_enter(call, &g));
    dt_status st = o->to == DT_TO_PARTS ? dtd_check_counts(o->counts, g, &o->count) : DT_OK;
    if (st == DT_OK)
        st = reduce_check(o, type, g);
    DT_TRY(
        dtd_compare(g, st, &(dtd_args){.arg = arg, .args = DT_COUNT_OF(arg), .counts = o->counts}));
    o->number = &dt_numbers[type];
    o->divide = o->op == DTD_MEAN ? g->comm->world : 0;
    return dt_allreduce_run(&g->combine, o);
}

int dtd_all_reduce(void *x, size_t count, dtd_type type, dtd_op op, dtd_group *g)
{
    dt_allreduce_opts o = {.op = op, .mine = x, .out = x, .count = count, .to = DT_TO_ALL};
    return dtd_leave(reduce(DTD_IN_all_reduce, &o, type, g));
}

int dtd_reduce(void *x, size_t count, dtd_type type, dtd_op op, int root, dtd_group *g)
{
    dt_allreduce_opts o = {
        .op = op, .mine = x, .out = x, .count = count, .to = DT_TO_ROOT, .root = root};
    return dtd_leave(reduce(DTD_IN_reduce, &o, type, g));
}

int dtd_reduce_scatter(void *mine, const void *all, const size_t *counts, dtd_type type, dtd_op op,
                       dtd_group *g)
{
    dt_allreduce_opts o = {.op = op, .mine = all, .out = mine, .counts = counts, .to = DT_TO_PARTS};
    return dtd_leave(reduce(DTD_IN_reduce_scatter, &o, type, g));
}
