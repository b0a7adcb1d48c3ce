#!/usr/bin/env bash
# scripts/dtrain-run: its rules, tried on a program that fails as it is told: what it starts again, how
# often, how late and with how many ranks; and real runs, which it brings to the undisturbed end.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
supervisor=$DTRAIN_SOURCE/scripts/dtrain-run
said() { must grep -qF -- "$1" "$tmp/stderr"; }

# ---- Rules -------------------------------------------------------------------------------

# Instead of mpirun, which takes half a second: -np N PROGRAM ARGS...
program "$tmp/launcher" <<'END'
#!/usr/bin/env bash
ranks=$2
shift 2
ranks=$ranks exec "$@"
END
# A process that logs its launch and ends with the next word of $tmp/plan: an exit code, or
# -SIGNAL by which it dies; "+" before it: after a new checkpoint.
program "$tmp/program" <<'END'
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
early) trap 'exit 0' USR1 ;; # mpirun that has no ranks yet
late) trap 'mkdir -p "$dir/out"; echo "{\"kind\":\"end\"}" >>"$dir/out/metrics.jsonl"; exit 0' USR1 ;;
deaf) trap '' USR1 ;;
half) mkdir -p "$dir/out" && echo '{"kind":"step","step":1}' >>"$dir/out/metrics.jsonl" && exit 0 ;;
whole) echo '{"kind":"end","steps":2}' >>"$dir/out/metrics.jsonl" && exit 0 ;;
*) exit "$word" ;;
esac
for i in $(seq 3000); do sleep 0.1; done
exit 1
END

# supervise ARGS...: in the background; $job
supervise() {
    set -m # else a background process of a script cannot be interrupted
    timeout -k 2 $((2 * limit)) "$supervisor" "$@" >"$tmp/stdout" 2>"$tmp/stderr" </dev/null &
    job=$!
    set +m
}
# child PID: of the supervisor that timeout runs, and so on
child() { cut -d ' ' -f 1 "/proc/$1/task/$1/children"; }

# plan WORDS ARGS...: the supervisor, over a program that ends with these words, one a launch
plan() {
    rm -rf "$tmp/out" "$tmp/launches"
    tr ' ' '\n' <<<"$1" >"$tmp/plan"
    supervise --launcher "$tmp/launcher" --program "$tmp/program" --back-off 0.05 "${@:2}"
}
# want CODE LAUNCHES LABEL: so it ends
want() {
    local got
    job_end
    got=$(cat "$tmp/launches" 2>/dev/null | wc -l)
    cases=$((cases + 1))
    [ "$code" = "$1" ] && [ "$got" = "$2" ] ||
        complain "$3: want code $1 after $2 launches, got $code after $got"
}

# exit code | launches | options of dtrain-run | how the launches end
while IFS='|' read -r result launches options words; do
    # shellcheck disable=SC2086
    plan "$(echo $words)" --ranks 4 $options -- --net vgg11 --out "$tmp/out"
    want "$((result))" "$((launches))" "[$options] $words"
done <<'END'
0  | 1 |                                     | 0
0  | 2 |                                     | half whole
1  | 3 | --max-restarts 2                    | half half half
64 | 1 |                                     | 64 0
65 | 1 |                                     | 65 0
66 | 1 |                                     | 66 0
73 | 1 |                                     | 73 0
78 | 1 |                                     | 78 0
79 | 1 |                                     | 79 0
0  | 6 |                                     | 71 76 -9 -11 1 0
0  | 3 |                                     | 74 73 0
70 | 3 | --max-stuck 2                       | 70 70 70 70
71 | 7 | --max-stuck 2                       | +70 +70 +70 +70 70 70 71 0
74 | 4 | --max-stuck 2 --max-restarts 3      | +70 +70 +70 +74 0
75 | 1 |                                     | 75 0
0  | 2 | --restart-preempted                 | 75 0
0  | 4 | --back-off 0.2 --max-back-off 0.1   | 70 70 70 0
0  | 5 | --min-ranks 2 --shrink              | -9 71 9 -9 0
END
must test "$(cut -d ' ' -f 2 "$tmp/launches" | tr '\n' ' ')" = "4 3 3 2 2 "
must test "$(grep -c -- "--net vgg11 --out $tmp/out --resume auto --shards 4\$" "$tmp/launches")" = 5
# pauses of 0.2, 0.4, 0.8, then after a new checkpoint 0.2 again
plan "70 70 70 +70 0" --ranks 1 --back-off 0.2 -- --out "$tmp/out"
want 0 5 "back-off"
equal "$(sed -nE 's/.* restart [0-9]+ of .* in ([0-9.]+) s$/\1/p' "$tmp/stderr" | tr '\n' ' ')" "0.2 0.4 0.8 0.2 "
must awk '{ if (NR > 1) gap[NR] = $1 - last; last = $1 }
    END { exit !(gap[2] >= 200 && gap[3] >= 400 && gap[4] >= 800 && gap[5] >= 200) }' "$tmp/launches"

