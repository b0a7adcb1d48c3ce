/* bench.c - the benchmark: the trainer's own loop (loader and update included) on synthetic
 * data, warmed up, then timed step by step. With --exchange all or --engine all, one row for each;
 * with --scaling, one per number of ranks 1, 2, 4, ... up to all, each shard as large as ever; with
 * --layers, the profile of one row, or the engines' passes side by side. */
#include "bench.h"
#include "bench_layers.h"
#include "watch/watch.h"

typedef struct bench_row {
    const char *engine, *exchange;
    int ranks;
    bool exact;
    double median_s, low_s, high_s;         /* per step; spread: fastest and slowest */
    double images_per_s;                    /* at the median */
    double phase_s[DT_ACTIVITY_COUNT];      /* mean per step, rank 0 */
    double mib_per_step, messages_per_step; /* sent and received by rank 0 */
    double exposed_s;                       /* mean per step that rank 0 waits for communication */
    double reserved_mib;                    /* rank 0's buffers and its share of the node's */
    int late; /* the rank that the others waited for, -1: none; and how long, per step */
    double late_s;
    double account[DT_ACCOUNTS]; /* of rank 0, per step */
    double loss;
    char hash[DT_DIGEST_CHARS];
    float **gradient;        /* borrowed: of own's first step; NULL: engines are not compared */
    double off;              /* the largest difference from it, of its largest number */
    dt_bench_layers *layers; /* borrowed; NULL: no --layers */
    dt_single_rank *alone;   /* the same of --predict */
} bench_row;

typedef struct bench {
    dt_comm *comm;           /* borrowed, like the options */
    const dt_options *o;     /* as given */
    bool engines, exchanges; /* a row for each */
    bool begun;
    double alone;    /* images/s of a rank, which the others are compared with */
    float *gradient; /* owned */
} bench;

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Steps [first, end) of the run, through epochs as training does. */
static dt_status bench_steps(dt_run *r, int64_t first, int64_t end, double *seconds,
                             dt_step_result *result)
{
    for (int64_t step = first; step < end; step++) {
        const double start = dt_seconds();
        DT_TRY(dt_run_step(r, step / r->steps_per_epoch, step % r->steps_per_epoch, false, result));
        seconds[step] = dt_seconds() - start;
    }
    return DT_OK;
}

static dt_status bench_summarise(const dt_run *r, double *seconds, const dt_exchange_stats *before,
                                 const dt_step_result *last, bench_row *row)
{
    const size_t n = (size_t)r->o.steps;
    const double waited = dt_record_seconds(DT_LANE_WAIT, DT_IN_gradients, 1); /* and weights */
    dt_exchange_stats after;
    double sum = 0;

    dt_exchange_stats_get(dt_run_exchange(r), &after);
    for (size_t i = 0; i < n; i++)
        sum += seconds[i];
    qsort(seconds, n, sizeof *seconds, ascending);
    row->exchange = dt_exchange_name(dt_run_exchange(r));
    row->exact = dt_exchange_exact(dt_run_exchange(r));
    row->median_s = n % 2 ? seconds[n / 2] : 0.5 * (seconds[n / 2 - 1] + seconds[n / 2]);
    row->low_s = seconds[0];
    row->high_s = seconds[n - 1];
    row->images_per_s = (double)last->record.images / row->median_s;
    row->loss = last->record.loss;
    for (int p = DT_AT_data; p <= DT_AT_update; p++)
        row->phase_s[p] = dt_record_seconds(DT_LANE_PHASE, p, DT_RECORD_KINDS) / (double)n;
    row->ranks = r->comm->world;
    row->exposed_s = waited / (double)n;
    row->reserved_mib = (double)after.memory / (1024.0 * 1024.0);
    const uint64_t bytes =
        after.bytes_sent - before->bytes_sent + after.bytes_received - before->bytes_received;
    row->mib_per_step = (double)bytes / (double)n / (1024.0 * 1024.0);
    row->messages_per_step = (double)(after.messages - before->messages) / (double)n;
    if (row->alone)
        DT_TRY(dt_single_rank_take(row->alone, r, row->median_s));
    return row->layers ? dt_bench_layers_take(row->layers, r, sum) : DT_OK;
}

