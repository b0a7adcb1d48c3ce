/* network.c - dtrain plan and dtrain summary: a network that is built only to be looked at,
 * without data and without memory for its slabs. */
#include "costs/costs.h"
#include "split/split.h"
#include "tools.h"

/* What shows a plan of training, of one shard's batch; o: resolved, of so many ranks. */
typedef dt_status preview_show(const dt_plan *plan, const dt_options *o, int ranks);

/* On rank 0. Of a model, what its file says. */
static dt_status preview(const dt_options *given, int world, preview_show *show)
{
    enum { CLASSES = 10 }; /* CIFAR-10's: without data and model */
    const int ranks = (int)(given->ranks ? given->ranks : DT_MAX(world, given->tensor_parallel));
    dt_options o = *given;
    dt_model_meta meta = {.classes = 0}; /* texts of the options */
    dt_model_opts opts = {.label_smoothing = (float)o.label_smoothing};
    dt_net *net = NULL;
    dt_model *model = NULL;
    dt_plan *plan = NULL;
    char path[PATH_MAX];
    dt_status st = DT_OK;

    DT_GO(st, dt_options_check(&o, ranks), out);
    if (o.model[0]) {
        DT_GO(st, dt_newest_model(o.model, path), out);
        DT_GO(st, dt_options_from_model(path, &o, &meta), out);
    }
    const dt_net_spec spec = dt_options_net(&o, meta.classes ? meta.classes : CLASSES);
    DT_GO(st, dt_precision_choose(o.precision, &opts.precision), out);
    opts.threads = o.threads                ? (int)o.threads
                   : dt_threads_asked() > 0 ? dt_threads_asked()
                                            : DT_MAX(1, dt_cores(NULL) / (int)o.ranks_per_node);
    DT_GO(st, dt_net_create(&net, &spec), out);
    dt_options_resolve(&o, net);
    opts.loss_epsilon = (float)o.loss_epsilon;
    opts.strategy = o.strategy;
    opts.parts = dt_options_parts(&o, ranks);
    DT_GO(st, dt_model_create(&model, net, &opts), out);
    const int64_t largest = dt_shard_size(o.global_batch, (int)o.shards, 0, NULL);
    DT_GO(st, dt_plan_create(&plan, model, largest, DT_TRAIN, false), out);
    st = show(plan, &o, ranks);

out:
    dt_plan_destroy(plan);
    dt_model_destroy(model);
    dt_net_destroy(net);
    return st;
}

/* ---- plan: what the compiler of plans decided, step by step ---------------------------------- */

static void plan_steps(const dt_plan *plan)
{
    printf("%4s  %-18s %-22s %-26s %12s %12s %12s %12s  %s\n", "step", "operation", "name",
           "output", "bytes", "offset", "saved", "scratch", "kernels");
    for (int i = 0; i < plan->steps; i++) {
        const dt_plan_row r = dt_plan_row_get(plan, (size_t)i);
        printf("%4d  %-18s %-22s %-26s %12zu %12zu %12zu %12zu  %s\n", i, r.op, r.name, r.out_shape,
               r.out_bytes, r.out_offset, r.saved_bytes, r.scratch_bytes, r.kernels);
    }
}

/* The rank that sends most where layers are cut. */
static int plan_busiest(const dt_plan *plan, const dt_options *o, int ranks, dt_traffic *most)
{
    int busiest = 0;

    for (int rank = 0; rank < ranks; rank++) {
        const dt_traffic t = dt_traffic_of(plan, o, ranks, rank);
        if (rank > 0 && t.values + t.weights <= most->values + most->weights)
            continue;
        busiest = rank;
        *most = t;
    }
    return busiest;
}

