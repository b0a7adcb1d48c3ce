/* source_synthetic.c - images made from a seed: CIFAR-shaped, learnable, no files.
 *
 * A class is a colour texture: a sum of plane waves whose frequencies, phases and
 * channel amplitudes are drawn once per (seed, class). An image shows its class's
 * texture at a random place of the torus and a random contrast, a weaker texture of
 * another class over it, and noise. So a class cannot be recognised by single pixels or
 * mean colours, and where both contrasts are close not at all. Integer arithmetic only:
 * the same bits everywhere. */
#include "source.h"

enum {
    SYNTHETIC_CLASSES = 10,
    SYNTHETIC_SIDE = 32, /* a power of two: phases wrap by masking */
    SYNTHETIC_WAVES = 3,
    SYNTHETIC_TRAIN = 2048,
    SYNTHETIC_TEST_LOW = 256,
    SYNTHETIC_TEST_HIGH = 10000,
    SYNTHETIC_MOST = 10000000,
    SYNTHETIC_FREQUENCY = 6, /* highest, in periods per image */
    SYNTHETIC_NOISE = 48,    /* largest deviation, grey levels */
};

/* Keys of the random stream: textures have an epoch of their own, test images an index
 * range of their own, so that training images do not depend on how many there are. */
enum { SYNTHETIC_IMAGES = 0, SYNTHETIC_TEXTURES = 1 };
static const uint64_t synthetic_test_index = UINT64_C(1) << 32;

/* round(127 cos(2 pi k / 32)). */
static const int8_t synthetic_cosine[SYNTHETIC_SIDE] = {
    127,  125,  117,  106,  90,  71,  49,  25,  0, -25, -49, -71, -90, -106, -117, -125,
    -127, -125, -117, -106, -90, -71, -49, -25, 0, 25,  49,  71,  90,  106,  117,  125};

struct synthetic_wave {
    int fx, fy, phase; /* periods per image, 1/32 of a period */
    int amplitude[3];  /* R G B, -64 to 63 */
};
/* w [classes][waves] */
static void synthetic_draw_textures(struct synthetic_wave *w, uint32_t seed)
{
    for (uint32_t i = 0; i < SYNTHETIC_CLASSES * SYNTHETIC_WAVES; i++, w++) {
        uint32_t a[4], b[4];
        dt_random(seed, DT_STREAM_SYNTHETIC, SYNTHETIC_TEXTURES, i, 0, a);
        dt_random(seed, DT_STREAM_SYNTHETIC, SYNTHETIC_TEXTURES, i, 1, b);
        w->fx = 1 + (int)dt_below(a[0], SYNTHETIC_FREQUENCY);
        w->fy = (int)dt_below(a[1], 2 * SYNTHETIC_FREQUENCY + 1) - SYNTHETIC_FREQUENCY;
        w->phase = (int)dt_below(a[2], SYNTHETIC_SIDE);
        for (int c = 0; c < 3; c++)
            w->amplitude[c] = (int)dt_below(b[c], 128) - 64;
    }
}

static dt_status synthetic_open(dt_source *s, const char *path, dt_hash *manifest)
{
    static const char *const name[SYNTHETIC_CLASSES] = {
        "texture0", "texture1", "texture2", "texture3", "texture4",
        "texture5", "texture6", "texture7", "texture8", "texture9"};
    const size_t word = strlen("synthetic");
    const char *end;
    int64_t train = SYNTHETIC_TRAIN;

    if (strncmp(path, "synthetic", word) != 0 || (path[word] != '\0' && path[word] != ':'))
        return DT_DECLINED;
    if (path[word] && (!dt_whole_parse(path + word + 1, &end, &train) || *end || train < 1 ||
                       train > SYNTHETIC_MOST))
        return dt_fail(DT_CONFIG,
                       "data '%s': '%s' is no number of images, expected "
                       "synthetic:N with N from 1 to %d",
                       path, path + word + 1, SYNTHETIC_MOST);
    s->info =
        (dt_source_info){.classes = SYNTHETIC_CLASSES,
                         .height = SYNTHETIC_SIDE,
                         .width = SYNTHETIC_SIDE,
                         .train = train,
                         .test = DT_MIN(DT_MAX(train / 4, SYNTHETIC_TEST_LOW), SYNTHETIC_TEST_HIGH),
                         .class_name = name};
    dt_hash_update(manifest, &s->seed, sizeof s->seed);
    return DT_OK;
}

