/* data_source_synthetic.c - deterministic, independent of the count, balanced. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_counts),
        cmocka_unit_test(images_depend_on_seed_and_index_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
