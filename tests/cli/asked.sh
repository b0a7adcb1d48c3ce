#!/usr/bin/env bash
# N ranks asked for, N got: what is typed, what launchers set and what is inherited, each with the
# command, its code, and words of its one message. And words of other programs' command lines.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
unset "${!SLURM_@}" "${!PMI_@}" "${!PMIX_@}" "${!RANK@}" OMP_NUM_THREADS
unset "${!OMPI_MCA_@}" "${!PRTE_MCA_@}" "${!OMPI_ALLOW_@}" # --np says all that mpirun has to know
. "$DTRAIN_SOURCE/scripts/setup.sh"                        # and here mpirun is called, too
export OMPI_MCA_orte_tmpdir_base=$tmp/mpi PRTE_MCA_prte_tmpdir_base=$tmp/mpi

# A shell of Slurm's: srun --mpi=pmi2 --pty, and --mpi=pmix --pty
shell="SLURM_JOB_ID=77 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1"
pmi2="$shell PMI_RANK=0 PMI_SIZE=1 PMI_FD=9"
pmix="$shell PMIX_RANK=0 PMIX_NAMESPACE=slurm.pmix.77.0"
srun2="SLURM_JOB_ID=77 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2"
batch="SLURM_JOB_ID=77 SLURM_PROCID=0 SLURM_NTASKS=8"
torch="RANK=1 LOCAL_RANK=1 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=29500"
ascend="RANK_SIZE=8 RANK_ID=3 DEVICE_ID=3"
size=OMPI_COMM_WORLD_SIZE # what this mpirun says
[ $launched_by = openmpi ] || size=PMI_SIZE

# Lines: environment | command, TINY a run, DT the program | code | words of the message, or of
# stdout and stderr where the code is 0; "-WORDS": these must not be there.
while IFS='|' read -r environment command want words; do
    read -ra env <<<"$environment"
    read -ra line <<<"${command//TINY/${tiny[*]}}"
    line=("${line[@]/#DT/$DTRAIN_BIN}")
    rm -rf "$tmp/work"
    mkdir "$tmp/work"
    bounded env -C "$tmp/work" "${env[@]}" "${line[@]}"
    words=$(sed 's/^ *//; s/ *$//' <<<"$words")
    want=${want// /}
    label="$environment: ${command//TINY/...}"
    if [ "$want" != 0 ]; then
        judge "$want" "$label" "$words"
        must test ! -e "$tmp/work/runs"
        continue
    fi
    judge 0 "$label"
    cat "$tmp/stderr" >>"$tmp/stdout"
    case $words in
    -*) must test "$(grep -cE -- "${words#-}" "$tmp/stdout")" = 0 ;;
    *) must grep -qE -- "$words" "$tmp/stdout" ;;
    esac
