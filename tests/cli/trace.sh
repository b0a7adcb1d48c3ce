#!/usr/bin/env bash
# --trace: what all ranks did, in the format of Chrome's traces, on one clock. The bits stay.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

run=("${tiny[@]}" --max-steps -1 --epochs 3 --save-every 2)

# reads FILE RANKS FIRST LAST PLAN: judges a trace; rules of the format: "Trace Event Format",
# JSON Object Format, complete events and metadata events
reads() {
    python3 - "$@" <<'END'
import json, sys
from collections import defaultdict
path, ranks, first, last = sys.argv[1], *map(int, sys.argv[2:5])
plan = {s[25:47].strip() or s[6:24].strip() for s in open(sys.argv[5]) if s[:4].strip().isdigit()}
events = json.load(open(path))["traceEvents"]
lanes, names, bound = defaultdict(list), {}, {}
for e in events:
    assert type(e["pid"]) is int and type(e["tid"]) is int and e["ph"] in "XM", e
    if e["ph"] == "M":
        assert e["name"] in ("process_name", "thread_name") and type(e["args"]["name"]) is str, e
        names[e["pid"], e["tid"]] = e["args"]["name"]
        if e["name"] == "process_name":
            bound[e["pid"]] = e["args"]["clock_bound_us"]
    else:
        assert e["dur"] >= 0 and e["ts"] > 0 and e["name"], e
        lanes[e["pid"], names[e["pid"], e["tid"]]].append(e)
assert {p for p, _ in names} == set(range(ranks)), names
assert bound[0] == 0 and all(0 < bound[r] < 1e6 for r in range(1, ranks)), bound
digit = 0.002 # microseconds: nanoseconds as decimals of a double
end = lambda e: e["ts"] + e["dur"]
for key, lane in lanes.items():
    lane.sort(key=lambda e: e["ts"])
    for a, b in zip(lane, lane[1:]):
        assert end(a) <= b["ts"] + digit, (key, a, b)
inside = lambda e, f: f["ts"] - digit <= e["ts"] and end(e) <= end(f) + digit
waits = [lanes[r, "with other ranks"] for r in range(ranks)]
for r in range(ranks):
    steps, phases, layers = (lanes[r, name] for name in ("steps", "phases", "layers"))
    assert [e["args"]["step"] for e in steps] == list(range(first, last + 1)), steps
    apart = [] # of a step and its phases: a rank may lose its core between two of them, not always
    for s in steps:
        parts = [p for p in phases if inside(p, s)]
        assert {"data", "forward", "backward", "exchange", "update", "checks"} <= {p["name"] for p in parts}
        apart.append(s["dur"] - sum(p["dur"] for p in parts))
        assert apart[-1] > -20, (s, parts)
        for kind, phase in ("forward", "forward"), ("weight gradient", "backward"), ("exchange", "backward"):
            found = [e for e in layers if e["name"].endswith(" " + kind) and inside(e, s)]
            assert found and all(any(inside(e, p) for p in parts if p["name"] == phase) for e in found), kind
    assert min(apart) < 0.01 * max(s["dur"] for s in steps) + 20, (apart, steps)
    kinds = ("forward", "backward", "weight gradient", "statistics of the group", "exchange")
    said = {e["name"][:-len(k) - 1] for e in layers for k in kinds if e["name"].endswith(" " + k)}
    assert said <= plan and len(said) > 20, said - plan
    # all ranks were in the same collectives, and none left a sum before the last one had come
    assert [e["name"] for e in waits[r]] == [e["name"] for e in waits[0]]
    assert ranks == 1 or lanes[r, "oldest bucket under way"]
    sums = [e["args"]["bytes"] for e in waits[r] if e["name"] == "gradients"]
    assert len(set(sums)) == 1 and sums[0] > 100000, sums
# a rank's last sums are under way from its last layer on, before it waits
def gives(s, f):
    last = [e["ts"] for e in lanes[s, "layers"] if e["name"].endswith(" exchange") and e["ts"] < f["ts"]]
    return max(last) if f["name"] == "gradients" else f["ts"]
for same in zip(*waits):
    late = same[0]["args"]["for"]
    assert all(e["args"]["for"] == late and e["dur"] >= same[late]["dur"] - digit for e in same), same
    if same[0]["name"] in ("gradients", "agreement"):
        for r, e in enumerate(same):
            for s, f in enumerate(same):
                assert end(e) >= gives(s, f) - bound[r] - bound[s] - digit, (r, e, s, f)
# the write of step 2 has ended when step 4 is saved
saved = {e["args"]["step"] for e in lanes[0, "writer of checkpoints"]}
assert (first != 2 or last != 5 or 2 in saved) and all(s % 2 == 0 or s == last for s in saved), saved
END
}

accepts plan "${tiny[@]}"
cp "$tmp/stdout" "$tmp/plan"
accepts "${run[@]}" --out "$tmp/alone"
for np in 1 3; do
    for exchange in auto tree; do
        out=$tmp/$np-$exchange
        accepts_on "$np" "${run[@]}" --out "$out" --exchange "$exchange" --trace "$out/trace.json@2:5"
        equal "$(hashes "$tmp/alone")" "$(hashes "$out")"
        must reads "$out/trace.json" "$np" 2 5 "$tmp/plan"
    done
