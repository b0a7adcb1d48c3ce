/* replay_states.c - every choice at one cut; see replay.h. */
#include "replay.h"

#include <stdlib.h>

int state_entry(const state *s, int e)
{
    const entry *x = &s->h->entries[e];

    for (size_t k = x->turn_count; k-- > 0;)
        if (s->kept[x->turns[k].change])
            return x->turns[k].to;
    return x->initial;
}

/* What is open at one cut. */
typedef struct choices {
    state *s;
    int *changes; /* pending, in order */
    size_t change_count;
    int *files; /* with pending edits */
    size_t file_count;
    uint64_t random;
} choices;

static uint64_t draw(choices *c, uint64_t below) /* splitmix64 */
{
    uint64_t z = (c->random += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return (z ^ (z >> 31)) % below;
}

static bool needs(const choices *c, int later, int earlier)
{
    const change *x = &c->s->h->changes[later];
    for (int k = 0; k < x->entries; k++)
        if (x->before[k] == earlier)
            return true;
    return false;
}

/* Whether all that a kept change stands on is kept. */
static bool stands(const choices *c, int n)
{
    const change *x = &c->s->h->changes[n];
    for (int k = 0; k < x->entries; k++)
        if (x->before[k] != NOWHERE && !c->s->kept[x->before[k]])
            return false;
    return true;
}

static bool is_legal(const choices *c)
{
    for (size_t i = 0; i < c->change_count; i++)
        if (c->s->kept[c->changes[i]] && !stands(c, c->changes[i]))
            return false;
    return true;
}

/* Lose what stands on something lost. */
static void settle(const choices *c)
{
    for (size_t i = 0; i < c->change_count; i++)
        if (!stands(c, c->changes[i]))
            c->s->kept[c->changes[i]] = false;
}

/* Keep one change and all that it stands on. */
static void keep_with_base(const choices *c, size_t i)
{
    c->s->kept[c->changes[i]] = true;
    for (size_t k = i; k-- > 0;)
        for (size_t j = k + 1; j <= i; j++)
            if (c->s->kept[c->changes[j]] && needs(c, c->changes[j], c->changes[k]))
                c->s->kept[c->changes[k]] = true;
}

static void open_choices(choices *c, pool *p)
{
    state *s = c->s;
    const history *h = s->h;

    for (size_t i = 0; i < h->change_count; i++) {
        const change *x = &h->changes[i];
        s->kept[i] = x->at < s->cut && x->durable < s->cut;
        if (x->at < s->cut && x->durable >= s->cut) {
            c->changes = grow(c->changes, c->change_count, sizeof *c->changes);
            c->changes[c->change_count++] = (int)i;
        }
    }
    for (size_t i = 0; i < h->node_count; i++) {
        s->choice[i] = 0;
        if (h->nodes[i].folder || !variants_make(h, (int)i, s->cut, p, &s->files[i]))
            continue;
        c->files = grow(c->files, c->file_count, sizeof *c->files);
        c->files[c->file_count++] = (int)i;
    }
}

/* ---- All of them ---------------------------------------------------------------------- */

/* Whether 2^changes * product of variants is at most `most`. */
static bool is_small(const choices *c, uint64_t most)
{
    uint64_t n = 1;

    for (size_t i = 0; i < c->change_count; i++)
        if ((n *= 2) > most)
            return false;
    for (size_t i = 0; i < c->file_count; i++)
        if ((n *= c->s->files[c->files[i]].count) > most)
            return false;
    return true;
}

static void visit_all(choices *c, state_visit *visit, void *self)
{
    state *s = c->s;

    for (uint64_t mask = 0; mask >> c->change_count == 0; mask++) {
        for (size_t i = 0; i < c->change_count; i++)
            s->kept[c->changes[i]] = (mask >> i) & 1;
        if (!is_legal(c))
            continue;
        size_t i;
        do { /* count in mixed radix */
            visit(self, s);
            for (i = 0; i < c->file_count; i++) {
                if (++s->choice[c->files[i]] < s->files[c->files[i]].count)
                    break;
                s->choice[c->files[i]] = 0;
            }
        } while (i < c->file_count);
    }
}

/* ---- Some of them --------------------------------------------------------------------- */

/* Patterns of the changes: a prefix of them (n + 1 of these), one lost, one kept. */
static void set_changes(const choices *c, size_t pattern)
{
    const size_t n = c->change_count;

    for (size_t i = 0; i < n; i++)
        c->s->kept[c->changes[i]] =
            pattern <= n ? i < pattern : pattern <= 2 * n && i != pattern - n - 1;
    if (pattern > 2 * n)
        keep_with_base(c, pattern - 2 * n - 1);
    settle(c);
}

/* Patterns of the files: all whole or all as before (2), then one file in each variant with
 * the others whole or as before. */
static void set_files(const choices *c, size_t pattern)
{
    state *s = c->s;
    const size_t others = pattern % 2;
    size_t k = pattern / 2;

    for (size_t i = 0; i < c->file_count; i++)
        s->choice[c->files[i]] = others < s->files[c->files[i]].count ? others : 0;
    if (k-- == 0)
        return;
    for (size_t i = 0; i < c->file_count; i++) {
        const size_t n = s->files[c->files[i]].count;
        if (k < n) {
            s->choice[c->files[i]] = k;
            return;
        }
        k -= n;
    }
}

static void set_random(choices *c)
{
    static const uint64_t odds[] = {2, 4, 6, 7}; /* of 8 that a change is kept */
    const uint64_t odd = odds[draw(c, 4)];
    state *s = c->s;

    for (size_t i = 0; i < c->change_count; i++)
        s->kept[c->changes[i]] = draw(c, 8) < odd;
    settle(c);
    for (size_t i = 0; i < c->file_count; i++)
        s->choice[c->files[i]] = draw(c, s->files[c->files[i]].count);
}

/* The systematic part is every pattern of the changes with every one of the files; where
 * that is more than half of the limit, a random part of it. */
static void visit_some(choices *c, uint64_t most, state_visit *visit, void *self)
{
    size_t radices = 0;

    for (size_t i = 0; i < c->file_count; i++)
        radices += c->s->files[c->files[i]].count;
    const uint64_t a = 3 * c->change_count + 1, b = 2 * (radices + 1);
    const uint64_t first = a * b <= most / 2 ? a * b : most / 2;
    for (uint64_t i = 0; i < first; i++) {
        const uint64_t k = a * b <= most / 2 ? i : draw(c, a * b);
        set_changes(c, (size_t)(k % a));
        set_files(c, (size_t)(k / a));
        visit(self, c->s);
    }
    for (uint64_t i = first; i < most; i++) {
        set_random(c);
        visit(self, c->s);
    }
}

bool states_at_cut(state *s, pool *p, const limits *l, state_visit *visit, void *self)
{
    choices c = {.s = s, .random = l->seed ^ (s->cut * 0xd1342543de82ef95ull)};

    open_choices(&c, p);
    const bool small = is_small(&c, l->per_cut);
    if (small)
        visit_all(&c, visit, self);
    else
        visit_some(&c, l->per_cut, visit, self);
    free(c.changes);
    free(c.files);
    return small;
}
