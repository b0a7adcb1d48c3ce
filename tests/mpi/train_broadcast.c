/* train_broadcast.c - --broadcast: whatever the ranks held before, afterwards all hold what rank
 * 0 held. */
#include "ranks.h"

#include "train/run.h"

static void open_run(dt_run *r, const char *exchange)
{
    dt_options o;

    dt_options_init(&o);
    o.data = "synthetic:64";
    o.net = "vgg11";
    o.width_divisor = 16;
    o.shards = 8;
    o.batch = 4;
    o.precision = "fp32";
    o.exchange = exchange;
    o.threads = 1;
    assert_ok(dt_run_open(r, comm, &o, DT_FOR_TRAINING));
}

/* Other numbers on every rank that writes a copy: weights, momentum and statistics. */
static void spoil(dt_run *r, float by)
{
    const dt_slab *const slabs[] = {&r->master, &r->momentum, &r->running};

    for (size_t i = 0; r->writes && i < sizeof slabs / sizeof *slabs; i++) {
        float *x = slabs[i]->mem;
        for (size_t k = 0; k < slabs[i]->bytes / sizeof *x; k += 101)
            x[k] = by + (float)k;
    }
}

/* Whether all of them are what `by` made. */
static bool holds(const dt_run *r, float by)
{
    const dt_slab *const slabs[] = {&r->master, &r->momentum, &r->running};

    for (size_t i = 0; i < sizeof slabs / sizeof *slabs; i++) {
        const float *x = slabs[i]->mem;
        for (size_t k = 0; k < slabs[i]->bytes / sizeof *x; k += 101)
            if (x[k] != by + (float)k)
                return false;
    }
    return true;
}

/* `copies`: of the weights, over all ranks: what the ranks hold before must differ, or
 * nothing would have to be sent. */
static void all_hold_rank_0s(const char *exchange, int copies)
{
    const float mine = (float)(10 * dt_comm_rank(comm) + 5);
    dt_run r;

    open_run(&r, exchange);
    int64_t counted = r.writes;
    assert_ok(dt_comm_sum_i64(comm, &counted, 1));
    assert_int_equal(counted, copies);
    spoil(&r, mine);
    assert_ok(dt_comm_barrier(comm));
    if (r.writes && dt_comm_rank(comm) > 0)
        assert_false(holds(&r, 5));
    assert_ok(dt_comm_barrier(comm));
    assert_ok(dt_run_broadcast(&r));
    assert_true(holds(&r, 5));
    assert_ok(dt_comm_agree(comm, dt_model_check_packed(r.model, 0, 1, 1, r.check_room.mem, 1)));
    dt_run_close(&r);
}

static void replicas(void **state)
{
    (void)state;
    all_hold_rank_0s("tree", dt_comm_world(comm));
}

/* One node has one copy, which is rank 0's: nothing is sent, and all of it packed anew. */
static void one_copy(void **state)
{
    (void)state;
    all_hold_rank_0s("shared", 1);
}

/* A copy on each node of as many ranks, of which the first rank writes it; else one per rank. */
static void nodes(void **state)
{
    (void)state;
    if (dt_comm_world(comm) < 3) {
        print_message("two nodes, one of them with two ranks, need three\n");
        skip();
    }
    assert_ok(dt_comm_split_nodes(comm, 2));
    all_hold_rank_0s("tree", dt_comm_world(comm) % 2 == 0 ? 2 : dt_comm_world(comm));
    assert_ok(dt_comm_split_nodes(comm, 1));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas),
        cmocka_unit_test(one_copy),
        cmocka_unit_test(nodes),
    };
    ranks_open(argc, argv);
    return ranks_close(cmocka_run_group_tests(tests, NULL, NULL));
}
