/* cmd_network.c - dtrain plan and dtrain summary: a network that is built only to be looked at,
 * without data and without memory for its slabs. */
#include "cli.h"

typedef struct preview {
    dt_net *net;
    dt_model *model;
    dt_plan *plan; /* training mode, one shard's batch */
    int threads, parts;
    dt_model_meta meta; /* texts of the options */
} preview;

/* Without data and model: the number of classes of CIFAR-10. */
enum { PREVIEW_CLASSES = 10 };

/* Of a model, what its file says. */
static dt_status preview_build(preview *s, const dt_options *given, int world)
{
    dt_options o = *given;
    char path[PATH_MAX];
    dt_model_opts model = {.label_smoothing = (float)o.label_smoothing};
    dt_machine machine;

    DT_TRY(dt_options_check(&o, world));
    if (o.model[0]) {
        DT_TRY(dt_newest_model(o.model, path));
        DT_TRY(dt_options_from_model(path, &o, &s->meta));
    }
    const dt_net_spec spec =
        dt_options_net(&o, s->meta.classes ? s->meta.classes : PREVIEW_CLASSES);
    DT_TRY(dt_precision_choose(o.precision, &model.precision));
    dt_machine_describe(&machine);
    s->threads = model.threads = o.threads ? (int)o.threads : machine.cores_allowed;
    DT_TRY(dt_net_create(&s->net, &spec));
    dt_options_resolve(&o, s->net);
    model.loss_epsilon = (float)o.loss_epsilon;
    model.strategy = o.strategy;
    s->parts = model.parts = (int)o.tensor_parallel;
    DT_TRY(dt_model_create(&s->model, s->net, &model));
    const int64_t largest = dt_shard_size(o.global_batch, (int)o.shards, 0, NULL);
    return dt_plan_create(&s->plan, s->model, largest, DT_TRAIN);
}

/* On rank 0, as the options say. Collective. */
static dt_status preview_show(dt_comm *c, const dt_options *o,
                              dt_status (*show)(const preview *p, const dt_options *o))
{
    preview p = {0};
    dt_status st = DT_OK;

    if (c->rank == 0)
        st = preview_build(&p, o, c->world);
    if (p.plan)
        st = show(&p, o);
    dt_plan_destroy(p.plan);
    dt_model_destroy(p.model);
    dt_net_destroy(p.net);
    return dt_comm_agree(c, st);
}

/* ---- plan: what the compiler of plans decided, step by step ---------------------------------- */

static void plan_steps(const dt_plan *plan)
{
    printf("%4s  %-18s %-22s %-26s %12s %12s %12s %12s  %s\n", "step", "operation", "name",
           "output", "bytes", "offset", "saved", "scratch", "kernels");
    for (size_t i = 0; i < dt_plan_row_count(plan); i++) {
        dt_plan_row r;
        dt_plan_row_get(plan, i, &r);
        printf("%4zu  %-18s %-22s %-26s %12zu %12zu %12zu %12zu  %s\n", i, r.op, r.name,
               r.out_shape, r.out_bytes, r.out_offset, r.saved_bytes, r.scratch_bytes, r.kernels);
    }
}

/* Where layers are cut over ranks: what part 0 has, and what it sends for a shard. */
static void plan_layouts(const preview *s)
{
    size_t steps = 0, cut = 0;
    double sent = 0;

    printf("\n%4s  %-18s %-22s %-16s %-16s %12s\n", "step", "operation", "name", "layout",
           "its gradient", "sent");
    for (size_t i = 0; i < dt_plan_row_count(s->plan); i++) {
        dt_plan_row r;
        dt_plan_row_get(s->plan, i, &r);
        printf("%4zu  %-18s %-22s %-16s %-16s %12.0f\n", i, r.op, r.name, r.layout[0], r.layout[1],
               r.sent);
        steps += r.macs > 0;
        cut += r.macs > 0 && strcmp(r.layout[0], "cut") == 0;
        sent += r.sent;
    }
    const double parts = (double)s->parts, turned = 4 * (parts - 1) / parts;
    printf(
        "%zu of %zu layers are cut; of %.4g million weights a rank keeps %.4g; in a step it sends "
        "%.4g MB\nof values for each shard of its group, and %.4g MB of weights\n",
        cut, steps, 1e-6 * (double)s->net->weight_total,
        1e-6 * (double)(dt_model_floats(s->model, DT_SLAB_HOME) +
                        dt_model_floats(s->model, DT_SLAB_CUT)),
        1e-6 * sent, 1e-6 * turned * (double)dt_model_floats(s->model, DT_SLAB_TURNED));
}