done
launch 2 "${run[@]}" --bn sync --shards 3 --out "$tmp/sync" --trace "$tmp/sync.json@1:9"
must reads "$tmp/sync.json" 2 1 6 "$tmp/plan" # the run has six
must grep -q 'statistics of the group' "$tmp/sync.json"
must test "$(grep -c 'dtrain: warning: --trace' "$tmp/stderr")" = 0

# clocks that are 5000 s apart
if unshare -T --monotonic 5000 true 2>/dev/null; then
    apart=("${run[@]}" --stall-abort 0 --out "$tmp/apart" --trace "$tmp/apart.json@2:5")
    bounded mpirun -np 2 bash -c '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 0 ] || exec unshare -T --monotonic 5000 "$@"; exec "$@"' \
        rank "$DTRAIN_BIN" "${apart[@]}"
    judge 0 "clocks that are apart"
    must reads "$tmp/apart.json" 2 2 5 "$tmp/plan"
else
    echo "SKIPPED: other clocks: no rights to make time namespaces"
fi

# resumed: steps of this start; stopped: what there is, from step 3: steps 2 to 5 mean saves to `reads`
launch 1 "${run[@]}" --epochs 2 --out "$tmp/two"
launch 1 --out "$tmp/two" --epochs 4 --resume auto --trace "$tmp/more.json@2:3"
must reads "$tmp/more.json" 1 6 7 "$tmp/plan"
start 2 "${run[@]}" --epochs 100000 --save-every 0 --out "$tmp/stopped" --trace "$tmp/stopped.json@3:900000"
must soon has_records "$tmp/stopped" step 3
must test ! -e "$tmp/stopped.json"
kill -USR1 "$job"
job_end
must reads "$tmp/stopped.json" 2 3 "$(grep -c '"kind":"step"' "$tmp/stopped/metrics.jsonl")" "$tmp/plan"
# a rank that is late is named (one that stops halfway through a message may not be)
rank_that_sleeps='import json, sys
waits = [e for e in json.load(open(sys.argv[1]))["traceEvents"] if e.get("args", {}).get("for") == 1]
assert max(e["dur"] for e in waits) > 1e6, "no rank waited for rank 1"'
start 2 "${run[@]}" --epochs 100000 --save-every 0 --out "$tmp/late" --trace "$tmp/late.json@1:900000"
must soon has_records "$tmp/late" step 5
late=$("$DTRAIN_BIN" status "$tmp/late" | awk '$1 == 1 { print $3 }')
for _ in 1 2 3 4 5; do
    kill -STOP "$late" && sleep 1.3
    kill -CONT "$late" && sleep 0.5
done
kill -USR1 "$job"
job_end
must python3 -c "$rank_that_sleeps" "$tmp/late.json"
# killed: nothing
start 2 "${run[@]}" --epochs 100000 --out "$tmp/killed" --trace "$tmp/killed.json@2:900000"
must soon has_records "$tmp/killed" step 3
kill -KILL "$job"
job_end
must test -z "$(find "$tmp" -maxdepth 1 -name 'killed.json*')"

# more than fits, and less than is asked for
accepts "${tiny[@]}" --data synthetic:512 --max-steps 25 --epochs 9 --global-batch 64 --shards 64 --out "$tmp/full" \
    --trace "$tmp/full.json@1:25"
must grep -q "dtrain: warning: --trace $tmp/full.json@1:25: the record is too small" "$tmp/stderr"
must python3 -c 'import json, sys
e = json.load(open(sys.argv[1]))["traceEvents"]; assert sum(x["tid"] == 3 for x in e) > 60000' "$tmp/full.json"
accepts "${run[@]}" --out "$tmp/short" --trace "$tmp/short.json@7:8"
must grep -q "dtrain: warning: --trace $tmp/short.json@7:8: the run ended before" "$tmp/stderr"

# no file of another kind is replaced, and a disk's failure is a warning
cp "$tmp/alone/model.safetensors" "$tmp/model"
refuses 64 "traces end in .json" -- "${tiny[@]}" --out "$tmp/no1" --trace "$tmp/alone/model.safetensors"
must cmp "$tmp/model" "$tmp/alone/model.safetensors"
mkdir "$tmp/folder.json"
refuses 73 "$tmp/folder.json: there is a folder" -- "${tiny[@]}" --out "$tmp/no2" --trace "$tmp/folder.json"
refuses 73 "$tmp/model/sub: Not a directory" -- "${tiny[@]}" --out "$tmp/no3" --trace "$tmp/model/sub/t.json"
for steps in 0:3 4:3 5 1: a:b; do
    launch 1 "${tiny[@]}" --out "$tmp/no4" --trace "$tmp/no.json@$steps"
    must test "$code" = 64 -a ! -e "$tmp/no.json"
done
finish
