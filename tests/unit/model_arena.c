/* model_arena.c - placement of blocks with lifetimes: no two that live together may share a byte,
 * and the arena is never smaller than the largest simultaneous need. */
#include "test.h"

#include "model/plan.h"

enum { BLOCKS = 200, TIMES = 60 };

static uint32_t draw(uint32_t i, uint32_t lane, uint32_t below)
{
    uint32_t out[4];
    dt_random(7, DT_STREAM_TEST, 0, i, 0, out);
    return dt_below(out[lane], below);
}

TEST(no_overlap_and_tight)
{
    dt_block b[BLOCKS];
    size_t total = 0, need = 0;

    for (uint32_t i = 0; i < BLOCKS; i++) {
        const int first = (int)draw(i, 0, TIMES);
        b[i] = (dt_block){
            .bytes = 1 + draw(i, 1, 5000), .first = first, .last = first + (int)draw(i, 2, 12)};
    }
    assert_ok(dt_arena_place(b, BLOCKS, &total));
    for (int i = 0; i < BLOCKS; i++) {
        assert_int_equal(b[i].offset % 64, 0);
        assert_true(b[i].offset + b[i].bytes <= total);
        for (int k = 0; k < i; k++)
            if (b[i].first <= b[k].last && b[k].first <= b[i].last)
                assert_true(b[i].offset + b[i].bytes <= b[k].offset ||
                            b[k].offset + b[k].bytes <= b[i].offset);
    }
    for (int t = 0; t < TIMES + 12; t++) {
        size_t alive = 0;
        for (int i = 0; i < BLOCKS; i++)
            alive += b[i].first <= t && t <= b[i].last ? b[i].bytes : 0;
        need = alive > need ? alive : need;
    }
    assert_true(total >= need);
    assert_true(total < 2 * need); /* memory is reused, not merely stacked */
}

TEST(sequence_reuses_memory)
{
    dt_block b[3] = {{.bytes = 640, .first = 0, .last = 1},
                     {.bytes = 640, .first = 1, .last = 2},
                     {.bytes = 640, .first = 2, .last = 3}};
    size_t total = 0;

    assert_ok(dt_arena_place(b, 3, &total));
    assert_int_equal(total, 1280);
    assert_int_equal(b[0].offset, b[2].offset);
    assert_ok(dt_arena_place(b, 0, &total));
    assert_int_equal(total, 0);
}
