#!/usr/bin/env bash
# Layers that are cut over ranks: one pair of hashes for every strategy, every number of ranks, and
# for no strategy; also on more ranks than shards, where parts are empty, with an uneven last
# batch, by every exact exchange, and when a run goes on under another strategy.
set -u
. "$DTRAIN_SOURCE/tests/support/runs.bash" || exit 1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
limit=1800
few=${ASAN_OPTIONS:+yes} # a sanitized rank is slow: every fifth case

# case NET ARGS... -- NP STRATEGY ARGS...: has the hashes of one rank without a strategy
declare -A one
count=0
try() {
    local recipe=() key got
    take_words recipe "$@"
    shift "$taken"
    count=$((count + 1))
    [ -z "$few" ] || [ $((count % 5)) = 1 ] || return 0
    recipe=(--data synthetic:76 --width-divisor 16 --global-batch 32 --max-steps 3 --threads 1 --net "${recipe[@]}")
    key=${recipe[*]}
    [ -n "${one[$key]:-}" ] || one[$key]=$(DT_SPLIT_NODES=1 trained 1 "$dir/one" "${recipe[@]}")
    got=$(trained "$1" "$dir/cut" "${recipe[@]}" --strategy "$2" "${@:3}")
    if [ "$(wc -w <<<"$got")" != 2 ] || [ "$got" != "${one[$key]}" ]; then
        echo "DIFFERS: $key: np $*: '$got', want '${one[$key]}'"
        bad=1
    fi
}
bf16=(--precision bf16 --isa amx) fp32=(--precision fp32)
try vgg11 "${fp32[@]}" --shards 8 -- 2 classifier=out
try vgg11 "${fp32[@]}" --shards 8 -- 3 all=out
try vgg11 "${fp32[@]}" --shards 8 -- 8 'features.*=out' --tensor-parallel 4
try vgg11 "${fp32[@]}" --shards 8 -- 4 'features.{4,15}=out classifier=out' --tensor-parallel 2 --exchange gather
try vgg11 "${fp32[@]}" --shards 8 -- 4 'all=out features.8=batch' --tensor-parallel 2 --exchange p2p
try vgg11 "${bf16[@]}" --shards 1 -- 8 all=out
try vgg11 "${bf16[@]}" --shards 3 -- 8 all=out --tensor-parallel 4 --exchange p2p
try vgg11 "${bf16[@]}" --shards 3 --grad-compress bf16 -- 6 'features.*=out' --tensor-parallel 3
try vgg11 "${bf16[@]}" --shards 3 --image-size 96 -- 2 all=out
try resnet50 "${fp32[@]}" --shards 5 -- 2 all=out --threads 2
DT_SPLIT_NODES=2 try resnet50 "${fp32[@]}" --shards 5 -- 4 'layer*.conv2=out layer4*=out' --tensor-parallel 2 --exchange tree
try resnet50 "${fp32[@]}" --shards 5 --bn sync -- 8 all=out --tensor-parallel 4
try resnet50 "${bf16[@]}" --shards 4 --bn group:2 -- 8 'layer{1,3}*=out fc=out' --tensor-parallel 2
try resnet50 "${bf16[@]}" --shards 4 --bn group:2 -- 3 'conv1=out'
try resnet9 "${fp32[@]}" --shards 2 --ema 0.9 -- 4 all=out --tensor-parallel 2
try airbench "${fp32[@]}" --shards 4 --lookahead 2 --decay decoupled --weight-decay 0.002 --norm-bias-rate 64 -- 4 all=out --tensor-parallel 2
try airbench "${fp32[@]}" --shards 4 --lookahead 2 -- 4 linear=out
try resnet9 "${fp32[@]}" --shards 2 --reduce sum -- 2 all=out --bucket-mb 0

try vgg11 "${bf16[@]}" --variant wide --image-size 64 --shards 3 -- 4 'classifier.*=out' --tensor-parallel 2
try vgg11 "${fp32[@]}" --shards 3 --width-divisor 64 -- 3 'features.*=out' # norms of one channel
try mlp "${fp32[@]}" --shards 3 -- 2 fc=out
try mlp "${bf16[@]}" --shards 1 -- 3 all=out

DT_SPLIT_NODES=2 try vgg11 "${fp32[@]}" --shards 8 -- 4 'auto features.8=out classifier=batch'
try resnet50 "${bf16[@]}" --shards 1 -- 4 'auto_parallel fc=batch'

# A run that stops and goes on under other strategies, on other numbers of ranks.
run() { # NP ARGS...
    timeout -k 2 "$limit" mpirun -np "$1" "$DTRAIN_BIN" "${@:2}" >"$dir/log" 2>&1 || { cat "$dir/log"; bad=1; }
}
recipe=(--data synthetic:76 --net vgg11 --image-size 32 --width-divisor 16 --global-batch 32 --no-drop-remainder
    --precision fp32 --shards 4 --threads 1 --epochs 2 --momentum 0.9)
run 1 "${recipe[@]}" --out "$dir/whole"
run 4 "${recipe[@]}" --out "$dir/parts" --max-steps 2 --save-every 1 --strategy all=out
run 2 --out "$dir/parts" --resume auto --max-steps 4 --strategy classifier=out
run 8 --out "$dir/parts" --resume auto --max-steps 6 --strategy 'features.*=out' --tensor-parallel 4
cmp "$dir/whole/model.safetensors" "$dir/parts/model.safetensors" || bad=1
[ "$(hashes "$dir/whole")" = "$(hashes "$dir/parts")" ] || { echo "DIFFERS: gone on under other strategies"; bad=1; }

# What is forced stays, and what was predicted is told.
DT_SPLIT_NODES=2 run 4 "${recipe[@]}" --out "$dir/auto" --strategy 'auto features.8=out classifier=batch'
cmp "$dir/whole/model.safetensors" "$dir/auto/model.safetensors" || bad=1
python3 - "$dir/auto" <<'END' || bad=1
import json, re, sys
end = [json.loads(line) for line in open(sys.argv[1] + '/metrics.jsonl')][-1]
words = re.search('strategy: "(.*)"', open(sys.argv[1] + '/options.yaml').read()).group(1).split()
cut = {w.split('=')[0]: w.endswith('=out') for w in words}
assert min(end[k] for k in ('step_s', 'predicted_s', 'predicted_data_parallel_s')) > 0, end
assert cut.get('features.8', cut.get('all')) and not cut.get('classifier', cut.get('all')), words
END
exit $bad
