#!/usr/bin/env bash
# --strategy: modes, words and files: each error on four ranks, printed once, with its place; and
# what files say, in MindSpore's notation and in words, becomes one line that a run keeps.
. "$DTRAIN_SOURCE/tests/support/cli.bash"
ranks=4
limit=180 # seconds, in which no rank waits for another
[ -z "${ASAN_OPTIONS:-}" ] || ranks=2 limit=180
f=$tmp/strategy.yaml
small=("${tiny[@]}" --shards 4)

# says PLACE TEXT LINE...: refused with "FILE:PLACE: TEXT", a file of these lines
says() {
    printf '%s\n' "${@:3}" >"$f"
    refuses 78 "$f:$1: " "$2" -- "${small[@]}" --strategy "@$f"
}

# ---- Modes

refuses 78 "--strategy standalone: $ranks ranks would train apart" -- "${small[@]}" --strategy standalone
refuses 78 "--strategy semi_auto wants the layers to cut" -- "${small[@]}" --strategy semi_auto
refuses 78 "--strategy data cuts no layers, but 'all=out' behind it says" -- "${small[@]}" --strategy 'data all=out'
refuses 64 "unknown option '--parallel-mode'; did you mean --strategy?" -- "${small[@]}" --parallel-mode data
refuses 78 "--tensor-parallel cuts no layer" "--strategy all=out" -- "${small[@]}" --tensor-parallel 2
[ "$ranks" = 2 ] || refuses 78 "--tensor-parallel 3: 4 ranks are no multiple of it; start 3, 6, .. ranks" -- \
    "${small[@]}" --strategy all=out --tensor-parallel 3

# ---- Words

refuses 78 "strategy: 'clasifier' is no operation of vgg11; did you mean classifier? \`dtrain plan\` lists them" -- \
    "${small[@]}" --strategy clasifier=out
refuses 78 "strategy: 'features.1' is a batchnorm, which follows its input" -- "${small[@]}" --strategy features.1=out

# ---- Files

refuses 66 "$tmp/none.yaml" -- "${small[@]}" --strategy "@$tmp/none.yaml"
says 2:3 "'classifier.9' is no operation of vgg11; did you mean classifier? \`dtrain plan\` lists them" \
    operations: '  classifier.9: ((1, 1), (1, 2))'
says 3:16 "features.25 is cut into 4 and classifier into 8: a run has one size of group; give both the same" \
    operations: '  classifier: ((1, 1), (1, 8))' '  features.25: ((1, 1, 1, 1), (4, 1, 1, 1))'
says 2:15 "classifier: ((1, 2), (2, 1)) cuts its sum over inputs; only outputs can be cut: ((1, 1), (1, 2))" \
    operations: '  classifier: ((1, 2), (2, 1))'
says 2:15 "cuts its sum over inputs; only outputs can be cut: ((1, 1), (2, 1))" \
    operations: '  classifier: {strategy: ((1, 2), (1, 2)), transpose_b: true}'
says 2:15 "cuts its sum over inputs, or the image; only outputs can be cut: ((1, 1, 1, 1), (2, 1, 1, 1))" \
    operations: '  features.0: ((1, 1, 2, 1), (1, 1, 1, 1))'
says 2:15 "classifier is a linear layer: want ((n, ci), (ci, co)), two numbers each, not ((1, 1, 1, 1), (8, 1, 1, 1))" \
    operations: '  classifier: ((1, 1, 1, 1), (8, 1, 1, 1))'
says 2:16 "features.25 is a convolution: want ((n, ci, h, w), (co, ci, 1, 1)), four numbers each, not ((1, 1), (1, 8))" \
    operations: '  features.25: ((1, 1), (1, 8))'
says 3:16 "features.26 is a batchnorm and follows its input, which is not cut: leave the line out" \
    operations: '  features.25: batch' '  features.26: ((1, 8, 1, 1), (8), (8), (8), (8))'
says 2:16 "features.26 is a batchnorm, which is cut by channels alone" operations: '  features.26: ((1, 8, 2, 1), (8))'
says 2:15 "classifier: want out, batch, or a tuple" operations: '  classifier: in'
says 2:15 "classifier: want out, batch, or a tuple" operations: '  classifier: ((1, 1), (1, 0))'
says 3:22 "'classifier' is batch, which is not cut, but layerwise_parallel has its parameter in parts" \
    operations: '  classifier: batch' 'layerwise_parallel: [classifier.weight]'
says 1:22 "'fc.weight' is no parameter of vgg11" 'layerwise_parallel: [fc.weight]'
says 1:22 "'features.1.weight': a batchnorm follows its input" 'layerwise_parallel: [features.1.weight]'
says 1:21 "layerwise_parallel: want a list" 'layerwise_parallel: classifier.weight'
says 1:1 "unknown key 'operation'; did you mean operations?" 'operation: {}'
says 1:16 "parallel_mode: 'both' is none; there are: standalone stand_alone data" 'parallel_mode: both'
says 1:17 "gradients_mean: 'perhaps' is none; there are: true false" 'gradients_mean: perhaps'
says 2:13 "not YAML" 'operations: {' '  features: ]'
printf '%s\n' 'gradients_mean: False' >"$f"
refuses 78 "$f:1:17: gradients_mean: False is reduce=sum, but reduce=mean is given; leave one out" -- \
    "${small[@]}" --strategy "@$f" --reduce mean
