/* dist_spans.c - buckets of whole tensors and slices of buckets: both are partitions. */
#include "test.h"

#include "dist/spans.h"

enum { TENSORS = 7 };
/* starts at multiples of 16, 208 floats in all */
static const dt_span tensor[TENSORS] = {{0, 10},   {16, 30}, {48, 16}, {64, 5},
                                        {80, 100}, {192, 1}, {0, 0}};

static dt_exchange_opts opts_of(size_t first, size_t middle, size_t last)
{
    return (dt_exchange_opts){.floats = 208,
                              .tensor = tensor,
                              .tensors = 6,
                              .first_bucket_bytes = first * sizeof(float),
                              .bucket_bytes = middle * sizeof(float),
                              .last_bucket_bytes = last * sizeof(float)};
}

static void assert_buckets(const dt_exchange_opts *o, const size_t *starts, size_t count)
{
    dt_span bucket[TENSORS];

    assert_int_equal(dt_spans_buckets(o, bucket), count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(bucket[i].first, starts[i]);
        assert_int_equal(bucket[i].first + bucket[i].count,
                         i + 1 < count ? starts[i + 1] : o->floats);
    }
}

static void buckets_close_at_their_size(void **state)
{
    (void)state;
    const struct {
        size_t first, middle, last, count, starts[6];
    } row[] = {
        {1, 1, 1, 6, {0, 16, 48, 64, 80, 192}}, /* a tensor each */
        {0, 0, 0, 1, {0}},                      /* no limit: the whole slab */
        {1, 0, 1, 1, {0}},
        {1000, 1000, 1000, 1, {0}},
        {1, 48, 1, 4, {0, 16, 64, 192}},
        {48, 1, 17, 4, {0, 48, 64, 80}}, /* the last takes two to reach its size */
        {0, 60, 0, 3, {0, 64, 80}},      /* zero: as the middle ones */
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const dt_exchange_opts o = opts_of(row[i].first, row[i].middle, row[i].last);
        assert_buckets(&o, row[i].starts, row[i].count);
    }
}

static void slices_partition(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 15, 16, 17, 100, 1000, 12345};

    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++)
        for (int parts = 1; parts <= 9; parts++) {
            size_t next = 48;
            for (int k = 0; k < parts; k++) {
                const dt_span s = dt_spans_slice((dt_span){48, counts[n]}, k, parts);
                assert_int_equal(s.first, next);
                assert_int_equal((s.first - 48) % 16, 0);
                /* no longer than its share, one cut and a rest */
                assert_true(s.count <= counts[n] / (size_t)parts + 16);
                next = s.first + s.count;
            }
            assert_int_equal(next, 48 + counts[n]);
        }
}

static void bad_tensors_are_a_bug(void **state)
{
    (void)state;
    const dt_span overlap[] = {{0, 20}, {16, 4}}, beyond[] = {{200, 9}};
    dt_exchange_opts o = opts_of(1, 1, 1);

    assert_ok(dt_spans_check(&o));
    o.tensors = 0;
    assert_fails(dt_spans_check(&o), DT_BUG, "no tensors");
    o.tensor = overlap;
    o.tensors = 2;
    assert_fails(dt_spans_check(&o), DT_BUG, "tensor 1");
    o.tensor = beyond;
    o.tensors = 1;
    assert_fails(dt_spans_check(&o), DT_BUG, "tensor 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_close_at_their_size),
        cmocka_unit_test(slices_partition),
        cmocka_unit_test(bad_tensors_are_a_bug),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
