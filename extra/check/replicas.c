/* replicas.c - replicas and guard: one pass of hashes over weights, momentum and running
 * statistics serves both. They are cut into blocks of whole or parts of tensors; where the
 * ranks of a node share one copy, they share the hashing. */
#include "check.h"

/* ---- Blocks -------------------------------------------------------------------------- */

/* The name of float i of a block, with its indices in the file's tensor. In a piece each row has
 * some of the tensor's output channels. */
static const char *name_element(const dt_check_block *b, size_t i, char out[DT_ELEMENT_CHARS])
{
    const dt_cut *own = &b->piece.out;

    i += b->first;
    if (b->piece.cut)
        i = i / (size_t)own->count * (size_t)own->whole + (size_t)own->first +
            i % (size_t)own->count;
    return b->param ? dt_param_element(b->param, i, out) : dt_norm_element(b->norm, i, out);
}

static void cut_tensor(dt_replicas *k, dt_check_block b, const float *at, size_t count)
{
    for (b.first = 0; b.first < count; b.first += DT_CHECK_BLOCK) {
        b.count = DT_MIN(count - b.first, (size_t)DT_CHECK_BLOCK);
        b.at = at + b.first;
        k->block[k->blocks++] = b;
    }
}

/* Of home parameters and statistics, or of own pieces. */
static void cut_blocks(const dt_checks *c, dt_replicas *k)
{
    enum { PARAMS = 3, AREAS = 7 };
    static const char *const area[AREAS] = {
        "weights",          "momentum",      "averaged weights", "running mean",
        "running variance", "averaged mean", "averaged variance"};
    const dt_run *r = c->run;
    const dt_domain *own = &r->domain[k->cut ? DT_SLAB_CUT : DT_SLAB_HOME];
    const float *average = k->cut ? own->average.mem : r->average.master;
    const float *base[AREAS] = {own->master.mem, own->momentum.mem, average};
    const float *const rest[] = {r->weights.running_mean, r->weights.running_var,
                                 r->average.running_mean, r->average.running_var};
    const dt_net *net = r->net;

    if (!k->cut)
        memcpy(base + PARAMS, rest, sizeof rest);
    for (int a = 0; a < AREAS; a++)
        for (size_t i = 0; base[a] && i < (a < PARAMS ? net->params : net->norms); i++) {
            const dt_norm *n = &net->norm[i];
            const dt_piece x = dt_model_piece(r->model, a < PARAMS ? i : 0);
            if (a >= PARAMS)
                cut_tensor(k, (dt_check_block){.area = area[a], .norm = n}, base[a] + n->offset,
                           n->channels);
            else if (x.cut == k->cut)
                cut_tensor(k,
                           (dt_check_block){.area = area[a], .param = &net->param[i], .piece = x},
                           base[a] + x.offset, x.count);
        }
}

static dt_status open_copies(dt_checks *c, dt_replicas *k)
{
    const dt_net *net = c->run->net;
    const size_t world = (size_t)k->comm->world;
    const size_t most = 3 * (net->slab_floats / DT_CHECK_BLOCK + net->params) +
                        4 * (net->norm_channels / DT_CHECK_BLOCK + net->norms);
    const size_t part = k->shares ? (size_t)k->comm->node_rank : 0;
    const size_t parts = k->shares ? (size_t)k->comm->node_ranks : 1;

    k->compare = k->shares ? k->comm->nodes > 1 : world > 1;
    k->guard = k->shares || !k->compare;
    DT_TRY(dt_calloc(&k->block, most, sizeof *k->block, "the checks"));
    DT_TRY(dt_calloc(&k->digest, 2 * most, sizeof *k->digest, "the checks"));
    DT_TRY(dt_calloc(&k->wire, 2 * most + world, sizeof *k->wire, "the checks"));
    k->stored = k->digest + most;
    k->value = k->wire + 2 * most;
    cut_blocks(c, k);
    k->mine = part * k->blocks / parts;
    k->end = (part + 1) * k->blocks / parts;
    return DT_OK;
}

dt_status dt_replicas_open(dt_checks *c)
{
    const dt_run *r = c->run;

    c->stored = -1;
    c->replicas[0] = (dt_replicas){.comm = r->comm, .shares = r->shares};
    c->replicas[1] = (dt_replicas){.comm = r->domain[DT_SLAB_CUT].comm, .cut = true};
    DT_TRY(open_copies(c, &c->replicas[0]));
    return c->replicas[1].comm ? open_copies(c, &c->replicas[1]) : DT_OK;
}

static void hash_mine(const dt_checks *c, const dt_replicas *k, uint64_t *digest)
{
#pragma omp parallel for num_threads(c->run->threads) schedule(static)
    for (size_t i = k->mine; i < k->end; i++)
        digest[i] = dt_hash_bytes(k->block[i].at, k->block[i].count * sizeof(float)).low;
}

/* ---- Guard: the same bits as the update wrote -------------------------------------------- */

void dt_replicas_store(dt_checks *c, int64_t step)
{
    for (const dt_replicas *k = c->replicas; k < c->replicas + 2; k++)
        if (k->guard)
            hash_mine(c, k, k->stored);
    c->stored = step;
}

static dt_status check_guard(const dt_checks *c, const dt_replicas *k)
{
    if (!k->guard || c->stored < 0)
        return DT_OK;
    for (size_t i = k->mine; i < k->end; i++) {
        const dt_check_block *b = &k->block[i];
        if (k->digest[i] != k->stored[i])
            return dt_fail(
                DT_CORRUPT,
                "step %lld: %s: '%s' changed in memory after the update "
                "of step %lld, in floats %zu to %zu as they lie there: " DT_CORRUPT_REMEDY,
                (long long)c->step, b->area, b->param ? b->param->name : b->norm->name,
                (long long)c->stored, b->first, b->first + b->count - 1);
    }
    return DT_OK;
}

