#!/usr/bin/env bash
# The power fails while a run trains and saves: from what is left, --resume auto ends with
# the same weights and the same metrics.jsonl as the run that was not disturbed.
# RESUME_STATES: how many states to go on from (12) beside the first ones, in which the run
# has only begun; proofs/crash-states takes more.
. "$DTRAIN_SOURCE/tests/fault/crash.bash" || exit 1
args=(--data synthetic:64 --net vgg11 --width-divisor 16 --global-batch 32 --shards 8
    --precision fp32 --threads 1 --max-steps 6 --save-every 2)
wanted=${RESUME_STATES:-12} begun=60

state_hash() { sed -n 's/^state hash *//p' "$1"; }

"$DTRAIN_BIN" train "${args[@]}" --out "$tmp/calm" >"$tmp/calm.out" 2>"$tmp/calm.err" ||
    complain "the undisturbed run: $(cat "$tmp/calm.err")"
timeless "$tmp/calm" >"$tmp/calm.metrics"
[ -n "$(state_hash "$tmp/calm.out")" ] && [ -s "$tmp/calm.metrics" ] ||
    complain "the undisturbed run has no hash or no metrics"

# The replayer only makes states here: it is told of a save that does not matter, and of a
# loader that never finds one, but says where a folder is not known as that of a run.
mkdir -p "$tmp/cut/folder" "$tmp/cut/before" "$tmp/cut/samples" "$tmp/cut/work"
"$fault/fault_trace" record "$tmp/cut/folder" "$tmp/cut/log" "$DTRAIN_BIN" train "${args[@]}" --out "$tmp/cut/folder/run" >"$tmp/cut.out" \
    2>"$tmp/cut.err" || complain "the recorded run: $(cat "$tmp/cut.err")"
[ "$(state_hash "$tmp/cut.out")" = "$(state_hash "$tmp/calm.out")" ] ||
    complain "the recorded run has other bits"
rm "$tmp/cut/folder/run/progress" # trace.c leaves it out
echo "known 0 0" >"$tmp/known"
cat >"$tmp/loader" <<'END'
while read -r folder; do
    run=$folder/run
    if [ -e "$run/metrics.jsonl" ] && [ ! -e "$run/options.yaml" ]; then
        echo "none torn run"
    else
        echo none
    fi
done
END
python3 "$DTRAIN_SOURCE/tests/fault/replay.py" --known "$tmp/known" --after "$tmp/cut/folder" --limit 64 --stride 16 \
    --sample 1 "$tmp/cut/samples" "$tmp/cut/log" "$tmp/cut/work" -- bash "$tmp/loader" \
    >"$tmp/cut/report" || complain "$(cat "$tmp/cut/report")"
figures=$(tail -n 1 "$tmp/cut/report")
states=$(figure states)
every=$((states / wanted > 0 ? states / wanted : 1))

resumed=0
fresh=0
for ((i = 1; i <= states; i++)); do
    [ "$i" -le "$begun" ] || [ $((i % every)) = 0 ] || continue
    folder=$tmp/cut/samples/$i
    run=$tmp/again
    rm -rf "$run"
    cp -r "$folder" "$run" # the samples share their files
    fresh=$((fresh + 1))
    "$DTRAIN_BIN" train "${args[@]}" --out "$run/run" --resume auto >"$tmp/stdout" \
        2>"$tmp/stderr"
    code=$?
    grep -q "resumed from" "$tmp/stderr" && resumed=$((resumed + 1))
    if [ "$code" != 0 ]; then
        complain "state ${folder##*/}: exit code $code: $(cat "$tmp/stderr")"
        find "$folder" | sed 's/^/    /'
    elif [ "$(state_hash "$tmp/stdout")" != "$(state_hash "$tmp/calm.out")" ]; then
        complain "state ${folder##*/}: other bits at the end"
    elif ! timeless "$run/run" | cmp -s - "$tmp/calm.metrics"; then
        complain "state ${folder##*/}: another metrics.jsonl"
        timeless "$run/run" | diff - "$tmp/calm.metrics" | head -n 5
    fi
done
echo "$states states, $fresh gone on from, $resumed of them at a checkpoint"
[ "$resumed" -gt 0 ] || complain "no state was resumed"
exit "$bad"
