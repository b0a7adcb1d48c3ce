#!/usr/bin/env bash
# Signals: a run that is stopped checkpoints, says how to go on with code 75, and goes on to
# the same bits; SIGHUP checkpoints without stopping; a second SIGINT ends at once.
set -u
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

run=("${tiny[@]}" --epochs 1000 --max-steps 120 --save-every 0)

# hashes DIR: of a run that has ended
hashes() { tail -n 1 "$1/metrics.jsonl" | grep -oE '"(weights|state)_hash":"[0-9a-f]{32}"'; }

# begin NP DIR ARGS...: in the background; $job is mpirun or the process itself
begin() {
    local np=$1 mpi=()
    folder=$2
    shift 2
    [ "$np" -gt 1 ] && mpi=(mpirun -np "$np")
    "${mpi[@]}" "$DTRAIN_BIN" "${run[@]}" --out "$folder" "$@" \
        >"$tmp/stdout" 2>"$tmp/stderr" </dev/null &
    job=$!
    for _ in $(seq 600); do
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
    must test "$(grep -c '"kind":"step"' "$1/metrics.jsonl")" = 120
}

accepts "${run[@]}" --out "$tmp/calm"
want=$(hashes "$tmp/calm")
must test -n "$want"

for signal in TERM INT USR1; do
    begin 1 "$tmp/alone-$signal"
    kill "-$signal" "$job"
    ended 75 "SIG$signal to a single process"
    must grep -q "stopped by SIG$signal after step" "$tmp/stderr"
    goes_on "$tmp/alone-$signal"
done

# while the run is opened, before it has a folder
"$DTRAIN_BIN" "${run[@]}" --data synthetic:20000 --out "$tmp/early" \
    >"$tmp/stdout" 2>"$tmp/stderr" </dev/null &
job=$!
for _ in $(seq 2000); do
    caught=$(grep SigCgt "/proc/$job/status" 2>/dev/null | cut -f 2)
    (((0x${caught:-0} & 0x200) != 0)) && break # bit SIGUSR1 - 1
    sleep 0.01
done
must test ! -e "$tmp/early"
kill -USR1 "$job"
ended 75 "SIGUSR1 before the first step"
must grep -q "stopped by SIGUSR1 after step 1 of 120" "$tmp/stderr"

# while MPI is started
mpirun -np 2 "$DTRAIN_BIN" "${run[@]}" --out "$tmp/starting" >"$tmp/stdout" 2>"$tmp/stderr" </dev/null &
job=$!
for _ in $(seq 2000); do
    rank=$(pgrep -n -P "$job" dtrain)
    caught=$(grep SigCgt "/proc/${rank:-0}/status" 2>/dev/null | cut -f 2)
    (((0x${caught:-0} & 0x200) != 0)) && break
    sleep 0.005
done
must test ! -e "$tmp/starting"
kill -USR1 "$rank"
ended 75 "SIGUSR1 to a rank that starts"

begin 2 "$tmp/mpirun"
kill -USR1 "$job"
ended 75 "SIGUSR1 to mpirun"
must test "$(grep -c "stopped by SIGUSR1 after step" "$tmp/stderr")" = 1
goes_on "$tmp/mpirun"

begin 3 "$tmp/rank"
pkill -TERM -n -P "$job" dtrain
ended 75 "SIGTERM to one rank of three"
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

begin 1 "$tmp/twice" --width-divisor 1 --global-batch 64 --image-size 64
kill -INT "$job"
sleep 0.05
kill -INT "$job"
ended 130 "a second SIGINT ends at once"

finish
