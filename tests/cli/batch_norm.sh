#!/usr/bin/env bash
# --bn: what it cannot mean is named with what it can; memory for all shards of a rank at the
# same time is estimated before it is taken.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

for bn in global group:0 group:2x; do
    refuses 64 "--bn: '$bn'" "local" "sync" "node" "group:N" -- "${tiny[@]}" --bn "$bn"
done
accepts "${tiny[@]}" --bn group:3 --out "$tmp/three"
must grep -qE '^bn: "?group:3"?$' "$tmp/three/options.yaml"

# three ranks with eight shards on two nodes: nodes of 2 and 6 shards, or the like
ranks=3 DT_SPLIT_NODES=2 refuses 78 "--bn node" "nodes hold from" "group:N" -- "${tiny[@]}" --bn node

# 8192 shards of one image: some 0.3 GiB of activations each
ranks=1 refuses 71 "activations of 8192 shards at the same time" "--bn sync keeps" "GiB are available" -- \
    --data synthetic:8192 --net vgg11 --width-divisor 4 --image-size 1024 --global-batch 8192 \
    --shards 8192 --precision fp32 --threads 1 --max-steps 1 --bn sync --out "$tmp/large"
must test ! -e "$tmp/large/model.safetensors"
finish
