#!/usr/bin/env bash
# scripts/dtrain-run: a run that is killed goes on to the undisturbed end; told to stop, it
# ends with a checkpoint and code 75; and its rules: what it starts again, how often, how late
# and with how many ranks. The rules are tried on a program that fails as it is told.
set -u
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
supervisor=$DTRAIN_SOURCE/scripts/dtrain-run

# ---- Rules -------------------------------------------------------------------------------

# Instead of mpirun, which takes half a second: -np N PROGRAM ARGS...
cat >"$tmp/launcher" <<'END'
#!/usr/bin/env bash
ranks=$2
shift 2
ranks=$ranks exec "$@"
END
# A process that logs its launch and ends with the next word of $tmp/plan: an exit code, or
# -SIGNAL by which it dies; "+" before it: after a new checkpoint.
cat >"$tmp/program" <<'END'
#!/usr/bin/env bash
dir=$(dirname "$0")
[ "$1" != config ] || exec "$DTRAIN_BIN" "$@"
echo "$(date +%s%3N) $ranks $*" >>"$dir/launches"
read -r word <"$dir/plan"
sed -i 1d "$dir/plan"
if [ "${word#+}" != "$word" ]; then
    mkdir -p "$dir/out/checkpoints/step-$(wc -l <"$dir/launches" | awk '{ printf "%010d", $1 }')"
    word=${word#+}
fi
case $word in
-*) kill "$word" $$ ;;
wait) trap 'exit 75' USR1 ;;
deaf) trap '' USR1 ;;
half) mkdir -p "$dir/out" && echo '{"kind":"step","step":1}' >>"$dir/out/metrics.jsonl" && exit 0 ;;
whole) echo '{"kind":"end","steps":2}' >>"$dir/out/metrics.jsonl" && exit 0 ;;
*) exit "$word" ;;
esac
for i in $(seq 200); do sleep 0.1; done
exit 1
END
chmod +x "$tmp/launcher" "$tmp/program"
rules=(--launcher "$tmp/launcher" --program "$tmp/program")

# plan WORDS -- ARGS...: run the supervisor; sets $code; the launches are in $tmp/launches
plan() {
    rm -rf "$tmp/out" "$tmp/launches" "$tmp/plan"
    while [ "$1" != -- ]; do
        echo "$1" >>"$tmp/plan"
        shift
    done
    shift
    timeout -k 2 "$limit" "$supervisor" "${rules[@]}" --back-off 0.05 "$@" \
        >"$tmp/stdout" 2>"$tmp/stderr" </dev/null
    code=$?
}
# want CODE LAUNCHES LABEL
want() {
    local got
    got=$(cat "$tmp/launches" 2>/dev/null | wc -l)
    cases=$((cases + 1))
    [ "$code" = "$1" ] && [ "$got" = "$2" ] ||
        complain "$3: want code $1 after $2 launches, got $code after $got"
}
run=(-- --net vgg11 --out "$tmp/out")
plan 0 -- --ranks 1 "${run[@]}"
want 0 1 "success"
must grep -q -- "--net vgg11 --out $tmp/out --resume auto" "$tmp/launches"
plan half whole -- --ranks 1 "${run[@]}"
want 0 2 "a launcher that ends with 0 in mid-run"
must grep -q "the launch ended with exit code 0, but the run is not complete" "$tmp/stderr"
plan half half half -- --ranks 1 --max-restarts 2 "${run[@]}"
want 1 3 "one that does so always"
for incurable in 64 65 66 73 78 79; do
    plan $incurable 0 -- --ranks 1 "${run[@]}"
    want $incurable 1 "an error that cannot go away"
