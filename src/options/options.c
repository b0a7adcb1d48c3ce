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

/* As tables have it. */
static const char *plain_name(const char *name, char plain[DT_OPTION_NAME])
{
    return respell(name, '-', '_', plain);
}

const char *dt_argument_name(const char *option, char name[DT_OPTION_NAME])
{
    return respell(option, '_', '-', name);
}

const dt_option_row *dt_option_find(const char *name)
{
    char buf[DT_OPTION_NAME];
    const char *plain = plain_name(name, buf);

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
    const char *plain = plain_name(name, buf);

    for (size_t i = 0; i < DT_COUNT_OF(gone); i++)
        if (strcmp(plain + (strncmp(plain, "no_", 3) == 0 ? 3 : 0), gone[i].name) == 0)
            return &gone[i];
    return NULL;
}

/* Other programs' names, and what they are here: an option, or a sentence about what is done
 * otherwise, or always. */
#define LAUNCH                                                                                     \
    "dtrain --np N starts ranks on this host, dtrain launch --nnodes N --node-rank K --master "    \
    "HOST:PORT, or --hosts a:8,b:8, on several"
/* clang-format off */
static const struct {
    const char *names, *here; /* names: a space before each */
} synonyms[] = {
    {" learning_rate rate base_lr", "lr"},
    {" batch_size bs mini_batch", "batch"},
    {" total_batch_size effective_batch_size", "global_batch"},
    {" accumulate_steps gradient_accumulation_steps accumulation_steps grad_accum", "accum"},
    {" keep_checkpoint_max", "keep_last"},
    {" save_checkpoint_steps save_checkpoint_seconds checkpoint_interval", "save_every"},
    {" sync_bn sync_batchnorm", "bn"},
    {" bucket_cap_mb", "bucket_mb"},
    {" num_epochs epoch_size max_epochs", "epochs"},
    {" iterations num_steps train_steps", "max_steps"},
    {" output output_dir out_dir save_dir log_path", "out"},
    {" dataset dataset_path data_path data_dir root", "data"},
    {" arch architecture", "net"},
    {" num_workers num_threads jobs", "threads"},
    {" workers nproc ranks world_size rank_size device_num num_processes n", "np"},
    {" wd", "weight_decay"},
    {" dtype amp fp16 bf16 mixed_precision", "precision"},
    {" scheduler lr_scheduler lr_schedule", "schedule"},
    {" backend allreduce", "exchange"},
    {" pretrained weights", "init"},
    {" random_seed", "seed"},
    {" checkpoint ckpt resume_from", "resume"},
    {" comm_log timeline", "trace"},
    {" grad_dtype compression gc_type", "grad_compress"},
    {" parallel_mode", "strategy"},
    {" tp tensor_model_parallel_size", "tensor_parallel"},
    {" nproc_per_node nnodes node_rank master_addr master_port master rdzv_endpoint rdzv_backend rdzv_id dist_url hosts hostfile rank_table token_file interface run_distribute distribute standalone multiprocessing_distributed", LAUNCH},
    {" rank local_rank rank_id device_id local_world_size", "a rank learns from its launcher which one it is, leave it out; " LAUNCH},
    {" gradients_mean mirror_mean", "gradients are always averaged over the global batch, leave it out; --reduce sum adds them"},
    {" parameter_broadcast broadcast_buffers", "all ranks begin with the same weights, leave it out"},
    {" gc_threshold", "--grad-compress 2bit:T has it"},
    {" print_freq log_interval", "a line comes every 10 s, leave it out; metrics.jsonl in the run's folder has every step"},
    {" integrated_save", "a checkpoint is always whole, leave it out; --save-shards writes it in pieces"},
    {" strategy_ckpt_load_file strategy_ckpt_save_file strategy_ckpt_config", "--strategy @FILE reads layers' strategies; options.yaml in the run's folder has the run's"},
    {" full_batch dataset_strategy num_shards shard_id", "each rank reads the images of its shards, leave it out; --shards N says how many there are"},
    {" device_target device device_ids gpu gpus no_cuda mode dataset_sink_mode dist_backend", "dtrain computes on the CPU, over MPI, leave it out"},
};
/* clang-format on */

