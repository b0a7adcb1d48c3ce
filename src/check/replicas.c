/* replicas.c - replicas and guard: one pass of hashes over weights, momentum and running
 * statistics serves both. They are cut into blocks of whole or parts of tensors; where the
 * ranks of a node share one copy, they share the hashing. */
#include "check_internal.h"

#include <stdio.h>
#include <stdlib.h>

static const char *area_text(dt_area area)
{
    static const char *const text[DT_AREA_COUNT] = {
#define X(name, words) words,
        DT_AREA_LIST(X)
#undef X
    };
    return text[area];
}

/* ---- Blocks -------------------------------------------------------------------------- */

void dt_element_name(const dt_checks *c, const dt_check_block *b, size_t i,
                     char out[DT_ELEMENT_CHARS])
{
    if (b->area == DT_AREA_weights || b->area == DT_AREA_momentum)
        dt_param_element(dt_net_param(c->s.net, b->tensor), b->first + i, out);
    else
        dt_norm_element(dt_net_norm(c->s.net, b->tensor), b->first + i, out);
}

static const char *block_tensor(const dt_checks *c, const dt_check_block *b)
{
    return b->area == DT_AREA_weights || b->area == DT_AREA_momentum
               ? dt_net_param(c->s.net, b->tensor)->name
               : dt_net_norm(c->s.net, b->tensor)->name;
}

static size_t cut_tensor(dt_check_block *out, dt_area area, size_t tensor, const float *at,
                         size_t count)
{
    size_t blocks = 0;

    for (size_t first = 0; first < count; first += DT_CHECK_BLOCK, blocks++)
        if (out)
            out[blocks] = (dt_check_block){
                .area = area,
                .tensor = tensor,
                .first = first,
                .at = at + first,
                .count = count - first < DT_CHECK_BLOCK ? count - first : DT_CHECK_BLOCK};
    return blocks;
}

/* Blocks of all areas; out may be NULL, to count them. */
static size_t cut_areas(const dt_checks *c, dt_check_block *out)
{
    const float *const base[DT_AREA_COUNT] = {[DT_AREA_weights] = c->s.weights.master,
                                              [DT_AREA_momentum] = c->s.momentum,
                                              [DT_AREA_mean] = c->s.weights.running_mean,
                                              [DT_AREA_var] = c->s.weights.running_var};
    size_t n = 0;

    for (int a = DT_AREA_weights; a <= DT_AREA_momentum; a++)
        for (size_t i = 0; i < dt_net_param_count(c->s.net); i++) {
            const dt_param *p = dt_net_param(c->s.net, i);
            n += cut_tensor(out ? out + n : NULL, (dt_area)a, i, base[a] + p->offset, p->count);
        }
    for (int a = DT_AREA_mean; a <= DT_AREA_var; a++)
        for (size_t i = 0; i < dt_net_norm_count(c->s.net); i++) {
            const dt_norm *m = dt_net_norm(c->s.net, i);
            n += cut_tensor(out ? out + n : NULL, (dt_area)a, i, base[a] + m->offset, m->channels);
        }
    return n;
}

dt_status dt_replicas_open(dt_checks *c, dt_replicas *k)
{
    const size_t world = (size_t)dt_comm_world(c->s.comm);
    const size_t part = c->s.shares ? (size_t)dt_comm_node_rank(c->s.comm) : 0;
    const size_t parts = c->s.shares ? (size_t)dt_comm_node_ranks(c->s.comm) : 1;

    *k = (dt_replicas){.blocks = cut_areas(c, NULL), .stored_step = -1};
    k->mine = part * k->blocks / parts;
    k->end = (part + 1) * k->blocks / parts;
    k->compare = !c->s.diverges && (c->s.shares ? dt_comm_nodes(c->s.comm) > 1 : world > 1);
    k->guard = c->s.shares || !k->compare;
    DT_TRY(dt_calloc(&k->block, k->blocks, sizeof *k->block, "the checks"));
    DT_TRY(dt_calloc(&k->digest, k->blocks, sizeof *k->digest, "the checks"));
    DT_TRY(dt_calloc(&k->stored, k->blocks, sizeof *k->stored, "the checks"));
    DT_TRY(dt_calloc(&k->wire, 2 * k->blocks, sizeof *k->wire, "the checks"));
    DT_TRY(dt_calloc(&k->value, world, sizeof *k->value, "the checks"));
    DT_TRY(dt_calloc(&k->room, DT_CHECK_BLOCK, sizeof *k->room, "the checks"));
    cut_areas(c, k->block);
    return DT_OK;
}

