/* data_augment.c - crop, mirror, resize and normalise against a slow version that does
 * them one after the other in double, against PyTorch's bilinear and MindSpore's Resize. */
#include "data/augment.h"
#include "test.h"

TEST(taps_are_those_of_pytorch)
{
    /* torch 2.13: interpolate([0, 1, 4, 9], size, mode="bilinear", align_corners=False), of size 7
     * and 3 */
    static const double want[] = {0,         0.35714290, 0.92857146, 2.5000005, 4.3571439,
                                  7.2142868, 9,          0.16666669, 2.5,       8.1666679};
    static const double in[] = {0, 1, 4, 9};

    for (int i = 0; i < 7 + 3; i++) {
        const dt_tap t = i < 7 ? dt_tap_at(4, 7, i) : dt_tap_at(4, 3, i - 7);
        const double v = (double)t.part[0] * in[t.lo] + (double)t.part[1] * in[t.hi];
        /* both sides round weights and values to float32: 9 * 2^-22 */
        assert_true(abs((int)((v - want[i]) * 0x1p22)) <= 9);
    }
}

static uint8_t noise(int seed, int i)
{
    uint32_t bits[4];
    dt_random((uint32_t)seed, DT_STREAM_TEST, 0, (uint64_t)i, 0, bits);
    return (uint8_t)bits[0];
}

/* Value of output (y, x, c) by the definition, in double. */
static double slow_value(const uint8_t *image, int height, int width, dt_window w, int size, int y,
                         int x, int c)
{
    double at[2] = {(y + 0.5) * height / size - 0.5, (x + 0.5) * width / size - 0.5};
    const int last[2] = {height - 1, width - 1};
    double v = 0;
    for (int d = 0; d < 2; d++)
        at[d] = at[d] < 0 ? 0 : at[d] > last[d] ? last[d] : at[d];
    for (int corner = 0; corner < 4; corner++) {
        const int cy = (int)at[0] + (corner >> 1), cx = (int)at[1] + (corner & 1);
        const double fy = at[0] - (int)at[0], fx = at[1] - (int)at[1];
        const double weight = (corner >> 1 ? fy : 1 - fy) * (corner & 1 ? fx : 1 - fx);
        if (weight == 0)
            continue;
        /* crop pixel (cy, cx); the mirror is the last thing done to the crop */
        const int sy = cy + w.top, sx = (w.flip ? width - 1 - cx : cx) + w.left;
        if (sy >= 0 && sy < height && sx >= 0 && sx < width)
            v += weight * image[(sy * width + sx) * 3 + c];
    }
    return v;
}

/* Normalised by "cifar". */
static dt_loader_opts opts_of(const char *augment, const char *resize, int size)
{
    return (dt_loader_opts){.augment = augment,
                            .normalize = "cifar",
                            .resize = resize,
                            .image_size = size,
                            .type = DT_F32};
}

/* An image of info's size, seen through a window; freed by free(). */
static void *augmented(const dt_augment *a, const uint8_t *image, dt_window window)
{
    void *out = calloc((size_t)a->size * (size_t)a->size * 3, sizeof(float));
    float *scratch = malloc(dt_augment_scratch(a) * sizeof *scratch);

    assert_true(out && scratch);
    dt_augment_image(a, image, window, scratch, out);
    free(scratch);
    return out;
}

/* as its source prints them */
static const double cifar_mean[3] = {0.4914, 0.4822, 0.4465};
static const double cifar_std[3] = {0.2023, 0.1994, 0.2010};

static void check_one(int height, int width, int size, dt_window w)
{
    const dt_source_info info = {.height = height, .width = width};
    const dt_loader_opts opts = opts_of("none", "float", size);
    dt_augment a;
    uint8_t *image = malloc((size_t)height * (size_t)width * 3);

    for (int i = 0; i < height * width * 3; i++)
        image[i] = noise(size, i);
    assert_ok(dt_augment_init(&a, &info, &opts));
    float *out = augmented(&a, image, w);
    a.type = DT_BF16;
    dt_bf16 *half = augmented(&a, image, w);
    for (int i = 0; i < size * size * 3; i++) {
        const int y = i / 3 / size, x = i / 3 % size, c = i % 3;
        const double slow = slow_value(image, height, width, w, size, y, x, c);
        const double expected = (slow / 255 - cifar_mean[c]) / cifar_std[c];
        const double error = (double)out[i] - expected;
        /* values up to 2.8; table, weights, two lerps and the constants' own rounding to
         * float32: about ten roundings of 2^-24 each */
        if (error > 2e-6 || error < -2e-6)
            fail_msg("%dx%d to %d at (%d, %d, %d): %.9g, expected %.9g", height, width, size, y, x,
                     c, (double)out[i], expected);
        assert_int_equal(half[i], dt_f32_to_bf16(out[i]));
    }
    dt_augment_release(&a);
    free(image);
    free(out);
    free(half);
}

