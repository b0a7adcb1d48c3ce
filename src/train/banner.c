/* banner.c - what a person wants to know before the first step. All the rest is in options.yaml. */
#include "run.h"

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

static void head_network(FILE *f, const dt_run *r)
{
    const dt_net_spec *spec = &r->net->spec;

    fprintf(f, "network    %s", spec->net);
    if (spec->variant[0])
        fprintf(f, spec->stem[0] ? " (%s, %s stem)" : " (%s)", spec->variant, spec->stem);
    fprintf(f, ", %.4g million weights, images of %d x %d pixels\n",
            (double)r->net->weight_total * 1e-6, spec->image_size, spec->image_size);
}

static void head_data(FILE *f, const dt_run *r)
{
    const dt_source_info *info = dt_source_describe(r->source);

    fprintf(f, "data       %s: %lld training and %lld %s images, %d classes\n", DT_SHOWN(r->o.data),
            (long long)info->train, (long long)info->test, r->o.holdout ? "held-out" : "test",
            info->classes);
}

static void head_training(FILE *f, const dt_run *r)
{
    const int64_t all = r->o.epochs * r->steps_per_epoch;

    fprintf(f, "training   ");
    if (r->total_steps < all)
        fprintf(f, "%lld step%s (of ", (long long)r->total_steps, plural(r->total_steps));
    fprintf(f, "%lld epoch%s of %lld step%s%s, %lld images each in %lld shard%s, ",
            (long long)r->o.epochs, plural(r->o.epochs), (long long)r->steps_per_epoch,
            plural(r->steps_per_epoch), r->total_steps < all ? ")" : "",
            (long long)r->o.global_batch, (long long)r->o.shards, plural(r->o.shards));
    fprintf(f, "learning rate %g %s", r->schedule.lr, r->o.schedule);
    if (r->o.schedule_steps && r->o.schedule_steps != r->total_steps)
        fprintf(f, " over %lld steps", (long long)r->o.schedule_steps);
    fputc('\n', f);
}

static void head_machine(FILE *f, const dt_run *r)
{
    const int ranks = r->comm->world, nodes = r->comm->nodes;

    fprintf(f, "machine    %d rank%s x %d thread%s", ranks, plural(ranks), r->threads,
            plural(r->threads));
    if (r->o.threads == 0 && dt_threads_asked() > 0)
        fprintf(f, " by OMP_NUM_THREADS");
    if (r->affinity.kind)
        fprintf(f, " bound to %ss", r->affinity.kind);
    if (nodes > 1)
        fprintf(f, " on %d nodes", nodes);
    const dt_isa isa = r->precision == DT_BF16 ? dt_isa_bits() : dt_isa_current();
    fprintf(f, ", %s (%s%s), exchange %s\n", dt_dtype_name(r->precision), dt_isa_name(isa),
            isa > dt_isa_current() ? " in software" : "", dt_exchange_name(dt_run_exchange(r)));
    if (dt_engine_text())
        fprintf(f, "engine     %s\n", dt_engine_text());
    else if (r->precision == DT_F32 && isa == DT_ISA_PORTABLE)
        fprintf(f, "engine     own, in plain C here: --engine openblas is many times faster, "
                   "with other bits\n");
    fprintf(f, "memory     %.2f GiB", dt_gib(r->node_bytes + dt_source_bytes(r->source)));
    if (r->node_free > 0)
        fprintf(f, " of %.2f GiB free", dt_gib(r->node_free));
    fprintf(f, "%s\n", nodes > 1 ? " on each node" : "");
}

/* Those that are not their defaults, wherever they were given. */
static void head_options(FILE *f, const dt_run *r)
{
    dt_options defaults;
    bool any = false;

    dt_options_init(&defaults);
    dt_options_resolve(&defaults, r->net); /* as those of the run are */
    for (const dt_option_row *row = dt_option_table; row < dt_option_table + DT_OPTIONS; row++) {
        char value[DT_OPTION_CHARS], usual[DT_OPTION_CHARS];
        dt_option_text(row, &r->o, value, sizeof value);
        dt_option_text(row, &defaults, usual, sizeof usual);
        if (row->said || strcmp(value, usual) == 0)
            continue;
        fprintf(f, "%s %s=%s", any ? "" : "options   ", row->name, DT_SHOWN(value));
        any = true;
    }
    if (any)
        fputc('\n', f);
}

int dt_banner_ranks(int cores, int ranks, int threads, int64_t shards)
{
    enum { FEW = 8 };
    int more = cores / FEW;

    if (ranks > cores)
        return cores;
    while (more > ranks && shards % more != 0)
        more--;
    return threads > 2 * FEW && more > ranks ? more : ranks;
}

static void head_cores(FILE *f, const dt_run *r)
{
    const int cores = dt_comm_node_cpus(r->comm), ranks = r->comm->node_ranks;
    const bool same = dt_exchange_exact(dt_run_exchange(r)) && r->comm->nodes == 1;
    const int better = dt_banner_ranks(cores, ranks, r->threads, r->o.shards);

    if (better == ranks || (better > ranks && !same))
        return;
    fprintf(f, "cores      %d for %d rank%s%s", cores, ranks, plural(ranks),
            better < ranks ? ", which take turns" : "");
    if (same)
        fprintf(f, ": -np %d --shards %lld has the same bits%s", better, (long long)r->o.shards,
                better > ranks ? " sooner" : "");
    fprintf(f, "\n");
}

void dt_banner_warn(const dt_options *o)
{
    static const char *const schedules[DT_OPTIONS] = {[DT_ROW_milestones] = " step",
                                                      [DT_ROW_gamma] = " step",
                                                      [DT_ROW_peak] = " onecycle triangle",
                                                      [DT_ROW_lr_to] = " exponential"};
    char value[DT_OPTION_CHARS], usual[DT_OPTION_CHARS];

    for (size_t i = 0; i < DT_OPTIONS; i++) {
        const dt_option_row *row = &dt_option_table[i];
        const char *use = row->scope == DT_SCOPE_COMMAND ? row->commands : schedules[i];
        if (use && !dt_words_have(use, o->schedule) &&
            strcmp(dt_option_text(row, o, value, sizeof value),
                   dt_option_text(row, NULL, usual, sizeof usual)) != 0)
            dt_warn("%s: %s changes nothing in this training: it is for%s%s", row->name, value,
                    schedules[i] ? " --schedule" : "", use);
    }
    if (strcmp(o->keep_every, "0") != 0 && strcmp(o->keep_every, "epoch") != 0 &&
        strcmp(o->save_every, "0") == 0)
        dt_warn("--keep-every %s keeps nothing: --save-every 0 saves at no step; give that, too",
                o->keep_every);
}

void dt_banner_print(FILE *f, const dt_run *r, const char *folder)
{
    head_network(f, r);
    head_data(f, r);
    head_training(f, r);
    head_machine(f, r);
    if (r->choice.parts > 0)
        fprintf(f, "strategy   %s\n", r->choice.text);
    fprintf(f, "writes to  %s\n", DT_SHOWN(folder));
    head_cores(f, r);
    head_options(f, r);
}