/* ---- Replicas: the same bits in every copy ------------------------------------------------ */

static bool is_mine(const dt_replicas *k, size_t i)
{
    return i >= k->mine && i < k->end;
}

/* The first block whose hashes differ; k->blocks: none. Per block the largest hash and the
 * largest complement meet; a rank that does not hash a block has no say. */
static dt_status find_block(dt_replicas *k, size_t *first)
{
    const size_t n = k->blocks;

    for (size_t i = 0; i < n; i++) {
        k->wire[i] = is_mine(k, i) ? (int64_t)k->digest[i] : INT64_MIN;
        k->wire[n + i] = is_mine(k, i) ? ~(int64_t)k->digest[i] : INT64_MIN;
    }
    DT_TRY(dt_comm_max_i64(k->comm, k->wire, 2 * n));
    for (*first = 0; *first < n && k->wire[*first] == ~k->wire[n + *first];)
        ++*first;
    return DT_OK;
}

/* *usual: a rank with the most frequent value; *odd: the first with another one, or *usual.
 * Returns whether more than half of those that have a value have the usual one. */
static bool vote(const int64_t *value, int world, int *usual, int *odd)
{
    int held = 0, alike = 0;

    *usual = 0;
    for (int i = 0; i < world; i++) {
        int same = 0;
        held += value[i] >= 0;
        for (int j = 0; j < world; j++)
            same += value[i] >= 0 && value[j] == value[i];
        if (same > alike) {
            alike = same;
            *usual = i;
        }
    }
    for (*odd = 0; *odd < world && (value[*odd] < 0 || value[*odd] == value[*usual]);)
        ++*odd;
    if (*odd == world)
        *odd = *usual;
    return 2 * alike > held;
}

typedef struct copy { /* of a block, as one rank holds it */
    union {
        float at[DT_CHECK_BLOCK];
        unsigned bits[DT_CHECK_BLOCK];
    };
    char host[DT_HOST_CHARS];
} copy;

static dt_status copy_of(const dt_replicas *k, const dt_check_block *b, int rank, copy *to)
{
    memset(to, 0, sizeof *to);
    dt_host_name(to->host);
    memcpy(to->at, b->at, b->count * sizeof *to->at);
    return dt_comm_bcast(k->comm, to, sizeof *to, rank);
}

/* Its number in the whole run. */
static int rank_of(const dt_checks *c, const dt_replicas *k, int rank)
{
    const int parts = c->run->grid.parts;
    return k->cut ? rank * parts + c->run->comm->rank % parts : rank;
}

static dt_status differs(const dt_checks *c, const dt_replicas *k, const dt_check_block *b)
{
    char name[DT_ELEMENT_CHARS];
    copy odd, usual;
    int odd_rank, usual_rank;
    size_t i = 0;
    const bool known = vote(k->value, k->comm->world, &usual_rank, &odd_rank);

    DT_TRY(copy_of(k, b, odd_rank, &odd));
    DT_TRY(copy_of(k, b, usual_rank, &usual));
    while (i + 1 < b->count && odd.bits[i] == usual.bits[i])
        i++;
    return dt_fail(DT_CORRUPT,
                   "step %lld: %s: %s differs between %s: rank %d on %s has "
                   "%.9g (bits %08x), %s%d on %s has %.9g (bits %08x)%s: " DT_CORRUPT_REMEDY,
                   (long long)c->step, b->area, name_element(b, i, name),
                   k->shares ? "nodes that share a copy" : "ranks", rank_of(c, k, odd_rank),
                   odd.host, (double)odd.at[i], odd.bits[i],
                   known ? "most, such as rank " : "rank ", rank_of(c, k, usual_rank), usual.host,
                   (double)usual.at[i], usual.bits[i],
                   known ? "" : "; which is right cannot be told from two");
}

/* Alike on the ranks that have these copies, not agreed. */
static dt_status compare_copies(dt_checks *c, dt_replicas *k)
{
    size_t block;

    if (!k->compare)
        return DT_OK;
    DT_TRY(find_block(k, &block));
    if (block == k->blocks)
        return DT_OK;
    /* Each rank's hash of the block, without its top bit; -1: the rank does not hash it. */
    memset(k->value, -1, (size_t)k->comm->world * sizeof *k->value);
    if (is_mine(k, block))
        k->value[k->comm->rank] = (int64_t)(k->digest[block] & INT64_MAX);
    DT_TRY(dt_comm_max_i64(k->comm, k->value, (size_t)k->comm->world));
    return differs(c, k, &k->block[block]);
}

dt_status dt_replicas_local(dt_checks *c)
{
    for (const dt_replicas *k = c->replicas; k < c->replicas + 2; k++) {
        hash_mine(c, k, k->digest);
        DT_TRY(check_guard(c, k));
    }
    return DT_OK;
}

dt_status dt_replicas_check(dt_checks *c)
{
    dt_status st = dt_replicas_local(c);

    if (c->replicas[0].guard || c->replicas[1].comm)
        DT_TRY(dt_comm_agree(c->run->comm, st));
    for (dt_replicas *k = c->replicas; k < c->replicas + 2 && k->comm; k++) {
        st = compare_copies(c, k);
        if (st != DT_OK || k->cut) /* copies of pieces are some ranks' alone */
            DT_TRY(dt_comm_agree(c->run->comm, st));
    }
    return DT_OK;
}
