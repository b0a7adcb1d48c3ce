#!/usr/bin/env bash
# Signals: a run that is stopped checkpoints, says how to resume it with code 75, and ends with
# the same bits; SIGHUP checkpoints without stopping; a second SIGINT ends at once.
set -u
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
unset OPENBLAS_NUM_THREADS # as users start it: it starts itself once more

steps=120 sizes=(--image-size 64 --width-divisor 8)
[ -z "${ASAN_OPTIONS:-}" ] || steps=40 sizes=(--image-size 48) # slow as they are
run=("${tiny[@]}" --epochs 1000 --max-steps $steps --save-every 0)

# begin NP DIR ARGS...: in the background; $job is mpirun or the process itself
begin() {
    local np=$1 mpi=()
    folder=$2
    shift 2
    [ "$np" -gt 1 ] && mpi=(mpirun -np "$np")
    "${mpi[@]}" "$DTRAIN_BIN" "${run[@]}" --out "$folder" "$@" \
        >"$tmp/stdout" 2>"$tmp/stderr" </dev/null &
    job=$!
    for _ in $(seq 2400); do
        [ "$(cat "$folder/metrics.jsonl" 2>/dev/null | wc -l)" -gt 5 ] && return
        sleep 0.05
    done
    code=- && complain "np $np: no steps in $folder"
}

# ended CODE WHAT: the job has, within the limit
ended() {
    for _ in $(seq $((limit * 10))); do
        kill -0 "$job" 2>/dev/null || break
        sleep 0.1
    done
    kill -9 "$job" 2>/dev/null
    wait "$job" 2>/dev/null
    code=$?
    cases=$((cases + 1))
    [ "$code" = "$1" ] || complain "$2: want exit code $1"
}

# goes_on DIR: resumed on other ranks, it ends as the undisturbed run
goes_on() {
    accepts "${run[@]}" --out "$1" --resume auto
    must grep -q "resumed from $1/checkpoints/step-" "$tmp/stderr"
    equal "$want" "$(hashes "$1")"
    must test "$(grep -c '"kind":"step"' "$1/metrics.jsonl")" = $steps
}

accepts "${run[@]}" --out "$tmp/calm"
want=$(hashes "$tmp/calm")
must test -n "$want"

for signal in TERM INT USR1; do
    begin 1 "$tmp/alone-$signal"
    kill "-$signal" "$job"
    ended 75 "SIG$signal to a single process"
    must grep -q "stopped by SIG$signal after step" "$tmp/stderr"
    must grep -qF "start it again with --out $tmp/alone-$signal --resume auto" "$tmp/stderr"
    step=$(sed -nE "s/.* after step ([0-9]+) of $steps.*/\1/p" "$tmp/stderr")
    must grep -q "step $step of $steps" <("$DTRAIN_BIN" status "$tmp/alone-$signal")
    goes_on "$tmp/alone-$signal"
done

# catches PID: waits until the process is dtrain, no shell any more, and catches SIGHUP, the last of its
# signals
catches() {
    local caught
    for _ in $(seq 2000); do
        caught=0
        [ "$(cat "/proc/$1/comm" 2>/dev/null)" = dtrain ] &&
            caught=$(grep SigCgt "/proc/$1/status" 2>/dev/null | cut -f 2)
        (((0x${caught:-0} & 1) != 0)) && return # bit SIGHUP - 1
        sleep 0.005
    done
}

# while the run is set up: at once, with one line, and nothing was written
for signal in TERM INT USR1; do
    "$DTRAIN_BIN" "${run[@]}" --data synthetic:50000 --out "$tmp/early" \
        >"$tmp/stdout" 2>"$tmp/stderr" </dev/null &
    job=$!
    catches "$job"
    kill "-$signal" "$job"
    ended 75 "SIG$signal while the run is set up"
    must test "$(cat "$tmp/stderr")" = "dtrain: stopped by SIG$signal while the run was set up: nothing has changed; start it again"
    must test ! -e "$tmp/early"