/* Add a texture of waves w, shifted on the torus, to sum [side][side][3]; of contrast 64, the full
 * one, it reaches 127 * 64 * 3 waves * 64. */
static void synthetic_add(const struct synthetic_wave w[SYNTHETIC_WAVES], uint32_t dx, uint32_t dy,
                          uint32_t contrast, int32_t *sum)
{
    for (int y = 0; y < SYNTHETIC_SIDE; y++)
        for (int x = 0; x < SYNTHETIC_SIDE; x++)
            for (int k = 0; k < SYNTHETIC_WAVES; k++) {
                const unsigned turn =
                    (unsigned)(w[k].fx * (x + (int)dx) + w[k].fy * (y + (int)dy) + w[k].phase);
                const int value = synthetic_cosine[turn % SYNTHETIC_SIDE] * (int)contrast;
                for (int c = 0; c < 3; c++)
                    sum[3 * (y * SYNTHETIC_SIDE + x) + c] += value * w[k].amplitude[c];
            }
}

static void synthetic_image(const struct synthetic_wave *wave, uint32_t seed, uint64_t index,
                            int32_t label, uint8_t *image)
{
    enum { VALUES = 3 * SYNTHETIC_SIDE * SYNTHETIC_SIDE, NOISE_DRAW = 2 };
    int32_t sum[VALUES] = {0};
    uint32_t a[4], b[4], noise[4];

    dt_random(seed, DT_STREAM_SYNTHETIC, SYNTHETIC_IMAGES, index, 0, a);
    dt_random(seed, DT_STREAM_SYNTHETIC, SYNTHETIC_IMAGES, index, 1, b);
    const int other = (label + 1 + (int)dt_below(a[3], SYNTHETIC_CLASSES - 1)) % SYNTHETIC_CLASSES;
    synthetic_add(wave + label * SYNTHETIC_WAVES, dt_below(a[0], SYNTHETIC_SIDE),
                  dt_below(a[1], SYNTHETIC_SIDE), 32 + dt_below(a[2], 33), sum);
    synthetic_add(wave + other * SYNTHETIC_WAVES, dt_below(b[0], SYNTHETIC_SIDE),
                  dt_below(b[1], SYNTHETIC_SIDE), dt_below(b[2], 40), sum);
    for (uint32_t i = 0; i < VALUES; i++) {
        if (i % 4 == 0)
            dt_random(seed, DT_STREAM_SYNTHETIC, SYNTHETIC_IMAGES, index, NOISE_DRAW + i / 4,
                      noise);
        int32_t value = 128 + sum[i] / 8192 +
                        (int32_t)dt_below(noise[i % 4], 2 * SYNTHETIC_NOISE + 1) - SYNTHETIC_NOISE;
        value = value < 0 ? 0 : value;
        image[i] = (uint8_t)(value > 255 ? 255 : value);
    }
}

static dt_status synthetic_read(dt_source *s)
{
    const int64_t train = s->info.train, all = train + s->info.test;
    const size_t bytes = 3 * SYNTHETIC_SIDE * SYNTHETIC_SIDE;
    struct synthetic_wave wave[SYNTHETIC_CLASSES * SYNTHETIC_WAVES];

    synthetic_draw_textures(wave, s->seed);
    for (int64_t at = 0; at < all; at++) {
        const bool test = at >= train;
        const int64_t i = test ? at - train : at;
        s->labels[at] = (int32_t)(i % SYNTHETIC_CLASSES);
        synthetic_image(wave, s->seed, (uint64_t)i + (test ? synthetic_test_index : 0),
                        s->labels[at], s->images + (size_t)at * bytes);
    }
    return DT_OK;
}

const dt_source_row dt_source_synthetic = {"synthetic", synthetic_open, synthetic_read,
                                           NULL,        NULL,           NULL};
