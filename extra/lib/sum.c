/* sum.c - the exact sum of leaves that lie on any ranks.
 *
 * A rank holds whole subtrees of the tree: a leaf that comes is added to its neighbour as soon as
 * that is there, so that few values are held where leaves come in order. Tensors of one type lie
 * one after the other, and travel together. */
#include "lib.h"

/* All tensors of one type, in the order of the list. */
typedef struct run {
    size_t count, tensors, last; /* the last tensor */
    size_t at; /* bytes from the start of a value, where there is room for a sum of leaves */
} run;

struct tensor {
    size_t count, bytes, at; /* at: from the start of its type's */
    dtd_type type;
};

struct dtd_sum {
    dtd_group *group; /* borrowed */
    int64_t number;   /* among what is made on the group: which one ranks call with */
    int leaves;
    size_t tensors, bytes; /* of a value */
    run runs[DTD_TYPES];
    struct tensor *tensor; /* [tensors]; owned, as all that follow are */
    struct leaf {
        void *value; /* of the subtree that begins there; NULL: none is held */
        int size;    /* its leaves; 0 */
        bool given;  /* in this round, on this rank */
    } * leaf;        /* [leaves] */
    int64_t *told;   /* [2 x leaves] of all ranks: who has what */
    dt_held *held;   /* [leaves] of all ranks */
    void **spare;    /* [leaves + 2] values that are not in use */
    int spares;
    char *sums; /* [bytes] */
};

/* ---- Making -------------------------------------------------------------------------- */

void dtd_sum_free(dtd_sum *s)
{
    if (!s)
        return;
    for (int i = 0; s->leaf && i < s->leaves; i++)
        free(s->leaf[i].value);
    while (s->spares > 0)
        free(s->spare[--s->spares]);
    DT_FREE(s->tensor, s->leaf, s->told, s->held, s->spare, s->sums, s);
}

static dt_status make(dtd_sum **out, int leaves, const dtd_tensor *shape, size_t tensors)
{
    const char *what = "an exact sum";
    const size_t n = (size_t)leaves;
    dtd_sum *s = NULL;

    DT_TRY(dt_calloc(&s, 1, sizeof *s, what));
    *out = s;
    s->leaves = leaves;
    s->tensors = tensors;
    DT_TRY(dt_calloc(&s->tensor, tensors, sizeof *s->tensor, what));
    for (size_t i = 0; i < tensors; i++) {
        const size_t count = shape[i].count, each = dtd_size_of(shape[i].type);
        run *r = &s->runs[shape[i].type];
        s->tensor[i] = (struct tensor){count, count * each, r->count * each, shape[i].type};
        *r = (run){r->count + count, r->tensors + 1, i, 0};
    }
    for (int t = 0; t < DTD_TYPES; t++) {
        s->runs[t].at = s->bytes;
        s->bytes += dt_align(s->runs[t].count * dt_numbers[t].wide[DTD_SUM].bytes, 64);
    }
    DT_TRY(dt_calloc(&s->leaf, n, sizeof *s->leaf, what));
    DT_TRY(dt_calloc(&s->told, 2 * n, sizeof *s->told, what));
    DT_TRY(dt_calloc(&s->held, n, sizeof *s->held, what));
    DT_TRY(dt_calloc(&s->spare, n + 2, sizeof *s->spare, what));
    return dt_calloc(&s->sums, s->bytes, 1, what);
}

int dtd_sum_new(dtd_sum **out, int leaves, const dtd_tensor *shape, size_t tensors, dtd_group *g)
{
    const dtd_arg arg = {"leaves", leaves, NULL};
    dt_status st = DT_OK;
    dtd_sum *s = NULL;

    DTD_TRY(dtd_enter(DTD_IN_sum_new, &g));
    if (out)
        *out = NULL;
    if (!out || leaves < 1 || leaves > DTD_MOST_LEAVES)
        st = dt_fail(DT_USAGE, "dtd_sum_new: s is NULL, or there are %d leaves, not 1 to %d",
                     leaves, DTD_MOST_LEAVES);
    if (st == DT_OK)
        st = dtd_check_list(shape, tensors, false);
    DTD_TRY(dtd_compare(g, st, &(dtd_args){&arg, 1, shape, tensors, NULL}));
    st = dt_comm_agree(g->comm, make(&s, leaves, shape, tensors));
    if (st != DT_OK) {
        dtd_sum_free(s);
        return dtd_leave(st);
    }
    s->group = g;
    s->number = ++g->made;
    *out = s;
    return dtd_leave(DT_OK);
}

/* ---- Leaves -------------------------------------------------------------------------- */

static dt_status take(dtd_sum *s, void **value)
{
    *value = s->spares > 0 ? s->spare[--s->spares]
                           : aligned_alloc(64, DT_MAX(s->bytes, (size_t)64));
    return *value ? DT_OK : dt_fail(DT_NOMEM, "no memory for %zu bytes of a sum", s->bytes);
}