TEST(one_pass_equals_the_steps)
{
    static const int size[] = {1, 2, 7, 16, 31, 32, 33, 48, 64, 224};
    for (size_t s = 0; s < sizeof size / sizeof *size; s++)
        for (int flip = 0; flip < 2; flip++)
            for (int move = -4; move <= 4; move += 2)
                check_one(32, 32, size[s],
                          (dt_window){.top = move, .left = -move + flip, .flip = flip});
    check_one(12, 20, 16, (dt_window){.top = 1, .left = -3, .flip = true});
    check_one(20, 12, 33, (dt_window){.top = -2, .left = 2, .flip = false});
    check_one(1, 1, 5, (dt_window){.top = 0, .left = 0, .flip = true});
    check_one(3, 300, 17, (dt_window){.top = 0, .left = 0, .flip = false});
    check_one(8, 8, 8,
              (dt_window){.top = 9, .left = 0, .flip = false}); /* all of it outside: black */
}

/* Images of proofs/golden-resize.py, which made the hashes. 0: noise; 1: black and white;
 * 2: a slope. */
static const struct {
    int height, width, size;
    const char *hash; /* of the three, resized */
} mindspore_pixels[] = {
    {32, 32, 64, "34b2a8ecf3dbc6e1a7e4393468043216"},
    {32, 32, 224, "f3adfa5be576109f33c6d8da87682d9b"},
    {32, 32, 32, "2dc6f8f44f05538db2a3622cc416d251"},
    {32, 32, 33, "76e9dd6153ac122a58029ef0bd19ef0a"},
    {32, 32, 300, "a3a46157ea73b93274e2c61482e336e6"},
    {32, 32, 16, "e3c81918b53dc4138a65d4560cfbda3a"},
    {32, 32, 25, "e3fd136648e1b1df988f081536aba03f"},
    {20, 12, 48, "fe22988b54405c4b9596d33f17e65695"},
    {12, 20, 64, "cb0a530b3efbba0e01bd7352da842c27"},
    {1, 1, 5, "a757f9731a4cb6a8f522e8d531aeed5c"},
    {3, 300, 17, "21e316980376eab84103e015ed5fc0a3"},
};
enum { KINDS = 3 };

static void draw(uint8_t *image, uint64_t count, int kind)
{
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t noise = (uint8_t)((i * i + 7 * i + 1) * 2654435761u >> 24);
        image[i] = kind == 0 ? noise : kind == 1 ? (noise > 127 ? 255 : 0) : (uint8_t)i;
    }
}

/* Levels that are the bytes themselves show what was resized. */
TEST(rounded_pixels_are_mindspores)
{
    for (size_t k = 0; k < DT_COUNT_OF(mindspore_pixels); k++) {
        const int height = mindspore_pixels[k].height, width = mindspore_pixels[k].width;
        const int size = mindspore_pixels[k].size;
        const dt_source_info info = {.height = height, .width = width};
        const dt_loader_opts opts = opts_of("none", "uint8", size);
        uint8_t *image = malloc(3 * (size_t)height * (size_t)width);
        char text[DT_DIGEST_CHARS];
        dt_hash h;
        dt_augment a;
        dt_hash_init(&h);
        assert_ok(dt_augment_init(&a, &info, &opts));
        for (int i = 0; i < 3 * 256; i++)
            a.level[i / 256][i % 256] = (float)(i % 256);
        for (int kind = 0; kind < KINDS; kind++) {
            draw(image, 3 * (uint64_t)height * (uint64_t)width, kind);
            float *out = augmented(&a, image, (dt_window){0});
            for (int i = 0; i < 3 * size * size; i++)
                dt_hash_update(&h, &(uint8_t){(uint8_t)out[i]}, 1);
            free(out);
        }
        dt_digest_text(dt_hash_digest(&h), text);
        dt_augment_release(&a);
        free(image);
        if (strcmp(text, mindspore_pixels[k].hash) != 0)
            fail_msg("%d x %d to %d: %s, MindSpore's is %s", height, width, size, text,
                     mindspore_pixels[k].hash);
    }
}