done <<END
$torch                        | DT TINY                  | 76 | WORLD_SIZE=2 RANK=1
$ascend                       | DT TINY                  | 76 | RANK_SIZE=8 RANK_ID=3
RANK_ID=1                     | DT TINY                  | 76 | 2 ranks are meant, but this run has 1
HOROVOD_SIZE=4 HOROVOD_RANK=0 | DT TINY                  | 76 | HOROVOD_SIZE=4 HOROVOD_RANK=0
MS_WORKER_NUM=8 MS_ROLE=MS_WORKER | DT TINY              | 76 | MS_WORKER_NUM=8
WORLD_SIZE=2                  | DT eval m.safetensors    | 76 | WORLD_SIZE=2
WORLD_SIZE=2                  | DT bench --net vgg11     | 76 | WORLD_SIZE=2
WORLD_SIZE=2 RANK_SIZE=8      | DT TINY                  | 78 | RANK_SIZE=8
WORLD_SIZE=8 RANK_SIZE=1      | DT TINY                  | 78 | WORLD_SIZE=8
WORLD_SIZE=2 RANK=2           | DT TINY                  | 78 | WORLD_SIZE=2 RANK=2
WORLD_SIZE=two                | DT TINY                  | 78 | dtrain: WORLD_SIZE=two: how many ranks are meant
$srun2                        | DT TINY                  | 76 | srun --mpi=pmix
$srun2                        | DT --np 2 TINY           | 64 | --np
$srun2                        | DT launch --np 2 TINY    | 64 | launch
PMI_SIZE=2 PMI_RANK=1 SLURM_STEP_NUM_TASKS=1 | DT --np 2 TINY | 64 | --np
DTRAIN_NP=2                   | DT TINY                  | 76 | DTRAIN_NP is no option: give --np 2
DTRAIN_NP=4 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=1 | DT TINY | 76 | : 4 ranks are meant, but
PALS_RANKID=1                 | DT TINY                  | 76 | : PALS_RANKID=1: 2 ranks are meant
NNODES=2 NODE_RANK=1          | DT TINY                  | 76 | NNODES=2 NODE_RANK=1
NNODES=2 NODE_RANK=1          | DT --np 2 TINY           | 0  | warning: NNODES=2 NODE_RANK=1.* 2 ranks by --np
NNODES=2 WORLD_SIZE=16        | DT TINY                  | 76 | WORLD_SIZE=16
NNODES=4 WORLD_SIZE=2         | DT TINY                  | 78 | NNODES=4
PET_NNODES=2 PET_NODE_RANK=0  | DT TINY                  | 76 | PET_NNODES=2
VC_WORKER_NUM=2 VC_TASK_INDEX=1 | DT TINY                | 76 | VC_WORKER_NUM=2
VC_TASK_INDEX=1 SLURM_NTASKS=1 | DT TINY                 | 0  | -warning
$batch                        | DT TINY                  | 0  | warning: SLURM_NTASKS=8.*srun
$batch                        | DT --np 2 TINY           | 0  | -warning
WORLD_SIZE=4                  | mpirun -np 2 DT TINY     | 0  | warning: WORLD_SIZE=4.* 2 ranks by $size
WORLD_SIZE=4                  | mpirun -np 1 DT TINY     | 0  | warning: WORLD_SIZE=4.* 1 rank by $size
WORLD_SIZE=4 RANK=0           | DT --np 2 TINY           | 0  | warning: WORLD_SIZE=4.* 2 ranks by --np
WORLD_SIZE=2 RANK_SIZE=8      | DT --np 2 TINY           | 0  | warning: RANK_SIZE=8.* 2 ranks by --np
$torch                        | DT --np 2 TINY           | 0  | warning: WORLD_SIZE=2 RANK=1
WORLD_SIZE=8                  | DT --np 1 TINY           | 0  | warning: WORLD_SIZE=8.* 1 rank by --np
WORLD_SIZE=2 RANK=0           | DT --np 2 TINY           | 0  | -warning
RANK_SIZE=1 RANK_ID=0 DEVICE_ID=5 | DT TINY              | 0  | -warning
RANK_SIZE=1 RANK_ID=0 WORLD_SIZE=1 RANK=0 | DT --np 2 TINY | 0 | -warning
DEVICE_ID=3                   | DT TINY                  | 0  | -warning
WORLD_SIZE=                   | DT TINY                  | 0  | -warning
RANK=sergeant                 | DT TINY                  | 0  | -warning
$pmi2                         | DT TINY                  | 0  | -warning
$pmi2                         | DT --np 2 TINY           | 0  | machine +2 ranks
$pmi2                         | DT launch --np 2 TINY    | 0  | machine +2 ranks
$pmix                         | DT TINY                  | 0  | machine +1 rank
$pmix                         | DT --np 2 TINY           | 0  | machine +2 ranks
$pmix                         | DT env                   | 0  | ranks +1
PMIX_RANK=0                   | DT --np 2 TINY           | 0  | machine +2 ranks
$pmi2 WORLD_SIZE=2            | DT TINY                  | 76 | WORLD_SIZE=2
PMI_RANK=0 PMI_SIZE=2 PMI_FD=9 | DT --version            | 0  | ^dtrain
PMIX_RANK=0                   | DT help                  | 0  | Usage
PMIX_RANK=0                   | DT eval --help           | 0  | Usage: dtrain eval
PMIX_RANK=0                   | DT runs $PWD/none        | 66 | none
WORLD_SIZE=2                  | DT --version             | 0  | ^dtrain
WORLD_SIZE=2                  | DT summary --net vgg11   | 0  | features.0
OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 | DT --print-config | 0 | ^net:
END

