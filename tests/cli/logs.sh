#!/usr/bin/env bash
# --log-dir: a file for each rank with what it says; --comm-log: every collective, for whom the
# others waited in it. Neither changes a bit.
set -u
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

run=("${tiny[@]}" --max-steps -1 --epochs 2)
stamp='^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}Z'
accepts "${run[@]}" --out "$tmp/alone"
for exchange in auto tree; do
    log=$tmp/$exchange.jsonl
    launch 3 "${run[@]}" --out "$tmp/$exchange" --exchange "$exchange" --log-dir "$tmp/logs-$exchange" --comm-log "$log"
    must test "$code" = 0
    equal "$(hashes "$tmp/alone")" "$(hashes "$tmp/$exchange")"
    for r in 0 1 2; do
        own=$tmp/logs-$exchange/rank-0000$r.log
        must test "$(grep -cvE "$stamp rank $r on [^ ]+: " "$own")" = 0
        must test "$(grep -cE ': epoch [12] ends with step [24]: waited [0-9.]+ s' "$own")" = 2
    done
    # each line is JSON; each step has its exchange, with a rank's seconds for each
    must python3 - "$log" <<'END'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
steps = [line["step"] for line in lines]
assert steps == sorted(steps) and set(steps) == set(range(5)), steps
for line in lines:
    seconds = line["seconds"]
    assert len(seconds) == 3 and min(seconds) >= 0, line
    assert seconds[line["for"]] == min(seconds), line
sums = [line for line in lines if line["collective"] == "gradients"]
assert [line["step"] for line in sums] == [1, 2, 3, 4], sums
assert len({line["bytes"] for line in sums}) == 1 and sums[0]["bytes"] > 100000, sums
END
done

# a second run appends to both
launch 3 "${run[@]}" --epochs 1 --out "$tmp/more" --log-dir "$tmp/logs-auto" --comm-log "$tmp/auto.jsonl"
must test "$(grep -c 'begins: process' "$tmp/logs-auto/rank-00000.log")" = 2
must test "$(grep -c '"step":0,' "$tmp/auto.jsonl")" -gt "$(grep -c '"step":0,' "$tmp/tree.jsonl")"

# what a full disk has cut is left out by the next run, in both
printf '{"step":9,"coll' >>"$tmp/auto.jsonl"
printf '2026-11-22T20:00:00.000Z rank 0' >>"$tmp/logs-auto/rank-00000.log"
launch 3 "${run[@]}" --epochs 1 --out "$tmp/mended" --log-dir "$tmp/logs-auto" --comm-log "$tmp/auto.jsonl"
must test "$(grep -c 'begins: process' "$tmp/logs-auto/rank-00000.log")" = 3
must test "$(grep -cvE "$stamp rank 0 on [^ ]+: " "$tmp/logs-auto/rank-00000.log")" = 0
must python3 -c 'import json, sys; [json.loads(line) for line in open(sys.argv[1])]' "$tmp/auto.jsonl"
if mkdir "$tmp/small" && unshare -m true 2>/dev/null; then
    must unshare -m bash -c 'mount -t tmpfs -o size=8k none "$1" && shift && exec "$@"' - "$tmp/small" bash -c '
        "$@" --log-dir "$0/logs" >"${0%/*}/small.said" 2>&1 && cp "$0/logs/rank-00000.log" "${0%/*}/small.log"' \
        "$tmp/small" "$DTRAIN_BIN" "${run[@]}" --epochs 100 --out "$tmp/full"
    must test "$(grep -c "cannot write to its file of --log-dir: No space left" "$tmp/small.said")" = 1
    must test "$(tail -c 1 "$tmp/small.log" | wc -l)" = 1
fi

# a rank that is late is reported (one that stops halfway through a message may not be)
rank_that_sleeps='import json, sys
late = [l for l in map(json.loads, open(sys.argv[1])) if l["for"] == 1 and max(l["seconds"]) > 1]
assert late, "no rank waited for rank 1"'
start 2 "${run[@]}" --epochs 100000 --out "$tmp/late" --comm-log "$tmp/late.jsonl"
must soon has_records "$tmp/late" step 5
late=$("$DTRAIN_BIN" status "$tmp/late" | awk '$1 == 1 { print $3 }')
for _ in 1 2 3 4 5; do
    kill -STOP "$late" && sleep 1.3
    kill -CONT "$late" && sleep 0.5
done
kill -USR1 "$job"
job_end
must python3 -c "$rank_that_sleeps" "$tmp/late.jsonl"

# they may lie in the run's own new folder; nothing else may
launch 2 "${tiny[@]}" --out "$tmp/a/in" --log-dir "$tmp/a/in/logs/ranks" --comm-log "$tmp/a/in/collectives.jsonl"
must test "$code" = 0 -a -s "$tmp/a/in/logs/ranks/rank-00001.log" -a -s "$tmp/a/in/collectives.jsonl"
launch 2 "${tiny[@]}" --out "$tmp/same" --log-dir "$tmp/same"
must test "$code" = 0 -a -s "$tmp/same/rank-00001.log"
# whatever the two are called
(
    cd "$tmp" || exit 1
    for names in "by1 ./by1/logs" "./by2 by2" "by3 $tmp/by3/logs" "$tmp/by4 by4/logs"; do
        launch 2 "${tiny[@]}" --out "${names% *}" --log-dir "${names#* }"
        must test "$code" = 0 -a -s "${names#* }/rank-00001.log"
    done
    exit "$bad"
) || bad=1
ranks=2
mkdir -p "$tmp/taken/logs-2"
refuses 73 "it holds 'logs-2'" -- "${tiny[@]}" --out "$tmp/taken" --log-dir "$tmp/taken/logs"
: >"$tmp/file"
refuses 73 "folder $tmp/file/logs: Not a directory" -- "${tiny[@]}" --out "$tmp/no1" --log-dir "$tmp/file/logs"
refuses 73 "$tmp/file/rank-0000" -- "${tiny[@]}" --out "$tmp/no2" --log-dir "$tmp/file"
refuses 73 "--comm-log $tmp/file/log: Not a directory" -- "${tiny[@]}" --out "$tmp/no3" --comm-log "$tmp/file/log"
cp "$tmp/alone/model.safetensors" "$tmp/model"
for other in "$tmp/alone/model.safetensors" "$tmp/alone/metrics.jsonl"; do
    refuses 73 "$other: this is no log of collectives" -- "${tiny[@]}" --out "$tmp/no4" --comm-log "$other"
done
must cmp "$tmp/model" "$tmp/alone/model.safetensors"
must test "$(grep -c collective "$tmp/alone/metrics.jsonl")" = 0
mkfifo "$tmp/fifo"
refuses 73 "$tmp/fifo: this is no log of collectives" -- "${tiny[@]}" --out "$tmp/no5" --comm-log "$tmp/fifo"
ln -s auto.jsonl "$tmp/link"
refuses 73 "$tmp/link: it is a link" -- "${tiny[@]}" --out "$tmp/no6" --comm-log "$tmp/link"
finish