done
mpirun -np 2 "$DTRAIN_BIN" "${run[@]}" --data synthetic:50000 --out "$tmp/early" \
    >"$tmp/stdout" 2>"$tmp/stderr" </dev/null &
job=$!
for _ in $(seq 2000); do
    read -r rank other < <(pgrep -P "$job" dtrain | tr '\n' ' ')
    [ -n "${other:-}" ] && break
    sleep 0.005
done
catches "$rank"
catches "$other"
kill -USR1 "$job"
ended 75 "SIGUSR1 to mpirun while the run is set up"
must test "$(grep -c "^dtrain: stopped by SIGUSR1 while the run was set up" "$tmp/stderr")" = 1
must test ! -e "$tmp/early"

# while MPI is started, to the rank that mpirun forked first or last: there, or as soon as the run
# begins. A rank that left while MPI_Init was under way made mpirun wait for ever, sometimes.
for which in -o -n; do
    mpirun -np 2 "$DTRAIN_BIN" "${run[@]}" --out "$tmp/starting$which" \
        >"$tmp/stdout" 2>"$tmp/stderr" </dev/null &
    job=$!
    for _ in $(seq 2000); do
        rank=$(pgrep "$which" -P "$job" dtrain) && break
        sleep 0.005
    done
    catches "$rank"
    kill -USR1 "$rank"
    ended 75 "SIGUSR1 to a rank that starts"
    must grep -qE "stopped by SIGUSR1 (while the run was set up|after step [01] of $steps)" "$tmp/stderr"
done

# ---- Within a step, within a test pass ----------------------------------------------------

# Steps and tests long enough to be met in the middle; two steps an epoch.
slow=("${run[@]}" --max-steps 6 "${sizes[@]}" --global-batch 64 --subset 128
      --data synthetic:4000)
steps() { grep -c '"kind":"step"' "$folder/metrics.jsonl" 2>/dev/null; }
epochs() { grep -c '"kind":"epoch"' "$folder/metrics.jsonl" 2>/dev/null; }

# frozen NP STEPS DIR ARGS...: a run that is held as soon as it has so many steps; $ranks_of
frozen() {
    local np=$1 want_steps=$2 mpi=()
    folder=$3
    shift 3
    rm -rf "$folder"
    [ "$np" -gt 1 ] && mpi=(mpirun -np "$np")
    "${mpi[@]}" "$DTRAIN_BIN" "${slow[@]}" --out "$folder" "$@" \
        >"$tmp/stdout" 2>"$tmp/stderr" </dev/null &
    job=$!
    for _ in $(seq 1200); do
        [ "$(steps)" -ge "$want_steps" ] 2>/dev/null && break
        sleep 0.02
    done
    ranks_of=$job
    [ "$np" -gt 1 ] && ranks_of=$(pgrep -P "$job" dtrain)
    # shellcheck disable=SC2086
    kill -STOP $ranks_of
    sleep 0.1
}

# asked SIGNAL PID...: while the run is held, and then it goes on
asked() {
    local signal=$1
    shift
    kill "-$signal" "$@"
    sleep 0.1
    # shellcheck disable=SC2086
    kill -CONT $ranks_of
}

# resumes DIR ARGS...: the rest of the slow run, on one rank, to the undisturbed end
resumes() {
    local dir=$1
    shift
    accepts "${slow[@]}" "$@" --out "$dir" --resume auto
    must test "$(hashes "$dir")" = "$slow_hash"
    must test "$(grep -c '"kind":"step"' "$dir/metrics.jsonl")" = 6
    must test "$(grep -c '"kind":"epoch"' "$dir/metrics.jsonl")" = 3
}

