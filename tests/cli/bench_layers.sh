#!/usr/bin/env bash
# bench --layers: every layer of the plan, numbers that are numbers, phases that add up to the
# step, and the same weights as without. No speeds.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

# profile FILE PLAN: judges a JSON object of bench --layers
profile() {
    python3 - "$@" <<'END'
import json, math, sys
row = json.load(open(sys.argv[1]))
plan = {(s[6:24].strip(), s[25:47].strip()) for s in open(sys.argv[2]) if s[:4].strip().isdigit()}
profile = row["layers"]
passes, phases, peaks = profile["passes"], profile["phases"], profile["peaks"]

def finite(x):
    if isinstance(x, dict):
        return all(map(finite, x.values()))
    if isinstance(x, list):
        return all(map(finite, x))
    return not isinstance(x, (int, float)) or math.isfinite(x) and x >= 0

assert finite(row), "a number that is none"
assert plan and {(p["operation"], p["name"]) for p in passes} == plan, "other layers than the plan's"
kinds = {(p["operation"], p["pass"]) for p in passes}
assert ("conv2d", "data") in kinds and ("conv2d", "weights") in kinds and ("linear", "forward") in kinds
assert ("batchnorm+relu", "backward") in kinds and ("batchnorm+relu", "data") not in kinds
assert abs(sum(p["share"] for p in phases.values()) - 1) < 1e-6, "phases are no step"
in_passes = sum(p["seconds"] for p in passes)
parts = "forward data_gradient weight_gradient norm pooling residual activation other".split()
assert abs(sum(phases[p]["seconds"] for p in parts) - in_passes) < 1e-6, "totals of other passes"
assert 0 < in_passes <= profile["mean_step_s"]
peak = peaks[profile["precision"]]["flops_per_s"], peaks["memory_bytes_per_s"]
for p in passes:
    assert p["bytes"] > 0 and p["limit_s"] > 0 and p["seconds"] > 0, p
    assert (p["flops"] > 0) == (p["operation"] in ("conv2d", "linear")), p
    limits = {"compute": p["flops"] / peak[0], "traffic": p["bytes"] / peak[1]}
    assert abs(p["limit_s"] / max(limits.values()) - 1) < 1e-6 and limits[p["limit"]] == max(limits.values()), p
    assert abs(p["efficiency"] * p["seconds"] / p["limit_s"] - 1) < 1e-6, p
END
}

# check NP NET ARGS...: as JSON, and with the weights of a run without
check() {
    local np=$1 net=(--net "$2" --width-divisor 16 --image-size 32) with
    shift 2
    accepts plan "${net[@]}" "$@"
    cp "$tmp/stdout" "$tmp/plan"
    accepts_on "$np" bench --layers --json --steps 2 --threads 1 "${net[@]}" "$@"
    must profile "$tmp/stdout" "$tmp/plan"
    with=$(grep -o '"weights_hash": "[0-9a-f]*"' "$tmp/stdout")
    launch "$np" bench --json --steps 2 --threads 1 "${net[@]}" "$@"
    must test -z "$(grep -o '"layers"' "$tmp/stdout")"
    equal "$with" "$(grep -o '"weights_hash": "[0-9a-f]*"' "$tmp/stdout")"
}
for np in 1 2; do
    check "$np" vgg11 --shards 2 --global-batch 8
    check "$np" resnet50 --shards 3 --global-batch 8 --precision fp32
    check "$np" resnet50 --shards 4 --global-batch 8 --bn sync
done

for isa in $(isas); do check 1 vgg11 --shards 2 --global-batch 8 --isa "$isa"; done

# the tables
accepts_on 2 bench --layers --steps 1 --net vgg11 --width-divisor 16 --batch 2
must test "$(grep -cE '^ *[0-9]+  (conv2d|batchnorm\+relu) ' "$tmp/stdout")" -gt 30
for line in '^step  largest gaps ' '^phase ' '^rest ' '^step +[0-9.]+ +100\.0 ' '^peaks of rank 0 of 2 \(1 thread\): fp32 '; do
    must grep -qE "$line" "$tmp/stdout"
done

refuses 78 "--layers" "--scaling" -- bench --layers --scaling --net vgg11
refuses 78 "--layers" "--exchange all" -- bench --layers --exchange all --net vgg11
finish
