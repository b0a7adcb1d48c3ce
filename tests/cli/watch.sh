#!/usr/bin/env bash
# The watch: a rank that stands still is named within seconds, by a rank that still runs, goes on when
# it is let, and ends the run when it is not; what each rank did can be read from outside.
set -u
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

run=("${tiny[@]}" --epochs 100000 --max-steps -1 --save-every 20 --stall-abort 60)

# begin NP DIR ARGS...: in the background; $job is mpirun, rank[] its ranks' processes by rank
begin() {
    local np=$1
    folder=$2
    shift 2
    mpirun -np "$np" "$DTRAIN_BIN" "${run[@]}" --out "$folder" "$@" \
        >"$tmp/log" 2>&1 </dev/null &
    job=$!
    awaits "steps in $folder" has_steps 25 "$folder"
    find_ranks "$folder"
}
steps() { wc -l <"$1/metrics.jsonl"; }
said() { grep -qE -- "$1" "$tmp/log"; }
times() { [ "$(grep -cE -- "$2" "$tmp/log")" -ge "$1" ]; }
# what comes before the images takes no half second of a core
makes_images() {
    late=$(sed -nE 's/.*begins: process ([0-9]+)$/\1/p' "$tmp/early-logs/rank-00001.log" 2>/dev/null)
    [ -n "$late" ] && [ "$(awk '{ print $14 + $15 }' "/proc/$late/stat")" -gt $(($(getconf CLK_TCK) / 2)) ]
}
three_looks() { [ "$(grep -c 'is going on' "$tmp/watched")" -ge 3 ]; }
awaits() { # WHAT COMMAND...: within the limit
    cases=$((cases + 1))
    within "${@:2}" || { code=- && complain "waited for $1"; }
}
ended() {
    awaits "the end" gone "$job"
    wait "$job" 2>/dev/null
    code=$?
    cases=$((cases + 1))
    [[ $code =~ ^($1)$ ]] || complain "$2: want exit code $1"
}

# any rank, rank 0 too: the others name it, and it goes on
begin 3 "$tmp/on"
must test "${#rank[@]}" = 3
for r in 0 2; do
    kill -STOP "${rank[r]}"
    awaits "rank $r to be named" said "^dtrain: rank $r \(host [^ ]+, pid ${rank[r]}\) is stopped \(SIGSTOP\) in .* step [0-9]+.* for [0-9.]+ s; 2 ranks wait for it"
    launch 1 status "$folder"
    must grep -qE "^run $folder is going on: step [0-9]+ of " "$tmp/stdout"
    must test "$(grep -c ' waits in ' "$tmp/stdout")" = 2
    must grep -qE "^ +$r .* does not run: " "$tmp/stdout"
    kill -CONT "${rank[r]}"
    awaits "rank $r to go on" said "^dtrain: rank $r goes on"
    before=$(steps "$folder")
    awaits "steps after it" has_steps $((before + 5)) "$folder"
done

# again and again, until it is over
timeout $((10 * limit)) "$DTRAIN_BIN" status "$folder" --watch >"$tmp/watched" 2>&1 &
watcher=$!
awaits "three looks" three_looks
must test "$(grep -cE '^last checkpoint: step-[0-9]{10}, [0-9]+ s ago$' "$tmp/watched")" -ge 3

# what is done to the file does nothing to the run, and soon the file is right again
goes_on() { "$DTRAIN_BIN" status "$folder" 2>/dev/null | grep -qE "^run $folder is going on: step [0-9]+ of "; }
: >"$folder/progress"
before=$(steps "$folder")
awaits "steps after the file was cut" has_steps $((before + 5)) "$folder"
head -c 8000 /dev/urandom | dd of="$folder/progress" conv=notrunc status=none
before=$(steps "$folder")
awaits "steps after the file was written to" has_steps $((before + 5)) "$folder"
awaits "the file to be right" goes_on

# after kill -9 of everything
kill -9 "$job" "${rank[@]}"
wait "$job" 2>/dev/null
for r in 0 1 2; do awaits "the end of rank $r" gone "${rank[r]}"; done
awaits "the end of status --watch" gone "$watcher"
wait "$watcher"
must test "$?" = 0
must test "$(grep -c '^run .* is killed' "$tmp/watched")" = 1
launch 1 status "$folder"
must grep -qE "^run $folder is killed.*: step [0-9]+ of " "$tmp/stdout"
must test "$(grep -cE '^ +[0-2] .*(step|beginning)' "$tmp/stdout")" = 3

# for ever: the run ends with its code, and no process of it is left
begin 3 "$tmp/ends" --stall-abort 4
awaits "a checkpoint" has_checkpoint "$folder"
kill -STOP "${rank[1]}"
ended "$stalled" "a rank that stays stopped"
must grep -qE "rank 1 .*: ended after --stall-abort 4 s; checkpoints are whole: start it again with --resume auto" "$tmp/log"
for r in 0 1 2; do awaits "the end of rank $r" gone "${rank[r]}"; done
launch 1 status "$folder"
must grep -q "^run $folder is ended by --stall-abort" "$tmp/stdout"
accepts verify "$folder"