static void plan_totals(const preview *s)
{
    const size_t slab = 4 * s->net->slab_floats;
    const struct {
        const char *name;
        size_t bytes;
    } totals[] = {
        {"activations and their gradients (arena)", dt_plan_arena_bytes(s->plan)},
        {"scratch", dt_plan_scratch_bytes(s->plan)},
        {"master weights (float32)", slab},
        {"gradients (float32)", slab},
        {"momentum (float32)", slab},
        {"compute weights (packed)", dt_model_packed_bytes(s->model)},
        {"running mean and variance (float32)", 8 * s->net->norm_channels},
    };
    char digest[DT_DIGEST_CHARS];
    size_t sum = 0;

    putchar('\n');
    for (size_t i = 0; i < DT_COUNT_OF(totals); i++) {
        printf("%-42s %14zu bytes %10.1f MiB\n", totals[i].name, totals[i].bytes,
               (double)totals[i].bytes / (1 << 20));
        sum += totals[i].bytes;
    }
    printf("%-42s %14zu bytes %10.1f MiB\n", "one rank, without exchange and data", sum,
           (double)sum / (1 << 20));
    dt_digest_text(dt_plan_digest(s->plan), digest);
    printf("%-42s %s\n", "digest", digest);
}

static dt_status plan_show(const preview *s, const dt_options *o)
{
    if (o->strategy[0] && s->parts == 0)
        return dt_fail(DT_CONFIG,
                       "--strategy %s: give --tensor-parallel M, too, the ranks that compute a "
                       "layer together",
                       o->strategy);
    if (!o->json) {
        plan_steps(s->plan);
        if (o->strategy[0])
            plan_layouts(s);
        plan_totals(s);
    }
    return dt_share_show(s->net, s->model, s->plan, s->threads, o);
}

dt_status dt_plan_print(dt_comm *c, const dt_options *o)
{
    return preview_show(c, o, plan_show);
}

/* ---- summary: layers and their sums, as torchinfo shows them --------------------------------- */

enum { SUMMARY_NAME = 48, SUMMARY_SHAPE = 30, SUMMARY_NUMBER = 16 };
enum { SUMMARY_WIDTH = SUMMARY_NAME + SUMMARY_SHAPE + 2 * SUMMARY_NUMBER };

static void summary_rule(char c)
{
    for (int i = 0; i < SUMMARY_WIDTH; i++)
        putchar(c);
    putchar('\n');
}

/* 1234567 as "1,234,567"; "--" for 0, as torchinfo has it. */
static const char *summary_number(int64_t n, char buf[32])
{
    char digits[24];
    size_t out = 0;
    const int count = snprintf(digits, sizeof digits, "%lld", (long long)n);

    for (int i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0)
            buf[out++] = ',';
        buf[out++] = digits[i];
    }
    buf[out] = '\0';
    return n ? buf : "--";
}

/* One row a layer, by its name in model.safetensors; returns the work of all steps. */
static int64_t summary_rows(const dt_plan *plan)
{
    int64_t macs = 0;

    for (size_t i = 0; i < dt_plan_row_count(plan); i++) {
        dt_plan_row row;
        char label[160], a[32], b[32];

        dt_plan_row_get(plan, i, &row);
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

static dt_status summary_show(const preview *shown, const dt_options *o)
{
    const dt_net_spec *spec = &shown->net->spec;
    const int64_t batch = dt_plan_batch(shown->plan);
    const size_t params = shown->net->weight_total;
    char number[32];

    (void)o;
    summary_rule('=');
    printf("%-*s%-*s%*s%*s\n", SUMMARY_NAME, "Layer (operation)", SUMMARY_SHAPE, "Output Shape",
           SUMMARY_NUMBER, "Param #", SUMMARY_NUMBER, "Mult-Adds");
    summary_rule('=');
    const int64_t macs = summary_rows(shown->plan);
    summary_rule('=');
    printf("Network: %s%s%s%s%s, %dx%d images, batch %lld\n", spec->net,
           spec->variant[0] ? ", variant " : "", spec->variant, spec->stem[0] ? ", stem " : "",
           spec->stem, spec->image_size, spec->image_size, (long long)batch);
    printf("Total params: %s\n", summary_number((int64_t)params, number));
    printf("Total mult-adds (G): %.2f\n", (double)macs / 1e9);
    printf("GFLOP per image: %.3f (forward; training takes about 3 times that)\n",
           2.0 * (double)macs / (double)batch / 1e9);
    summary_rule('=');
    printf("Input size (MB): %.2f\n",
           (double)(batch * spec->image_size * spec->image_size) * 3 * 4 / 1e6);
    printf("Activations and their gradients (MB): %.2f\n",
           (double)dt_plan_arena_bytes(shown->plan) / 1e6);
    printf("Params size (MB): %.2f\n", (double)params * 4 / 1e6);
    summary_rule('=');
    return DT_OK;
}

dt_status dt_summary(dt_comm *c, const dt_options *o)
{
    return preview_show(c, o, summary_show);
}
