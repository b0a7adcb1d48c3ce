#!/usr/bin/env bash
# One run, one pair of hashes: a subset of proofs/exactness that holds each pair of two
# factors' values (network, type, batch norm, ranks, threads, exchange, bucket size). And the
# hashes live: another seed, rate, number of shards or of steps gives another one. Networks
# of 1/16 width, uneven last batch.
#
# By hand, at full width on real images:
#   proofs/exactness --part cover --width-divisor 1 --data cifar-10-batches-bin
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
runs=(--part cover)
if [ -n "${ASAN_OPTIONS:-}" ]; then # a sanitized rank is slow: three runs
    runs=(--part whole --only 'vgg11\|fp32\|sync\|\|exact\|(1\|1|2\|2\|shared\|small|3\|1\|tree/2\|large)')
fi
"$DTRAIN_SOURCE/proofs/exactness" --bin "$DTRAIN_BIN" "${runs[@]}" --dir "$tmp/cover" || bad=1

# hash_of ARGS...: of the final weights
hash_of() {
    local out
    out=$(mktemp -d -p "$tmp")
    timeout -k 2 1800 "$DTRAIN_BIN" --data synthetic:76 --net vgg11 --precision fp32 --width-divisor 16 \
        --image-size 32 --global-batch 32 --no-drop-remainder --max-steps 5 --shards 8 --lr 0.05 \
        --threads 1 "$@" --out "$out" >"$out.log" 2>&1 </dev/null || cat "$out.log" >&2
    hashes "$out" | cut -d' ' -f 1
}
want=$(hash_of)
[ -n "$want" ] && [ "$(hash_of)" = "$want" ] || { echo "no hash, or another one the second time"; exit 1; }
for change in "--seed 2" "--lr 0.051" "--shards 4" "--max-steps 4" "--momentum 0.8" "--bn sync" \
    "--bn group:2" "--reduce sum" "--grad-compress bf16" \
    "--grad-compress 2bit"; do
    # shellcheck disable=SC2086
    got=$(hash_of $change)
    if [ -z "$got" ] || [ "$got" = "$want" ]; then
        echo "SAME, should differ: $change: '$got'"
        bad=1
    fi
done
exit "$bad"
