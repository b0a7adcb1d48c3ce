/* data_source_synthetic.c - deterministic, independent of the count, balanced, and learnable.
 */
#include "data/data.h"
#include "test.h"

enum { VALUES = 32 * 32 * 3 };

static dt_source *loaded(const char *path, uint32_t seed, void **memory)
{
    dt_source *s = NULL;
    assert_ok(dt_source_open(&s, path, 0, seed));
    *memory = malloc(dt_source_bytes(s));
    assert_non_null(*memory);
    assert_ok(dt_source_load(s, *memory, true));
    return s;
}

static void names_and_counts(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        int64_t train, test;
    } good[] = {{"synthetic", 2048, 512},
                {"synthetic:1", 1, 256},
                {"synthetic:4000", 4000, 1000},
                {"synthetic:100000", 100000, 10000}};
    dt_source *s = NULL;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_ok(dt_source_open(&s, good[i].path, 0, 1));
        const dt_source_info *info = dt_source_describe(s);
        assert_string_equal(info->kind, "synthetic");
        assert_int_equal(info->train, good[i].train);
        assert_int_equal(info->test, good[i].test);
        assert_int_equal(info->classes, 10);
        assert_int_equal(info->width, 32);
        assert_int_equal(info->height, 32);
        dt_source_close(s);
    }
    static const char *const bad[] = {"synthetic:",         "synthetic:0",
                                      "synthetic:-1",       "synthetic:1e3",
                                      "synthetic:x",        "synthetic: 7",
                                      "synthetic:7 ",       "synthetic:+7",
                                      "synthetic:10000001", "synthetic:99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(dt_source_open(&s, bad[i], 0, 1), DT_CONFIG, "1 to 10000000");
    assert_fails(dt_source_open(&s, "synthetics", 0, 1), DT_NOINPUT, "No such file");
    assert_fails(dt_source_open(&s, "synthetic:10", 11, 1), DT_CONFIG, "subset 11");
}

static void images_depend_on_seed_and_index_only(void **state)
{
    (void)state;
    void *m[3];
    dt_source *few = loaded("synthetic:300", 7, &m[0]);
    dt_source *more = loaded("synthetic:1200", 7, &m[1]);
    dt_source *other = loaded("synthetic:300", 8, &m[2]);
    int32_t a = 0, b = 0;
    for (int test = 0; test < 2; test++)
        for (int64_t i = 0; i < 256; i++) {
            const uint8_t *image = dt_source_image(few, test, i, &a);
            assert_memory_equal(image, dt_source_image(more, test, i, &b), VALUES);
            assert_int_equal(a, b);
            assert_int_equal(a, i % 10);
            assert_memory_not_equal(image, dt_source_image(other, test, i, &b), VALUES);
        }
    dt_digest d[3] = {dt_source_manifest(few), dt_source_manifest(more), dt_source_manifest(other)};
    assert_memory_not_equal(&d[0], &d[1], sizeof *d);
    assert_memory_not_equal(&d[0], &d[2], sizeof *d);
    dt_source_close(few);
    dt_source_close(more);
    dt_source_close(other);
    for (int i = 0; i < 3; i++)
        free(m[i]);
}

static void no_image_stands_there_twice(void **state)
{
    (void)state;
    void *memory = NULL;
    dt_source *s = loaded("synthetic:1500", 1, &memory);
    const dt_source_info *info = dt_source_describe(s);
    const int64_t all = info->train + info->test;
    dt_digest *d = malloc((size_t)all * sizeof *d);
    int32_t label = 0;
    for (int64_t i = 0; i < all; i++) {
        const bool test = i >= info->train;
        d[i] = dt_hash_bytes(dt_source_image(s, test, test ? i - info->train : i, &label), VALUES);
        for (int64_t j = 0; j < i; j++)
            assert_true(d[i].low != d[j].low || d[i].high != d[j].high);
    }
    free(d);
    dt_source_close(s);
    free(memory);
}

/* Power of an image at the 2-d frequency (fx, fy), channel c: a feature that ignores
 * the place of the texture, found without knowing how the source draws it. */
static double power(const uint8_t *image, const double (*wave)[2], int fx, int fy, int c)
{
    double re = 0, im = 0;
    for (int y = 0; y < 32; y++)
        for (int x = 0; x < 32; x++) {
            const double *w = wave[(unsigned)(fx * x + fy * y) % 32];
            const double v = image[(y * 32 + x) * 3 + c];
            re += v * w[0];
            im += v * w[1];
        }
    return re * re + im * im;
}

/* The nearest class mean of spectral features must tell far more than chance, and not
 * everything: a data set that is trivial or hopeless tests no training. */
static void classes_can_be_told_apart(void **state)
{
    (void)state;
    enum { LOW = 8, FEATURES = LOW * (2 * LOW + 1) * 3 };
    /* exp(2 pi i k / 32) by repeated rotation from a 32nd root of unity */
    double wave[32][2] = {{1, 0}};
    for (int k = 1; k < 32; k++) {
        const double c = 0.98078528040323044913, s = 0.19509032201612826785;
        wave[k][0] = wave[k - 1][0] * c - wave[k - 1][1] * s;
        wave[k][1] = wave[k - 1][0] * s + wave[k - 1][1] * c;
    }
    static double mean[10][FEATURES];
    void *memory = NULL;
    dt_source *s = loaded("synthetic:400", 1, &memory);
    int right = 0;
    int32_t label = 0;
    for (int64_t i = 0; i < 400 + 100; i++) {
        const bool test = i >= 400;
        const uint8_t *image = dt_source_image(s, test, test ? i - 400 : i, &label);
        double f[FEATURES], norm = 0, best = -1;
        int n = 0, guess = -1;
        for (int fx = 0; fx < LOW; fx++)
            for (int fy = -LOW; fy <= LOW; fy++)
                for (int c = 0; c < 3; c++)
                    f[n++] = fx || fy ? power(image, (const double(*)[2])wave, fx, fy, c) : 0;
        for (n = 0; n < FEATURES; n++)
            norm += f[n];
        for (n = 0; n < FEATURES && !test; n++)
            mean[label][n] += f[n] / norm;
        for (int k = 0; k < 10 && test; k++) {
            double product = 0, own = 0;
            for (n = 0; n < FEATURES; n++) {
                product += f[n] * mean[k][n];
                own += mean[k][n] * mean[k][n];
            }
            /* cosine squared, without the factor that is the same for every class */
            if (product * product / own > best) {
                best = product * product / own;
                guess = k;
            }
        }
        right += test && guess == label;
    }
    print_message("nearest spectral mean: %d of 100 right\n", right);
    assert_in_range(right, 50, 99);
    dt_source_close(s);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_counts),
        cmocka_unit_test(images_depend_on_seed_and_index_only),
        cmocka_unit_test(no_image_stands_there_twice),
        cmocka_unit_test(classes_can_be_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
