# runs.bash - what tests and proofs do with runs: start one in the background, wait for what it says,
# hold it, signal it, wait for its end, ask how it ended. cli.bash and hosts.bash have it, too.
export LC_ALL=C # as in scripts/setup.sh

# whose mpirun it is: openmpi, or hydra, that of MPICH
launched_by=openmpi
case $(mpirun --version 2>/dev/null) in *HYDRA*) launched_by=hydra ;; esac
# The codes of a mpirun that was told to stop, and of one whose rank stands still: Hydra may lose the
# ranks' code after a signal, and give the signal by which it ends the last of them.
asked=75 stalled=77
[ $launched_by = openmpi ] || asked="75|0" stalled="77|9"

# only_openmpi WHAT: whether it is that; else the test says that it leaves this out
only_openmpi() { [ $launched_by = openmpi ] || ! echo "SKIPPED: $1: of Open MPI's launcher alone"; }

# ranks_of PID: processes of dtrain that mpirun has started, oldest first; Hydra's have one between
ranks_of() { pgrep -P "$1$(pgrep -P "$1" hydra_pmi | sed 's/^/,/')" -x dtrain | sort -n; }

# take_words ARRAY WORD... -- ...: adds the words before "--" to ARRAY; $taken: how many to shift, "--" too
take_words() {
    local -n to=$1
    shift
    for ((taken = 1; ; taken++)); do
        [ "${!taken}" != -- ] || return 0
        to+=("${!taken}")
    done
}

# hashes FOLDER: of the weights and the state at the end of the run; nothing of one that has not ended
hashes() {
    tail -n 1 "$1/metrics.jsonl" | sed -nE 's/.*"weights_hash":"([0-9a-f]{32})","state_hash":"([0-9a-f]{32})".*/\1 \2/p'
}

# trained NP FOLDER ARGS...: hashes of a run on NP ranks, which begins anew in FOLDER and has $limit seconds
trained() {
    rm -rf "$2"
    if ! timeout -k 2 "$limit" mpirun -np "$1" "$DTRAIN_BIN" --image-size 32 --no-drop-remainder --lr 0.05 \
        --save-every 0 "${@:3}" --out "$2" >"$2.log" 2>&1; then
        cat "$2.log" >&2
        echo "failed: np $1 ${*:3}" >&2
        return 1
    fi
    hashes "$2"
}

# records FOLDER KIND: how many the run has written: step, epoch
records() { grep -c "\"kind\":\"$2\"" "$1/metrics.jsonl" 2>/dev/null; }

# timeless FOLDER: its records without what differs from run to run: speeds and times
timeless() { sed -E 's/,?"(account_s":\{[^}]*\}|(images_per_s|seconds|time)":[^,}]*)//g' "$1/metrics.jsonl"; }

# has_records FOLDER KIND COUNT, has_checkpoint FOLDER [STEP]: for soon
has_records() { [ "$(records "$1" "$2" || echo 0)" -ge "$3" ] 2>/dev/null; }
has_checkpoint() { compgen -G "$1/checkpoints/step-*${2:-}" || compgen -G "$1/checkpoints/step-*${2:-}-2"; } >/dev/null

# within COMMAND...: it succeeds within $limit seconds
within() {
    for _ in $(seq $((10 * ${limit:-1800}))); do
        "$@" && return
        sleep 0.1
    done
    return 1
}

# has_steps N FOLDER: the run has recorded more
has_steps() { [ "$(cat "$2/metrics.jsonl" 2>/dev/null | wc -l)" -gt "$1" ]; }

# find_ranks FOLDER: rank[] is the process of each rank
find_ranks() {
    local number pid
    rank=()
    while read -r number _ pid _; do rank[number]=$pid; done < <("$DTRAIN_BIN" status "$1" | grep -E '^ +[0-9]')
}

# gone PID: it has ended, whether or not anyone has asked for its exit code
gone() { [[ $(sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null || echo Z) = [ZX] ]]; }

# start NP ARGS...: dtrain on NP ranks in the background; $job is mpirun, or the process itself; output
# in $tmp/stdout and $tmp/stderr
start() {
    local np=$1 mpi=()
    shift
    [ "$np" -gt 1 ] && mpi=(mpirun -np "$np")
    "${mpi[@]}" "$DTRAIN_BIN" "$@" >"$tmp/stdout" 2>"$tmp/stderr" </dev/null &
    job=$!
}

# soon COMMAND...: waits until it is true; fails when the job has ended, or after many minutes
soon() {
    local tick
    for ((tick = 0; tick < 20000; tick++)); do
        "$@" && return 0
        [ $((tick % 16)) != 15 ] || ! gone "$job" || return 1
        sleep 0.015
    done
    return 1
}

# job_ranks: sets $pids to the job's processes of dtrain, oldest first
job_ranks() {
    read -ra pids <<<"$(ranks_of "$job" | tr '\n' ' ')"
    [ ${#pids[@]} -gt 0 ] || pids=("$job")
}

# catches PID NUMBER: the process is dtrain, no shell any more, and handles that signal
catches() {
    local mask
    [ "$(cat "/proc/$1/comm" 2>/dev/null)" = dtrain ] &&
        mask=$(sed -n 's/^SigCgt:\t//p' "/proc/$1/status" 2>/dev/null) &&
        (((0x${mask:-0} >> ($2 - 1)) & 1))
}

# hold, release: the ranks stand still, and run again
hold() { job_ranks && kill -STOP "${pids[@]}" && sleep 0.1; }
release() { kill -CONT "${pids[@]}"; }

# job_end: waits for the job, at most $limit seconds; sets $code
job_end() {
    local tick
    for ((tick = 0; tick < ${limit:-1800} * 20; tick++)); do
        gone "$job" && break
        sleep 0.05
    done
    kill -9 "$job" 2>/dev/null
    wait "$job" 2>/dev/null
    code=$?
}

# job_kill: nothing of it is left
job_kill() {
    job_ranks
    kill -9 "$job" "${pids[@]}" 2>/dev/null
    wait "$job" 2>/dev/null
}
