/* arena.c - where blocks with lifetimes lie in one arena. */
#include "plan.h"

static bool overlap_in_time(const dt_block *a, const dt_block *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* Lowest offset where b fits between the placed blocks, which are sorted by offset. */
static size_t place_one(dt_block *const *placed, size_t count, const dt_block *b)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const dt_block *other = placed[i];
        if (!overlap_in_time(other, b))
            continue;
        if (at + b->bytes <= other->offset)
            return at;
        const size_t end = dt_align(other->offset + other->bytes, 64);
        at = DT_MAX(at, end);
    }
    return at;
}

static int larger_first(const void *pa, const void *pb)
{
    const dt_block *a = *(dt_block *const *)pa, *b = *(dt_block *const *)pb;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return a < b ? -1 : a > b; /* same array: the order of creation */
}

dt_status dt_arena_place(dt_block *block, size_t count, size_t *total)
{
    dt_block **order = NULL; /* by size; once placed, by offset */
    size_t end = 0;

    DT_TRY(dt_calloc(&order, count, sizeof *order, "memory planning"));
    for (size_t i = 0; i < count; i++)
        order[i] = &block[i];
    qsort(order, count, sizeof *order, larger_first);

    for (size_t i = 0; i < count; i++) {
        dt_block *b = order[i];
        b->offset = place_one(order, i, b);
        end = DT_MAX(end, b->offset + b->bytes);
        size_t k = i;
        for (; k > 0 && order[k - 1]->offset > b->offset; k--)
            order[k] = order[k - 1];
        order[k] = b;
    }
    *total = dt_align(end, 64);
    free(order);
    return DT_OK;
}