void dt_replicas_close(dt_replicas *k)
{
    free(k->block);
    free(k->digest);
    free(k->stored);
    free(k->wire);
    free(k->value);
    free(k->room);
    *k = (dt_replicas){0};
}

static void copies_hash(const dt_checks *c, const dt_replicas *k, uint64_t *digest)
{
#pragma omp parallel for num_threads(c->s.threads) schedule(static)
    for (size_t i = k->mine; i < k->end; i++)
        digest[i] = dt_hash_bytes(k->block[i].at, k->block[i].count * sizeof(float)).low;
}

/* ---- Slices: the same bits as the update wrote ------------------------------------------ */

void dt_replicas_store(dt_checks *c)
{
    dt_replicas *k = &c->replicas;

    if (!k->guard)
        return;
    copies_hash(c, k, k->stored);
    k->stored_step = c->updated;
}

static dt_status check_guard(const dt_checks *c)
{
    const dt_replicas *k = &c->replicas;

    if (!k->guard || k->stored_step != c->updated)
        return DT_OK;
    for (size_t i = k->mine; i < k->end; i++) {
        const dt_check_block *b = &k->block[i];
        if (k->digest[i] != k->stored[i])
            return dt_fail(
                DT_CORRUPT,
                "step %lld: %s: '%s' changed in memory after the update "
                "of step %lld, in floats %zu to %zu as they lie there: " DT_CORRUPT_REMEDY,
                (long long)c->step, area_text(b->area), block_tensor(c, b),
                (long long)k->stored_step, b->first, b->first + b->count - 1);
    }
    return DT_OK;
}

/* ---- Replicas: the same bits in every copy ------------------------------------------------ */

static bool copies_mine(const dt_replicas *k, size_t i)
{
    return i >= k->mine && i < k->end;
}

/* The first block whose hashes differ; k->blocks: none. Per block the largest hash and the
 * largest complement meet; a rank that does not hash a block has no say. */
static dt_status replicas_differ(dt_checks *c, size_t *first)
{
    dt_replicas *k = &c->replicas;
    const size_t n = k->blocks;

    for (size_t i = 0; i < n; i++) {
        k->wire[i] = copies_mine(k, i) ? (int64_t)k->digest[i] : INT64_MIN;
        k->wire[n + i] = copies_mine(k, i) ? ~(int64_t)k->digest[i] : INT64_MIN;
    }
    DT_TRY(dt_comm_max_i64(c->s.comm, k->wire, 2 * n));
    for (*first = 0; *first < n && k->wire[*first] == ~k->wire[n + *first];)
        ++*first;
    return DT_OK;
}

/* The first float of the block in which any copy differs from that of the lowest rank. */
static dt_status replicas_element(dt_checks *c, size_t block, size_t *element)
{
    dt_replicas *k = &c->replicas;
    const dt_check_block *b = &k->block[block];
    const bool mine = copies_mine(k, block);
    int64_t root = mine ? -(int64_t)dt_comm_rank(c->s.comm) : INT64_MIN;

    DT_TRY(dt_comm_max_i64(c->s.comm, &root, 1));
    if (root == -(int64_t)dt_comm_rank(c->s.comm))
        memcpy(k->room, b->at, b->count * sizeof *k->room);
    DT_TRY(dt_comm_bcast(c->s.comm, k->room, b->count * sizeof *k->room, (int)-root));
    size_t i = mine ? 0 : b->count;
    while (i < b->count && memcmp(&k->room[i], &b->at[i], sizeof *k->room) == 0)
        i++;
    int64_t least = -(int64_t)i;
    DT_TRY(dt_comm_max_i64(c->s.comm, &least, 1));
    *element = (size_t)-least;
    return DT_OK;
}

