#!/usr/bin/env bash
# One run, one pair of hashes: np = 1, 2, 3, 8 with 1 and 2 threads and every exact exchange
# end with the same weights_hash and state_hash. And the hashes live: another seed, rate,
# number of shards or of steps gives another one. Networks of 1/16 width, uneven last batch.
#
# By hand, at full width on real images:
#   EXACT_WIDTH_DIVISOR=1 EXACT_DATA=cifar-10-batches-bin EXACT_SUBSET=76 DTRAIN_BIN=$PWD/dtrain tests/mpi/exact_hashes.sh
set -u
width=${EXACT_WIDTH_DIVISOR:-16} data=${EXACT_DATA:-synthetic:76} subset=${EXACT_SUBSET:-0}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0

# run NP ARGS...: prints "weights_hash state_hash"
run() {
    local np=$1 out
    shift
    out=$(mktemp -d -p "$dir")
    if ! timeout -k 2 300 mpirun -np "$np" "$DTRAIN_BIN" --data "$data" --subset "$subset" --width-divisor "$width" \
        --image-size 32 --global-batch 32 --no-drop-remainder --max-steps 5 --shards 8 \
        --schedule cosine --weight-decay 1e-3 --lr 0.05 "$@" --out "$out" >"$out.log" 2>&1; then
        cat "$out.log" >&2
        echo "failed: np $np $*"
        return 1
    fi
    tail -n 1 "$out/metrics.jsonl" | grep -oE '"(weights|state)_hash": *"[0-9a-f]{32}"' | grep -oE '[0-9a-f]{32}' | tr '\n' ' '
}

same() { # want, what, got
    if [ "$1" != "$3" ] || [ -z "$3" ]; then echo "DIFFERS: $2: '$3', want '$1'"; bad=1; fi
}
differs() {
    if [ "$1" = "$3" ] || [ -z "$3" ]; then echo "SAME, should differ: $2: '$3'"; bad=1; fi
}

precisions="fp32"
"$DTRAIN_BIN" plan --precision bf16 --width-divisor 16 --image-size 32 >/dev/null 2>&1 && precisions="fp32 bf16"
for net in vgg11 resnet50; do
    for precision in $precisions; do
        base="--net $net --precision $precision"
        want=$(run 1 $base --threads 1)
        [ "$(echo "$want" | wc -w)" = 2 ] || { echo "no hashes from np 1: '$want'"; exit 1; }
        echo "$net $precision: $want"
        same "$want" "np 1, 2 threads" "$(run 1 $base --threads 2)"
        for np in 2 3 8; do
            same "$want" "np $np, 1 thread" "$(run $np $base --threads 1)"
        done
        same "$want" "np 3, 2 threads" "$(run 3 $base --threads 2)"
        same "$want" "np 3, whole-slab bucket" "$(run 3 $base --threads 1 --bucket-mb 0 --first-bucket-mb 0 --last-bucket-mb 0)"
        same "$want" "np 8, small buckets" "$(run 8 $base --threads 1 --bucket-mb 0.05 --first-bucket-mb 0.01)"
    done
done
want=$(run 1 --net vgg11 --precision fp32 --threads 1)
for exchange in gather p2p; do
    same "$want" "$exchange np 3" "$(run 3 --net vgg11 --precision fp32 --threads 1 --exchange $exchange)"
done
for change in "--seed 2" "--lr 0.051" "--shards 4" "--max-steps 4" "--momentum 0.8"; do
    # shellcheck disable=SC2086
    differs "$want" "$change" "$(run 1 --net vgg11 --precision fp32 --threads 1 $change)"
done
exit $bad