/* The tutorial resizes what it has cropped and mirrored, and normalises bytes. */
TEST(rounding_comes_between_crop_and_normalisation)
{
    enum { SIDE = 32, SIZE = 64, BYTES = SIDE * SIDE * 3, VALUES = SIZE * SIZE * 3 };
    const dt_source_info info = {.height = SIDE, .width = SIDE};
    const dt_loader_opts opts = opts_of("none", "uint8", SIZE);
    uint8_t image[BYTES], seen[BYTES] = {0};
    dt_augment a;

    draw(image, BYTES, 0);
    for (int y = 0; y + 3 < SIDE; y++)
        for (int x = 0; x < SIDE - 2; x++)
            memcpy(seen + 3 * (y * SIDE + x), image + 3 * ((y + 3) * SIDE + SIDE - 3 - x), 3);
    assert_ok(dt_augment_init(&a, &info, &opts));
    const dt_window window = {.top = 3, .left = -2, .flip = true};
    float *all = augmented(&a, image, window), *steps = augmented(&a, seen, (dt_window){0});
    assert_memory_equal(all, steps, VALUES * sizeof *all);
    for (int i = 0; i < VALUES; i++) {
        int v = 0;
        while (v < 256 && !(all[i] >= a.level[i % 3][v] && all[i] <= a.level[i % 3][v]))
            v++;
        assert_in_range(v, 0, 255);
    }
    dt_augment_release(&a);
    free(all);
    free(steps);
}

/* The tutorial has its constants in B G R order and applies them to R G B. */
TEST(unresized_pixels_are_exact)
{
    static const struct {
        const char *name;
        float mean[3], std[3];
    } row[] = {
        {"tutorial", {0.4465f, 0.4822f, 0.4914f}, {0.2010f, 0.1994f, 0.2023f}},
        {"cifar", {0.4914f, 0.4822f, 0.4465f}, {0.2023f, 0.1994f, 0.2010f}},
        {"cs744",
         {125.3f / 255, 123.0f / 255, 113.9f / 255},
         {63.0f / 255, 62.1f / 255, 66.7f / 255}},
    };
    const dt_source_info info = {.height = 4, .width = 4};
    uint8_t image[48];
    float out[48], scratch[64];
    dt_augment a;

    for (int i = 0; i < 48; i++)
        image[i] = (uint8_t)(i * 5);
    for (size_t k = 0; k < DT_COUNT_OF(row); k++) {
        dt_loader_opts o = opts_of("none", "float", 4);
        o.normalize = row[k].name;
        assert_ok(dt_augment_init(&a, &info, &o));
        assert_true(dt_augment_scratch(&a) <= 64);
        dt_augment_image(&a, image, (dt_window){0}, scratch, out);
        for (int i = 0; i < 48; i++) {
            const double mean = (double)row[k].mean[i % 3], std = (double)row[k].std[i % 3];
            assert_true(out[i] == (float)((image[i] / 255.0 - mean) / std));
        }
        dt_augment_release(&a);
    }
}

/* The square lies where it is drawn, its centre at all pixels, and is the mean (of bytes within
 * half of 1 / 255 / 0.19); all else is as without it. By the definition of DeVries and Taylor
 * (2017), whose squares end at the edges. */
TEST(cutout_blanks_a_square)
{
    enum { SIDE = 12, HOLE = 5, DRAWS = 4000, VALUES = SIDE * SIDE * 3 };
    const dt_source_info info = {.height = SIDE, .width = SIDE};
    uint8_t image[VALUES];
    int centres[SIDE * SIDE] = {0};

    draw(image, VALUES, 3);
    for (int rounds = 0; rounds < 2; rounds++) {
        dt_loader_opts o = opts_of("cifar", rounds ? "uint8" : "float", SIDE);
        dt_augment a, plain;
        assert_ok(dt_augment_init(&plain, &info, &o));
        o.cutout = HOLE;
        assert_ok(dt_augment_init(&a, &info, &o));
        for (int i = 0; i < DRAWS; i++) {
            const dt_window w = dt_augment_draw(&a, 1, 2, i), p = dt_augment_draw(&plain, 1, 2, i);
            assert_true(w.top == p.top && w.left == p.left && w.flip == p.flip && p.hole == 0);
            const int y0 = w.hole_top + HOLE / 2, x0 = w.hole_left + HOLE / 2;
            assert_true(w.hole == HOLE && y0 >= 0 && y0 < SIDE && x0 >= 0 && x0 < SIDE);
            centres[y0 * SIDE + x0]++;
            if (i >= 50)
                continue;
            float *with = augmented(&a, image, w), *without = augmented(&plain, image, w);
            float *whole = augmented(&plain, image, p);
            assert_memory_equal(with, without, sizeof *with * VALUES); /* the window says it all */
            for (int v = 0; v < VALUES; v++) {
                const int y = v / 3 / SIDE, x = v / 3 % SIDE;
                const bool in = abs(y - y0) <= HOLE / 2 && abs(x - x0) <= HOLE / 2;
                if (in && rounds)
                    assert_true(with[v] <= 0.0104f && with[v] >= -0.0104f);
                else
                    assert_true(with[v] == (in ? 0 : whole[v]));
            }
            free(with);
            free(without);
            free(whole);
        }
        dt_augment_release(&a);
        dt_augment_release(&plain);
    }
    for (int i = 0; i < SIDE * SIDE; i++)
        assert_true(centres[i] > 0);
}

