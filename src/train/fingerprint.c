/* fingerprint.c - a run as others see it: its files, and the ranks that compare it; and what the
 * program is made of. */
#include "run.h"

#include "commit.h"

dt_snapshot dt_run_snapshot(const dt_run *r)
{
    dt_weights weights = r->weights, average = r->average;
    float *momentum = r->domain[DT_SLAB_HOME].momentum.mem, *whole = r->grid.whole.mem;

    if (dt_grid_cuts(r)) { /* NULL, but on the rank that collects them */
        weights.master = whole;
        momentum = whole ? whole + r->net->slab_floats : NULL;
        average.master = whole ? whole + 2 * r->net->slab_floats : NULL;
    }
    return (dt_snapshot){.model = average.net ? average : weights,
                         .trained = average.net ? weights : average,
                         .momentum = momentum,
                         .options = &r->o,
                         .images = dt_source_describe(r->source)};
}

dt_status dt_run_hash(dt_run *r, dt_position at, char weights[DT_DIGEST_CHARS],
                      char all[DT_DIGEST_CHARS])
{
    dt_snapshot state = dt_run_snapshot(r);
    dt_digest hash[2] = {{0}};

    state.at = at;
    DT_TRY(dt_grid_collect(r));
    DT_TRY(dt_comm_agree(r->comm,
                         dt_grid_knows(r) ? dt_snapshot_hash(&state, &hash[0], &hash[1]) : DT_OK));
    if (dt_grid_cuts(r)) /* one rank has seen all of it */
        DT_TRY(dt_comm_bcast(r->comm, hash, sizeof hash, 0));
    dt_digest_text(hash[0], weights);
    dt_digest_text(hash[1], all);
    return DT_OK;
}

int dt_threads_asked(void)
{
    const char *text = getenv("OMP_NUM_THREADS"), *end = text; /* "4", or by level: "4,2" */
    int64_t n = 0;

    return text && dt_whole_parse(text, &end, &n) && (*end == '\0' || *end == ',') && n > 0 &&
                   (double)n <= dt_option_table[DT_ROW_threads].high
               ? (int)n
               : 0;
}

int dt_threads_auto(const dt_comm *c)
{
    if (dt_threads_asked() > 0)
        return dt_threads_asked();

    const int share = dt_comm_node_cpus(c) / c->node_ranks, allowed = dt_cores(NULL);
    return DT_MAX(DT_MIN(share, allowed), 1);
}

const char *dt_build(void)
{
    return DTRAIN_VERSION " " DTRAIN_COMMIT " " DTRAIN_BUILD;
}

static void add_digest(dt_field *field, size_t *n, const char *name, dt_digest d, char *text)
{
    dt_digest_text(d, text);
    field[(*n)++] = (dt_field){name, text};
}

dt_status dt_fingerprint_run(dt_run *r)
{
    enum { DIGESTS = 2 + DT_MAX_PLANS + 2, TEXTS = 4 };
    dt_field field[TEXTS + DIGESTS] = {
        {"dtrain", dt_build()},
        {"MPI", dt_comm_version()},
        {dt_engine_text() ? "engine" : "instruction set", dt_run_isa(r)},
        {"precision", dt_dtype_name(r->precision)}};
    char digest[DIGESTS][DT_DIGEST_CHARS], (*text)[DT_DIGEST_CHARS] = digest;
    size_t n = TEXTS;

    add_digest(field, &n, "data files", dt_source_manifest(r->source), *text++);
    add_digest(field, &n, "data content", dt_source_digest(r->source), *text++);
    for (int i = 0; i < DT_MAX_PLANS && r->contexts.plan[i]; i++)
        add_digest(field, &n, "training plan", dt_plan_ask(r->contexts.plan[i]).digest, *text++);
    for (int i = 0; i < 2 && r->test.plan[i]; i++)
        add_digest(field, &n, "evaluation plan", dt_plan_ask(r->test.plan[i]).digest, *text++);
    return dt_comm_same(r->comm, field, n);
}
