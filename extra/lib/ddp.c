/* ddp.c - gradients that are summed while backward goes on: the trainer's exchange over a slab in
 * which a list of gradients lies in reverse order, rounds of calls that fill it, hooks, and an
 * optimizer that waits for the sums. */
#include "lib.h"

enum { DDP_NAME = 64, DDP_THREADS = 4096 };
typedef struct ddp_gradient {
    float *data; /* borrowed */
    bool ready;  /* in this round */
    char name[DDP_NAME];
} ddp_gradient;

struct dtd_ddp {
    dtd_group *group;       /* borrowed */
    int64_t number;         /* among what is made on the group: which one ranks call with */
    ddp_gradient *gradient; /* [count], as the program lists them; owned */
    dt_span *tensor;        /* [count], in the slab: gradient i is tensor count - 1 - i; owned */
    size_t count, floats;   /* floats of the slab */
    dtd_ddp_opts o;         /* without zeros that stand for something */

    dt_exchange *x;
    dt_slab slab; /* the exchange's memory: the node's, or this rank's */

    bool used;         /* a gradient was ready since creation */
    int rounds, round; /* of this rank in a step; done */
    float *leaf;       /* that rounds fill; NULL: the next one begins a leaf */
    size_t prefix;     /* tensors [0, prefix) are ready in this round */
};

/* dtd_hook has their order. */
static const char *const ddp_compress[] = {DT_COMPRESS_LIST(DT_NAME_OF)};

/* ---- The exchange -------------------------------------------------------------------- */

static size_t ddp_bytes(double mib)
{
    return (size_t)fmin(fmax(mib * 1048576, 1), 1e15);
}

static dt_status ddp_open(dtd_ddp *d, dtd_hook hook, double threshold)
{
    dt_comm *c = d->group->comm;
    const dt_exchange_opts o = {.name = "auto",
                                .shards = d->o.leaves,
                                .floats = d->floats,
                                .tensor = d->tensor,
                                .tensors = d->count,
                                .bucket_bytes = ddp_bytes(d->o.bucket_mb),
                                .outer_bytes = ddp_bytes(d->o.first_bucket_mb),
                                .compress = ddp_compress[hook],
                                .threshold = threshold,
                                .threads = d->o.threads};
    dt_exchange_needs needs;

    DT_TRY(dt_comm_agree(c, dt_exchange_create(&d->x, c, &o, &needs)));
    const size_t bytes = needs.slabs * d->floats * sizeof(float);
    if (needs.shares)
        DT_TRY(dt_node_slab_create(&d->slab, c, bytes, "gradients"));
    else
        DT_TRY(dt_comm_agree(c, dt_slab_create(&d->slab, bytes, "gradients")));
    return dt_exchange_open(d->x, d->slab.mem);
}

static void ddp_close(dtd_ddp *d)
{
    if (dt_exchange_close(d->x))
        dt_slab_destroy(&d->slab);
    d->x = NULL;
    d->slab = (dt_slab){.mem = NULL};
}

/* ---- Creation ------------------------------------------------------------------------ */

static void ddp_free(dtd_ddp *d)
{
    if (!d)
        return;
    ddp_close(d);
    DT_FREE(d->gradient, d->tensor, d);
}

static dt_status ddp_options(dtd_ddp_opts *o, const dtd_ddp_opts *given, const dtd_group *g)
{
    if (given && given->size != sizeof *o)
        return dt_fail(DT_USAGE, "dtd_ddp_new: opts->size is %zu, but sizeof(dtd_ddp_opts) is %zu",
                       given->size, sizeof *o);
    *o = given ? *given : (dtd_ddp_opts){.size = sizeof *o};
    o->bucket_mb = o->bucket_mb == 0 ? 25 : o->bucket_mb;
    o->first_bucket_mb = o->first_bucket_mb == 0 ? 1 : o->first_bucket_mb;
    o->leaves = o->leaves == 0 ? g->comm->world : o->leaves;
    o->accumulate = o->accumulate == 0 ? 1 : o->accumulate;
    if (!(o->bucket_mb > 0 && o->bucket_mb <= 1e6 && o->first_bucket_mb > 0 &&
          o->first_bucket_mb <= 1e6))
        return dt_fail(DT_USAGE, "dtd_ddp_new: buckets of %g and %g MiB: 0 to a million",
                       o->bucket_mb, o->first_bucket_mb);
    const int64_t rounds = ((int64_t)o->leaves / g->comm->world + 1) * o->accumulate;
    if (o->leaves < g->comm->world || o->leaves > DTD_MOST_LEAVES || rounds > DTD_MOST_LEAVES ||
        o->accumulate < 0 || o->threads < 0 || o->threads > DDP_THREADS)
        return dt_fail(DT_USAGE,
                       "dtd_ddp_new: %d leaves, accumulate %d, %d threads: each of %d ranks needs "
                       "a leaf, none is negative; at most %d leaves, or rounds, and %d threads",
                       o->leaves, o->accumulate, o->threads, g->comm->world, DTD_MOST_LEAVES,
                       DDP_THREADS);
    return DT_OK;
}

