/* data_source_synthetic.c - deterministic, independent of the count, balanced. */
#include "sources.h"

enum { VALUES = 32 * 32 * 3 };

TEST(names_and_counts)
{
    static const struct {
        const char *path;
        int64_t train, test;
    } good[] = {{"synthetic", 2048, 512},
                {"synthetic:1", 1, 256},
                {"synthetic:4000", 4000, 1000},
                {"synthetic:100000", 100000, 10000}};
    static const char *const bad[] = {"synthetic:",   "synthetic:0",       "synthetic:-1",
                                      "synthetic:x",  "synthetic: 7",      "synthetic:7 ",
                                      "synthetic:+7", "synthetic:10000001"};
    dt_source *s = NULL;

    for (size_t i = 0; i < DT_COUNT_OF(good); i++) {
        assert_ok(dt_source_open(&s, good[i].path, 0, 1));
        const dt_source_info *info = dt_source_describe(s);
        assert_string_equal(info->kind, "synthetic");
        assert_int_equal(info->train, good[i].train);
        assert_int_equal(info->test, good[i].test);
        assert_true(info->classes == 10 && info->width == 32 && info->height == 32);
        dt_source_close(s);
    }
    for (size_t i = 0; i < DT_COUNT_OF(bad); i++)
        assert_fails(dt_source_open(&s, bad[i], 0, 1), DT_CONFIG, "1 to 10000000");
    assert_fails(dt_source_open(&s, "synthetics", 0, 1), DT_NOINPUT, "No such file");
    assert_fails(dt_source_open(&s, "synthetic:10", 11, 1), DT_CONFIG, "subset 11");
}

TEST(images_depend_on_seed_and_index_only)
{
    void *m[3];
    dt_source *few = source_loaded("synthetic:300", 0, 7, &m[0]);
    dt_source *more = source_loaded("synthetic:1200", 0, 7, &m[1]);
    dt_source *other = source_loaded("synthetic:300", 0, 8, &m[2]);
    int32_t a = 0, b = 0;

    for (int test = 0; test < 2; test++)
        for (int64_t i = 0; i < 256; i++) {
            const uint8_t *image = dt_source_image(few, test, i, &a);
            assert_memory_equal(image, dt_source_image(more, test, i, &b), VALUES);
            assert_int_equal(a, b);
            assert_int_equal(a, i % 10);
            assert_memory_not_equal(image, dt_source_image(other, test, i, &b), VALUES);
        }
    const dt_digest d[3] = {dt_source_manifest(few), dt_source_manifest(more),
                            dt_source_manifest(other)};
    assert_memory_not_equal(&d[0], &d[1], sizeof *d);
    assert_memory_not_equal(&d[0], &d[2], sizeof *d);
    source_close(few, m[0]);
    source_close(more, m[1]);
    source_close(other, m[2]);
}
