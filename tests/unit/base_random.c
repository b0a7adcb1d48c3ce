/* base_random.c - Philox against its published vectors, and tensors drawn from it. */
#include "test.h"

/* kat_vectors of the Random123 distribution, lines "philox4x32 10". */
TEST(philox_gives_the_published_vectors)
{
    static const struct {
        uint32_t counter[4], key[2], answer[4];
    } kat[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < 3; i++) {
        const uint32_t *c = kat[i].counter;
        uint32_t out[4];
        dt_random(kat[i].key[0], (dt_stream)kat[i].key[1], c[2], (uint64_t)c[1] << 32 | c[0], c[3],
                  out);
        assert_memory_equal(out, kat[i].answer, sizeof out);
    }
}

TEST(uniform_and_below_stay_inside)
{
    assert_true(dt_uniform(0) == 0);
    assert_true(dt_uniform(0xffffffffu) == 1 - 0x1p-24f);
    assert_true(dt_uniform(0x80000000u) == 0.5f);
    static const uint32_t bounds[] = {1, 2, 9, 10, 50000, 0xffffffffu};
    for (size_t i = 0; i < DT_COUNT_OF(bounds); i++) {
        assert_int_equal(dt_below(0, bounds[i]), 0);
        assert_int_equal(dt_below(0xffffffffu, bounds[i]), bounds[i] - 1);
    }
    /* 9 cells of 10000 expected draws: sigma is 94, so 6 sigma is 566. */
    int cells[9] = {0};
    for (uint32_t i = 0; i < 90000; i++) {
        uint32_t r[4];
        dt_random(1, DT_STREAM_TEST, 0, i, 0, r);
        cells[dt_below(r[2], 9)]++;
    }
    for (int i = 0; i < 9; i++)
        assert_in_range(cells[i], 10000 - 566, 10000 + 566);
}

/* The numbers below are from a separate program in Python, written from the definitions
 * in base.h with its own Philox. */
TEST(fills_give_the_defined_elements)
{
    enum { COUNT = 1000001 };
    static float x[COUNT];
    static const struct {
        size_t e;
        float value;
    } uniform[] =
        {
            {0, 0x1.213848p+1f}, {1, 0x1.ec4d8p-1f}, {2, 0x1.36d42cp+1f},
            {3, 0x1.3168ap-2f},  {4, 0x1.7fb91p+0f}, {9, 0x1.939cbp-1f},
        },
      normal[] = {
          {0, 0x1.4111c6p-9f},
          {1, -0x1.9a6802p-4f},
          {2, -0x1.2b380ap-2f},
          {1000000, -0x1.2f19e8p-1f},
      };
    dt_fill_uniform(x, 10, -2, 3, 42, DT_STREAM_TEST, 5);
    for (size_t i = 0; i < 6; i++)
        assert_true(x[uniform[i].e] == uniform[i].value);
    assert_true(x[10] == 0);

    /* One unit in the last place of float32: another libm may round log or cos so. */
    dt_fill_normal(x, COUNT, 0.5, 7, DT_STREAM_INIT, 3);
    for (size_t i = 0; i < 4; i++)
        assert_true(fabsf(x[normal[i].e] - normal[i].value) <= 0x1p-23f * fabsf(normal[i].value));
}

/* A seed whose first draw is 0, searched for: u1 is 2^-32, not 0, and z the largest of
 * all, sqrt(64 log 2) = 6.66 times the cosine. */
TEST(normal_is_finite_at_the_lowest_draw)
{
    const uint32_t seed = 313740703;
    const float value = 0x1.a9027400p+2f;
    uint32_t bits[4];
    dt_random(seed, DT_STREAM_INIT, 0, 0, 0, bits);
    assert_int_equal(bits[0], 0);
    float x = 0;
    dt_fill_normal(&x, 1, 1, seed, DT_STREAM_INIT, 0);
    assert_true(fabsf(x - value) <= 0x1p-23f * value);
}

TEST(every_part_of_the_key_counts)
{
    uint32_t base[4], other[5][4];
    dt_random(1, DT_STREAM_INIT, 2, 3, 4, base);
    dt_random(9, DT_STREAM_INIT, 2, 3, 4, other[0]);
    dt_random(1, DT_STREAM_TEST, 2, 3, 4, other[1]);
    dt_random(1, DT_STREAM_INIT, 9, 3, 4, other[2]);
    dt_random(1, DT_STREAM_INIT, 2, 3 + ((uint64_t)1 << 32), 4, other[3]);
    dt_random(1, DT_STREAM_INIT, 2, 3, 9, other[4]);
    for (size_t i = 0; i < 5; i++)
        assert_memory_not_equal(other[i], base, sizeof base);

    float a[7], b[5];
    dt_fill_uniform(a, 7, 0, 1, 1, DT_STREAM_INIT, 4);
    dt_fill_uniform(b, 5, 0, 1, 1, DT_STREAM_INIT, 4);
    assert_memory_equal(a, b, sizeof b); /* a longer tensor has the same beginning */
    dt_fill_uniform(b, 5, 0, 1, 1, DT_STREAM_INIT, 5);
    assert_memory_not_equal(a, b, sizeof b);
}