static dt_status ddp_check(const dtd_tensor *list, size_t count)
{
    if (count == 0)
        return dt_fail(DT_USAGE, "dtd_ddp_new: there are no gradients");
    DT_TRY(dtd_check_list(list, count, true));
    for (size_t i = 0; i < count; i++)
        if (list[i].type != DTD_F32)
            return dt_fail(DT_UNSUPPORTED,
                           "dtd_ddp_new: gradient %zu '%s' is %s: only fp32 is summed", i,
                           list[i].name ? list[i].name : "", dtd_type_name(list[i].type));
    return DT_OK;
}

static dt_status ddp_make(dtd_ddp **out, dtd_group *g, const dtd_tensor *list, size_t count,
                          const dtd_ddp_opts *o)
{
    dtd_ddp *d = NULL;
    int first, end;

    DT_TRY(dt_calloc(&d, 1, sizeof *d, "gradients"));
    *out = d;
    *d = (dtd_ddp){.group = g, .count = count, .o = *o};
    dt_shards_of(o->leaves, g->comm->world, g->comm->rank, &first, &end);
    d->rounds = (end - first) * o->accumulate;
    DT_TRY(dt_calloc(&d->gradient, count, sizeof *d->gradient, "gradients"));
    DT_TRY(dt_calloc(&d->tensor, count, sizeof *d->tensor, "gradients"));
    for (size_t i = count; i-- > 0;) {
        d->gradient[i].data = list[i].data;
        snprintf(d->gradient[i].name, DDP_NAME, "%s", list[i].name ? list[i].name : "");
        d->tensor[count - 1 - i] = (dt_span){d->floats, list[i].count};
        d->floats = dt_align(d->floats + list[i].count, 16);
    }
    d->floats = DT_MAX(d->floats, 16);
    return DT_OK;
}

int dtd_ddp_new(dtd_ddp **out, const dtd_tensor *list, size_t count, const dtd_ddp_opts *given,
                dtd_group *g)
{
    dtd_ddp_opts o = {.size = sizeof o};
    dtd_ddp *d = NULL;

    DTD_TRY(dtd_enter(DTD_IN_ddp_new, &g));
    dt_status st = out ? ddp_options(&o, given, g) : dt_fail(DT_USAGE, "dtd_ddp_new: d is NULL");
    if (out)
        *out = NULL;
    if (st == DT_OK)
        st = ddp_check(list, count);
    const dtd_arg arg[] = {
        {"sum", o.sum != 0, NULL},
        {"leaves", o.leaves, NULL},
        {"accumulate", o.accumulate, NULL},
        {"bucket_mb, in bytes", (int64_t)ddp_bytes(o.bucket_mb), NULL},
        {"first_bucket_mb, in bytes", (int64_t)ddp_bytes(o.first_bucket_mb), NULL}};
    DTD_TRY(dtd_compare(g, st, &(dtd_args){arg, DT_COUNT_OF(arg), list, count, NULL}));
    st = dt_comm_agree(g->comm, ddp_make(&d, g, list, count, &o));
    if (st == DT_OK)
        st = ddp_open(d, DTD_HOOK_NONE, 0);
    if (st != DT_OK) {
        ddp_free(d);
        return dtd_leave(st);
    }
    d->number = ++g->made;
    *out = d;
    return dtd_leave(DT_OK);
}

/* Where a failure is on record, the exchange takes other ranks for lost. */
void dtd_ddp_free(dtd_ddp *d)
{
    dt_fail_clear();
    ddp_free(d);
}

