/* train_run.c - parts of a run on several ranks: a broadcast, after which all hold what rank 0
 * held, whatever they held before; --bn node; and the test against an oracle: where the last layer
 * is a bias alone, an image costs log(sum(exp(bias))) - bias[label], whatever it shows. */
#include "ranks.h"

#include "check/check.h"
#include "small_run.h"

/* Weights, momentum and statistics: write what `by` makes, or tell whether they are that. */
static bool numbers(const dt_run *r, float by, bool write)
{
    const dt_slab *const slabs[] = {&r->domain[0].master, &r->domain[0].momentum, &r->running};
    bool same = true;

    for (size_t i = 0; i < DT_COUNT_OF(slabs); i++) {
        float *x = slabs[i]->mem;
        for (size_t k = 0; k < slabs[i]->bytes / sizeof *x; k += 101) {
            if (write)
                x[k] = by + (float)k;
            same = same && x[k] == by + (float)k;
        }
    }
    return same;
}

/* `copies`: of the weights, over all ranks: what the ranks hold before must differ, or
 * nothing would have to be sent. */
static void all_hold_rank_0s(const char *exchange, int copies)
{
    const float mine = (float)(10 * comm->rank + 5);
    dt_options o = small_run("vgg11");
    dt_run r;

    o.exchange = exchange;
    assert_ok(dt_run_open(&r, comm, &o, DT_FOR_TRAINING));
    int64_t counted = r.writes;
    assert_ok(dt_comm_sum_i64(comm, &counted, 1));
    assert_int_equal(counted, copies);
    if (r.writes)
        numbers(&r, mine, true);
    assert_ok(dt_comm_barrier(comm));
    if (r.writes && comm->rank > 0)
        assert_false(numbers(&r, 5, false));
    assert_ok(dt_comm_barrier(comm));
    assert_ok(dt_run_broadcast(&r));
    assert_true(numbers(&r, 5, false));
    assert_ok(dt_comm_agree(comm, dt_model_check_packed(r.model, 0, 1, 1, r.check_room.mem, 1)));
    dt_run_close(&r);
}

/* A copy on each rank; one on one node, of which all is packed anew; one on each node of as many
 * ranks, else one per rank. */
TEST(broadcasts)
{
    const int world = comm->world;

    all_hold_rank_0s("tree", world);
    all_hold_rank_0s("shared", 1);
    if (world < 3)
        return;
    assert_ok(dt_comm_split_nodes(comm, 2));
    all_hold_rank_0s("tree", world % 2 == 0 ? 2 : world);
    assert_ok(dt_comm_split_nodes(comm, 1));
}

/* The shards of the one node are all shards; a test needs none. */
TEST(node_becomes_a_number)
{
    dt_options o = small_run("vgg11");
    dt_run r;

    o.bn = "node";
    assert_ok(dt_run_open(&r, comm, &o, DT_FOR_TRAINING));
    assert_string_equal(r.o.bn, "group:8");
    assert_int_equal(r.bn_group, 8);
    dt_run_close(&r);
    assert_ok(dt_run_open(&r, comm, &o, DT_FOR_EVALUATION));
    assert_int_equal(r.bn_group, 0);
    dt_run_close(&r);
}

/* The last bias is that of the classes; all other parameters are zero. */
static void set_weights(dt_run *r, const float *bias)
{
    const dt_param *p = &r->net->param[r->net->params - 1];
    float *master = r->domain[0].master.mem;

    assert_int_equal(p->count, 10);
    if (r->writes) {
        memset(master, 0, r->domain[0].master.bytes);
        for (size_t k = 0; k < p->count; k++)
            master[p->offset + k] = bias[k];
    }
    assert_ok(dt_run_broadcast(r));
}

/* Test images in chunks, the last of them with what is left: the mean is that of the images. */
TEST(means_are_over_images)
{
    static const char *const data[] = {"synthetic:1024", "synthetic:1100", "synthetic:3332"};
    float bias[10];

    for (int k = 0; k < 10; k++)
        bias[k] = (float)((7 * k) % 10) / 4;
    for (size_t d = 0; d < sizeof data / sizeof *data; d++) {
        double all = 0, loss = 0;
        int64_t correct = 0;
        dt_test_result test;
        dt_options o = small_run("vgg11");
        dt_run r;

        o.data = data[d];
        o.width_divisor = 32;
        assert_ok(dt_run_open(&r, comm, &o, DT_FOR_TRAINING));
        set_weights(&r, bias);
        for (int k = 0; k < 10; k++)
            all += exp((double)bias[k]);
        const int64_t images = dt_source_describe(r.source)->test;
        for (int64_t i = 0; i < images; i++) {
            int32_t label = 0;
            dt_source_image(r.source, true, i, &label);
            loss += log(all) - (double)bias[label];
            correct += label == 7; /* 7 x 7 = 49: the largest */
        }
        assert_ok(dt_run_test(&r, NULL, &test));
        print_message("%lld images in chunks of %lld\n", (long long)images,
                      (long long)r.test_chunk);
        assert_int_equal(test.images, images);
        assert_int_equal(test.correct, correct);
        assert_true(fabs(test.accuracy - (double)correct / (double)images) < 1e-15);
        assert_true(fabs(test.loss - loss / (double)images) < 1e-6);
        dt_run_close(&r);
    }
}

int main(int argc, char **argv)
{
    dt_extra_check(); /* with room for packing again */
    ranks_open(argc, argv);
    return ranks_close(tests_run(NULL, NULL));
}
