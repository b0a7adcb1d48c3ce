/* skeleton.c - a step's sums over ranks without its computing, which is slept: for simulated hosts
 * of SimGrid, and for real ones, on which many ranks share few cores.
 *   usage: skeleton EXCHANGE STEPS MOMENTS FORWARD_S FLOATS:SECONDS...
 * Each FLOATS:SECONDS is a bucket and how long backward takes until it is final; `dtrain bench
 * --predict N --json` has them. Rank 0 prints what a step takes, and how much is exposed of it. */
#include "exchanges/exchanges.h"

enum { MOST = 64 };
#ifdef SMPI_NO_OVERRIDE_MALLOC /* simulated: all ranks' gradients are one piece of memory */
#include <smpi/smpi.h>
#define take_memory(bytes) SMPI_SHARED_MALLOC(bytes)
#else
#define take_memory(bytes) calloc(1, bytes)
#endif

static const char *exchange;
static int steps, buckets;
static size_t moments;
static double forward_s, backward_s[MOST];
static dt_span bucket[MOST];

/* Kernels look after messages at least as often as this. */
static void compute(double seconds)
{
    const double slice = 0.001;

    for (; seconds > 0; seconds -= slice) {
        usleep((useconds_t)(1e6 * DT_MIN(slice, seconds)));
        dt_poll();
    }
}

static dt_status run_step(dt_exchange *x, dt_reduce *trees)
{
    dt_exchange_sum sum;

    compute(forward_s);
    (void)dt_exchange_leaf(x);
    for (int b = 0; b < buckets; b++) {
        compute(backward_s[b]);
        DT_TRY(dt_exchange_ready(x, bucket[b].first + bucket[b].count));
    }
    DT_TRY(dt_exchange_finish(x, &sum));
    memset(dt_reduce_leaf(trees), 0, moments * sizeof(dt_moment));
    dt_reduce_push(trees);
    DT_TRY(dt_reduce_finish(trees));
    return dt_exchange_publish(x);
}

static dt_status run(dt_comm *c)
{
    const dt_exchange_opts o = {.name = exchange,
                                .shards = c->world,
                                .floats = bucket[buckets - 1].first + bucket[buckets - 1].count,
                                .tensor = bucket,
                                .tensors = (size_t)buckets,
                                .bucket_bytes = 4};
    dt_exchange_needs needs;
    dt_exchange_stats stats;
    dt_exchange *x = NULL;
    dt_reduce *trees = NULL;
    double began = 0, computes = forward_s;

    for (int b = 0; b < buckets; b++)
        computes += backward_s[b];
    DT_TRY(dt_exchange_create(&x, c, &o, &needs));
    char *memory = take_memory(needs.slabs * o.floats * sizeof(float) + 64);
    if (!memory)
        return dt_fail(DT_NOMEM, "no memory for the gradients");
    DT_TRY(dt_exchange_open(x, (float *)(memory + 64 - (uintptr_t)memory % 64)));
    DT_TRY(dt_reduce_create(&trees, c, c->world, moments, &dt_fold_moments, c->world));
    for (int i = 0; i <= steps; i++) {
        if (i == 1) { /* what is slow but once is in the first */
            DT_TRY(dt_comm_barrier(c));
            began = dt_seconds();
        }
        DT_TRY(run_step(x, trees));
    }
    const double step_s = (dt_seconds() - began) / steps;
    dt_exchange_stats_get(x, &stats);
    if (c->rank == 0)
        printf(
            "%s: ranks %d, hosts %d, step_s %.6f, exposed_s %.6f, efficiency %.4f, mb_sent %.1f, "
            "messages %llu\n",
            exchange, c->world, c->nodes, step_s, step_s - computes, computes / step_s,
            1e-6 * (double)stats.bytes_sent / (steps + 1),
            (unsigned long long)stats.messages / (unsigned long long)(steps + 1));
    dt_exchange_close(x);
    dt_reduce_destroy(trees);
    return DT_OK;
}

int main(int argc, char **argv)
{
    dt_comm *c = NULL;
    size_t floats = 0;

    dt_extra_exchanges();
    if (argc < 6 || argc - 5 > MOST ||
        dt_comm_open(&c, dt_comm_launched(), &argc, &argv) != DT_OK) {
        fprintf(stderr, "skeleton: %s\n", dt_fail_text());
        return 64;
    }
    exchange = argv[1];
    steps = (int)strtol(argv[2], NULL, 10);
    moments = strtoul(argv[3], NULL, 10);
    forward_s = strtod(argv[4], NULL);
    for (; buckets < argc - 5; buckets++) {
        char *seconds;
        bucket[buckets] = (dt_span){floats, strtoul(argv[5 + buckets], &seconds, 10)};
        floats = dt_align(floats + bucket[buckets].count, 16);
        backward_s[buckets] = strtod(seconds + 1, NULL);
    }
    const dt_status st = run(c);
    if (st != DT_OK)
        fprintf(stderr, "skeleton: %s\n", dt_fail_text());
    dt_comm_close(c);
    return dt_status_exit_code(st);
}