# --shards and --out from a configuration file or the environment, too
printf 'out: "%s"\nshards: 8\n' "$tmp/out" >"$tmp/run.yaml"
plan "+70 70 0" --ranks 4 --shrink --max-stuck 1 -- --config "$tmp/run.yaml"
want 0 3 "out: of a configuration file"
must test "$(grep -c -- "4 --config $tmp/run.yaml --resume auto\$" "$tmp/launches")" = 3
must grep -q "launch 2: 4 ranks, step-.*, run folder $tmp/out\$" "$tmp/stderr"
out='a "b" \c'
DTRAIN_OUT=$tmp/$out plan 0 --ranks 1
want 0 1 "DTRAIN_OUT"
said "run folder $tmp/$out"
must test "$(grep -c -- --out "$tmp/launches")" = 0
OMP_NUM_THREADS=1000 plan 0 -- train --out="$tmp/out"
want 0 1 "the command's name"
said "launch 1: $(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc) ranks, "

# asked CODE LABEL WORD SIGNAL PAUSE...: signals to the supervisor while its launch runs
asked() {
    local wanted=$1 label=$2 pid
    plan "$3" --ranks 1 --grace 0.5 --restart-preempted -- --out "$tmp/out"
    shift 3
    must soon test -s "$tmp/launches"
    sleep 0.3
    for ((; $# > 0; )); do
        pid=$(child "$job") && kill "-$1" "$pid"
        sleep "$2"
        shift 2
    done
    want "$wanted" 1 "$label"
}
for signal in USR1 TERM INT HUP XCPU; do
    asked 75 "asked to stop by $signal" wait $signal 0
done
asked 75 "asked before the ranks are there" early TERM 0
asked 0 "asked when the last step is over" late TERM 0
asked 75 "no checkpoint within the time of grace" deaf TERM 0
started=$SECONDS
asked 75 "asked twice" deaf INT 0.1 INT 0
must test $((SECONDS - started)) -lt 250 # else the launch takes 300

# its own command line, and dtrain's
while IFS='|' read -r options arguments; do
    # shellcheck disable=SC2086
    plan 0 $options -- $arguments
    want 64 0 "$options -- $arguments"
done <<END
--ranks 0|
--ranks x|
--back-off -1|
--min-ranks 3 --ranks 2|
--ranks 1|--resume never --out $tmp/out
--ranks 1 --shrink|--accum 2 --out $tmp/out
--ranks 1|--lr fast
END
said "--lr: 'fast'"
DTRAIN_RESUME=$tmp/x plan 0 --ranks 1 -- --out "$tmp/out"
want 64 0 "DTRAIN_RESUME"
plan 0 --ranks
want 64 0 "--ranks without a value"
"$supervisor" --help >"$tmp/help" && must grep -qF "usage: $supervisor" "$tmp/help"

# The job script for Slurm: USR1 becomes a checkpoint, 75 a place in the queue.
program "$tmp/site/bin/scontrol" <<'END'
#!/usr/bin/env bash
echo "$*" >>"$SITE/queue"
END
program "$tmp/site/scripts/dtrain-run" <<'END'
#!/usr/bin/env bash
echo "$*" >supervisor
trap "exit 75" USR1; [ ! -e wait ] || for i in $(seq 100); do sleep 0.1; done
exit "$(cat code)"
END
# slurm CODE RESULT [SIGNAL]: the job script over a supervisor that ends with CODE
slurm() {
    rm -f "$tmp/site/queue" "$tmp/site/wait" "$tmp/site/supervisor"
    echo "$1" >"$tmp/site/code"
    [ -z "${3:-}" ] || touch "$tmp/site/wait"
    (
        cd "$tmp/site" || exit 1
        export SITE=$PWD PATH=$PWD/bin:$PATH SLURM_JOB_ID=4711
        exec timeout -k 2 "$limit" bash "$DTRAIN_SOURCE/configs/cluster.sbatch" --net vgg11
    ) >"$tmp/stdout" 2>"$tmp/stderr" </dev/null &
    job=$!
    if [ -n "${3:-}" ]; then
        must soon test -s "$tmp/site/supervisor"
        sleep 0.2
        kill "-$3" "$(child "$job")"
    fi
    job_ends "$2"
    must test "$(cat "$tmp/site/queue" 2>/dev/null)" = "$([ "$2" != 75 ] || echo requeue 4711)"
}
slurm 0 75 USR1
must grep -q -- "--grace 90 --net vgg11" "$tmp/site/supervisor"
slurm 0 0
slurm 78 78
slurm 75 75

# ---- Real runs -----------------------------------------------------------------------------

real=(--data synthetic:76 --net vgg11 --width-divisor 16 --global-batch 32 --shards 8
    --no-drop-remainder --precision fp32 --threads 1 --epochs 30 --save-every 5)
accepts "${real[@]}" --out "$tmp/calm"
# has_ranks N: the supervisor's launch has started so many; a busy machine's may be a second one
has_ranks() {
    running=$(child "$job") && mpirun=$(child "$running") || return 1
    read -ra kids <<<"$(ranks_of "$mpirun" | tr '\n' ' ')"
    [ ${#kids[@]} = "$1" ]
}
# begin --ranks N ARGS...: under the supervisor, until a checkpoint is there
begin() {
    rm -rf "$tmp/run"
    supervise --program "$DTRAIN_BIN" --back-off 0.05 "$@" -- "${real[@]}" --out "$tmp/run"
    must soon has_checkpoint "$tmp/run"
    must soon has_ranks "$2"
}
# ends CODE: and a run that is complete is the undisturbed one
ends() {
    job_ends "$1"
    [ "$1" = 0 ] || return 0
    must cmp "$tmp/calm/model.safetensors" "$tmp/run/model.safetensors"
    equal "$(timeless "$tmp/calm")" "$(timeless "$tmp/run")"
}
begin --ranks 3 --shrink
kill -9 "${kids[1]}"
ends 0
said "launch 2: 2 ranks, step-"

# a rank that hangs: it and the others are ended, and the run is resumed
begin --ranks 3 --stall 10
kill -STOP "${kids[2]}"
ends 0
said "no record for 10 s"
must gone "${kids[2]}"

# it is killed itself: the launch ends with a checkpoint, and the next supervisor has the folder
begin --ranks 2
kill -9 "$running"
must within gone "$mpirun"
said "stopped by SIGUSR1 after step"
wait "$job" 2>/dev/null

# two signals within a second are one: timeout(1) sends one to it, and then one to its group
begin --ranks 2
kill -TERM "$running"
sleep 0.05
kill -TERM "$running" 2>/dev/null
ends 75
must test "$(grep -c 'TERM: asking' "$tmp/stderr")" = 1
must test "$(grep -c 'again: ending at once' "$tmp/stderr")" = 0
must test ! -e "$tmp/run/model.safetensors"
supervise --program "$DTRAIN_BIN" --ranks 3 -- "${real[@]}" --out "$tmp/run"
ends 0

# the last line says how to resume in a folder that it chose
mkdir "$tmp/chosen"
cd "$tmp/chosen" || exit 1
"$supervisor" --program "$DTRAIN_BIN" --ranks 2 -- "${real[@]}" --epochs 30000 >"$tmp/stdout" 2>"$tmp/stderr" </dev/null &
job=$!
must soon eval 'has_records runs/* step 1'
kill -TERM "$job"
ends 75
made=$(sed -nE 's/^dtrain-run: .*; start again with the same arguments and --out (runs\/[^ ]+)$/\1/p' "$tmp/stderr")
must test -n "$made" -a -d "$tmp/chosen/$made"

# dtrain launch knows its hosts' ranks
rm -rf "$tmp/run"
supervise --program "$DTRAIN_BIN" --launcher "$DTRAIN_BIN launch --hosts localhost:3" -- "${real[@]}" --out "$tmp/run"
ends 0
said "launch 1: 3 ranks"
must grep -q " 3 ranks x 1 thread" "$tmp/stdout" "$tmp/stderr"
supervise --program "$DTRAIN_BIN" --launcher "$DTRAIN_BIN launch --nnodes 2" -- "${real[@]}" --out "$tmp/none"
ends 64
said "give --ranks"
finish