done
plan 71 76 -9 -11 1 0 -- --ranks 1 "${run[@]}"
want 0 6 "errors that may go away"
plan 74 73 0 -- --ranks 1 "${run[@]}"
want 0 3 "the folder still held by the last launch"
plan 70 70 70 70 -- --ranks 1 --max-stuck 2 "${run[@]}"
want 70 3 "three failures without progress, two restarts allowed"
plan +70 +70 +70 +70 70 70 71 0 -- --ranks 1 --max-stuck 2 "${run[@]}"
want 71 7 "progress starts the count again"
plan +70 +70 +70 +74 0 -- --ranks 1 --max-stuck 2 --max-restarts 3 "${run[@]}"
want 74 4 "three restarts in all"
plan 75 0 -- --ranks 1 "${run[@]}"
want 75 1 "preempted"
plan 75 0 -- --ranks 1 --restart-preempted "${run[@]}"
want 0 2 "preempted, to be started again"
plan -9 71 -9 -9 0 -- --ranks 4 --min-ranks 2 --shrink "${run[@]}"
want 0 5 "fewer ranks"
must test "$(cut -d ' ' -f 2 "$tmp/launches" | tr '\n' ' ')" = "4 3 3 2 2 "
must test "$(grep -c -- '--shards 4' "$tmp/launches")" = 5
# --shards and --out from a configuration file or the environment, too
printf 'out: "%s"\nshards: 8\n' "$tmp/out" >"$tmp/run.yaml"
plan +70 70 0 -- --ranks 4 --shrink --max-stuck 1 -- --config "$tmp/run.yaml"
want 0 3 "out: of a configuration file"
must test "$(grep -c -- "4 --config $tmp/run.yaml --resume auto\$" "$tmp/launches")" = 3
must grep -q "launch 2: 4 ranks, step-.*, run folder $tmp/out\$" "$tmp/stderr"
out='a "b" \c'
DTRAIN_OUT=$tmp/$out plan 0 -- --ranks 1
want 0 1 "DTRAIN_OUT"
must grep -qF "run folder $tmp/$out" "$tmp/stderr"
must test "$(grep -c -- --out "$tmp/launches")" = 0
plan 0 -- --ranks 1 -- train --out="$tmp/out"
want 0 1 "the command's name"
# pauses of 0.2, 0.4, 0.8, then after a new checkpoint 0.2 again
plan 70 70 70 +70 0 -- --ranks 1 --back-off 0.2 "${run[@]}"
want 0 5 "back-off"
must awk '{ if (NR > 1) gap[NR] = $1 - last; last = $1 }
    END { exit !(gap[2] >= 200 && gap[3] >= 400 && gap[4] >= 800 && gap[5] >= 200 && gap[5] < gap[4] - 300) }' \
    "$tmp/launches"
plan 70 70 70 0 -- --ranks 1 --back-off 0.2 --max-back-off 0.1 "${run[@]}"
want 0 4 "longest back-off"

