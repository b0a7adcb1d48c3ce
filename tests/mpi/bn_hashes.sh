#!/usr/bin/env bash
# Batch norm over groups of shards: one pair of hashes per scope and precision at np = 1, 2, 3,
# 8, with groups that span ranks, do not divide the shards, or lie inside a rank, and with a
# last batch of 6 images for 8 shards, so that two are empty. A group of one shard has the bits
# of local; all shards in one group have those of sync; `node` stands for the N that is saved.
# shellcheck disable=SC2086 # a scope, its precision and its base are words
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

# run NP ARGS...: prints "weights_hash state_hash"; the run folder is $tmp/last
run() {
    limit=1800 trained "$1" "$tmp/last" --data synthetic:70 --width-divisor 16 --global-batch 32 --max-steps 5 \
        --threads 1 "${@:2}"
}
same() { # want, what, got
    if [ "$1" != "$3" ] || [ -z "$3" ]; then echo "DIFFERS: $2: '$3', want '$1'"; bad=1; fi
}
differs() {
    if [ "$1" = "$3" ] || [ -z "$3" ]; then echo "SAME, should differ: $2: '$3'"; bad=1; fi
}

# scopes PRECISION "BN NP..." ...: np 1 and these agree; every scope has other bits
scopes() {
    local base="--net resnet50 --precision $1 --shards 8" line bn np want before
    shift
    before=$(run 1 $base --bn local)
    [ "$(echo "$before" | wc -w)" = 2 ] || { echo "no hashes from np 1: '$before'"; exit 1; }
    same "$before" "group:1 at np 3" "$(run 3 $base --bn group:1)"
    for line in "$@"; do
        bn=${line%% *}
        want=$(run 1 $base --bn $bn)
        echo "$base $bn: $want"
        differs "$before" "$bn" "$want"
        before=$want
        for np in ${line#* }; do
            same "$want" "$bn np $np" "$(run $np $base --bn $bn)"
        done
    done
    same "$want" "$bn, 2 threads, tree" "$(run 3 $base --bn $bn --threads 2 --exchange tree)"
}
scopes fp32 "sync 2 8" "group:2 3 8" "group:3 2 3 8"
bf16=bf16 # in software, where the CPU has no instructions for it
"$DTRAIN_BIN" plan --precision bf16 --width-divisor 16 --image-size 32 >/dev/null 2>&1 || bf16="bf16 --isa amx"
scopes "$bf16" "sync 3" "group:2 2" "group:3 8"

# VGG11; groups by node; accumulation.
base="--net vgg11 --precision fp32"
want=$(run 2 $base --shards 8 --bn sync)
same "$want" "vgg11 np 8" "$(run 8 $base --shards 8 --bn sync)"
same "$want" "group:8" "$(run 3 $base --shards 8 --bn group:8)"
same "$want" "accum 4 at np 2" "$(run 2 $base --accum 4 --bn sync)"
same "$want" "node on one node" "$(run 8 $base --bn node)"
grep -q 'bn: *"\?group:8"\?$' "$tmp/last/options.yaml" || { echo "options.yaml has no group:8"; bad=1; }
want=$(run 1 $base --shards 8 --bn group:4)
same "$want" "node on two nodes" "$(DT_SPLIT_NODES=2 run 8 $base --bn node)"
grep -q 'bn: *"\?group:4"\?$' "$tmp/last/options.yaml" || { echo "options.yaml has no group:4"; bad=1; }
exit "$bad"
