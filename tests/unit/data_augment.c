/* data_augment.c - crop, mirror, resize and normalise against a slow version that does
 * them one after the other in double, and against PyTorch's bilinear. */
#include "augment.h"
#include "test.h"

static void taps_are_those_of_pytorch(void **state)
{
    (void)state;
    /* torch 2.13: interpolate([0, 1, 4, 9], size, mode="bilinear", align_corners=False)
     */
    static const double up[] = {0.0,
                                0.3571428954601288,
                                0.9285714626312256,
                                2.500000476837158,
                                4.357143878936768,
                                7.214286804199219,
                                9.0};
    static const double down[] = {0.1666666865348816, 2.5, 8.166667938232422};
    static const double in[] = {0, 1, 4, 9};
    for (int i = 0; i < 7 + 3; i++) {
        const dt_tap t = i < 7 ? dt_tap_at(4, 7, i) : dt_tap_at(4, 3, i - 7);
        const double v =
            (1 - (double)t.weight) * in[t.lo] + (double)t.weight * in[t.hi];
        /* both sides round weights and values to float32: 9 * 2^-22 */
        assert_true(abs((int)((v - (i < 7 ? up[i] : down[i - 7])) * 0x1p22)) <= 9);
    }
}

static uint8_t noise(int seed, int i)
{
    uint32_t bits[4];
    dt_random((uint32_t)seed, DT_STREAM_TEST, 0, (uint64_t)i, 0, bits);
    return (uint8_t)bits[0];
}

/* Value of output (y, x, c) by the definition, in double. */
static double slow_value(const uint8_t *image, int height, int width, dt_window w,
                         int size, int y, int x, int c)
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

static dt_loader_opts opts_of(const char *augment, const char *normalize, int size,
                              dt_dtype type)
{
    return (dt_loader_opts){
        .augment = augment, .normalize = normalize, .image_size = size, .type = type};
}

/* mean and std of "cifar" and "tutorial" as their sources print them */
static const double cifar_mean[3] = {0.4914, 0.4822, 0.4465};
static const double cifar_std[3] = {0.2023, 0.1994, 0.2010};

static void check_one(int height, int width, int size, dt_window w)
{
    const dt_source_info info = {.height = height, .width = width};
    const dt_loader_opts f32 = opts_of("none", "cifar", size, DT_F32);
    const dt_loader_opts bf16 = opts_of("none", "cifar", size, DT_BF16);
    const size_t values = (size_t)size * (size_t)size * 3;
    dt_augment a, b;
    uint8_t *image = malloc((size_t)height * (size_t)width * 3);
    float *out = malloc(values * sizeof *out);
    dt_bf16 *half = malloc(values * sizeof *half);
    for (int i = 0; i < height * width * 3; i++)
        image[i] = noise(size, i);
    assert_ok(dt_augment_init(&a, &info, &f32));
    assert_ok(dt_augment_init(&b, &info, &bf16));
    float *scratch = malloc(dt_augment_scratch(&a) * sizeof *scratch);
    dt_augment_image(&a, image, w, scratch, out);
    dt_augment_image(&b, image, w, scratch, half);
    for (int y = 0; y < size; y++)
        for (int x = 0; x < size; x++)
            for (int c = 0; c < 3; c++) {
                const size_t i = ((size_t)y * (size_t)size + (size_t)x) * 3 + (size_t)c;
                const double slow = slow_value(image, height, width, w, size, y, x, c);
                const double expected = (slow / 255 - cifar_mean[c]) / cifar_std[c];
                const double error = (double)out[i] - expected;
                /* values up to 2.8; table, weights, two lerps and the constants' own
                 * rounding to float32: about ten roundings of 2^-24 each */
                if (error > 2e-6 || error < -2e-6)
                    fail_msg("%dx%d to %d at (%d, %d, %d): %.9g, expected %.9g", height,
                             width, size, y, x, c, (double)out[i], expected);
                assert_int_equal(half[i], dt_f32_to_bf16(out[i]));
            }
    dt_augment_release(&a);
    dt_augment_release(&b);
    free(image);
    free(out);
    free(half);
    free(scratch);
}

static void one_pass_equals_the_steps(void **state)
{
    (void)state;
    static const int size[] = {1, 2, 7, 16, 31, 32, 33, 48, 64, 224};
    for (size_t s = 0; s < sizeof size / sizeof *size; s++)
        for (int flip = 0; flip < 2; flip++)
            for (int move = -4; move <= 4; move += 2)
                check_one(32, 32, size[s], (dt_window){move, -move + flip, flip});
    check_one(12, 20, 16, (dt_window){1, -3, true});
    check_one(20, 12, 33, (dt_window){-2, 2, false});
    check_one(1, 1, 5, (dt_window){0, 0, true});
    check_one(3, 300, 17, (dt_window){0, 0, false});
    check_one(8, 8, 8, (dt_window){9, 0, false}); /* all of it outside: black */
}