# told LABEL CODE SIGNAL PAUSE...: signals to the supervisor while its launch runs
told() {
    local label=$1 wanted=$2 pid
    shift 2
    set -m # else a background process of a script cannot be interrupted
    timeout -k 2 "$limit" "$supervisor" "${rules[@]}" --ranks 1 --grace 0.5 \
        --restart-preempted "${run[@]}" >"$tmp/stdout" 2>"$tmp/stderr" </dev/null &
    pid=$!
    set +m
    for _ in $(seq 100); do
        [ -s "$tmp/launches" ] && break
        sleep 0.05
    done
    sleep 0.3
    while [ $# -gt 0 ]; do
        read -ra kids <"/proc/$pid/task/$pid/children"
        kill "-$1" "${kids[0]}"
        sleep "$2"
        shift 2
    done
    wait "$pid"
    code=$?
    want "$wanted" 1 "$label"
}
for signal in USR1 TERM INT HUP; do
    rm -rf "$tmp/out" "$tmp/launches"
    echo wait >"$tmp/plan"
    told "told to stop by $signal" 75 $signal 0
done
rm -rf "$tmp/out" "$tmp/launches"
echo deaf >"$tmp/plan"
told "no checkpoint within the time of grace" 75 TERM 0
rm -rf "$tmp/out" "$tmp/launches"
echo deaf >"$tmp/plan"
started=$SECONDS
told "told twice" 75 INT 0.1 INT 0
must test $((SECONDS - started)) -le 10

# its own command line
for wrong in "--ranks 0" "--ranks x" "--ranks" "--back-off -1" "--min-ranks 3 --ranks 2"; do
    # shellcheck disable=SC2086
    plan 0 -- $wrong
    want 64 0 "$wrong"
done
plan 0 -- --ranks 1 -- --resume never --out "$tmp/out"
want 64 0 "--resume never"
DTRAIN_RESUME=$tmp/x plan 0 -- --ranks 1 -- --out "$tmp/out"
want 64 0 "DTRAIN_RESUME"
plan 0 -- --ranks 1 -- --lr fast
want 64 0 "an option that is wrong"
must grep -q -- "--lr: 'fast'" "$tmp/stderr"
plan 0 -- --ranks 1 --shrink -- --accum 2 --out "$tmp/out"
want 64 0 "--shrink without --shards"
"$supervisor" --help >"$tmp/help" && must grep -q 'usage: scripts/dtrain-run' "$tmp/help"

# The job script for Slurm: USR1 becomes a checkpoint, 75 a place in the queue.
mkdir -p "$tmp/site/scripts" "$tmp/site/bin"
# shellcheck disable=SC2016
printf '#!/usr/bin/env bash\n%s\n' 'echo "$*" >>"$SITE/queue"' >"$tmp/site/bin/scontrol"
# shellcheck disable=SC2016
printf '#!/usr/bin/env bash\n%s\n' 'echo "$*" >supervisor' \
    'trap "exit 75" USR1; [ ! -e wait ] || for i in $(seq 100); do sleep 0.1; done' \
    'exit "$(cat code)"' >"$tmp/site/scripts/dtrain-run"
chmod +x "$tmp/site/bin/scontrol" "$tmp/site/scripts/dtrain-run"
# job CODE SIGNAL|-: runs the job script; sets $code
job() {
    rm -f "$tmp/site/queue" "$tmp/site/wait" "$tmp/site/supervisor"
    echo "$1" >"$tmp/site/code"
    [ "$2" = - ] || touch "$tmp/site/wait"
    (
        cd "$tmp/site" || exit 1
        export SITE=$PWD PATH=$PWD/bin:$PATH SLURM_JOB_ID=4711
        exec timeout -k 2 "$limit" bash "$DTRAIN_SOURCE/configs/cluster.sbatch" --net vgg11
    ) >"$tmp/stdout" 2>"$tmp/stderr" </dev/null &
    local pid=$! kids
    if [ "$2" != - ]; then
        for _ in $(seq 100); do
            [ -s "$tmp/site/supervisor" ] && break
            sleep 0.05
        done
        sleep 0.2
        read -ra kids <"/proc/$pid/task/$pid/children"
        kill "-$2" "${kids[0]}"
    fi
    wait "$pid"
    code=$?
}
job 0 USR1
must test "$code" = 75
must test "$(cat "$tmp/site/queue")" = "requeue 4711"
must grep -q -- "--grace 90 --net vgg11" "$tmp/site/supervisor"
for result in 0 78 75; do
    job $result -
    must test "$code" = $result
    must test "$(cat "$tmp/site/queue" 2>/dev/null)" = "$([ $result != 75 ] || echo requeue 4711)"
done

# ---- A real run ----------------------------------------------------------------------------

real=(--data synthetic:76 --net vgg11 --width-divisor 16 --global-batch 32 --shards 8
    --no-drop-remainder --precision fp32 --threads 1 --epochs 30 --save-every 5)
accepts "${real[@]}" --out "$tmp/calm"
timeless() { sed -E 's/,?"(images_per_s|seconds)":[^,}]*//g' "$1/metrics.jsonl"; }
# same FOLDER: the end is the undisturbed run's
same() {
    must cmp "$tmp/calm/model.safetensors" "$1/model.safetensors"
    equal "$(timeless "$tmp/calm")" "$(timeless "$1")"
}
# begin ARGS...: the supervisor in the background, until a checkpoint is there
begin() {
    rm -rf "$tmp/run"
    timeout -k 2 $((2 * limit)) "$supervisor" --program "$DTRAIN_BIN" --back-off 0.05 "$@" -- "${real[@]}" \
        --out "$tmp/run" >"$tmp/stdout" 2>"$tmp/stderr" </dev/null &
    pid=$!
    for _ in $(seq 3000); do
        compgen -G "$tmp/run/checkpoints/step-*" >/dev/null && break
        sleep 0.02
    done
    read -ra kids <"/proc/$pid/task/$pid/children"
    running=${kids[0]}
    read -ra kids <"/proc/$running/task/$running/children"
    mpirun=${kids[0]}
    read -ra kids <"/proc/$mpirun/task/$mpirun/children"
}
begin --ranks 3 --shrink
kill -9 "${kids[1]}"
wait "$pid"
code=$?
must test "$code" = 0
must grep -q "launch 2: 2 ranks, step-" "$tmp/stderr"
same "$tmp/run"

# a rank that hangs: it and the others are ended, and the run goes on
begin --ranks 3 --stall 3
kill -STOP "${kids[2]}"
wait "$pid"
code=$?
must test "$code" = 0
must grep -q "no record for 3 s" "$tmp/stderr"
must gone "${kids[2]}"
same "$tmp/run"

# it is killed itself: the launch ends with a checkpoint, and whoever starts it again has the folder
begin --ranks 2
kill -9 "$running"
for _ in $(seq 300); do
    gone "$mpirun" && break
    sleep 0.1
done
must gone "$mpirun"
must grep -q "stopped by SIGUSR1 after step" "$tmp/stderr"
wait "$pid" 2>/dev/null

# told twice within a second is told once: timeout(1) tells it, and then its group
begin --ranks 2
kill -TERM "$running"
sleep 0.05
kill -TERM "$running" 2>/dev/null
wait "$pid"
code=$?
must test "$code" = 75
must test "$(grep -c 'TERM: asking' "$tmp/stderr")" = 1
must test "$(grep -c 'again: ending at once' "$tmp/stderr")" = 0
must test ! -e "$tmp/run/model.safetensors"
timeout -k 2 $((2 * limit)) "$supervisor" --program "$DTRAIN_BIN" --ranks 3 -- "${real[@]}" --out "$tmp/run" \
    >"$tmp/stdout" 2>"$tmp/stderr" </dev/null
code=$?
must test "$code" = 0
same "$tmp/run"

# the last line says how to go on in a folder that it chose
mkdir "$tmp/chosen"
(
    cd "$tmp/chosen" || exit 1
    timeout -k 30 2 "$supervisor" --program "$DTRAIN_BIN" --ranks 2 -- "${real[@]}" --epochs 30000
) >"$tmp/stdout" 2>"$tmp/stderr" </dev/null
made=$(sed -nE 's/^dtrain-run: .*; start again with the same arguments and --out (runs\/[^ ]+)$/\1/p' "$tmp/stderr")
must test -d "$tmp/chosen/$made"

# dtrain launch knows its hosts' ranks
rm -rf "$tmp/run"
timeout -k 2 $((2 * limit)) "$supervisor" --program "$DTRAIN_BIN" --launcher "$DTRAIN_BIN launch --hosts localhost:3" -- \
    "${real[@]}" --out "$tmp/run" >"$tmp/stdout" 2>"$tmp/stderr" </dev/null
code=$?
must test "$code" = 0
must grep -q "launch 1: 3 ranks" "$tmp/stderr"
must grep -q " 3 ranks x 1 thread" "$tmp/stdout" "$tmp/stderr"
same "$tmp/run"
timeout 60 "$supervisor" --program "$DTRAIN_BIN" --launcher "$DTRAIN_BIN launch --nnodes 2" -- "${real[@]}" \
    --out "$tmp/none" >"$tmp/stdout" 2>"$tmp/stderr" </dev/null
code=$?
must test "$code" = 64
must grep -q "give --ranks" "$tmp/stderr"
finish
