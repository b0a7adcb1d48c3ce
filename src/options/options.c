/* options.c - the option table: defaults, names, what options mean, and how they fit together.
 * Where values come from (files, environment, command line) is cli's. */
#include "options.h"

const dt_option_row dt_option_table[] = {
#define X(type, field, scope, use, value, ...)                                                     \
    {#field,     DT_OPTION_##type, DT_SCOPE_##scope, DT_USE_##use, offsetof(dt_options, field),    \
     __VA_ARGS__},
    DT_OPTION_LIST(X)
#undef X
};

void dt_options_init(dt_options *o)
{
    *o = (dt_options){
#define X(type, field, scope, use, value, ...) .field = value,
        DT_OPTION_LIST(X)
#undef X
            .model = "",
    };
}

/* ---- Names ----------------------------------------------------------------------- */

static const char *respell(const char *name, char from, char to, char spelled[DT_OPTION_NAME])
{
    snprintf(spelled, DT_OPTION_NAME, "%s", name);
    for (char *c = spelled; *c; c++)
        *c = *c == from ? to : *c;
    return spelled;
}

const char *dt_argument_name(const char *option, char name[DT_OPTION_NAME])
{
    return respell(option, '_', '-', name);
}

const dt_option_row *dt_option_find(const char *name)
{
    char buf[DT_OPTION_NAME];
    const char *plain = respell(name, '-', '_', buf);

    for (size_t i = 0; i < DT_OPTIONS; i++)
        if (strcmp(plain, dt_option_table[i].name) == 0)
            return &dt_option_table[i];
    return NULL;
}

/* clang-format off */
static const dt_option_gone gone[] = {
    {"account", "false", NULL, "bench always prints where a step's time goes"},
    {"broadcast", "false", NULL, "leave it out, all ranks begin with the same weights, and a resumed run with those of its checkpoint"},
    {"csv", "false", NULL, "runs --json prints the same for programs"},
    {"engine_check", "true", NULL, "leave it out, an engine's products are always checked"},
    {"grad_threshold", "0.001", "grad_compress", "write --grad-compress 2bit:T, such as 2bit:0.001"},
    {"log_every", "10", NULL, "leave it out, a line comes every 10 s; metrics.jsonl in the run's folder has every step"},
    {"logdir", "tensorboard", NULL, "write tensorboard --out DIR"},
    {"lr_batch", "256", "lr_scale", "write --lr-scale linear:N or sqrt:N, such as linear:256"},
    {"lr_from", "0.0001", NULL, "lr-find begins with a 100000th of --lr-to"},
    {"model", "", NULL, "eval takes the model as its argument: dtrain eval MODEL; --init FILE begins a training with it; --net names the network"},
    {"network", "here", NULL, "write bench --predict N,N@NET, such as 8,64@10gbit; --net names the network to train"},
    {"parallel", "by_strategy", NULL, "write --strategy auto, or the layers to cut: --strategy all=out, or @FILE; where only images are divided, leave it out"},
    {"raw_input", "false", NULL, "write --to onnx-raw"},
    {"script", "", NULL, "write plot --out FILE.gp"},
    {"split_nodes", "1", NULL, "set the environment's variable DT_SPLIT_NODES=N"},
    {"stall_warn", "10", NULL, "leave it out, --stall-abort SECONDS names a rank after 10 s, or a thirtieth of SECONDS if that is less"},
    {"strategy_out", "", NULL, "options.yaml in the run's folder has the strategy, a line for --strategy"},
    {"trace_steps", "1:20", NULL, "write --trace FILE.json@A:B, such as trace.json@1:20"},
    {"verbose", "false", NULL, "--print-config prints all options, and options.yaml in the run's folder has them"},
    {"warmup_steps", "3", NULL, "leave it out, bench always takes 3 steps before those it measures"},
};
/* clang-format on */

const dt_option_gone *dt_option_gone_find(const char *name)
{
    char buf[DT_OPTION_NAME];
    const char *plain = respell(name, '-', '_', buf);

    for (size_t i = 0; i < DT_COUNT_OF(gone); i++)
        if (strcmp(plain + (strncmp(plain, "no_", 3) == 0 ? 3 : 0), gone[i].name) == 0)
            return &gone[i];
    return NULL;
}

const char *(*dt_option_elsewhere)(const char *name);

const char *dt_option_meant(const char *name, bool on_line)
{
    const dt_option_row *best = dt_option_table;
    char plain[DT_OPTION_NAME];

    respell(name, '-', '_', plain);
    const char *here = dt_option_elsewhere ? dt_option_elsewhere(plain) : NULL;
    if (here)
        return on_line || dt_option_find(here) ? here : NULL;
    for (size_t i = 1; i < DT_OPTIONS; i++)
        if (dt_edits(plain, dt_option_table[i].name) < dt_edits(plain, best->name))
            best = &dt_option_table[i];
    return dt_edits_few(plain, best->name) ? best->name : NULL;
}

/* ---- What options mean ----------------------------------------------------------- */