# layers that are cut: rank 1, which has no shard, computes its part of each layer; stopped
# anywhere, rank 0 is soon in one, too, and one is named. A request to stop makes a checkpoint.
begin 2 "$tmp/cut" --net vgg11 --shards 1 --strategy all=out --save-every 0
for ((try = 0; try < 20; try++)); do
    kill -STOP "${rank[1]}"
    awaits "rank 1 to be named" times $((try + 1)) "^dtrain: rank 1 .* is stopped \(SIGSTOP\) in .* step [0-9]+.* for [0-9.]+ s; 1 rank waits for it"
    launch 1 status "$folder"
    kill -CONT "${rank[1]}"
    awaits "rank 1 to go on" times $((try + 1)) "^dtrain: rank 1 goes on"
    if grep -qE " in (forward|backward), in the move (to|from) [a-z0-9.]+ of step" "$tmp/stdout"; then break; fi
done
must test "$try" -lt 20
kill -USR1 "$job"
ended "$asked" "a run with cut layers that is asked to stop"
accepts verify "$folder"

# before the first step, too: a rank that is stopped while images are made
mpirun -np 2 "$DTRAIN_BIN" "${run[@]}" --data synthetic:400000 --max-steps 2 --epochs 1 --out "$tmp/early" --log-dir "$tmp/early-logs" \
    >"$tmp/log" 2>&1 </dev/null &
job=$!
awaits "rank 1" makes_images
kill -STOP "$late"
awaits "rank 1 to be named" said "^dtrain: rank 1 \(host [^ ]+, pid $late\) is stopped \(SIGSTOP\) in (the beginning|loading images) for [0-9.]+ s; 1 rank waits for it"
kill -CONT "$late"
limit=$((5 * limit)) ended 0 "a run that was stopped while it was set up" # many images

# bench: a rank that most of the time stands still; who gets the cores decides nothing
start 2 bench --net vgg11 --width-divisor 8 --global-batch 48 --shards 3 --threads 1 --steps 10
second() { late=$(grep -lzsxE '(OMPI_COMM_WORLD|PMI)_RANK=1' $(ranks_of "$job" | sed 's|.*|/proc/&/environ|') /dev/null | tr -dc 0-9); [ -n "$late" ]; }
must soon second
until gone "$job"; do
    kill -STOP "$late" 2>/dev/null
    sleep 0.2
    kill -CONT "$late" 2>/dev/null
    sleep 0.1
done
job_end
must test "$code" = 0
must grep -qE '^rank 1 is slower than the others: half of them waited for it, [0-9.]+ s per step$' "$tmp/stdout"

# it costs nothing to be let alone
begin 2 "$tmp/alone" --stall-abort 0
kill -STOP "${rank[1]}"
sleep 3
must test "$(grep -c 'rank 1' "$tmp/log")" = 0
kill -CONT "${rank[1]}"
kill -USR1 "$job"
ended "$asked" "a run without a watch"
launch 1 status "$folder"
must grep -qE "^run $folder is stopped \(exit code 75\): step [0-9]+ of " "$tmp/stdout"

# a run that is over, and what is none
accepts "${tiny[@]}" --out "$tmp/over"
launch 1 status "$tmp/over"
must grep -q "^run $tmp/over is over: step 1 of 1" "$tmp/stdout"
must grep -qE "^ +0 .* done$" "$tmp/stdout"
accepts --out "$tmp/over" --resume auto # nothing is left to do
launch 1 status "$tmp/over"
must grep -q "^run $tmp/over is over: step 1 of 1" "$tmp/stdout"
ranks=1
refuses 79 "loss is nan" -- "${tiny[@]}" --max-steps -1 --epochs 50 --lr 1e5 --out "$tmp/diverged"
launch 1 status "$tmp/diverged"
must grep -qE "^run $tmp/diverged is ended by an error \(exit code 79\): step [0-9]+ of 100, " "$tmp/stdout"
mkdir "$tmp/none"
for run in "$tmp/none" "$tmp/nowhere" "$tmp/over/metrics.jsonl"; do
    refuses 66 "$run is no run folder, or its first step has not begun: " "$run/progress" -- status "$run"
done
refuses 64 "an argument is empty" -- status ""
for bytes in 0 10; do
    head -c "$bytes" "$tmp/over/progress" >"$tmp/none/progress"
    refuses 65 "$tmp/none/progress" -- status "$tmp/none"
done
# a text from strangers is shown, and steers no terminal
printf 'progress of a dtrain run: over\33[2J\n\33]0;x\7\nlast' >"$tmp/none/progress"
launch 1 status "$tmp/none"
must test "$code" = 0
must grep -qa "^run $tmp/none is over?\[2J" "$tmp/stdout"
must grep -qa "^last$" "$tmp/stdout"
must test "$(LC_ALL=C tr -d '\n\40-\176' <"$tmp/stdout" | wc -c)" = 0
rm "$tmp/none/progress"
mkfifo "$tmp/none/progress"
refuses 66 "$tmp/none/progress: is a pipe, socket or device" -- status "$tmp/none"
finish
