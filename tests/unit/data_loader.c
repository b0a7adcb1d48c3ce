/* data_loader.c - every sample once an epoch, shards that tile the batch, and bits that
 * do not depend on shards, threads or the order of calls. */
#include "sources.h"

enum { TRAIN = 331, SIDE = 32, VALUES = SIDE * SIDE * 3 };

static dt_source *source;
static void *memory;
static dt_digest plain[TRAIN], unseen[256]; /* digests of normalised images, unaugmented */

static dt_loader_opts usual(void)
{
    return (dt_loader_opts){.augment = "none",
                            .normalize = "cs744",
                            .resize = "float",
                            .image_size = SIDE,
                            .type = DT_F32,
                            .seed = 5,
                            .global_batch = 40,
                            .shards = 3,
                            .threads = 1};
}

static dt_loader *made(dt_loader_opts o)
{
    dt_loader *l = NULL;
    assert_ok(dt_loader_create(&l, source, &o));
    return l;
}

/* The CS744 constants, in units of a byte, as the course prints them. */
static dt_digest plain_digest(bool test, int64_t i)
{
    static const float mean[3] = {125.3f / 255, 123.0f / 255, 113.9f / 255};
    static const float std[3] = {63.0f / 255, 62.1f / 255, 66.7f / 255};
    float out[VALUES];
    int32_t label = 0;
    const uint8_t *image = dt_source_image(source, test, i, &label);
    for (int v = 0; v < VALUES; v++)
        out[v] = (float)((image[v] / 255.0 - (double)mean[v % 3]) / (double)std[v % 3]);
    return dt_hash_bytes(out, sizeof out);
}

FIXTURE(load_source)
{
    source = source_loaded("synthetic:331", 0, 3, &memory);
    for (int i = 0; i < TRAIN; i++)
        plain[i] = plain_digest(false, i);
    for (int i = 0; i < 256; i++)
        unseen[i] = plain_digest(true, i);
    return 0;
}

FIXTURE(close_source)
{
    source_close(source, memory);
    return 0;
}

/* Index of an image of the unaugmented training set, -1 if it is none. */
static int sample_of(const float *image)
{
    const dt_digest d = dt_hash_bytes(image, VALUES * sizeof *image);
    int i = 0;
    while (i < TRAIN && memcmp(&d, &plain[i], sizeof d) != 0)
        i++;
    return i < TRAIN ? i : -1;
}

/* Whole epoch as sample ids, in order; returns how many. */
static int epoch_ids(dt_loader *l, const dt_loader_opts *o, int64_t epoch, int *id)
{
    float *images = malloc(sizeof(float) * VALUES * (size_t)o->global_batch);
    int32_t *labels = malloc(sizeof *labels * (size_t)o->global_batch);
    int count = 0;
    for (int64_t step = 0; step < dt_loader_steps(l); step++)
        for (int shard = 0; shard < o->shards; shard++) {
            const int64_t n = dt_shard_size(dt_loader_batch(l, step), o->shards, shard, NULL);
            dt_loader_train(l, epoch, step, shard, images, labels);
            for (int64_t i = 0; i < n; i++) {
                int32_t label = -1;
                const int sample = sample_of(images + i * VALUES);
                assert_in_range(sample, 0, TRAIN - 1); /* and so no test image */
                dt_source_image(source, false, sample, &label);
                assert_int_equal(labels[i], label);
                id[count++] = sample;
            }
        }
    free(images);
    free(labels);
    return count;
}

TEST(shards_tile_every_batch)
{
    for (int64_t n = 0; n <= 100; n++)
        for (int s = 1; s <= 40; s++) {
            int64_t next = 0, largest = dt_shard_size(n, s, 0, NULL), before = largest;
            for (int k = 0; k < s; k++) {
                int64_t first = -1;
                const int64_t size = dt_shard_size(n, s, k, &first);
                assert_int_equal(first, next);
                assert_true(size <= before && size >= largest - 1 && size >= 0);
                next += size;
                before = size;
            }
            assert_int_equal(next, n);
        }
}