# in_step WHO NP SIGNAL ARGS...: the run stops after the step under way, or after the next one where
# the rank had counted its requests already
in_step() {
    local who=$1 np=$2 signal=$3 held
    shift 3
    frozen "$np" 1 "$tmp/step" "$@"
    held=$(steps)
    case $who in
    launcher) asked "$signal" "$job" ;;
    last) asked "$signal" "$(tail -n 1 <<<"$ranks_of")" ;;
    esac
    ended 75 "SIG$signal in a step, np $np $*"
    must grep -q "stopped by SIG$signal after step" "$tmp/stderr"
    must test "$(steps)" -le $((held + 2))
    resumes "$tmp/step" "$@"
}

# in_test NP SIGNAL: the test after the first epoch ends early, and the resumed run begins with it
in_test() {
    local np=$1 signal=$2 try
    shift 2
    for try in 1 2 3 4 5; do
        frozen "$np" 2 "$tmp/test$try"
        [ "$(steps):$(epochs)" = 2:0 ] && break
        # shellcheck disable=SC2086
        kill -KILL $ranks_of
        wait "$job"
    done
    asked "$signal" "$(tail -n 1 <<<"$ranks_of")"
    ended 75 "SIG$signal in a test, np $np"
    must grep -q "stopped by SIG$signal after step 2 of 6" "$tmp/stderr"
    must test "$(steps):$(epochs)" = 2:0
    resumes "$tmp/test$try"
}

accepts "${slow[@]}" --out "$tmp/slow"
slow_hash=$(hashes "$tmp/slow")
must test -n "$slow_hash"
in_step launcher 1 INT
in_step last 3 TERM --exchange tree
in_step launcher 2 USR1 --exchange shared
in_test 1 USR1
in_test 3 TERM
accepts "${slow[@]}" --bn sync --out "$tmp/slow-sync"
slow_hash=$(hashes "$tmp/slow-sync")
in_step last 3 USR1 --bn sync

# ---- As a whole -----------------------------------------------------------------------------

begin 2 "$tmp/mpirun"
kill -USR1 "$job"
ended 75 "SIGUSR1 to mpirun"
must test "$(grep -c "stopped by SIGUSR1 after step" "$tmp/stderr")" = 1
goes_on "$tmp/mpirun"

begin 3 "$tmp/rank"
pkill -TERM -n -P "$job" dtrain
ended 75 "SIGTERM to one rank of three"
must grep -q "stopped by SIGTERM after step" "$tmp/stderr" # which rank 0 did not get
goes_on "$tmp/rank"

begin 1 "$tmp/hup"
kill -HUP "$job"
for _ in $(seq 100); do
    ls -d "$tmp"/hup/checkpoints/step-* >/dev/null 2>&1 && break
    sleep 0.05
done
must ls -d "$tmp"/hup/checkpoints/step-*
ended 0 "SIGHUP lets the run go on"
equal "$want" "$(hashes "$tmp/hup")"

begin 1 "$tmp/lost" --on-save-error stop # the wish that nobody waits for
: >"$tmp/lost/checkpoints"
kill -HUP "$job"
ended 74 "a checkpoint that SIGHUP asked for cannot be written"
must grep -q "dtrain: .*lost/checkpoints" "$tmp/stderr"

# what asked for the end is named, whatever came after it
begin 1 "$tmp/two"
kill -STOP "$job"
kill -INT "$job"
kill -CONT "$job"
sleep 0.01
kill -HUP "$job"
ended 75 "SIGINT, then SIGHUP"
must grep -q "stopped by SIGINT after step" "$tmp/stderr"

# The first one asks, and only the second ends the process: it still lives behind the first,
# while the checkpoint that it writes is held up.
begin 1 "$tmp/twice" --width-divisor 1
kill -INT "$job"
for _ in $(seq 2000); do
    caught=$(grep SigCgt "/proc/$job/status" 2>/dev/null | cut -f 2)
    (((0x${caught:-0} & 0x2) == 0)) && break # bit SIGINT - 1: no longer caught
done
kill -STOP "$job"
sleep 0.1
must test "$(cut -d ' ' -f 3 "/proc/$job/stat")" = T
kill -INT "$job"
kill -CONT "$job"
ended 130 "a second SIGINT ends at once"
must test ! -e "$tmp/twice/model.safetensors"

finish
