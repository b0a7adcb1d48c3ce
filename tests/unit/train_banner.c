/* train_banner.c - what the head of a run says of the number of ranks. */
#include "test.h"

#include "train/run.h"

TEST(ranks_that_are_sooner)
{
    static const struct {
        int cores, ranks, threads;
        int64_t shards;
        int better;
    } rows[] = {
        {2, 3, 1, 8, 2},                        /* they take turns */
        {2, 1, 2, 8, 1},     {16, 1, 16, 8, 1}, /* few threads */
        {64, 1, 64, 1, 1},                      /* nothing to divide */
        {64, 1, 64, 8, 8},   {64, 2, 32, 64, 8}, {64, 8, 8, 64, 8}, {64, 64, 1, 64, 64},
        {64, 1, 64, 9, 3},   {64, 1, 64, 7, 7}, /* all ranks have as many shards */
        {64, 1, 1, 8, 1},                       /* the user wants one thread, or one is bound */
        {256, 2, 128, 8, 8},
    };

    for (size_t i = 0; i < DT_COUNT_OF(rows); i++)
        assert_int_equal(
            dt_banner_ranks(rows[i].cores, rows[i].ranks, rows[i].threads, rows[i].shards),
            rows[i].better);
}
