/* bench_predict.c - closed forms of a step on many ranks, of one shard each, and the constants in
 * them. docs/lab/performance.md has them in words, and how far they are off. */
#include "bench.h"

typedef struct costs { /* seconds */
    double latency, message;
    double byte, one_way; /* byte: one each way at the same time */
    double add, merge;    /* a byte of a sum; a moment */
} costs;
/* Rates are those of the cable less the headers of Ethernet, IP and TCP: 1448 bytes of 1538. */
static const struct {
    const char *name;
    double bytes_per_s;
} networks[] = {{"1gbit", 1.177e8}, {"10gbit", 1.177e9}, {"100gbit", 1.177e10}};

/* Bytes/s of the network that --predict has behind '@'; 0: as measured; -1: there is none such. */
static double rate_of(const dt_options *o)
{
    const char *at = strchr(o->predict, '@');

    for (size_t i = 0; at && i < DT_COUNT_OF(networks); i++)
        if (strcmp(at + 1, networks[i].name) == 0)
            return networks[i].bytes_per_s;
    return at ? -1 : 0;
}

dt_status dt_single_rank_take(dt_single_rank *a, const dt_run *r, double step_s)
{
    *a = (dt_single_rank){.step_s = step_s,
                          .images = r->o.global_batch,
                          .tensors = r->net->params,
                          .buckets = dt_exchange_buckets(dt_run_exchange(r)),
                          .moments = r->net->norm_channels};
    if (a->buckets > DT_COUNT_OF(a->bucket))
        return dt_fail(DT_UNSUPPORTED, "--predict: %zu buckets: raise --bucket-mb", a->buckets);
    for (size_t b = 0; b < a->buckets; b++)
        a->bucket[b].floats = dt_exchange_bucket(dt_run_exchange(r), b, &a->bucket[b].ahead_s);
    return DT_OK;
}

/* ---- Constants ------------------------------------------------------------------------------ */

/* The first ones pay for connections; the mean of long messages, which a burst may begin. */
static dt_status measure_pair(dt_comm *c, char *room, size_t bytes, costs *k)
{
    enum { ROUNDS = 5 };
    double seconds = 0, sum[2] = {0};

    k->message = HUGE_VAL;
    for (int i = 0; i <= ROUNDS && (c->rank == 0 || c->rank == c->world - 1); i++) {
        DT_TRY(dt_messages_time(c, room, DT_MESSAGES, 64, true, &seconds));
        k->message = DT_MIN(k->message, seconds / 2); /* it is sent, and received */
        for (int both = 0; both < 2; both++) {
            DT_TRY(dt_messages_time(c, room, 1, bytes, both, &seconds));
            sum[both] += i > 0 ? seconds : 0;
        }
    }
    k->one_way = sum[0] / ROUNDS / (double)bytes;
    k->byte = sum[1] / ROUNDS / (double)bytes;
    return DT_OK;
}

static dt_status measure(dt_comm *c, const dt_options *o, size_t moments, costs *k)
{
    enum { BYTES = 8 << 20, BLOCK = 16384 };
    const size_t merged = moments * sizeof(dt_moment), room_bytes = DT_MAX(2 * BYTES, 2 * merged);
    dt_comm_clock *clock = NULL;
    char *room = NULL;
    dt_status st = dt_calloc(&room, room_bytes, 1, "the prediction");

    if (st == DT_OK)
        st = dt_calloc(&clock, (size_t)c->world, sizeof *clock, "the prediction");
    DT_GO(st, dt_comm_agree(c, st), out);
    /* Where there is one rank: Open MPI 4.1.4 by TCP on two cores of Zen 5. */
    *k = (costs){.latency = 8e-6, .message = 4e-6};
    if (c->world > 1) {
        DT_GO(st, dt_comm_clocks(c, clock), out);
        DT_GO(st, measure_pair(c, room, BYTES, k), out);
        DT_GO(st, dt_comm_barrier(c), out);
        k->latency = 1e-9 * (double)clock[c->world - 1].bound;
    }
    if (rate_of(o) > 0)
        k->byte = k->one_way = 1 / rate_of(o);
    for (int i = 0; i < 2; i++) { /* the first time touches the memory */
        double began = dt_seconds();
        for (size_t at = BLOCK; at < BYTES; at += BLOCK)
            dt_fold_f32.add(room, room, room + at, BLOCK / sizeof(float));
        k->add = (dt_seconds() - began) / BYTES;
        began = dt_seconds();
        dt_fold_moments.add(room, room, room + merged, moments);
        k->merge = (dt_seconds() - began) / (double)DT_MAX(moments, 1);
    }
out:
    DT_FREE(clock, room);
    return st;
}

/* ---- Closed forms ---------------------------------------------------------------------------- */

/* star: all through rank 0; halving: by MPI, from 4 ranks on by recursive halving and doubling
 * (Open MPI 4.1, coll/libnbc; Rabenseifner 2004); neither: the tree. overlaps: a bucket begins when
 * it is final, else a tensor after backward. */
static const struct form {
    const char *name;
    bool star, halving, overlaps;
} forms[] = {{"tree", false, false, true},
             {"gather", true, false, false},
             {"p2p", true, false, false},
             {"allreduce", false, true, false},
             {"buckets", false, true, true}};

typedef struct predicted {
    double step_s, messages; /* messages of rank 0 for gradients */
} predicted;