static void unresized_pixels_are_exact(void **state)
{
    (void)state;
    const dt_source_info info = {.height = 4, .width = 4};
    const dt_loader_opts o = opts_of("none", "tutorial", 4, DT_F32);
    uint8_t image[48];
    float out[48], scratch[64];
    dt_augment a;
    for (int i = 0; i < 48; i++)
        image[i] = (uint8_t)(i * 5);
    assert_ok(dt_augment_init(&a, &info, &o));
    assert_true(dt_augment_scratch(&a) <= 64);
    dt_augment_image(&a, image, (dt_window){0}, scratch, out);
    /* the tutorial's constants: B G R order applied to R G B */
    const float mean[3] = {0.4465f, 0.4822f, 0.4914f},
                std[3] = {0.2010f, 0.1994f, 0.2023f};
    for (int i = 0; i < 48; i++)
        assert_true(out[i] == (float)((image[i] / 255.0 - (double)mean[i % 3]) /
                                      (double)std[i % 3]));
    dt_augment_release(&a);
}

/* All 9 x 9 places and both mirrors, about equally often; again for the same key. */
static void draws_are_uniform_and_keyed(void **state)
{
    (void)state;
    enum { CELLS = 9 * 9 * 2, EACH = 200 };
    const dt_source_info info = {.height = 32, .width = 32};
    const dt_loader_opts o = opts_of("cifar", "cifar", 32, DT_F32);
    const dt_loader_opts plain = opts_of("none", "cifar", 32, DT_F32);
    int count[CELLS] = {0}, same_epoch = 0, same_seed = 0;
    dt_augment a;
    assert_ok(dt_augment_init(&a, &info, &o));
    for (int i = 0; i < CELLS * EACH; i++) {
        const dt_window w = dt_augment_draw(&a, 1, 3, i),
                        again = dt_augment_draw(&a, 1, 3, i);
        const dt_window epoch = dt_augment_draw(&a, 1, 4, i);
        const dt_window seed = dt_augment_draw(&a, 2, 3, i);
        assert_true(w.top == again.top && w.left == again.left && w.flip == again.flip);
        assert_in_range(w.top + 4, 0, 8);
        assert_in_range(w.left + 4, 0, 8);
        count[((w.top + 4) * 9 + w.left + 4) * 2 + w.flip]++;
        same_epoch +=
            w.top == epoch.top && w.left == epoch.left && w.flip == epoch.flip;
        same_seed += w.top == seed.top && w.left == seed.left && w.flip == seed.flip;
    }
    double chi = 0;
    for (int i = 0; i < CELLS; i++)
        chi += (double)(count[i] - EACH) * (count[i] - EACH) / EACH;
    /* chi-squared with 161 degrees of freedom: mean 161, sigma 17.9; 5 sigma each way
     */
    assert_true(chi > 161 - 90 && chi < 161 + 90);
    /* keys that differ coincide in one case of 162: 200 expected, sigma 14; 6 sigma */
    assert_in_range(same_epoch, EACH - 85, EACH + 85);
    assert_in_range(same_seed, EACH - 85, EACH + 85);
    dt_augment_release(&a);

    assert_ok(dt_augment_init(&a, &info, &plain));
    for (int i = 0; i < 100; i++) {
        const dt_window w = dt_augment_draw(&a, 1, 0, i);
        assert_true(w.top == 0 && w.left == 0 && !w.flip);
    }
    dt_augment_release(&a);
}

static void unknown_names_list_the_known(void **state)
{
    (void)state;
    const dt_source_info info = {.height = 32, .width = 32};
    const dt_loader_opts bad_augment = opts_of("flip", "cifar", 32, DT_F32);
    const dt_loader_opts bad_normalize = opts_of("none", "imagenet", 32, DT_F32);
    dt_augment a;
    assert_fails(dt_augment_init(&a, &info, &bad_augment), DT_CONFIG, "cifar none");
    dt_augment_release(&a);
    assert_fails(dt_augment_init(&a, &info, &bad_normalize), DT_CONFIG,
                 "tutorial cifar cs744");
    dt_augment_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taps_are_those_of_pytorch),
        cmocka_unit_test(one_pass_equals_the_steps),
        cmocka_unit_test(unresized_pixels_are_exact),
        cmocka_unit_test(draws_are_uniform_and_keyed),
        cmocka_unit_test(unknown_names_list_the_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