/* After the first step the momentum is the gradient, and the same decay of the same weights. */
static dt_status bench_gradient(const dt_run *r, bench_row *row)
{
    const size_t n = row->gradient ? dt_model_floats(r->model, DT_SLAB_HOME) : 0;
    const float *now = r->domain[DT_SLAB_HOME].momentum.mem;
    float most = 1e-30f, off = 0;

    if (n > 0 && !*row->gradient) {
        DT_TRY(dt_calloc(row->gradient, n, sizeof *now, "a gradient"));
        memcpy(*row->gradient, now, n * sizeof *now);
    }
    for (size_t i = 0; i < n; i++) {
        most = fmaxf(most, fabsf((*row->gradient)[i]));
        off = fmaxf(off, fabsf((*row->gradient)[i] - now[i]));
    }
    row->off = (double)(off / most);
    return DT_OK;
}

enum { WARMUP_STEPS = 3 }; /* before those that are measured */

static dt_status bench_one(dt_comm *c, const dt_options *o, bench_row *row)
{
    dt_run r;
    dt_step_result last = {0};
    dt_exchange_stats before;
    char all[DT_DIGEST_CHARS];
    double *seconds = NULL; /* of each step */
    const int64_t steps = WARMUP_STEPS + o->steps;

    DT_TRY(dt_run_open(&r, c, o, DT_FOR_TRAINING));
    dt_status st = dt_calloc(&seconds, (size_t)steps, sizeof *seconds, "the benchmark");
    DT_GO(st, dt_comm_agree(c, st), out);
    DT_GO(st, bench_steps(&r, 0, 1, seconds, &last), out);
    DT_GO(st, dt_comm_agree(c, bench_gradient(&r, row)), out);
    DT_GO(st, bench_steps(&r, 1, WARMUP_STEPS, seconds, &last), out);
    DT_GO(st, dt_comm_barrier(c), out);
    dt_exchange_stats_get(dt_run_exchange(&r), &before);
    const double began = dt_activity_phase(DT_AT_between);
    dt_record_restart();
    DT_GO(st, bench_steps(&r, WARMUP_STEPS, steps, seconds, &last), out);
    DT_GO(st, dt_account_take(c, row->account), out);
    for (int i = 0; i < DT_ACCOUNTS; i++)
        row->account[i] /= (double)o->steps;
    DT_GO(st, dt_comm_agree(c, bench_summarise(&r, seconds + WARMUP_STEPS, &before, &last, row)),
          out);
    DT_GO(st,
          dt_watch_late(c, dt_record_seconds(DT_LANE_WAIT, 0, 1), dt_seconds() - began, &row->late,
                        &row->late_s),
          out);
    row->late_s /= (double)o->steps;
    st = dt_run_hash(&r, (dt_position){.epoch = 0}, row->hash, all);

out:
    free(seconds);
    dt_run_close(&r);
    if (st == DT_OK && row->layers) /* with the run's memory free again */
        st = dt_bench_layers_peaks(row->layers, c);
    return st;
}

