/* replay_content.c - what may be in a file after a power cut, and files by their content; see
 * replay.h. */
#include "replay.h"

#include <errno.h>
#include <stdlib.h>

/* ---- Digest to number ---------------------------------------------------------------- */

static size_t table_find(const table *t, dt_digest key)
{
    size_t i = key.low & (t->room - 1);
    while (t->values[i] != NOWHERE && (t->keys[i].low != key.low || t->keys[i].high != key.high))
        i = (i + 1) & (t->room - 1);
    return i;
}

static void table_widen(table *t)
{
    const table old = *t;

    t->room = old.room ? 2 * old.room : 1024;
    t->keys = calloc(t->room, sizeof *t->keys);
    t->values = calloc(t->room, sizeof *t->values);
    if (!t->keys || !t->values)
        die("out of memory");
    for (size_t i = 0; i < t->room; i++)
        t->values[i] = NOWHERE;
    for (size_t i = 0; i < old.room; i++)
        if (old.values[i] != NOWHERE) {
            const size_t k = table_find(t, old.keys[i]);
            t->keys[k] = old.keys[i];
            t->values[k] = old.values[i];
        }
    free(old.keys);
    free(old.values);
}

int *table_slot(table *t, dt_digest key, bool *is_new)
{
    if (2 * t->count >= t->room)
        table_widen(t);
    const size_t i = table_find(t, key);
    *is_new = t->values[i] == NOWHERE;
    if (*is_new) {
        t->keys[i] = key;
        t->count++;
        t->values[i] = 0;
    }
    return &t->values[i];
}

/* ---- Contents ------------------------------------------------------------------------- */

int pool_add(pool *p, bytes content)
{
    const dt_digest digest = dt_hash_bytes(content.data, content.size);
    char path[sizeof p->path + 32];
    bool is_new;

    int *slot = table_slot(&p->index, digest, &is_new);
    if (!is_new)
        return *slot;
    *slot = p->count;
    p->digests = grow(p->digests, (size_t)p->count, sizeof *p->digests);
    p->digests[p->count] = digest;
    snprintf(path, sizeof path, "%s/%d", p->path, p->count);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(content.data, 1, content.size, f) != content.size || fclose(f) != 0)
        die("%s: %s", path, strerror(errno));
    return p->count++;
}

/* ---- Variants ------------------------------------------------------------------------- */

typedef enum filling { AS_WRITTEN, ZEROS, GARBAGE } filling;

static void extend(bytes *b, size_t size)
{
    if (size > b->size) {
        b->data = realloc(b->data, size);
        if (!b->data)
            die("out of memory");
        memset(b->data + b->size, 0, size - b->size);
    }
    b->size = size;
}

/* Bytes that no program wrote: a function of their place. */
static unsigned char garbage(size_t at)
{
    return (unsigned char)((at * 0x9e3779b97f4a7c15ull) >> 37 | 1);
}

/* Apply the part [from, to) of one edit; its bytes as written, or others. */
static void apply(bytes *b, const edit *e, size_t from, size_t to, filling with)
{
    const size_t offset = (size_t)e->offset;

    if (e->call == SHIM_TRUNCATE) {
        extend(b, offset); /* which also shortens */
        return;
    }
    if (e->call == SHIM_ALLOCATE) {
        if (offset > b->size)
            extend(b, offset);
        return;
    }
    if (from >= to)
        return;
    if (offset + to > b->size)
        extend(b, offset + to);
    for (size_t i = from; i < to; i++)
        b->data[offset + i] = with == AS_WRITTEN ? e->data[i]
                              : with == ZEROS    ? 0
                                                 : garbage(offset + i);
}

/* How the pending edits of one file are taken: all but `without` of those before `end`,
 * that one in part; each write without the part [cut_from, cut_to) of its length, in 64ths,
 * which is filled with something else. */
typedef struct recipe {
    size_t end, without;
    int part;             /* 64ths of edit number `end` that are there too */
    int cut_from, cut_to; /* 64ths */
    filling with;
} recipe;