/* The subtree that begins at `at` and its neighbour become one, as long as both are there. */
static dt_status merge(dtd_sum *s, int at)
{
    for (;;) {
        const int size = s->leaf[at].size, first = at % (2 * size) == 0 ? at : at - size;
        struct leaf *left = &s->leaf[first], *right = left + size;
        void *sum = NULL;
        if (first + size >= s->leaves || left->size != size || right->size != size)
            return DT_OK;
        DT_TRY(take(s, &sum));
        for (int t = 0; t < DTD_TYPES; t++) {
            const size_t from = s->runs[t].at;
            dt_allreduce_pair(&dt_numbers[t], DTD_SUM, (char *)sum + from,
                              (char *)left->value + from, (char *)right->value + from, size == 1,
                              s->runs[t].count);
        }
        s->spare[s->spares++] = left->value;
        s->spare[s->spares++] = right->value;
        *left = (struct leaf){sum, 2 * size, left->given};
        *right = (struct leaf){NULL, 0, right->given};
        at = first;
    }
}

int dtd_sum_leaf(dtd_sum *s, int leaf, const void *const *data)
{
    void *value = NULL;

    DTD_TRY(dtd_enter(DTD_IN_sum_leaf, NULL));
    if (!s || !data || leaf < 0 || leaf >= s->leaves)
        return dtd_leave(dt_fail(DT_USAGE,
                                 "dtd_sum_leaf: s or data is NULL, or leaf %d is none of %d", leaf,
                                 s ? s->leaves : 0));
    if (s->leaf[leaf].given)
        return dtd_leave(dt_fail(DT_USAGE, "dtd_sum_leaf: leaf %d was given already", leaf));
    for (size_t i = 0; i < s->tensors; i++)
        DTD_TRY(dtd_check_data(data[i], s->tensor[i].count, "a tensor of the leaf"));
    DTD_TRY(take(s, &value));
    for (size_t i = 0; i < s->tensors; i++) {
        const struct tensor *t = &s->tensor[i];
        if (t->bytes > 0)
            memcpy((char *)value + s->runs[t->type].at + t->at, data[i], t->bytes);
    }
    s->leaf[leaf] = (struct leaf){value, 1, true};
    return dtd_leave(merge(s, leaf));
}

/* ---- The end of a round ---------------------------------------------------------------- */

/* held[*operands] = who has what; all ranks find the same fault. */
static dt_status tell(dtd_sum *s, int *operands)
{
    const dt_comm *c = s->group->comm;
    const int n = s->leaves;

    for (int i = 0; i < n; i++) {
        s->told[i] = s->leaf[i].given;
        s->told[n + i] = s->leaf[i].size ? (int64_t)s->leaf[i].size << 32 | c->rank : 0;
    }
    DT_TRY(dt_comm_sum_i64(s->group->comm, s->told, 2 * (size_t)n));
    for (int i = 0; i < n; i++)
        if (s->told[i] != 1)
            return dt_fail(DT_USAGE, "dtd_sum_finish: leaf %d of %d was given by %lld ranks", i, n,
                           (long long)s->told[i]);
    *operands = 0;
    for (int i = 0; i < n; i++)
        if (s->told[n + i])
            s->held[(*operands)++] = (dt_held){(unsigned)i, (unsigned)(s->told[n + i] >> 32),
                                               (int)(s->told[n + i] & 0xffffffff), NULL};
    return DT_OK;
}

/* Straight into the caller's array where that is the only one of its type. */
static dt_status sum_run(dtd_sum *s, int type, int operands, void *const *sum)
{
    const run *r = &s->runs[type];
    char *out = r->tensors == 1 ? sum[r->last] : s->sums + r->at;

    for (int i = 0; i < operands; i++)
        if (s->held[i].rank == s->group->comm->rank)
            s->held[i].at = (char *)s->leaf[s->held[i].first].value + r->at;
    DT_TRY(dt_allreduce_run(&s->group->combine, &(dt_allreduce_opts){.number = &dt_numbers[type],
                                                                     .op = DTD_SUM,
                                                                     .held = s->held,
                                                                     .operands = operands,
                                                                     .count = r->count,
                                                                     .to = DT_TO_ALL,
                                                                     .out = out}));
    for (size_t i = 0; i < s->tensors && r->tensors > 1; i++) {
        const struct tensor *t = &s->tensor[i];
        if ((int)t->type == type && t->bytes > 0)
            memcpy(sum[i], out + t->at, t->bytes);
    }
    return DT_OK;
}

int dtd_sum_finish(dtd_sum *s, void *const *sum)
{
    int operands = 0;

    DTD_TRY(dtd_enter(DTD_IN_sum_finish, NULL));
    if (!s)
        return dtd_leave(dt_fail(DT_USAGE, "dtd_sum_finish: s is NULL"));
    dt_status st = dtd_check_data(sum, s->tensors, "sum");
    for (size_t i = 0; i < s->tensors && st == DT_OK; i++)
        st = dtd_check_data(sum[i], s->tensor[i].count, "a tensor of the sum");
    const dtd_arg arg = {"the sum", s->number, NULL};
    DT_GO(st, dtd_compare(s->group, st, &(dtd_args){.arg = &arg, .args = 1}), out);
    DT_GO(st, tell(s, &operands), out);
    for (int t = 0; t < DTD_TYPES; t++)
        if (s->runs[t].count > 0)
            DT_GO(st, sum_run(s, t, operands, sum), out);

out:
    for (int i = 0; i < s->leaves; i++) { /* the next round begins */
        if (s->leaf[i].value)
            s->spare[s->spares++] = s->leaf[i].value;
        s->leaf[i] = (struct leaf){NULL, 0, false};
    }
    return dtd_leave(st);
}
