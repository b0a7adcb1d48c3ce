/* strips.c - cutting the tree's buckets where teams have unequal ranks, and the
 * memory that this takes. */
#include "strips.h"

#include <stdlib.h>

/* ---- Strips and pieces ----------------------------------------------------------- */

static int strips_team_ranks(const dt_exchange *x, int team)
{
    return dt_exchange_team_first(x, team + 1) - dt_exchange_team_first(x, team);
}

static int strips_team_of(const dt_exchange *x, int rank)
{
    int team = 0;

    if (!x->shares)
        return rank;
    while (dt_exchange_team_first(x, team + 1) <= rank)
        team++;
    return team;
}

/* The strip that begins at float `at` of bucket b, and its owners where asked for. */
static dt_span strips_at(const dt_exchange *x, size_t b, size_t at, int *owner)
{
    const dt_span bucket = x->bucket[b];
    size_t end = bucket.first + bucket.count;

    for (int t = 0; t < dt_exchange_teams(x); t++) {
        const int ranks = strips_team_ranks(x, t), i = dt_spans_part(bucket, at, ranks);
        const dt_span slice = dt_spans_slice(bucket, i, ranks);
        if (slice.first + slice.count < end)
            end = slice.first + slice.count;
        if (owner)
            owner[t] = dt_exchange_team_first(x, t) + i;
    }
    return (dt_span){at, end - at};
}

static dt_span strips_slice(const dt_exchange *x, size_t b, int rank)
{
    const int team = strips_team_of(x, rank);
    return dt_spans_slice(x->bucket[b], rank - dt_exchange_team_first(x, team),
                          strips_team_ranks(x, team));
}

/* ---- Memory ---------------------------------------------------------------------- */

static size_t strips_units(const dt_exchange *x, int team)
{
    size_t units = 0;

    for (int i = 0; i < x->outer.operands; i++)
        if (i < x->outer.start[team] || i >= x->outer.start[team + 1])
            units += tree_half(x, i) ? 1 : 2;
    return units;
}

size_t dt_strips_extra(const dt_exchange *x, int rank)
{
    const int team = strips_team_of(x, rank);
    const size_t units = strips_units(x, team);
    size_t floats = 0;

    for (size_t b = 0; b < x->buckets; b++) {
        const dt_span slice = strips_slice(x, b, rank);
        for (size_t at = slice.first; at < slice.first + slice.count;) {
            const dt_span strip = strips_at(x, b, at, NULL);
            floats += units * tree_unit(tree_piece(x, strip, team));
            at += strip.count;
        }
    }
    return floats;
}

/* Strips of all buckets; with a state, into it. */
static size_t strips_cut(const dt_exchange *x, tree_state *t)
{
    const int team = dt_exchange_team(x), teams = dt_exchange_teams(x);
    float *received = x->extra;
    size_t n = 0;

    for (size_t b = 0; b < x->buckets; b++) {
        const dt_span slice = dt_exchange_own_slice(x, b);
        if (t)
            t->bucket[b].strip = t->strip + n;
        for (size_t at = slice.first; at < slice.first + slice.count; n++) {
            int *owner = t ? t->owner + n * (size_t)teams : NULL;
            const dt_span strip = strips_at(x, b, at, owner);
            at += strip.count;
            if (!t)
                continue;
            t->strip[n] = (tree_strip){strip, owner, received};
            t->bucket[b].strips++;
            received += strips_units(x, team) * tree_unit(tree_piece(x, strip, team));
        }
    }
    return n;
}

/* The team's partial sum is made where its first operand lies. */
static void strips_find_parts(const dt_exchange *x, tree_state *t)
{
    const int team = dt_exchange_team(x);
    const dt_subtree *root = x->outer.part + x->outer.start[team];
    int j = 0;

    for (int i = 0, rank = 0; i < x->inner.operands && j < x->inner.roots; i++) {
        while (x->inner.start[rank + 1] <= i)
            rank++;
        if (x->inner.part[i].first == root[j].first)
            t->part[j++] =
                dt_exchange_team_partial(x, x->team_first + rank, i - x->inner.start[rank]);
    }
    size_t place = 0;
    for (int i = 0; i < x->outer.operands; i++) {
        t->place[i] = place;
        if (i < x->outer.start[team] || i >= x->outer.start[team + 1])
            place += tree_half(x, i) ? 1 : 2;
    }
}

static dt_status strips_take(dt_exchange *x, tree_state *t)
{
    const char *what = "the exchange";
    const int others = dt_exchange_teams(x) - 1;
    const size_t strips = strips_cut(x, NULL), roots = (size_t)x->inner.roots,
                 outer = (size_t)x->outer.operands, inner = (size_t)x->inner.operands;

    DT_TRY(dt_calloc(&t->bucket, x->buckets, sizeof *t->bucket, what));
    DT_TRY(dt_calloc(&t->strip, strips + 1, sizeof *t->strip, what));
    DT_TRY(dt_calloc(&t->owner, (strips + 1) * ((size_t)others + 1), sizeof *t->owner, what));
    DT_TRY(dt_calloc(&t->part, roots, sizeof *t->part, what));
    DT_TRY(dt_calloc(&t->result, roots, sizeof *t->result, what));
    DT_TRY(dt_calloc(&t->place, outer, sizeof *t->place, what));
    DT_TRY(dt_calloc(&t->operand, DT_MAX(inner, outer), sizeof *t->operand, what));
    t->requests = strips * (outer - roots + (size_t)others * (roots + 2)) + 1;
    DT_TRY(dt_calloc(&t->request, t->requests, sizeof *t->request, what));
    for (size_t i = 0; i < t->requests; i++)
        t->request[i] = MPI_REQUEST_NULL;
    return dt_exchange_scratch(x, DT_MAX(x->inner.depth, x->outer.depth));
}

dt_status dt_strips_open(dt_exchange *x)
{
    const int others = dt_exchange_teams(x) - 1;
    tree_state *t = NULL;

    DT_TRY(dt_calloc(&t, 1, sizeof *t, "the exchange"));
    x->state = t;
    DT_TRY(strips_take(x, t));
    strips_cut(x, t);
    strips_find_parts(x, t);
    MPI_Request *r = t->request;
    for (size_t b = 0; b < x->buckets; b++) {
        tree_bucket *k = &t->bucket[b];
        const int strips = (int)k->strips;
        k->ins = strips * (x->outer.operands - x->inner.roots);
        k->outs = strips * others * x->inner.roots;
        k->backs = strips * 2 * others;
        k->in = r;
        k->out = k->in + k->ins;
        k->back = k->out + k->outs;
        r = k->back + k->backs;
    }
    return x->shares ? dt_exchange_own_slices(x) : DT_OK;
}

void dt_strips_close(dt_exchange *x)
{
    tree_state *t = x->state;

    for (size_t i = 0; t->request && i < t->requests; i++) {
        if (t->request[i] == MPI_REQUEST_NULL)
            continue;
        MPI_Cancel(&t->request[i]);
        MPI_Request_free(&t->request[i]);
    }
    free(t->request);
    free(t->operand);
    free(t->place);
    free(t->result);
    free(t->part);
    free(t->owner);
    free(t->strip);
    free(t->bucket);
    free(t);
}
