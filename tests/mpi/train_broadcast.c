/* --broadcast: whatever the ranks held before, afterwards all hold what rank 0 held. */
#include "ranks.h"

#include "../../src/train/run.h"

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

static void all_hold_rank_0s(const char *exchange)
{
    dt_run r;

    open_run(&r, exchange);
    spoil(&r, (float)(10 * dt_comm_rank(comm) + 5));
    assert_ok(dt_comm_barrier(comm));
    assert_ok(dt_run_broadcast(&r));
    const dt_slab *const slabs[] = {&r.master, &r.momentum, &r.running};
    for (size_t i = 0; i < sizeof slabs / sizeof *slabs; i++) {
        const float *x = slabs[i]->mem;
        for (size_t k = 0; k < slabs[i]->bytes / sizeof *x; k += 101)
            assert_true(x[k] == 5 + (float)k);
    }
    dt_run_close(&r);
}

static void replicas(void **state)
{
    (void)state;
    all_hold_rank_0s("tree");
}

static void one_copy(void **state)
{
    (void)state;
    all_hold_rank_0s("shared");
}

static void nodes(void **state)
{
    (void)state;
    if (dt_comm_world(comm) < 3)
        return;
    assert_ok(dt_comm_split_nodes(comm, 2));
    all_hold_rank_0s("tree");
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
