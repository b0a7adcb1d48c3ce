/* names.c - what other programs call options. */
#include "convert.h"

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

const char *dt_name_elsewhere(const char *name)
{
    for (size_t i = 0; i < DT_COUNT_OF(synonyms); i++)
        if (dt_words_have(synonyms[i].names, name))
            return synonyms[i].here;
    return NULL;
}