static dt_status ddp_enter(dtd_call call, const dtd_ddp *d)
{
    DT_TRY(dtd_enter(call, NULL));
    if (!d)
        return dt_fail(DT_USAGE, "%s: d is NULL", dtd_call_name[call]);
    return d->x ? DT_OK
                : dt_fail(DT_USAGE, "%s after dtd_ddp_hook failed: free it", dtd_call_name[call]);
}

int dtd_ddp_hook(dtd_ddp *d, dtd_hook hook, double threshold)
{
    char text[32];
    dt_status st = DT_OK;

    DTD_TRY(ddp_enter(DTD_IN_ddp_hook, d));
    snprintf(text, sizeof text, "%.17g", threshold);
    if (d->used)
        st = dt_fail(DT_USAGE, "dtd_ddp_hook after the first dtd_ddp_ready");
    else if ((unsigned)hook >= DT_COUNT_OF(ddp_compress))
        st = dt_fail(DT_USAGE, "dtd_ddp_hook: there is no hook %d", (int)hook);
    else if (hook == DTD_HOOK_2BIT && !((float)threshold > 0 && (float)threshold < INFINITY))
        st =
            dt_fail(DT_USAGE, "dtd_ddp_hook: a threshold of %g, which is not above 0 and a float32",
                    threshold);
    const dtd_arg arg[] = {{"hook", hook, NULL}, {"threshold", 0, text}};
    DTD_TRY(dtd_compare(d->group, st, &(dtd_args){.arg = arg, .args = DT_COUNT_OF(arg)}));
    ddp_close(d);
    st = ddp_open(d, hook, threshold);
    if (st != DT_OK)
        ddp_close(d);
    return dtd_leave(st);
}

/* ---- A round --------------------------------------------------------------------------- */

/* Gradient i into its place. Buckets are full in the same order on all ranks, whatever the order of
 * gradients, because what is reported only grows. */
static dt_status ddp_put(dtd_ddp *d, size_t i, bool zeros)
{
    const dt_span span = d->tensor[d->count - 1 - i];
    const float *x = d->gradient[i].data;
    const int part = d->round % d->o.accumulate;
    size_t done = 0;

    if (!d->leaf)
        d->leaf = dt_exchange_leaf(d->x);
    float *to = d->leaf + span.first;
    if (part == 0 && zeros)
        memset(to, 0, span.count * sizeof *to);
    else if (part == 0 && span.count > 0)
        memcpy(to, x, span.count * sizeof *to);
    for (size_t n = 0; part > 0 && !zeros && n < span.count; n++)
        to[n] += x[n];
    d->used = d->gradient[i].ready = true;
    while (d->prefix < d->count && d->gradient[d->count - 1 - d->prefix].ready)
        d->prefix++;
    const bool all = d->prefix == d->count;
    if (part == d->o.accumulate - 1)
        done = all ? d->floats : d->tensor[d->prefix].first;
    if (all) { /* the next round begins, and after the last one of a leaf the next leaf */
        for (size_t n = 0; n < d->count; n++)
            d->gradient[n].ready = false;
        d->prefix = 0;
        d->leaf = ++d->round % d->o.accumulate == 0 ? NULL : d->leaf;
    }
    return dt_exchange_ready(d->x, done); /* also lets messages move */
}

/* The first of those that are not ready: "'weight' (3), (4), 7 more". */
static const char *ddp_lacks(const dtd_ddp *d, char *text, size_t bytes)
{
    size_t at = 0, more = 0;

    text[0] = '\0';
    for (size_t i = 0; i < d->count; i++) {
        const char *name = d->gradient[i].name, *quote = name[0] ? "'" : "";
        if (!d->gradient[i].ready && at + DDP_NAME + 64 > bytes)
            more++;
        else if (!d->gradient[i].ready)
            at += (size_t)snprintf(text + at, bytes - at, "%s%s%s%s%s(%zu)", at ? ", " : "", quote,
                                   name, quote, name[0] ? " " : "", i);
    }
    if (more)
        snprintf(text + at, bytes - at, ", %zu more", more);
    return text;
}

