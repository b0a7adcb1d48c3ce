/* loader.c - permutation, batches, shards; images go straight into the input. */
#include "augment.h"

#include <assert.h>
#include <omp.h>

struct dt_loader {
    const dt_source *source; /* borrowed */
    dt_loader_opts opts;
    const dt_source_info *info;
    dt_augment augment;
    uint32_t *sample; /* [train] permutation of `epoch`, owned */
    int64_t epoch;    /* -1: none yet */
    float *scratch;   /* [threads][scratch_floats], owned */
    size_t scratch_floats;
};

dt_status dt_loader_create(dt_loader **l, const dt_source *s, const dt_loader_opts *opts)
{
    const dt_source_info *info = dt_source_describe(s);

    if (opts->drop_remainder && opts->global_batch > info->train)
        return dt_fail(DT_CONFIG,
                       "global batch %lld is larger than the %lld training images, "
                       "so drop-remainder leaves nothing: use a smaller batch or "
                       "--no-drop-remainder",
                       (long long)opts->global_batch, (long long)info->train);
    DT_TRY(dt_calloc(l, 1, sizeof **l, "loader"));
    **l = (dt_loader){.source = s, .opts = *opts, .info = info, .epoch = -1};
    DT_TRY(dt_augment_init(&(*l)->augment, info, opts));
    DT_TRY(dt_calloc(&(*l)->sample, (size_t)info->train, sizeof *(*l)->sample, "permutation"));
    /* Threads' scratch is cut at cache lines so that they do not share one. */
    (*l)->scratch_floats = dt_align(dt_augment_scratch(&(*l)->augment), 16);
    return dt_calloc(&(*l)->scratch, (size_t)opts->threads * (*l)->scratch_floats, sizeof(float),
                     "augmentation scratch");
}

void dt_loader_destroy(dt_loader *l)
{
    if (!l)
        return;
    dt_augment_release(&l->augment);
    DT_FREE(l->sample, l->scratch, l);
}

int64_t dt_loader_steps(const dt_loader *l)
{
    const int64_t g = l->opts.global_batch;
    return l->info->train / g + (!l->opts.drop_remainder && l->info->train % g != 0);
}

int64_t dt_loader_batch(const dt_loader *l, int64_t step)
{
    assert(step >= 0 && step < dt_loader_steps(l));
    const int64_t left = l->info->train - step * l->opts.global_batch;
    return DT_MIN(left, l->opts.global_batch);
}

int64_t dt_shard_size(int64_t n, int shards, int shard, int64_t *first)
{
    const int64_t size = n / shards, larger = n % shards;
    if (first)
        *first = shard * size + DT_MIN(shard, larger);
    return size + (shard < larger);
}

/* Image `at` of the output: a training sample or a test image, and what is seen of it. */
static void loader_image(const dt_loader *l, bool test, dt_window window, int64_t i, int64_t at,
                         void *images, int32_t *labels)
{
    const size_t bytes =
        3 * (size_t)l->opts.image_size * (size_t)l->opts.image_size * dt_dtype_bytes(l->opts.type);
    float *scratch = l->scratch + (size_t)omp_get_thread_num() * l->scratch_floats;
    const uint8_t *source = dt_source_image(l->source, test, i, &labels[at]);

    dt_augment_image(&l->augment, source, window, scratch, (char *)images + (size_t)at * bytes);
}

void dt_loader_train(dt_loader *l, int64_t epoch, int64_t step, int shard, void *images,
                     int32_t *labels)
{
    int64_t first = 0;
    const int64_t count = dt_shard_size(dt_loader_batch(l, step), l->opts.shards, shard, &first);

    assert(epoch >= 0 && shard >= 0 && shard < l->opts.shards);
    if (l->epoch != epoch)
        dt_permute(l->sample, l->info->train, l->opts.seed, DT_STREAM_PERMUTATION, (uint32_t)epoch);
    l->epoch = epoch;
    const uint32_t *sample = l->sample + step * l->opts.global_batch + first;
#pragma omp parallel for schedule(static) num_threads(l->opts.threads) if (l->opts.threads > 1)
    for (int64_t i = 0; i < count; i++)
        loader_image(l, false, dt_augment_draw(&l->augment, l->opts.seed, epoch, sample[i]),
                     sample[i], i, images, labels);
}

void dt_loader_test(dt_loader *l, int64_t first, int64_t count, int shift, bool flip, void *images,
                    int32_t *labels)
{
    const dt_window window = {.top = shift, .left = shift, .mirrors = true, .flip = flip};

    assert(first >= 0 && count >= 0 && first + count <= l->info->test);
#pragma omp parallel for schedule(static) num_threads(l->opts.threads) if (l->opts.threads > 1)
    for (int64_t i = 0; i < count; i++)
        loader_image(l, true, window, first + i, i, images, labels);
}
