/* train_cut.c - layers that are cut: what `dtrain plan` says that a rank sends in a step is what it
 * sends; and runs of one process, with strategies of their own, have the hashes of one without. */
#include "ranks.h"

#include "check/check.h"
#include "small_run.h"
#include "split/split.h"

typedef struct cut_case {
    const char *net, *strategy, *bn;
    int64_t shards, batch, parts; /* batch: of all shards */
} cut_case;

static dt_options options_of(const cut_case *k)
{
    dt_options o = small_run(k->net);

    o.strategy = k->strategy;
    o.bn = k->bn;
    o.stem = "cifar";
    o.width_divisor = 8;
    o.shards = k->shards;
    o.batch = 0;
    o.global_batch = k->batch;
    o.tensor_parallel = comm->world % k->parts == 0 ? k->parts : 0;
    return o;
}

/* What a step sends, and what is counted before it. */
typedef struct cut_step {
    int64_t sent, counted;
    char weights[DT_DIGEST_CHARS];
} cut_step;

static cut_step step_of(const cut_case *k)
{
    const dt_options o = options_of(k);
    dt_step_result result;
    char all[DT_DIGEST_CHARS];
    dt_activity place = {.step = 0};
    cut_step s;
    dt_run r;

    dt_activity_use(&place);
    assert_ok(dt_run_open(&r, comm, &o, DT_FOR_TRAINING));
    const int64_t before = place.sent_bytes;
    assert_ok(dt_run_step(&r, 0, 0, false, &result));
    s.sent = place.sent_bytes - before;
    const dt_traffic t = dt_traffic_of(r.contexts.plan[0], &r.o, comm->world, comm->rank);
    s.counted = (int64_t)(t.values + t.weights);
    assert_ok(dt_run_hash(&r, (dt_position){.run_step = 1}, s.weights, all));
    dt_run_close(&r);
    dt_activity_use(NULL);
    return s;
}

/* One group sums no gradient by messages; those of several do not depend on the images. */
TEST(plans_count_what_is_sent)
{
    static const cut_case cases[] = {
        {"vgg11", "all=out", "local", 8, 32, 8},
        {"vgg11", "features.{4,22,25}=out", "local", 8, 30, 2},
        {"vgg11", "all=out features.8=batch", "local", 3, 32, 4}, /* ranks without shards */
        {"vgg11", "classifier=out", "local", 8, 5, 8},            /* shards without images */
        {"resnet50", "layer1*=out *.conv2=out fc=out", "local", 8, 16, 2},
        {"resnet50", "all=out", "sync", 8, 16, 4},
    };

    for (size_t i = 0; i < DT_COUNT_OF(cases); i++) {
        cut_case k = cases[i];
        const cut_step one = step_of(&k);
        k.batch *= 2;
        const cut_step two = step_of(&k);
        assert_int_equal(two.sent - one.sent, two.counted - one.counted);
        if (comm->world % k.parts != 0 || comm->world == k.parts)
            assert_int_equal(one.sent, one.counted);
        if (comm->world > k.shards)
            continue;
        k.strategy = "";
        const cut_step none = step_of(&k);
        assert_int_equal(none.counted, 0);
        assert_string_equal(two.weights, none.weights);
    }
}

/* Rank 0 comes late with new weights: no rank packs what was there before. */
TEST(weights_that_come_late_are_packed)
{
    static const char *const strategies[] = {"", "all=batch", "classifier=out", "all=out"};

    for (size_t i = 0; i < DT_COUNT_OF(strategies); i++) {
        const cut_case k = {"vgg11", strategies[i], "local", 8, 32, comm->world};
        const dt_options o = options_of(&k);
        dt_run r;
        assert_ok(dt_run_open(&r, comm, &o, DT_FOR_TRAINING));
        int64_t more = -(int64_t)r.node_bytes; /* than another rank counts */
        assert_ok(dt_comm_max_i64(comm, &more, 1));
        more += (int64_t)r.node_bytes;
        assert_true(comm->rank > 0 || more <= (int64_t)r.grid.whole.bytes);
        assert_ok(dt_grid_collect(&r));
        if (comm->rank == 0) {
            usleep(100000);
            float *const whole = dt_run_snapshot(&r).model.master;
            for (size_t at = 0; at < r.net->weight_total; at++)
                whole[at] = 1 + 2 * whole[at];
        }
        assert_ok(dt_run_broadcast(&r));
        assert_ok(dt_grid_turned(&r));
        void *room = aligned_alloc(64, dt_model_largest_pack(r.model));
        assert_non_null(room);
        assert_ok(dt_model_check_packed(r.model, 0, 1, 1, room, 0));
        free(room);
        dt_run_close(&r);
    }
}

int main(int argc, char **argv)
{
    dt_extra_split();
    ranks_open(argc, argv);
    return ranks_close(tests_run(NULL, NULL));
}