/* Where layers are cut over ranks: a line for each step. Returns JSON if that is wanted. */
static json_t *plan_layouts(const dt_plan *plan, const dt_options *o, int ranks)
{
    dt_traffic t = {0};
    const int rank = plan_busiest(plan, o, ranks, &t), parts = dt_options_parts(o, ranks);
    json_t *steps = o->json ? json_array() : NULL;
    int layers = 0, cut = 0;

    if (!o->json)
        printf("\n%4s  %-18s %-22s %-16s %-16s %12s %12s\n", "step", "operation", "name", "layout",
               "its gradient", "sent", "pays below");
    for (int i = 0; i < plan->steps; i++) {
        const dt_split_row x = dt_split_row_get(plan, i);
        const double sent = (double)dt_traffic_row(plan, i, o, ranks, rank);
        const dt_plan_row r = dt_plan_row_get(plan, (size_t)i);
        layers += x.pays_below > 0;
        cut += x.pays_below > 0 && strcmp(x.layout[0], "cut") == 0;
        if (steps)
            json_array_append_new(steps, json_pack("{s:s, s:s, s:s, s:s, s:f, s:f}", "operation",
                                                   r.op, "name", r.name, "layout", x.layout[0],
                                                   "gradient", x.layout[1], "sent_bytes", sent,
                                                   "pays_below", x.pays_below));
        else
            printf("%4d  %-18s %-22s %-16s %-16s %12.0f %12.0f\n", i, r.op, r.name, x.layout[0],
                   x.layout[1], sent, x.pays_below);
    }
    if (o->json)
        return json_pack("{s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:o}", "ranks", ranks,
                         "tensor_parallel", parts, "layers", layers, "cut", cut, "rank", rank,
                         "values_bytes", (double)t.values, "weights_bytes", (double)t.weights,
                         "gradients_bytes", t.gradients, "gradients_uncut_bytes", t.gradients_uncut,
                         "spared_bytes", t.spared, "steps", steps);
    printf(
        "%d of %d layers are cut over %d ranks: %.2f of %.2f million weights\n"
        "a rank sends up to %.4g MB of activations, %.4g MB of gradients (%.4g without cuts) and "
        "%.4g MB\nof weights in a step of %lld images; it keeps %.4g MB of weights and momentum "
        "less\npays below: cutting the layer spares bytes where a group of %d ranks has fewer "
        "images, here %lld\n",
        cut, layers, parts, 1e-6 * (double)t.cut, 1e-6 * (double)plan->model->net->weight_total,
        1e-6 * (double)t.values, 1e-6 * t.gradients, 1e-6 * t.gradients_uncut,
        1e-6 * (double)t.weights, (long long)o->global_batch, 1e-6 * t.spared, parts,
        (long long)(o->global_batch * parts / ranks));
    return NULL;
}

static void plan_totals(const dt_plan *plan, const dt_options *o)
{
    const dt_model *m = plan->model;
    const size_t slab = 4 * (dt_model_floats(m, DT_SLAB_HOME) + dt_model_floats(m, DT_SLAB_CUT));
    const struct {
        const char *name;
        size_t bytes;
    } totals[] = {
        {"activations and their gradients (arena)", plan->arena_bytes},
        {"scratch", plan->scratch_bytes},
        {"master weights (float32)", slab},
        {"gradients (float32)", slab},
        {"momentum (float32)", slab},
        {"averaged weights (float32)",
         dt_options_average(o) ? slab + 8 * m->net->norm_channels : 0},
        {"cut weights by input (float32)", 4 * dt_model_floats(m, DT_SLAB_BY_INPUT)},
        {"compute weights (packed)", dt_model_packed_bytes(m) + dt_model_cut_packed_bytes(m)},
        {"running mean and variance (float32)", 8 * m->net->norm_channels},
    };
    char digest[DT_DIGEST_CHARS];
    size_t sum = 0;

    putchar('\n');
    for (size_t i = 0; i < DT_COUNT_OF(totals); i++) {
        if (totals[i].bytes == 0)
            continue;
        printf("%-42s %14zu bytes %10.1f MiB\n", totals[i].name, totals[i].bytes,
               (double)totals[i].bytes / (1 << 20));
        sum += totals[i].bytes;
    }
    printf("%-42s %14zu bytes %10.1f MiB\n", "one rank, without exchange and data", sum,
           (double)sum / (1 << 20));
    dt_digest_text(plan->digest, digest);
    printf("%-42s %s\n", "digest", digest);
}