dt_net_spec dt_options_net(const dt_options *o, int classes)
{
    return (dt_net_spec){.net = o->net,
                         .variant = o->variant,
                         .stem = o->stem,
                         .image_size = (int)o->image_size,
                         .classes = classes,
                         .width_divisor = (int)o->width_divisor};
}

/* The sample code behind the Ascend tutorial writes its loss out, with an epsilon; PyTorch,
 * and so the other tutorials and variants, take the logarithm of a softmax as one function.
 * And MindSpore's vision.Resize makes bytes of bytes. */
void dt_options_resolve(dt_options *o, const dt_net *net)
{
    const bool mindspore = strcmp(net->spec.variant, "mindspore") == 0;

    if (o->loss_epsilon < 0)
        o->loss_epsilon = mindspore ? 1e-24 : 0;
    if (strcmp(o->resize, "auto") == 0)
        o->resize = mindspore ? "uint8" : "float";
}

/* ---- As a file ------------------------------------------------------------------- */

/* Texts become double-quoted scalars: dt_option_set has taken none that needs another escape. */
void dt_options_yaml(FILE *f, const dt_options *o)
{
    const char *group = "";
    char value[DT_OPTION_CHARS];

    fputs("# Options of dtrain; read them back with --config.\n", f);
    for (const dt_option_row *row = dt_option_table; row < dt_option_table + DT_OPTIONS; row++) {
        const char *quote = row->type == DT_OPTION_TEXT ? "\"" : "";
        if (strcmp(group, row->group) != 0)
            fprintf(f, "\n# %s\n", row->group);
        group = row->group;
        fprintf(f, "%s: %s", row->name, quote);
        for (const char *c = dt_option_text(row, o, value, sizeof value); *c; c++)
            fprintf(f, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
        fprintf(f, "%s\n", quote);
    }
}

/* ---- Together -------------------------------------------------------------------- */

/* A value that follows from others is in its option's range, too. */
static dt_status check_limit(const char *name, int64_t value)
{
    const double most = dt_option_find(name)->high;

    if ((double)value <= most)
        return DT_OK;
    return dt_fail(DT_CONFIG, "%s would be %lld, at most %.15g is possible", name, (long long)value,
                   most);
}

/* On fewer ranks all compute a layer together. */
int dt_options_parts(const dt_options *o, int world)
{
    if ((!o->strategy[0] && !o->searches) || world == 1)
        return 1;
    return o->tensor_parallel ? DT_MIN((int)o->tensor_parallel, world) : world;
}

dt_status (*dt_options_mode)(dt_options *o, int world);

bool dt_option_decides(const dt_option_row *row, const dt_options *o)
{
    if (row->scope == DT_SCOPE_LENGTH)
        return (strcmp(o->schedule, "constant") != 0 || o->lookahead > 0) && o->schedule_steps == 0;
    return row->scope == DT_SCOPE_RESULT;
}

dt_status dt_options_check_cuts(const dt_options *o)
{
    if (dt_options_mode || (!o->strategy[0] && o->tensor_parallel <= 1))
        return DT_OK;
    return dt_fail(DT_CONFIG, "this build cannot cut layers over ranks (DTRAIN_EXTRAS)");
}

dt_status dt_options_check(dt_options *o, int world)
{
    const int64_t accum = o->accum ? o->accum : 1;
    const int64_t shards = o->shards ? o->shards : world * accum;

    DT_TRY(dt_options_check_cuts(o));
    DT_TRY(dt_options_mode ? dt_options_mode(o, world) : DT_OK);
    const int parts = dt_options_parts(o, world);
    if (world % parts != 0)
        return dt_fail(
            DT_CONFIG,
            "--tensor-parallel %d: %d ranks are no multiple of it; start %d, %d, .. ranks", parts,
            world, parts, 2 * parts);
    if (world / parts > shards && !o->searches)
        return dt_fail(DT_CONFIG,
                       "%d ranks for %lld shards: some would have no work; start at "
                       "most %lld ranks, or give a new run --shards %d or more",
                       world, (long long)shards, (long long)shards * parts, world / parts);
    if (o->accum && shards != world * accum)
        return dt_fail(DT_CONFIG,
                       "--shards %lld and --accum %lld contradict each other: %d ranks x "
                       "%lld are %lld shards; leave one of them auto",
                       (long long)shards, (long long)accum, world, (long long)accum,
                       (long long)(world * accum));
    if (o->ema > 0 && o->lookahead > 0)
        return dt_fail(DT_CONFIG, "--ema and --lookahead both make an average; leave one out");
    const int64_t global = o->global_batch ? o->global_batch : o->batch * shards;
    if (!global)
        return dt_fail(DT_CONFIG, "--batch and --global-batch are both auto; give one");

    DT_TRY(check_limit("shards", shards));
    DT_TRY(check_limit("global_batch", global));
    o->global_batch = global;
    o->shards = shards;
    o->batch = 0;
    o->accum = 0;
    return DT_OK;
}