printf '%s\n' 'parallel_mode: data_parallel' 'operations: {classifier: out}' >"$f"
refuses 78 "--strategy data_parallel cuts no layers, but 'classifier=out' behind it" -- "${small[@]}" --strategy "@$f"
printf '%s\n' operations: '  classifier: ((1, 1), (1, 8))' >"$f"
refuses 78 "$f:2:15: classifier is cut into 8 and --tensor-parallel into 2: a run has one size" -- \
    "${small[@]}" --strategy "@$f" --tensor-parallel 2

# ---- What files say

# becomes NET KEY=VALUE...: with the file, the options have each
becomes() {
    local wanted
    accepts config --net "$1" --variant mindspore --strategy "@$f"
    for wanted in "${@:2}"; do
        must grep -qxF -- "${wanted%%=*}: ${wanted#*=}" "$tmp/stdout"
    done
}
cat >"$f" <<'Y' # the notation of tutorials, of programs, and words
parallel_mode: semi_auto_parallel   # für alle
gradients_mean: false
parameter_broadcast: true
operations:
  features.0: {(1, 1, 1, 1),(2, 1, 1, 1)}
  "features.{4,8}": out
  features.11:
    strategy: [[1, 1, 1, 1], [2, 1, 1, 1]]
  features.12: ((1, 2, 1, 1), (2,), (2,), (2,), (2,))
  features.15: ((4, 1, 1, 1), (1, 1, 1, 1))
  classifier: {strategy: ((1, 1), (2, 1)), transpose_b: true}
layerwise_parallel: [features.22.bias]
Y
becomes vgg11 'strategy="features.0=out features.4=out features.8=out features.11=out features.15=batch features.22=out classifier=out"' \
    tensor_parallel=2 reduce=sum
echo '{"current_stage": 0, "parallel_layout_item": {"fc.weight": {"dev_matrix": [8], "tensor_map": [0, -1]}},
 "parallel_strategy_item": {"MatMul_fc.weight": {"parallel_strategy": [[1, 1], [8, 1]], "stage": 0},
 "BiasAdd_fc.bias": {"parallel_strategy": [[1, 8], [8]], "stage": 0},
 "BatchNorm_bn1.gamma": {"parallel_strategy": [[8, 1, 1, 1], [1], [1]], "stage": 0},
 "Conv2D_layer1.0.conv1.weight": {"parallel_strategy": [[8, 1, 1, 1], [1, 1, 1, 1]], "stage": 0}}}' >"$f"
becomes resnet50 'strategy="layer1.0.conv1=batch fc=out"' tensor_parallel=8
echo '{"parallel_mode": "auto_parallel", "operations": {"classifier": "out"}}' >"$f"
becomes vgg11 'strategy="auto_parallel classifier=out"' tensor_parallel=auto
echo 'parallel_mode: data_parallel' >"$f"
becomes vgg11 'strategy="data_parallel"'
: >"$f"
becomes vgg11 'strategy="all=batch"' tensor_parallel=auto

# Braces make names, which are few.
braces=$(printf '{,}%.0s' {1..30})
refuses 78 "its {} make more than 256 patterns; use fewer" -- "${small[@]}" --strategy "${braces}z=out"
accepts plan "${small[@]}" --ranks 2 --strategy 'features.{4,8}{,}=out {x,classifier}=out'

# The line that options.yaml has gives the same strategy, and its run the same numbers, as none.
cut='features.*=out features.4=batch classifier=out'
accepts_on 4 "${small[@]}" --strategy "$cut" --tensor-parallel 2 --out "$tmp/cut"
must grep -qxF "strategy: \"$cut\"" "$tmp/cut/options.yaml"
printf '%s\n' operations: '  features.*: out' '  features.4: batch' '  classifier: ((1, 1), (1, 2))' >"$f"
accepts_on 4 "${small[@]}" --strategy "@$f" --out "$tmp/again"
must grep -q '^strategy: "features.0=out .* classifier=out"$' "$tmp/again/options.yaml" # a resume needs no file
accepts "${small[@]}" --out "$tmp/one"
ranks=3 refuses 78 "--tensor-parallel 2: 3 ranks are no multiple of it; start 2, 4, .. ranks" -- "${small[@]}" --strategy "@$f"
refuses 78 "some would have no work, and what is given lets no layer be cut" -- "${small[@]}" --strategy "auto all=batch" --shards 1 --out "$tmp/idle"
must test ! -e "$tmp/idle/options.yaml"
mlp=(--data synthetic:64 --net mlp --global-batch 8 --precision fp32 --threads 1)
accepts "${mlp[@]}" --max-steps 0 --out "$tmp/mlp"
accepts_on 2 "${mlp[@]}" --init "$tmp/mlp/model.safetensors" --no-init-head --strategy 'auto fc=out' --tensor-parallel 8 --dry-run
must grep -q '^strategy .* layers over 2 ranks' "$tmp/stdout"
refuses 78 "--strategy auto ranks may compute it together" -- "${small[@]}" --strategy auto --replay-every 2
for run in cut again; do equal "$(hashes "$tmp/$run")" "$(hashes "$tmp/one")"; done
accepts "${small[@]}" --strategy "@$f" --out "$tmp/alone" # computes both parts
equal "$(hashes "$tmp/alone")" "$(hashes "$tmp/one")"
cp "$f" "$f.one"
{ printf '\357\273\277' && sed 's/$/\r/' "$f.one"; } >"$f" # saved by an editor on Windows
accepts "${small[@]}" --strategy "@$f" --out "$tmp/windows"
equal "$(hashes "$tmp/windows")" "$(hashes "$tmp/one")"
finish
