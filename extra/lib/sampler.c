/* sampler.c - which data a rank has, in which order, and the rate for so many ranks. */
#include "lib.h"

/* floor(rank * total / size), which would overflow. */
static int64_t sampler_cut(int64_t total, int rank, int size)
{
    return total / size * rank + total % size * rank / size;
}

/* Before dtd_init a program is alone. */
void dtd_shard(int64_t total, const dtd_group *g, int64_t *first, int64_t *count)
{
    const int rank = DT_MAX(dtd_rank(g), 0), size = DT_MAX(dtd_size(g), 1);

    *first = sampler_cut(total, rank, size);
    *count = sampler_cut(total, rank + 1, size) - *first;
}

/* A whole permutation at a time, as the trainer makes it: the last one is kept. */
int64_t dtd_permute(uint64_t seed, int64_t epoch, int64_t n, int64_t index)
{
    static uint32_t *order, kept_seed, kept_epoch;
    static int64_t kept_n;

    if (index < 0 || index >= n || n > UINT32_MAX || epoch < 0 || epoch > UINT32_MAX)
        return -1;
    seed = (uint32_t)(seed ^ seed >> 32);
    if (!order || n != kept_n || seed != kept_seed || epoch != kept_epoch) {
        uint32_t *made = realloc(order, (size_t)n * sizeof *order);
        if (!made)
            return -1;
        order = made;
        kept_n = n;
        kept_seed = (uint32_t)seed;
        kept_epoch = (uint32_t)epoch;
        dt_permute(order, n, kept_seed, DT_STREAM_PERMUTATION, kept_epoch);
    }
    return order[index];
}

double dtd_scale_lr(double lr, const dtd_group *g)
{
    return lr * DT_MAX(dtd_size(g), 1);
}