static void bench_print(const bench *b, const bench_row *row)
{
    char scale[16] = "-";

    if (!b->begun)
        printf("%-10s  np    s/step   fastest   slowest  images/s  scale exposed s  MiB held "
               "MiB both   msgs  exact  weights hash%s\n",
               b->engines ? "engine" : "exchange",
               b->engines ? "                      gradient off" : "");
    if (b->alone > 0)
        snprintf(scale, sizeof scale, "%.2f", row->images_per_s / (b->alone * row->ranks));
    printf("%-10s %3d %9.4f %9.4f %9.4f %9.1f %6s %9.4f %9.1f %8.2f %6.0f  %-5s  %s",
           b->engines ? row->engine : row->exchange, row->ranks, row->median_s, row->low_s,
           row->high_s, row->images_per_s, scale, row->exposed_s, row->reserved_mib,
           row->mib_per_step, row->messages_per_step, row->exact ? "yes" : "no", row->hash);
    printf(b->engines ? "  %.1e\n" : "\n", row->off);
    if (b->exchanges || b->engines || b->o->scaling)
        return;
    printf("\nphases of rank 0 of %d, seconds per step:", row->ranks);
    for (int p = DT_AT_data; p <= DT_AT_update; p++)
        printf(" %s %.4f", dt_activity_word[p], row->phase_s[p]);
    printf("\n");
    for (int i = 0; i < DT_ACCOUNTS; i++)
        printf("%s%s %.4f%s", i ? ", " : "account, seconds per step: ", dt_account[i].value,
               row->account[i], i + 1 < DT_ACCOUNTS ? "" : "\n");
    if (row->late >= 0)
        printf("rank %d is slower than the others: half of them waited for it, %.4f s per step\n",
               row->late, row->late_s);
    if (row->layers)
        dt_bench_layers_print(row->layers);
}

static dt_status bench_print_json(const bench_row *row)
{
    json_t *phases = json_object();
    for (int p = DT_AT_data; p <= DT_AT_update; p++)
        json_object_set_new(phases, dt_activity_word[p], json_real(row->phase_s[p]));
    json_t *account = json_object();
    for (int i = 0; i < DT_ACCOUNTS; i++)
        json_object_set_new(account, dt_account[i].name, json_real(row->account[i]));
    json_t *j = json_pack(
        "{s:s, s:o*, s:s, s:b, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:f, s:s, "
        "s:o, s:o, s:o*}",
        "engine", row->engine, "gradient_off", row->gradient ? json_real(row->off) : NULL,
        "exchange", row->exchange, "exact", row->exact, "ranks", row->ranks, "images_per_s",
        row->images_per_s, "step_s", row->median_s, "fastest_s", row->low_s, "slowest_s",
        row->high_s, "mib_at_rank0", row->mib_per_step, "messages_at_rank0", row->messages_per_step,
        "exposed_s_at_rank0", row->exposed_s, "reserved_mib_at_rank0", row->reserved_mib, "loss",
        row->loss, "late_rank", row->late >= 0 ? json_integer(row->late) : json_null(), "late_s",
        row->late >= 0 ? row->late_s : 0.0, "weights_hash", row->hash, "phases_s", phases,
        "account_s", account, "layers", row->layers ? dt_bench_layers_json(row->layers) : NULL);
    const bool whole = j && json_dumpf(j, stdout, JSON_REAL_PRECISION(9)) == 0;
    json_decref(j);
    putchar('\n');
    return whole || ferror(stdout) ? DT_OK /* main looks at errors */
                                   : dt_fail(DT_NOMEM, "no memory for the benchmark's JSON");
}

/* On the first ranks alone; the others wait, and get the outcome from rank 0. */
static dt_status bench_on(dt_comm *c, int ranks, const dt_options *o, bench_row *row)
{
    dt_comm *part = NULL;
    dt_status st = DT_OK;

    if (ranks == c->world)
        return bench_one(c, o, row);
    DT_TRY(dt_comm_split(&part, c, c->rank < ranks ? 0 : -1));
    if (part)
        st = bench_one(part, o, row);
    if (st != DT_OK && dt_fail_text()[0]) /* this rank's alone: main ends all ranks */
        return st;
    dt_comm_close(part);
    DT_TRY(dt_comm_bcast(c, &st, sizeof st, 0));
    return st;
}