# of three ranks the first one alone prints, whether MPI starts or a shell is in between
bounded mpirun -np 3 "$DTRAIN_BIN" --version
must test "$(grep -c '^dtrain ' "$tmp/stdout")" = 1
bounded mpirun -np 3 sh -c "$DTRAIN_BIN --version; $DTRAIN_BIN --version"
must test "$(grep -c '^dtrain ' "$tmp/stdout")" = 2

# OMP_NUM_THREADS is --threads that is not given; a list's first number is this level's
run=(--data synthetic:64 --net vgg11 --width-divisor 16 --global-batch 32 --precision fp32 --max-steps 1)
for case in "1:1 thread by OMP_NUM_THREADS" "2,4:2 threads by OMP_NUM_THREADS" ":[0-9]+ threads?,"; do
    OMP_NUM_THREADS=${case%%:*} bounded "$DTRAIN_BIN" "${run[@]}" --out "$tmp/threads${case%%:*}"
    must grep -qE "^machine +1 rank x ${case#*:}" "$tmp/stdout" "$tmp/stderr"
done
OMP_NUM_THREADS=2 bounded "$DTRAIN_BIN" "${run[@]}" --threads 1 --out "$tmp/given"
must grep -qE "^machine +1 rank x 1 thread," "$tmp/stdout" "$tmp/stderr"

# another MPI's mpirun comes first in PATH: it starts two processes that know nothing of each other
program "$tmp/other/mpirun" <<'END'
#!/usr/bin/env bash
[ "$1" = -np ] || exit 1
count=$2 status=0
shift 2
while [ "$1" = -x ]; do shift 2; done
for ((rank = 0; rank < count; rank++)); do
    env -u OMPI_COMM_WORLD_SIZE -u MPI_LOCALRANKID PMI_SIZE="$count" PMI_RANK=$rank "$@" || status=$?
done
exit $status
END
(cd "$tmp/other" && PATH=$tmp/other:$PATH bounded "$DTRAIN_BIN" --np 2 "${tiny[@]}" && echo "$code" >"$tmp/code")
must test "$(cat "$tmp/code")" = 76
must grep -q "2 ranks are meant, but this run has 1: .*another MPI library" "$tmp/stderr"
must test ! -e "$tmp/other/runs"

# other programs' words: what is here instead
while IFS='|' read -r line words; do
    read -ra line <<<"$line"
    bounded "$DTRAIN_BIN" "${line[@]}"
    judge 64 "${line[*]}" "${words# }"
done <<'END'
--nproc_per_node 2                              | dtrain --np N
--nproc-per-node=2                              | dtrain --np N
launch --master_addr localhost --master_port 6004 | --master HOST:PORT
launch --dist-url tcp://a:1                     | --master HOST:PORT
--hosts a:8                                     | dtrain launch
--node_rank 0                                   | dtrain launch
--rank 1                                        | leave it out
--local_rank 1                                  | leave it out
--world_size 8                                  | --np
--device_num 8                                  | --np
--gradients_mean                                | always averaged
--parameter_broadcast                           | the same weights
--integrated_save                               | --save-shards
--keep_checkpoint_max 5                         | --keep-last
--save_checkpoint_steps 100                     | --save-every
--strategy_ckpt_load_file a.ckpt                | --strategy @FILE
--strategy_ckpt_save_file a.ckpt                | options.yaml in the run's folder
--full_batch                                    | --shards N
--device_target Ascend                          | computes on the CPU
--sync_bn                                       | --bn
--accumulation-steps 4                          | --accum
END
finish
