#!/usr/bin/env bash
# dtrain plan: how the threads of a rank share a step, in JSON as in the table.
. "$DTRAIN_SOURCE/tests/support/cli.bash"

# The balance of a step, as it is with each instruction set: what none may fall below. Quicker products
# leave more to what is not divided. The plan is that of a CPU with these instructions, on any CPU.
while read -r isa net size batch threads least; do
    [ "$(uname -m)" = x86_64 ] || [ "$isa" = portable ] || continue # there are no kernels of the others
    args=(plan --isa "$isa" --net "$net" --image-size "$size" --global-batch "$batch" --threads "$threads")
    accepts "${args[@]}" --json --ranks-per-node 2
    must python3 - "$tmp/stdout" "$threads" "$least" <<'P'
import json, sys
plan, threads = json.load(open(sys.argv[1])), int(sys.argv[2])
step, passes = plan["step"], plan["passes"]
assert plan["threads"] == threads and plan["ranks_per_node"] == 2
one, all_ = (sum(p[k] for p in passes) for k in ("one_s", "all_s"))
assert abs(one / (threads * all_) / step["balance"] - 1) < 1e-6
assert all(1 <= p["units"] <= threads and p["balance"] < 1.08 for p in passes)
assert {"images", "update", "packing", "statistics"} <= {p["operation"] for p in passes}
assert any(p["units"] == threads for p in passes if p["operation"] == "conv2d")
assert step["balance"] >= float(sys.argv[3]), step
P
done <<'END'
portable    resnet50 224 32 8  0.996
portable    resnet50 224 32 32 0.974
portable    resnet50 224 32 64 0.952
portable    vgg11    32 128 8  0.999
portable    vgg11    32 128 32 0.979
avx2        resnet50 224 32 8  0.976
avx2        resnet50 224 32 32 0.925
avx2        resnet50 224 32 64 0.876
avx2        vgg11    32 128 8  0.990
avx2        vgg11    32 128 32 0.929
avx512      resnet50 224 32 8  0.969
avx512      resnet50 224 32 32 0.901
avx512      resnet50 224 32 64 0.836
avx512      vgg11    32 128 8  0.983
avx512      vgg11    32 128 32 0.895
avx512_bf16 resnet50 224 32 8  0.967
avx512_bf16 resnet50 224 32 32 0.902
avx512_bf16 resnet50 224 32 64 0.832
avx512_bf16 vgg11    32 128 8  0.981
avx512_bf16 vgg11    32 128 32 0.891
amx         resnet50 224 32 8  0.950
amx         resnet50 224 32 32 0.857
amx         resnet50 224 32 64 0.752
amx         vgg11    32 128 8  0.964
amx         vgg11    32 128 32 0.816
END
accepts plan --net vgg11 --threads 8
must grep -qE '^ +step +8 +0\.[0-9]{3} ' "$tmp/stdout"
DT_MAX_ISA=avx2 refuses 78 "--isa avx512: there is avx2 (DT_MAX_ISA)" -- plan --isa avx512 # though it runs nothing

# Layers that are cut over ranks: what follows them, and where values move.
ranks=1 refuses 78 "give --ranks N" -- plan --net vgg11 --strategy all=out
accepts plan --net vgg11 --strategy 'features.{22,25}=out classifier=out' --tensor-parallel 2
must grep -qx '3 of 9 layers are cut over 2 ranks: 4.73 of 9.23 million weights' "$tmp/stdout"
must grep -qE '^ +[0-9]+ +batchnorm.relu +features.23 +cut ' "$tmp/stdout"
must grep -qE '^ +[0-9]+ +move +classifier +cut -> home +home -> whole ' "$tmp/stdout"
must grep -qE "^cut weights by input.* $((4 * (2 * 9 * 512 * 512 + 512 * 10) / 2)) bytes" "$tmp/stdout"
accepts plan --net vgg11 --ranks 2 --strategy all=out
must grep -q '^compute weights (packed)' "$tmp/stdout" # cut ones, too
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
assert cut["spared_bytes"] == 2 * sum(weights) + 4 * biases  # weights have a copy by input, too
rule = {s["name"]: s["pays_below"] for s in cut["steps"] if s["pays_below"] > 0}
assert [rule[f"features.{i}"] for i in (8, 15, 22, 25)] == [24, 192, 1152, 1152]
# Whole inputs, gradients of the output, and of the input back home: of 64 images, 4 x 4 and 2 x 2 pixels.
x = 64 * 16 * 256 * 4
first = [s for s in cut["steps"] if s["name"] == "features.15" and s["operation"] == "move"]
assert [s["sent_bytes"] for s in first] == [x + x / 2, 2 * x], first
P
finish