TEST(an_epoch_shows_every_sample_once)
{
    const dt_loader_opts o = usual();
    dt_loader *l = made(o);
    int id[4][TRAIN], equal[3] = {0}, fixed = 0;
    assert_int_equal(dt_loader_steps(l), 9);
    assert_int_equal(dt_loader_batch(l, 7), 40);
    assert_int_equal(dt_loader_batch(l, 8), 11);
    for (int e = 0; e < 3; e++) {
        int seen[TRAIN] = {0};
        assert_int_equal(epoch_ids(l, &o, e, id[e]), TRAIN);
        for (int i = 0; i < TRAIN; i++)
            assert_int_equal(seen[id[e][i]]++, 0);
    }
    /* back to an epoch, after others, and without its remainder: the same order */
    assert_int_equal(epoch_ids(l, &o, 1, id[3]), TRAIN);
    assert_memory_equal(id[1], id[3], sizeof id[1]);
    dt_loader_destroy(l);
    dt_loader_opts other = o;
    other.drop_remainder = true;
    l = made(other);
    assert_int_equal(dt_loader_steps(l), 8);
    assert_int_equal(epoch_ids(l, &other, 2, id[3]), 320);
    assert_memory_equal(id[2], id[3], 320 * sizeof id[3][0]);
    dt_loader_destroy(l);
    other = o;
    other.seed = 6;
    l = made(other);
    assert_int_equal(epoch_ids(l, &other, 0, id[3]), TRAIN);
    dt_loader_destroy(l);
    for (int i = 0; i < TRAIN; i++) {
        equal[0] += id[0][i] == id[1][i];
        equal[1] += id[1][i] == id[2][i];
        equal[2] += id[0][i] == id[3][i];
        fixed += id[0][i] == i;
    }
    /* random orders agree in about one place (Poisson of mean 1: over 12 is < 1e-10) */
    assert_in_range(fixed, 0, 12);
    for (int k = 0; k < 3; k++)
        assert_in_range(equal[k], 0, 12);
}

/* One batch as the shards of `o` give it, augmented; bytes of the images. */
static size_t batch_of(dt_loader_opts o, int64_t epoch, int64_t step, bool backwards, char *images,
                       int32_t *labels)
{
    dt_loader *l = made(o);
    const size_t bytes = 3 * (size_t)o.image_size * (size_t)o.image_size * dt_dtype_bytes(o.type);
    const int64_t n = dt_loader_batch(l, step);
    for (int k = 0; k < o.shards; k++) {
        const int shard = backwards ? o.shards - 1 - k : k;
        int64_t first = 0;
        dt_shard_size(n, o.shards, shard, &first);
        dt_loader_train(l, epoch, step, shard, images + (size_t)first * bytes, labels + first);
    }
    dt_loader_destroy(l);
    return (size_t)n * bytes;
}

TEST(bits_do_not_depend_on_shards_or_threads)
{
    enum { SIZE = 45, ROOM = 40 * 3 * SIZE * SIZE * 4 + 1 };
    char *whole = malloc(ROOM), *parts = malloc(ROOM);
    int32_t labels[40], again[40];
    for (int type = DT_F32; type <= DT_BF16; type++)
        for (int64_t step = 0; step < 9; step += 8) {
            dt_loader_opts o = usual();
            o.augment = "cifar";
            o.image_size = SIZE;
            o.type = (dt_dtype)type;
            o.shards = 1;
            const size_t bytes = batch_of(o, 1, step, false, whole, labels);
            for (int shards = 1; shards <= 13; shards += 4)
                for (int threads = 1; threads <= 3; threads++) {
                    o.shards = shards;
                    o.threads = threads;
                    memset(parts, 0xff, ROOM);
                    assert_int_equal(batch_of(o, 1, step, threads == 2, parts, again), bytes);
                    assert_memory_equal(whole, parts, bytes);
                    assert_memory_equal(labels, again, (step ? 11 : 40) * sizeof *labels);
                    assert_int_equal((uint8_t)parts[bytes], 0xff); /* nothing beyond it */
                }
        }
    free(whole);
    free(parts);
}

/* Where place `at` of a line comes from when it is moved: the edge is there once. */
static int moved(int at, int shift)
{
    const int from = at + shift;
    return from < 0 ? -from : from >= SIDE ? 2 * (SIDE - 1) - from : from;
}

TEST(test_images_are_moved_then_mirrored)
{
    dt_loader *l = made(usual());
    float *seen = malloc(sizeof(float) * VALUES), *view = malloc(sizeof(float) * VALUES);
    int32_t label;

    dt_loader_test(l, 3, 1, 0, false, seen, &label);
    for (int shift = -1; shift <= 1; shift++)
        for (int flip = 0; flip < 2; flip++) {
            dt_loader_test(l, 3, 1, shift, flip, view, &label);
            for (int y = 0; y < SIDE; y++)
                for (int x = 0; x < SIDE; x++)
                    for (int c = 0; c < 3; c++)
                        assert_true(
                            view[(y * SIDE + x) * 3 + c] ==
                            seen[(moved(y, shift) * SIDE + moved(flip ? SIDE - 1 - x : x, shift)) *
                                      3 + c]);
        }
    free(seen);
    free(view);
    dt_loader_destroy(l);
}

