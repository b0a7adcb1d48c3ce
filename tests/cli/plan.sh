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
ranks=1 refuses 78 "give --ranks N" -- plan --net vgg11 --strategy all=out
accepts plan --net vgg11 --strategy 'features.{22,25}=out classifier=out' --tensor-parallel 2
must grep -qx '3 of 9 layers are cut over 2 ranks: 4.73 of 9.23 million weights' "$tmp/stdout"
must grep -qE '^ +[0-9]+ +batchnorm.relu +features.23 +cut ' "$tmp/stdout"
must grep -qE '^ +[0-9]+ +move +classifier +cut -> home +home -> whole ' "$tmp/stdout"
accepts plan --net vgg11 --ranks 2 --global-batch 128 --precision fp32 --strategy 'features.{15,18,22,25}=out' --json
must python3 - "$tmp/stdout" <<'P'
import json, sys
cut = json.load(open(sys.argv[1]))["strategy"]
weights = [9 * 256 * 512] + 3 * [9 * 512 * 512]
whole = 9231114
assert (cut["ranks"], cut["tensor_parallel"], cut["layers"], cut["cut"]) == (2, 2, 9, 4)
assert cut["weights_bytes"] == sum(weights)  # a quarter of them, of four bytes
assert cut["gradients_uncut_bytes"] == 4 * whole
biases = 3 * 4 * 512  # of batch norms, too
assert cut["gradients_bytes"] == 4 * (whole - sum(weights) - biases), cut
assert cut["spared_bytes"] == 4 * (sum(weights) + biases)
rule = {s["name"]: s["pays_below"] for s in cut["steps"] if s["pays_below"] > 0}
assert [rule[f"features.{i}"] for i in (8, 15, 22, 25)] == [48, 384, 2304, 2304]
# Whole inputs, gradients of the output, and of the input back home: of 64 images, 4 x 4 and 2 x 2 pixels.
x = 64 * 16 * 256 * 4
first = [s for s in cut["steps"] if s["name"] == "features.15" and s["operation"] == "move"]
assert [s["sent_bytes"] for s in first] == [x + x / 2, 2 * x], first
P
finish
