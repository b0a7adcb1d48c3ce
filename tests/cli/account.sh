#!/usr/bin/env bash
# Where a run's time went adds up to the clock's; what a step takes on many ranks is predicted by
# rules that a reader can check. No speeds.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

for np in 1 2; do
    accepts_on $np --data synthetic:256 --net vgg11 --width-divisor 8 --global-batch 32 --shards 2 --precision fp32 \
        --threads 1 --epochs 2 --save-every 3 --out "$tmp/$np"
    must grep -qE '^time: compute [0-9.]+ s, exposed exchange .* s, waiting for others .* s, data .* s, saving .* s, rest [0-9.]+ s$' "$tmp/stdout"
    must python3 -c '
import json, sys
end = json.loads(open(sys.argv[1]).readlines()[-1])
parts = end["account_s"]
assert list(parts) == "compute exchange waiting data saving rest".split(), parts
assert abs(sum(parts.values()) - end["seconds"]) < 0.0005, end # one clock, four decimals
assert parts["compute"] > 0 and parts["data"] > 0 and parts["saving"] > 0, end
assert min(parts.values()) >= 0 and (sys.argv[2] == "2" or parts["waiting"] == 0), end' "$tmp/$np/metrics.jsonl" $np
done

small=(bench --net vgg11 --width-divisor 8 --batch 16 --precision fp32 --threads 1 --steps 3)
accepts_on 2 "${small[@]}" --json
must python3 -c '
import json, sys
row = json.load(open(sys.argv[1]))
mean = sum(row["account_s"].values()) # of steps, some of which another process may have held up
assert row["fastest_s"] / 2 < mean < 2 * row["slowest_s"], row' "$tmp/stdout"

accepts_on 2 "${small[@]}" --predict 8,64,1024 --exchange all --json
must python3 -c '
import json, sys
rows = {(r["exchange"], r["ranks"]): r for r in map(json.loads, open(sys.argv[1]))}
assert len(rows) == 5 * 3, rows
for (name, ranks), r in rows.items():
    assert r["exposed_s"] > 0 and 0 < r["efficiency"] < 1, r
    assert abs(r["images_per_s"] * r["step_s"] / (16 * ranks) - 1) < 1e-3, r
    assert r["exposed_s"] >= rows[name, 8]["exposed_s"], r
tree = {n: rows["tree", n]["messages"] for n in (8, 64, 1024)} # of one level, and of two
assert tree[64] / tree[8] == 2 * 7 / 7 and tree[1024] / tree[8] == 2 * 31 / 7, tree' "$tmp/stdout"
ranks=1
refuses 78 "--predict: one rank has no network to measure" -- "${small[@]}" --predict 8
refuses 64 "--predict 8,x@1gbit: numbers of ranks" -- "${small[@]}" --predict 8,x@1gbit
must test ! -s "$tmp/stdout"
refuses 64 "@1gbit, @10gbit or @100gbit" -- "${small[@]}" --predict 8@2gbit
accepts "${small[@]}" --predict 8@1gbit
must grep -q "0.1177 GB/s one way, 0.1177 each way (1gbit)" "$tmp/stdout"
refuses 78 "exchange shared" -- "${small[@]}" --predict 8@1gbit --exchange shared
finish