static dt_status plan_show(const dt_plan *plan, const dt_options *o, int ranks)
{
    const bool cuts = o->strategy[0] != '\0';

    if (o->searches)
        return dt_fail(DT_CONFIG,
                       "--strategy auto measures steps, which plan does not: the head of a "
                       "training with --dry-run says what is cut");
    if (cuts && ranks == 1)
        return dt_fail(DT_CONFIG,
                       "--strategy %s: give --ranks N, too, or --tensor-parallel M: on one rank "
                       "nothing is cut",
                       o->strategy);
    if (!o->json)
        plan_steps(plan);
    json_t *strategy = cuts ? plan_layouts(plan, o, ranks) : NULL;
    if (!o->json)
        plan_totals(plan, o);
    dt_share_show(plan, o, strategy);
    return DT_OK;
}

dt_status dt_plan_print(dt_comm *c, const dt_options *o)
{
    return dt_comm_agree(c, c->rank == 0 ? preview(o, c->world, plan_show) : DT_OK);
}

/* ---- summary: layers and their sums, as torchinfo shows them --------------------------------- */

enum { SUMMARY_NAME = 48, SUMMARY_SHAPE = 30, SUMMARY_NUMBER = 16 };
enum { SUMMARY_WIDTH = SUMMARY_NAME + SUMMARY_SHAPE + 2 * SUMMARY_NUMBER };

static void summary_rule(void)
{
    for (int i = 0; i < SUMMARY_WIDTH; i++)
        putchar('=');
    putchar('\n');
}

/* 1234567 as "1,234,567"; "--" for 0, as torchinfo has it. */
static const char *summary_number(int64_t n, char buf[32])
{
    for (int i = snprintf(buf, 32, "%lld", (long long)n) - 3; i > 0; i -= 3) {
        memmove(buf + i + 1, buf + i, strlen(buf + i) + 1);
        buf[i] = ',';
    }
    return n ? buf : "--";
}

/* One row a layer, by its name in model.safetensors; returns the work of all steps. */
static int64_t summary_rows(const dt_plan *plan)
{
    int64_t macs = 0;

    for (int i = 0; i < plan->steps; i++) {
        const dt_plan_row row = dt_plan_row_get(plan, (size_t)i);
        char label[160], a[32], b[32];

        macs += row.macs;
        if (!row.name[0]) /* the plan's own step, no layer of the network */
            continue;
        snprintf(label, sizeof label, "%s (%s)", row.name, row.op);
        printf("%-*s%-*s%*s%*s\n", SUMMARY_NAME, label, SUMMARY_SHAPE, row.out_shape,
               SUMMARY_NUMBER, summary_number((int64_t)row.params, a), SUMMARY_NUMBER,
               summary_number(row.macs, b));
    }
    return macs;
}

static dt_status summary_show(const dt_plan *plan, const dt_options *o, int ranks)
{
    const dt_net_spec *spec = &plan->model->net->spec;
    const int64_t batch = plan->batch;
    const size_t params = plan->model->net->weight_total;
    char number[32];

    (void)o, (void)ranks;
    summary_rule();
    printf("%-*s%-*s%*s%*s\n", SUMMARY_NAME, "Layer (operation)", SUMMARY_SHAPE, "Output Shape",
           SUMMARY_NUMBER, "Param #", SUMMARY_NUMBER, "Mult-Adds");
    summary_rule();
    const int64_t macs = summary_rows(plan);
    summary_rule();
    printf("Network: %s%s%s%s%s, %dx%d images, batch %lld\n", spec->net,
           spec->variant[0] ? ", variant " : "", spec->variant, spec->stem[0] ? ", stem " : "",
           spec->stem, spec->image_size, spec->image_size, (long long)batch);
    printf("Total params: %s\n", summary_number((int64_t)params, number));
    printf("Total mult-adds (G): %.2f\n", (double)macs / 1e9);
    printf("GFLOP per image: %.3f (forward; training takes about 3 times that)\n",
           2.0 * (double)macs / (double)batch / 1e9);
    summary_rule();
    printf("Input size (MB): %.2f\n",
           (double)(batch * spec->image_size * spec->image_size) * 3 * 4 / 1e6);
    printf("Activations and their gradients (MB): %.2f\n", (double)plan->arena_bytes / 1e6);
    printf("Params size (MB): %.2f\n", (double)params * 4 / 1e6);
    summary_rule();
    return DT_OK;
}

dt_status dt_summary(dt_comm *c, const dt_options *o)
{
    return dt_comm_agree(c, c->rank == 0 ? preview(o, c->world, summary_show) : DT_OK);
}
