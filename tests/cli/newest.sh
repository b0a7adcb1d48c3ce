#!/usr/bin/env bash
# A run folder means its newest valid state: the model of a finished run, or a checkpoint
# beyond it, as a run leaves them that was gone on with and killed.
set -u
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
run=$tmp/run
data=(--data synthetic:64 --threads 1 --precision fp32)
said() { must test "$(grep -cF "the newest state of $run is $1, step $2" "$tmp/stderr")" = 1; }

# of FOLDER STEP: what eval says of the run is what it says of FOLDER, on any number of ranks
of() {
    local np
    accepts eval "${data[@]}" --model "$1"
    cp "$tmp/stdout" "$tmp/want"
    for np in $ranks; do
        launch "$np" eval "${data[@]}" --model "$run"
        judge 0 "np $np: eval $run" "the newest state of $run is $1, step $2"
        must cmp "$tmp/want" "$tmp/stdout"
    done
}

# look: sets $newest and $before, the run's last two checkpoints, and $last, the newest's step
look() {
    local names
    mapfile -t names < <(ls "$run/checkpoints" | grep '^step-' | sort)
    newest=$run/checkpoints/${names[-1]}
    before=$run/checkpoints/${names[-2]:-none}
    last=$((10#$(basename "$newest" | cut -d- -f2)))
}

# killed_after STEP ARGS...: goes on with the run and kills it once it has later checkpoints
killed_after() {
    local after=$1 job
    shift
    rm -f "$tmp/stdout"
    "$DTRAIN_BIN" "$@" --max-steps 1000000 --epochs 1000000 --save-every 1 --keep-last 2 \
        >"$tmp/stdout" 2>/dev/null &
    job=$!
    for _ in $(seq 600); do
        look
        grep -q '^epoch' "$tmp/stdout" && [ "$last" -gt "$((after + 3))" ] && break
        sleep 0.1
    done
    kill -9 "$job"
    wait "$job" 2>/dev/null
    look
    must test "$last" -gt "$after"
}

accepts "${tiny[@]}" --max-steps 4 --epochs 2 --lr 0.05 --save-every 1 --keep-last 3 --out "$run"
of "$run/model.safetensors" 4

killed_after 4 --out "$run" --resume auto
must test -s "$run/model.safetensors" # the old one
of "$newest" "$last"
accepts convert "$run" --out "$tmp/a"
said "$newest" "$last"
accepts convert "$newest" --out "$tmp/b"
must cmp "$tmp/a" "$tmp/b"
rm "$tmp/a" "$tmp/b"
accepts average "$run" "$run/model.safetensors" --out "$tmp/a"
accepts average "$newest" "$run/model.safetensors" --out "$tmp/b"
must cmp "$tmp/a" "$tmp/b"
accepts verify "$run"
said "$newest" "$last"
for init in "$run" "$newest"; do
    accepts "${tiny[@]}" --init "$init" --out "$tmp/new"
    grep '^weights hash' "$tmp/stdout" >>"$tmp/hashes"
    rm -r "$tmp/new"
done
must test "$(sort -u "$tmp/hashes" | wc -l)" = 1

# the newest is torn: the one before it; all are: the model
printf X | dd of="$newest/model.safetensors" bs=1 seek=5000 conv=notrunc status=none
ranks=1
of "$before" "$((10#$(basename "$before" | cut -d- -f2)))"
must grep -q "$newest.*skipped" "$tmp/stderr"
cp -r "$run" "$tmp/without"
rm "$tmp/without/options.yaml"
accepts --out "$tmp/without" --resume auto --max-steps "$((10#$(basename "$newest" | cut -d- -f2) + 1))"
must test "$(grep -c skipped "$tmp/stderr")" = 1
printf X | dd of="$before/state.json" bs=1 seek=5 conv=notrunc status=none
rm -rf $(ls -d "$run"/checkpoints/step-* | grep -vxF -e "$newest" -e "$before")
of "$run/model.safetensors" 4
# and so is the model: nothing is left
printf X | dd of="$run/model.safetensors" bs=1 seek=9 conv=notrunc status=none
refuses 66 "neither a model nor a valid checkpoint" -- eval "${data[@]}" --model "$run"
rm -r "$run"

# going back: the model is of a future that will be another one
accepts "${tiny[@]}" --max-steps 4 --epochs 2 --save-every 1 --keep-last 3 --out "$run"
cp "$run/model.safetensors" "$tmp/four"
killed_after 4 --resume "$run/checkpoints/step-0000000003"
must test ! -e "$run/model.safetensors"
must cmp "$run/.undone-model.safetensors" "$tmp/four"
of "$newest" "$last"
accepts --out "$run" --resume auto --threads 1 --max-steps $((last + 1)) --epochs 1000000
must test ! -e "$run/.undone-model.safetensors"
of "$run/model.safetensors" $((last + 1))

# going back, and back again: checkpoint and records are had again, and the run ends as it would have
rm -r "$run"
accepts "${tiny[@]}" --max-steps 4 --epochs 2 --save-every 1 --keep-last 9 --out "$run"
cp "$run/metrics.jsonl" "$tmp/records"
accepts --out "$run" --resume "$run/checkpoints/step-0000000001" --max-steps 2
must test "$(wc -l <"$run/metrics.jsonl")" -lt "$(wc -l <"$tmp/records")"
must cmp "$run/.undone-metrics.jsonl" "$tmp/records"
mv "$run/checkpoints/.undone-step-0000000003" "$run/checkpoints/step-0000000003"
mv "$run/.undone-metrics.jsonl" "$run/metrics.jsonl"
accepts --out "$run" --resume auto --max-steps 4
must cmp "$run/model.safetensors" "$tmp/four"
equal "$(grep -c '"kind":"step"' "$tmp/records")" "$(grep -c '"kind":"step"' "$run/metrics.jsonl")"
accepts --out "$run" --resume "$run/checkpoints/step-0000000003"
must test ! -e "$run/.undone-metrics.jsonl" # as far again

# of a run that prunes while others read
rm -r "$run"
"$DTRAIN_BIN" "${tiny[@]}" --epochs 1000000 --max-steps -1 --save-every 1 --keep-last 1 --out "$run" \
    >/dev/null 2>&1 </dev/null &
live=$!
for _ in $(seq 1000); do
    [ -d "$run/checkpoints/step-0000000002" ] && break
    sleep 0.01
done
for _ in $(seq 30); do
    accepts eval "${data[@]}" --model "$run"
    accepts "${tiny[@]}" --init "$run" --max-steps 0 --out "$tmp/new"
    rm -r "$tmp/new"
done
kill -9 "$live"
wait "$live" 2>/dev/null
finish
