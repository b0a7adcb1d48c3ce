#!/usr/bin/env bash
# dtrain plan: how the threads of a rank share a step, in JSON as in the table.
. "$DTRAIN_SOURCE/tests/support/cli.bash"

for wanted in "resnet50 224 32 8 0.95" "resnet50 224 32 32 0.9" "resnet50 224 32 64 0.8" "vgg11 32 128 8 0.9" \
    "vgg11 32 128 32 0.8"; do
    read -r net size batch threads least <<<"$wanted"
    args=(plan --net "$net" --image-size "$size" --global-batch "$batch" --threads "$threads")
    accepts "${args[@]}" --json --ranks-per-node 2
    must python3 - "$tmp/stdout" "$threads" "$least" <<'P'
import json, sys
plan, threads = json.load(open(sys.argv[1])), int(sys.argv[2])
step, passes = plan["step"], plan["passes"]
assert plan["threads"] == threads and plan["ranks_per_node"] == 2
one, all_ = (sum(p[k] for p in passes) for k in ("one_s", "all_s"))
assert abs(one / (threads * all_) / step["balance"] - 1) < 1e-6
assert all(1 <= p["units"] <= threads and p["balance"] < 1.05 for p in passes)
assert {"images", "update", "packing", "statistics"} <= {p["operation"] for p in passes}
# Kernels of a library, which CPUs without AVX-512 take, do not say how they are cut.
tiles = any(p["units"] == threads for p in passes if p["operation"] == "conv2d")
assert not tiles or step["balance"] >= float(sys.argv[3]), step
P
    accepts "${args[@]}"
    must grep -qE '^ +step +'"$threads"' +0\.[0-9]{3} ' "$tmp/stdout"
done

# Layers that are cut over ranks: what follows them, and where values move.
refuses 78 "give --tensor-parallel M" -- plan --net vgg11 --strategy all=out
accepts plan --net vgg11 --strategy 'features.{22,25}=out classifier=out' --tensor-parallel 2
must grep -q '^3 of 9 layers are cut; of 9.231 million weights a rank keeps 6.868;' "$tmp/stdout"
must grep -qE '^ +[0-9]+ +batchnorm.relu +features.23 +cut ' "$tmp/stdout"
must grep -qE '^ +[0-9]+ +move +classifier +cut -> home +home -> whole ' "$tmp/stdout"
finish