typedef struct cook {
    const history *h;
    const node *file;
    size_t durable, pending; /* edits */
    pool *p;
    variants *out;
} cook;

static void add_variant(cook *c, recipe r, const char *label)
{
    bytes b = {NULL, 0};

    extend(&b, c->file->initial.size ? c->file->initial.size : 1);
    if (c->file->initial.size)
        memcpy(b.data, c->file->initial.data, c->file->initial.size);
    b.size = c->file->initial.size;
    for (size_t i = 0; i < c->durable + c->pending; i++) {
        const edit *e = &c->h->edits[c->file->edits[i]];
        const size_t k = i - c->durable, n = e->size;
        if (i < c->durable || (k < r.end && k != r.without)) {
            apply(&b, e, 0, n, AS_WRITTEN);
            if (i >= c->durable && r.cut_to > r.cut_from)
                apply(&b, e, n * (size_t)r.cut_from / 64, n * (size_t)r.cut_to / 64, r.with);
        } else if (k == r.end && r.part > 0) {
            apply(&b, e, 0, n * (size_t)r.part / 64, AS_WRITTEN);
        }
    }
    const int content = pool_add(c->p, b);
    free(b.data);
    for (size_t i = 0; i < c->out->count; i++)
        if (c->out->list[i].content == content)
            return;
    variants *v = c->out;
    v->list = grow(v->list, v->count, sizeof *v->list);
    v->list[v->count].content = content;
    snprintf(v->list[v->count++].label, MAX_LABEL, "%s", label);
}

/* A long row of writes is thinned out to its ends and eight places between. */
static bool is_place(size_t k, size_t n)
{
    return n <= 10 || k <= 1 || k + 1 >= n || k % (n / 8) == 0;
}

static void add_pending(cook *c)
{
    const size_t n = c->pending, all = SIZE_MAX;
    char label[MAX_LABEL];

    add_variant(c, (recipe){.end = 0, .without = all}, "none of it");
    for (size_t k = 0; k < n; k++) {
        if (!is_place(k, n))
            continue;
        snprintf(label, sizeof label, "%zu of %zu", k, n);
        add_variant(c, (recipe){.end = k, .without = all}, label);
        snprintf(label, sizeof label, "%zu and a half of %zu", k, n);
        add_variant(c, (recipe){.end = k, .without = all, .part = 32}, label);
        snprintf(label, sizeof label, "all but number %zu", k + 1);
        add_variant(c, (recipe){.end = n, .without = k}, label);
    }
    add_variant(c, (recipe){.end = n - 1, .without = all, .part = 63}, "nearly all");
    add_variant(c, (recipe){n, all, 0, 0, 64, ZEROS}, "zeros");
    add_variant(c, (recipe){n, all, 0, 32, 64, ZEROS}, "zeros at the end");
    add_variant(c, (recipe){n, all, 0, 0, 64, GARBAGE}, "garbage");
    add_variant(c, (recipe){n, all, 0, 31, 33, GARBAGE}, "garbage in the middle");
}

bool variants_make(const history *h, int file, size_t cut, pool *p, variants *v)
{
    const node *f = &h->nodes[file];
    cook c = {.h = h, .file = f, .p = p, .out = v};

    while (c.durable < f->edit_count && h->edits[f->edits[c.durable]].durable < cut)
        c.durable++;
    while (c.durable + c.pending < f->edit_count &&
           h->edits[f->edits[c.durable + c.pending]].at < cut)
        c.pending++;
    if (v->made && v->durable == c.durable && v->pending == c.pending)
        return c.pending > 0;
    v->count = 0;
    free(v->list);
    v->list = NULL;
    v->durable = c.durable;
    v->pending = c.pending;
    v->made = true;
    add_variant(&c, (recipe){.end = c.pending, .without = SIZE_MAX}, "all of it");
    if (c.pending > 0)
        add_pending(&c);
    return c.pending > 0;
}