static predicted predict(const struct form *f, const dt_single_rank *a, const costs *k, int ranks)
{
    const int group = dt_fold_group(ranks, DT_FEW), groups = ranks / group;
    const double n = ranks, levels = groups > 1 ? 2 : 1, peers = group + groups - 2;
    const double units = f->overlaps ? 1 : (double)a->tensors / (double)a->buckets;
    const bool halving = f->halving && ranks >= 4, star = f->star || (f->halving && !halving);
    /* of a unit: messages one after the other; all of rank 0; times that its bytes are carried */
    const double turns = star ? 2 : halving ? 2 * ceil(log2(n)) : 2 * levels;
    const double messages = star ? 2 * (n - 1) : halving ? 2 * turns : 4 * peers;
    const double carried = star ? 2 * (n - 1) : 2 * (n - 1) / n, summed = star ? n - 1 : 1;
    /* its turns leave gaps: on 4 and 8 hosts cables were full both ways a third of the time */
    const double byte = star ? k->one_way : halving ? (2 * k->one_way + k->byte) / 3 : k->byte;
    double free_at = -HUGE_VAL, ends = 0, busy = 0; /* since backward's end; the rank itself */

    for (size_t b = 0; b < a->buckets; b++) {
        const double bytes = (double)(a->bucket[b].floats * sizeof(float));
        const double began = DT_MAX(free_at, f->overlaps ? -a->bucket[b].ahead_s : 0);
        free_at = began + carried * bytes * byte;
        double turn = free_at;
        for (int i = 0; i < units * turns; i++) /* after backward a rank looks without a pause */
            turn += k->latency + (turn < 0 ? DT_LOOK_S / 2 : 0);
        ends = DT_MAX(ends, turn);
        busy += units * messages * k->message + summed * bytes * k->add;
    }
    /* losses, and moments of batch norms, on all ranks */
    const double sums = 2 * levels * k->latency + 4 * peers * k->message +
                        peers * (double)a->moments * (sizeof(dt_moment) * k->byte + k->merge);
    return (predicted){a->step_s + ends + busy + sums, messages * units * (double)a->buckets};
}

static void print_alone(const dt_options *o, const dt_comm *c, const dt_single_rank *a,
                        const costs *k)
{
    const char *pair = c->world > 1 ? "ranks 0 and the last, here" : "TCP on two cores of Zen 5";

    printf("one rank alone: %.4f s a step, %zu moments, backward ends with buckets of (floats:s "
           "before its end)",
           a->step_s, a->moments);
    for (size_t b = 0; b < a->buckets; b++)
        printf(" %zu:%.4f", a->bucket[b].floats, a->bucket[b].ahead_s);
    printf(
        "\nlatency %.1f us, a message %.1f us (%s); %.4g GB/s one way, %.4g each way (%s); a byte "
        "summed %.3f ns, a moment %.1f ns (rank 0, here); looks every %.0f ms\n",
        1e6 * k->latency, 1e6 * k->message, pair, 1e-9 / k->one_way, 1e-9 / k->byte,
        rate_of(o) > 0 ? strchr(o->predict, '@') + 1 : pair, 1e9 * k->add, 1e9 * k->merge,
        1e3 * DT_LOOK_S);
}

static void print_rows(const dt_options *o, const struct form *f, const dt_single_rank *a,
                       const costs *k)
{
    char *end = NULL;

    for (const char *at = o->predict; *at; at = *end == ',' ? end + 1 : "") {
        const long ranks = strtol(at, &end, 10);
        const predicted p = predict(f, a, k, (int)ranks);
        const double exposed = p.step_s - a->step_s, efficiency = a->step_s / p.step_s;
        const double images = (double)(a->images * ranks) / p.step_s;
        printf(o->json ? "{\"exchange\":\"%s\",\"ranks\":%ld,\"step_s\":%.6f,\"exposed_s\":%.6f,"
                         "\"images_per_s\":%.2f,\"efficiency\":%.4f,\"messages\":%.0f}\n"
                       : "%-10s %5ld %9.4f %9.4f %11.1f %10.3f %8.0f\n",
               f->name, ranks, p.step_s, exposed, images, efficiency, p.messages);
    }
}

dt_status dt_bench_predict_check(const dt_options *o, int world)
{
    char *end = NULL;

    for (const char *at = o->predict; *at; at = *end == ',' ? end + 1 : "") {
        const long ranks = strtol(at, &end, 10);
        if (ranks < 2 || ranks > 1000000 || !strchr(",@", *end) || rate_of(o) < 0)
            return dt_fail(DT_USAGE,
                           "--predict %s: numbers of ranks, 2 to 1000000, and @1gbit, @10gbit or "
                           "@100gbit behind them",
                           o->predict);
    }
    if (strcmp(o->exchange, "shared") == 0)
        return dt_fail(DT_CONFIG, "--predict: exchange shared is of one node: leave it out");
    if (world == 1 && rate_of(o) == 0)
        return dt_fail(DT_CONFIG,
                       "--predict: one rank has no network to measure: give %s@10gbit, "
                       "or start two ranks",
                       o->predict);
    return DT_OK;
}

dt_status dt_bench_predict(dt_comm *c, const dt_options *o, dt_single_rank *a)
{
    const char *name = strcmp(o->exchange, "auto") == 0 ? "tree" : o->exchange;
    costs k;

    DT_TRY(dt_comm_bcast(c, &a->moments, sizeof a->moments, 0));
    DT_TRY(measure(c, o, a->moments, &k));
    if (c->rank != 0)
        return DT_OK;
    if (!o->json) {
        print_alone(o, c, a, &k);
        puts("exchange      np    s/step exposed s    images/s efficiency     msgs");
    }
    for (size_t i = 0; i < DT_COUNT_OF(forms); i++)
        if (strcmp(name, "all") == 0 || strcmp(name, forms[i].name) == 0)
            print_rows(o, &forms[i], a, &k);
    return DT_OK;
}