const char *dt_option_meant(const char *name, bool on_line)
{
    const dt_option_row *best = dt_option_table;
    char plain[DT_OPTION_NAME];

    plain_name(name, plain);
    for (size_t i = 0; i < DT_COUNT_OF(synonyms); i++)
        if (dt_words_have(synonyms[i].names, plain))
            return on_line || dt_option_find(synonyms[i].here) ? synonyms[i].here : NULL;
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
    for (size_t i = 0; i < DT_OPTIONS; i++) {
        const dt_option_row *row = &dt_option_table[i];
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
    if (!o->strategy[0] || world == 1 || !dt_plan_split)
        return 1;
    return o->tensor_parallel ? DT_MIN((int)o->tensor_parallel, world) : world;
}

dt_status dt_options_check_cuts(const dt_options *o)
{
    bool cuts = o->searches || o->tensor_parallel > 1 || o->strategy[0] == '@';

    for (const char *word = o->strategy + strspn(o->strategy, " "); *word;) {
        const size_t length = strcspn(word, " ");
        cuts = cuts || length < 6 || strncmp(word + length - 6, "=batch", 6) != 0;
        word += length + strspn(word + length, " ");
    }
    if (!cuts || dt_plan_split)
        return DT_OK;
    return dt_fail(DT_CONFIG, "this build cannot cut layers over ranks (DTRAIN_EXTRAS)");
}

/* What stands before or in place of a strategy's words: a parallel mode. */
static dt_status take_mode(dt_options *o, int world)
{
    const int length = (int)strcspn(o->strategy, " ");
    const char *words = o->strategy + length + strspn(o->strategy + length, " ");
    char mode[32];

    snprintf(mode, sizeof mode, "%.*s", length, o->strategy);
    if (dt_words_have(" standalone stand_alone", mode) && world > 1)
        return dt_fail(
            DT_CONFIG,
            "--strategy %s: %d ranks would train apart, a network each; start one, or leave "
            "--strategy out: they train one network together",
            mode, world);
    if (dt_words_have(DT_MODES_CUT, mode) && !*words)
        return dt_fail(DT_CONFIG,
                       "--strategy %s wants the layers to cut: write --strategy all=out, or @FILE "
                       "(or auto, which finds them)",
                       mode);
    if (dt_words_have(DT_MODES_WHOLE, mode) && *words)
        return dt_fail(DT_CONFIG,
                       "--strategy %s cuts no layers, but '%.100s' behind it says which to cut: "
                       "leave one of them out",
                       mode, words);
    if (dt_words_have(DT_MODES, mode) && *words == '@')
        return dt_fail(DT_CONFIG,
                       "--strategy %s: a file has its mode inside: write 'parallel_mode: %s' into "
                       "it, and give --strategy %.100s",
                       o->strategy, mode, words);
    o->searches = o->searches || dt_words_have(DT_MODES_SEARCH, mode);
    if (dt_words_have(DT_MODES, mode))
        o->strategy = words;
    if (o->searches && o->replay_every)
        return dt_fail(DT_CONFIG, "--replay-every runs one shard alone, but with --strategy auto "
                                  "ranks may compute it together; leave one of them out");
    return DT_OK;
}

dt_status dt_options_check(dt_options *o, int world)
{
    const int64_t accum = o->accum ? o->accum : 1;
    const int64_t shards = o->shards ? o->shards : world * accum;

    DT_TRY(take_mode(o, world));
    DT_TRY(dt_options_check_cuts(o));
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
                       world, (long long)shards, (long long)shards, world);
    if (o->accum && shards != world * accum)
        return dt_fail(DT_CONFIG,
                       "--shards %lld and --accum %lld contradict each other: %d ranks x "
                       "%lld are %lld shards; leave one of them auto",
                       (long long)shards, (long long)accum, world, (long long)accum,
                       (long long)(world * accum));
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