/* One exchange or engine, on 1, 2, 4, ... ranks where a curve is wanted, and on all. */
static dt_status bench_rows(bench *b, const dt_options *one, dt_bench_layers *layers)
{
    dt_comm *c = b->comm;
    const int world = c->world;

    for (int ranks = b->o->scaling ? 1 : world; ranks <= world;
         ranks = ranks < world && 2 * ranks > world ? world : 2 * ranks) {
        bench_row row = {
            .engine = one->engine, .layers = layers, .gradient = b->engines ? &b->gradient : NULL};
        dt_status st = DT_OK;
        DT_TRY(bench_on(c, ranks, one, &row));
        if (b->engines ? !b->begun : ranks == 1)
            b->alone = row.images_per_s / ranks;
        if (c->rank == 0 && b->o->json)
            st = bench_print_json(&row);
        else if (c->rank == 0)
            bench_print(b, &row);
        fflush(stdout);
        DT_TRY(dt_comm_agree(c, st));
        b->begun = true;
    }
    return DT_OK;
}

/* A row for each name that the option takes; a row that declines says why. */
static dt_status bench_all(bench *b, dt_options *one)
{
    static const char *const exchange[] = {DT_EXCHANGE_LIST(DT_NAME_OF)};
    static const char *const engine[] = {DT_ENGINE_LIST(DT_NAME_OF)};
    enum { EXCHANGES = DT_COUNT_OF(exchange), ENGINES = DT_COUNT_OF(engine) };
    const int rows = b->engines ? ENGINES : b->exchanges ? EXCHANGES : 1;
    dt_bench_layers layers[ENGINES] = {0}; /* not of several exchanges */
    dt_status st = DT_OK;

    for (int i = 0; i < rows && (st == DT_OK || st == DT_UNSUPPORTED); i++) {
        if (b->engines)
            one->engine = engine[i];
        if (b->exchanges)
            one->exchange = exchange[i];
        st = dt_comm_agree(b->comm, dt_engine_use(one->engine));
        if (st == DT_OK)
            st = bench_rows(b, one, b->o->layers ? &layers[i] : NULL);
    }
    if (b->engines && b->o->layers && !b->o->json && b->comm->rank == 0)
        dt_bench_layers_compare(layers, engine, ENGINES);
    for (int i = 0; i < ENGINES; i++)
        free(layers[i].pass);
    free(b->gradient);
    return b->begun && st == DT_UNSUPPORTED ? DT_OK : st;
}

dt_status dt_bench(dt_comm *c, const dt_options *o)
{
    bench b = {.comm = c,
               .o = o,
               .engines = strcmp(o->engine, "all") == 0,
               .exchanges = strcmp(o->exchange, "all") == 0};
    dt_options one = *o, whole = *o;
    char data[64];

    if (b.engines && (b.exchanges || o->scaling || o->predict[0]))
        return dt_comm_agree(c, dt_fail(DT_CONFIG, "--engine all compares engines alone: leave out "
                                                   "--exchange all, --scaling and --predict"));
    if (o->layers && (b.exchanges || o->scaling))
        return dt_comm_agree(c,
                             dt_fail(DT_CONFIG, "--layers shows one exchange on one number of "
                                                "ranks: leave out --exchange all and --scaling"));
    /* Enough images for a few different steps, and few enough to make quickly. */
    DT_TRY(dt_comm_agree(c, dt_options_check(&whole, c->world)));
    snprintf(data, sizeof data, "synthetic:%lld", (long long)(4 * whole.global_batch));
    one.data = data;
    one.subset = one.holdout = 0;
    one.epochs = 1 + (WARMUP_STEPS + o->steps) / 4;
    one.max_steps = -1;
    if (b.engines)
        one.precision = "fp32";
    /* Of a rank among all, on fewer ranks, too. */
    if (o->scaling && one.threads == 0 && dt_threads_asked() == 0)
        one.threads = dt_threads_auto(c);
    if (o->predict[0]) {
        DT_TRY(dt_comm_agree(c, dt_engine_use(o->engine)));
        DT_TRY(dt_comm_agree(c, dt_bench_predict_check(o, c->world)));
        static dt_single_rank alone;
        bench_row row = {.alone = &alone};
        one.exchange = "auto";
        DT_TRY(bench_on(c, 1, &one, &row));
        return dt_bench_predict(c, o, &alone);
    }
    return bench_all(&b, &one);
}