/* The bits of one element on every rank; -1: the rank does not hold it. */
static dt_status replicas_values(dt_checks *c, size_t block, size_t element)
{
    dt_replicas *k = &c->replicas;
    const int world = dt_comm_world(c->s.comm);

    for (int i = 0; i < world; i++)
        k->value[i] = INT64_MIN;
    int64_t *own = &k->value[dt_comm_rank(c->s.comm)];
    *own = -1;
    if (copies_mine(k, block)) {
        uint32_t bits;
        memcpy(&bits, &k->block[block].at[element], sizeof bits);
        *own = (int64_t)bits;
    }
    return dt_comm_max_i64(c->s.comm, k->value, (size_t)world);
}

/* Ranks that hold a value; *usual, *odd: a rank with the most frequent one, and the first
 * with another; *alike: how many have the usual one. */
static int replicas_vote(const int64_t *value, int world, int *usual, int *odd, int *alike)
{
    int held = 0;

    *usual = *odd = -1;
    *alike = 0;
    for (int i = 0; i < world; i++) {
        int same = 0;
        held += value[i] >= 0;
        for (int j = 0; j < world; j++)
            same += value[i] >= 0 && value[j] == value[i];
        if (same > *alike) {
            *alike = same;
            *usual = i;
        }
    }
    for (int i = world; i-- > 0;)
        if (value[i] >= 0 && (value[i] != value[*usual] || (*odd < 0 && i != *usual)))
            *odd = i;
    return held;
}

static float value_of(int64_t bits)
{
    const uint32_t word = (uint32_t)bits;
    float f;

    memcpy(&f, &word, sizeof f);
    return f;
}

static dt_status replicas_fail(dt_checks *c, size_t block, size_t element)
{
    const dt_replicas *k = &c->replicas;
    char name[DT_ELEMENT_CHARS], host[2][DT_HOST_CHARS] = {"", ""};
    int usual, odd, alike;
    const int held = replicas_vote(k->value, dt_comm_world(c->s.comm), &usual, &odd, &alike);

    for (int i = 0; i < 2; i++) {
        dt_host_name(host[i]);
        DT_TRY(dt_comm_bcast(c->s.comm, host[i], sizeof host[i], i ? odd : usual));
    }
    dt_element_name(c, &k->block[block], element, name);
    const bool known = 2 * alike > held;
    return dt_fail(DT_CORRUPT,
                   "step %lld: %s: %s differs between %s: rank %d on %s has "
                   "%.9g (bits %08x), %s%d on %s has %.9g (bits %08x)%s: " DT_CORRUPT_REMEDY,
                   (long long)c->step, area_text(k->block[block].area), name,
                   c->s.shares ? "nodes that share a copy" : "ranks", odd, host[1],
                   (double)value_of(k->value[odd]), (unsigned)k->value[odd],
                   known ? "most, such as rank " : "rank ", usual, host[0],
                   (double)value_of(k->value[usual]), (unsigned)k->value[usual],
                   known ? "" : "; which is right cannot be told from two");
}

static dt_status check_replicas(dt_checks *c)
{
    dt_replicas *k = &c->replicas;
    size_t block, element;

    if (!k->compare)
        return DT_OK;
    DT_TRY(replicas_differ(c, &block));
    if (block == k->blocks)
        return DT_OK;
    DT_TRY(replicas_element(c, block, &element));
    if (element == k->block[block].count) /* the hash saw it, and a second look did not */
        element = 0;
    DT_TRY(replicas_values(c, block, element));
    return dt_comm_agree(c->s.comm, replicas_fail(c, block, element));
}

dt_status dt_replicas_local(dt_checks *c)
{
    const dt_replicas *k = &c->replicas;

    copies_hash(c, k, k->digest);
    return check_guard(c);
}

dt_status dt_replicas_check(dt_checks *c)
{
    const dt_status st = dt_replicas_local(c);

    if (c->replicas.guard)
        DT_TRY(dt_comm_agree(c->s.comm, st));
    return check_replicas(c);
}