/* The two sides of an image take turns from a random first one; the edges are mirrored. */
TEST(sides_take_turns)
{
    enum { SIDE = 8, SAMPLES = 1000 };
    const dt_source_info info = {.height = SIDE, .width = SIDE};
    const dt_loader_opts turns = opts_of("airbench", "float", SIDE);
    const dt_loader_opts random = opts_of("cifar", "float", SIDE);
    uint8_t image[3 * SIDE * SIDE];
    int flipped = 0, far = 0;
    dt_augment a, usual;

    draw(image, sizeof image, 0);
    assert_ok(dt_augment_init(&a, &info, &turns));
    assert_ok(dt_augment_init(&usual, &info, &random));
    for (int i = 0; i < SAMPLES; i++) {
        const bool first = dt_augment_draw(&a, 1, 0, i).flip;
        assert_true(first == dt_augment_draw(&usual, 1, 0, i).flip);
        flipped += first;
        for (int epoch = 1; epoch < 5; epoch++) {
            const dt_window w = dt_augment_draw(&a, 1, epoch, i);
            assert_true(w.flip == (first != (epoch % 2 == 1)) && w.mirrors);
            assert_true(abs(w.top) <= 2 && abs(w.left) <= 2);
            far += w.top == -2 && w.left == 2;
        }
    }
    assert_in_range(flipped, SAMPLES / 2 - 80, SAMPLES / 2 + 80); /* five standard deviations */
    assert_in_range(far, 4 * SAMPLES / 50, 4 * SAMPLES / 15);
    float *out = augmented(&a, image, (dt_window){.top = -2, .left = 1, .mirrors = true});
    for (int i = 0; i < 3 * SIDE * SIDE; i++) {
        static const int rows[SIDE] = {2, 1, 0, 1, 2, 3, 4, 5},
                         columns[SIDE] = {1, 2, 3, 4, 5, 6, 7, 6};
        const int y = i / 3 / SIDE, x = i / 3 % SIDE, c = i % 3;
        assert_true(out[i] == a.level[c][image[3 * (rows[y] * SIDE + columns[x]) + c]]);
    }
    free(out);
    dt_augment_release(&a);
    dt_augment_release(&usual);
}

/* All 9 x 9 places and both mirrors are drawn; again for the same key. */
TEST(draws_are_keyed)
{
    enum { CELLS = 9 * 9 * 2, EACH = 20 };
    const dt_source_info info = {.height = 32, .width = 32};
    const dt_loader_opts o = opts_of("cifar", "float", 32), plain = opts_of("none", "float", 32);
    int count[CELLS] = {0}, moved = 0;
    dt_augment a;

    assert_ok(dt_augment_init(&a, &info, &o));
    for (int i = 0; i < CELLS * EACH; i++) {
        const dt_window w = dt_augment_draw(&a, 1, 3, i), again = dt_augment_draw(&a, 1, 3, i);
        const dt_window epoch = dt_augment_draw(&a, 1, 4, i), seed = dt_augment_draw(&a, 2, 3, i);
        assert_true(w.top == again.top && w.left == again.left && w.flip == again.flip);
        assert_true(w.top >= -4 && w.top <= 4 && w.left >= -4 && w.left <= 4);
        count[((w.top + 4) * 9 + w.left + 4) * 2 + w.flip]++;
        moved += w.top != epoch.top && w.top != seed.top;
    }
    for (int i = 0; i < CELLS; i++)
        assert_in_range(count[i], 1, 3 * EACH);
    assert_in_range(moved, CELLS * EACH / 2, CELLS * EACH); /* 64 of 81 */
    dt_augment_release(&a);
    assert_ok(dt_augment_init(&a, &info, &plain));
    const dt_window still = dt_augment_draw(&a, 1, 0, 7);
    assert_true(still.top == 0 && still.left == 0 && !still.flip);
    dt_augment_release(&a);
}
