/* exchange_delays.c - ranks that are late by chance, at every place where another could overtake
 * them: nobody reads memory too early or writes it too late. */
#include "ranks.h"

#include "gradients.h"

/* Read weights as forward and backward do, from the step's start to its end: nobody may
 * write them meanwhile. */
static void steps(exchange_case k, int count)
{
    trial t;

    k.delays = true;
    trial_open(&t, k);
    for (int step = 0; step < count; step++) {
        int first, end;
        float *leaf[MOST_SHARDS];

        t.k.step = step % STEPS;
        dt_shards_of(k.shards, dt_comm_world(comm), dt_comm_rank(comm), &first, &end);
        for (int shard = first; shard < end; shard++) {
            leaf[shard - first] = leaf_take(t.x);
            if (!k.lockstep)
                write_leaves(&t, &leaf[shard - first], shard, 1, 0, floats);
            delay(&t, 6);
            if (step > 0)
                check_weights(&t, (step - 1) % STEPS);
        }
        if (k.lockstep)
            write_leaves(&t, leaf, first, end - first, 0, floats);
        delay(&t, 5);
        if (step > 0)
            check_weights(&t, (step - 1) % STEPS);
        update(&t);
        delay(&t, 4);
        check_weights(&t, step % STEPS);
    }
    trial_close(&t);
}

static void nobody_overtakes(void **state)
{
    (void)state;
    const int world = dt_comm_world(comm);

    for (int nodes = 1; nodes <= 3 && nodes <= world; nodes++) {
        const char *row = nodes == 1 ? "shared" : "tree";
        assert_ok(dt_comm_split_nodes(comm, nodes));
        for (int kind = 0; kind < 4; kind++)
            steps((exchange_case){.row = row,
                                  .shards = world + kind,
                                  .bucket_bytes = kind % 2 ? 4 : 12000,
                                  .lockstep = kind == 2,
                                  .bf16 = kind > 1},
                  12);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nobody_overtakes)};
    lay_out();
    ranks_open(argc, argv);
    return ranks_close(cmocka_run_group_tests(tests, NULL, NULL));
}