/* Of every tenth image; a byte is normalised as (v / 255 - mean) / std. */
TEST(patches_are_the_mean_of_products)
{
    const float mean[3] = {0.4914f, 0.4822f, 0.4465f}, std[3] = {0.2470f, 0.2435f, 0.2616f};
    double out[DT_PATCH][DT_PATCH], want[DT_PATCH][DT_PATCH] = {{0}}, p[DT_PATCH];
    int32_t label;

    dt_source_patches(source, "airbench", 33, out);
    for (int64_t n = 0; n < 33; n++) {
        const uint8_t *image = dt_source_image(source, false, n * TRAIN / 33, &label);
        for (int y = 0; y < SIDE - 1; y++)
            for (int x = 0; x < SIDE - 1; x++) {
                for (int k = 0; k < DT_PATCH; k++)
                    p[k] = (image[((y + k / 2 % 2) * SIDE + x + k % 2) * 3 + k / 4] / 255.0 -
                            (double)mean[k / 4]) / (double)std[k / 4];
                for (int i = 0; i < DT_PATCH; i++)
                    for (int k = 0; k < DT_PATCH; k++)
                        want[i][k] += p[i] * p[k] / (33 * (SIDE - 1) * (SIDE - 1));
            }
    }
    for (int i = 0; i < DT_PATCH; i++)
        for (int k = 0; k < DT_PATCH; k++)
            assert_true(fabs(out[i][k] - want[i][k]) < 1e-11);
}

TEST(test_images_come_in_order_and_untouched)
{
    dt_loader_opts o = usual();
    o.augment = "cifar"; /* not for test images */
    o.threads = 2;
    dt_loader *l = made(o);
    float *images = malloc(sizeof(float) * VALUES * 100);
    int32_t labels[100], label = -1;
    for (int64_t first = 0; first < 256; first += 100) {
        const int64_t count = first + 100 > 256 ? 56 : 100;
        dt_loader_test(l, first, count, 0, false, images, labels);
        for (int64_t i = 0; i < count; i++) {
            const dt_digest d = dt_hash_bytes(images + i * VALUES, VALUES * sizeof *images);
            assert_memory_equal(&d, &unseen[first + i], sizeof d);
            assert_int_equal(sample_of(images + i * VALUES), -1);
            dt_source_image(source, true, first + i, &label);
            assert_int_equal(labels[i], label);
        }
    }
    dt_loader_destroy(l);
    free(images);
}

TEST(too_large_a_batch_is_refused)
{
    dt_loader_opts o = usual();
    dt_loader *l = NULL;

    o.drop_remainder = true;
    o.global_batch = TRAIN + 1;
    assert_fails(dt_loader_create(&l, source, &o), DT_CONFIG, "331");
    o.drop_remainder = false; /* one uneven batch */
    l = made(o);
    assert_int_equal(dt_loader_steps(l), 1);
    assert_int_equal(dt_loader_batch(l, 0), TRAIN);
    dt_loader_destroy(l);
}

/* By their places in memory: each training image is trained on or tested, and which does not depend
 * on the seed. */
TEST(held_out_images_take_the_place_of_test_images)
{
    bool held[2][TRAIN] = {{false}};

    for (uint32_t seed = 0; seed < 2; seed++) {
        bool seen[TRAIN] = {false};
        dt_source *s = NULL;
        int32_t label = 0;
        assert_ok(dt_source_open(&s, "synthetic:331", 0, seed));
        assert_fails(dt_source_hold_out(s, TRAIN), DT_CONFIG, "331");
        assert_ok(dt_source_hold_out(s, 31));
        const dt_source_info *info = dt_source_describe(s);
        assert_true(info->train == TRAIN - 31 && info->test == 31);
        uint8_t *room = malloc(dt_source_bytes(s));
        assert_ok(dt_source_load(s, room, true));
        const uint8_t *images = room + (TRAIN + 256) * sizeof label;
        for (int64_t i = 0; i < TRAIN; i++) {
            const bool test = i >= info->train;
            const int64_t bytes =
                dt_source_image(s, test, test ? i - info->train : i, &label) - images;
            assert_true(bytes >= 0 && bytes % VALUES == 0 && bytes / VALUES < TRAIN);
            assert_false(seen[bytes / VALUES]);
            assert_int_equal(label, ((int32_t *)(void *)room)[bytes / VALUES]);
            seen[bytes / VALUES] = true;
            held[seed][bytes / VALUES] = test;
        }
        source_close(s, room);
    }
    assert_memory_equal(held[0], held[1], sizeof held[0]);
}

int main(void)
{
    return tests_run(load_source, close_source);
}