static dt_status ddp_mark(dtd_call call, dtd_ddp *d, size_t i, bool zeros)
{
    char names[512];

    DT_TRY(ddp_enter(call, d));
    if (i >= d->count)
        return dt_fail(DT_USAGE, "%s: there is no gradient %zu, but 0 to %zu", dtd_call_name[call],
                       i, d->count - 1);
    if (d->round == d->rounds)
        return dt_fail(DT_USAGE,
                       "%s of gradient %zu '%s' after the step's last round of %d: call "
                       "dtd_ddp_wait",
                       dtd_call_name[call], i, d->gradient[i].name, d->rounds);
    if (d->gradient[i].ready)
        return dt_fail(DT_USAGE, "%s: gradient %zu '%s' twice in round %d, which lacks %s",
                       dtd_call_name[call], i, d->gradient[i].name, d->round + 1,
                       ddp_lacks(d, names, sizeof names));
    return ddp_put(d, i, zeros);
}

int dtd_ddp_ready(dtd_ddp *d, size_t i)
{
    return dtd_leave(ddp_mark(DTD_IN_ddp_ready, d, i, false));
}

int dtd_ddp_unused(dtd_ddp *d, size_t i)
{
    return dtd_leave(ddp_mark(DTD_IN_ddp_unused, d, i, true));
}

/* ---- The sums ---------------------------------------------------------------------------- */

/* A rank that lacks gradients sends zeros, so that all ranks come to the end of the step. */
static dt_status ddp_complete(dtd_ddp *d)
{
    dt_exchange_sum sum;

    for (size_t i = 0; d->round < d->rounds; i = (i + 1) % d->count)
        if (!d->gradient[i].ready)
            DT_TRY(ddp_put(d, i, true));
    DT_TRY(dt_exchange_finish(d->x, &sum));
    d->round = 0;
    return dt_exchange_publish(d->x);
}

int dtd_ddp_wait(dtd_ddp *d)
{
    dt_status st = DT_OK;
    char names[512];

    DTD_TRY(ddp_enter(DTD_IN_ddp_wait, d));
    if (d->round < d->rounds)
        st = dt_fail(DT_USAGE, "dtd_ddp_wait: in round %d of %d never became ready: %s",
                     d->round + 1, d->rounds, ddp_lacks(d, names, sizeof names));
    /* Ranks that are elsewhere must learn it before any waits for their gradients. */
    st = dtd_compare(d->group, st,
                     &(dtd_args){.arg = &(dtd_arg){"the ddp", d->number, NULL}, .args = 1});
    if (st == DT_MISMATCH)
        return dtd_leave(st);
    DTD_TRY(ddp_complete(d));
    for (size_t i = 0; st == DT_OK && i < d->count; i++) {
        const dt_span span = d->tensor[d->count - 1 - i];
        float *x = d->gradient[i].data;
        dt_exchange_read(d->x, span, x);
        for (size_t n = 0; !d->o.sum && n < span.count; n++)
            x[n] /= (float)d->o.leaves;
    }
    /* Of the next step nothing is written before all have read. */
    DTD_TRY(dt_exchange_publish(d->x));
    return dtd_leave(st);
}

/* ---- An optimizer of the program's --------------------------------------------------------- */

struct dtd_optimizer {
    dtd_ddp *ddp; /* borrowed */
    int (*step)(void *state);
    void *state; /* borrowed */
    int calls;   /* since the last step, which is due after as many as there are rounds */
};

int dtd_optimizer_new(dtd_optimizer **o, dtd_ddp *d, int (*step)(void *state), void *state)
{
    DTD_TRY(dtd_enter(DTD_IN_optimizer_new, NULL));
    if (o)
        *o = NULL;
    if (!o || !d || !step)
        return dtd_leave(dt_fail(DT_USAGE, "dtd_optimizer_new: o, d or step is NULL"));
    DTD_TRY(dt_calloc(o, 1, sizeof **o, "an optimizer"));
    **o = (struct dtd_optimizer){.ddp = d, .step = step, .state = state};
    return dtd_leave(DT_OK);
}

int dtd_optimizer_step(dtd_optimizer *o)
{
    DTD_TRY(dtd_enter(DTD_IN_optimizer_step, NULL));
    if (!o)
        return dtd_leave(dt_fail(DT_USAGE, "dtd_optimizer_step: o is NULL"));
    if (o->ddp->round < o->ddp->rounds && ++o->calls < o->ddp->rounds)
        return dtd_leave(DT_OK);
    o->calls = 0;
    const int code = dtd_ddp_wait(o->ddp);
    return code == DTD_OK ? o->step(o->state) : code;
}

void dtd_optimizer_free(dtd_optimizer *o)
{
    free(o);
}
