#!/usr/bin/env bash
# Checks on several ranks: each flipped bit ends the run with code 80 and one line that names
# what, where, who and when, or is of the kind that the check in question cannot see; healthy
# runs keep their bits. proofs/flip-table has all combinations.
set -u
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
common=(--data synthetic:76 --net vgg11 --width-divisor 16 --global-batch 32 --shards 4
        --no-drop-remainder --threads 1 --precision fp32 --max-steps 6 --save-every 0)
tensor=features.4.weight

# try "NP ARGS... [flip WHAT RANK STEP TENSOR BIT]" CODE TEXT...: the run in $tmp/out, of the program
# with tests/support/flip.c. A sanitized rank is slow: then only what needs two.
try() {
    local args DTRAIN_BIN=$DTRAIN_BUILD_DIR/dtrain_flip
    local -x FLIP=${1##* flip }
    read -ra args <<<"${1%% flip *}"
    local -x DT_SPLIT_NODES=1 # of 4/2: four ranks on two nodes
    [[ ${args[0]} != */* ]] || { DT_SPLIT_NODES=${args[0]#*/} && args[0]=${args[0]%/*}; }
    [ "$FLIP" != "$1" ] || unset FLIP
    [ -z "${ASAN_OPTIONS:-}" ] || [ "${args[0]}" -le 2 ] || return 1
    rm -rf "$tmp/out"
    touch "$tmp/started"
    launch "${args[0]}" "${common[@]}" "${args[@]:1}" --out "$tmp/out"
    judge "$2" "np $1" "${@:3}"
}

# A healthy run: all checks in every step, and the bits of a run without them.
try "1 --check-every 0" 0
want=$(hashes "$tmp/out")
for where in "1 --exchange tree" "2 --exchange shared" "3 --exchange tree" "3 --exchange shared" \
    "4/2 --exchange tree" "3 --exchange allreduce"; do
    try "$where --check-every 1 --replay-every 1" 0 && [[ $where != *allreduce ]] &&
        equal "$want" "$(hashes "$tmp/out")"
done

# Texts of the line that ends the run with code 80; none: it is not found.
while IFS='|' read -r arguments one two three; do
    code=80 texts=()
    for text in "$one" "$two" "$three"; do
        [ -z "$text" ] || texts+=("$text")
    done
    [ ${#texts[@]} -gt 0 ] || code=0
    try "$arguments" $code ${texts[@]+"${texts[@]}"} || continue
    must test "$(find "$tmp/out" -path '*/checkpoints/step-*' 2>/dev/null | wc -l)" = 0
done <<END
3 --exchange tree --check-every 5 flip weight 2 3 $tensor 22|step 5: weights: $tensor[0][0][0][0] differs|rank 2 on|most, such as rank 0 on
2 --exchange tree --check-every 2 flip momentum 1 4 $tensor 0|step 4: momentum: $tensor[0][0][0][0] differs|rank 1 on|which is right cannot be told
4/2 --exchange tree --check-every 4 flip weight 3 2 $tensor 22|step 4: weights: $tensor[0][0][0][0] differs between nodes that share a copy: rank 2 on
2 --exchange tree --check-every 2 flip packed 1 4 $tensor 22|rank 1 on|step 4: the packed copy of '$tensor' (layout |differs from its weights
3 --exchange shared --check-every 3 flip weight 1 3 $tensor 22|step 3: weights: '$tensor' changed in memory after the update of step 2, in floats 0 to
2 --exchange shared --check-every 3 flip momentum 0 6 $tensor 0|step 6: momentum: '$tensor' changed in memory after the update of step 5
2 --exchange shared --check-every 3 flip packed 0 3 $tensor 22|step 3: the packed copy of '$tensor'
2 --exchange shared --check-every 3 flip weight 1 2 $tensor 22
2 --exchange tree --replay-every 1 --check-every 1 flip gradient 1 6 $tensor 0|rank 0 on|step 6: shard 2 has other bits when it is run again: gradient of $tensor (1 of 34|ran it, rank 0 on
2 --exchange shared --replay-every 1 --check-every 1 flip images 1 2 $tensor 22|step 2: shard 2 has other bits when it is run again: loss, and gradient of classifier.bias
2 --exchange tree --check-every 1 flip gradient 1 6 $tensor 22
2 --exchange tree --check-every 1000 --save-every 2 flip weight 1 2 $tensor 22|step 2: weights: $tensor
4 --strategy all=out --tensor-parallel 2 --check-every 2 flip weight 3 2 $tensor 22|step 2: weights: $tensor[4][0][0][0] differs between ranks: rank 3 on|rank 1 on
2 --strategy all=out --check-every 3 flip momentum 1 3 $tensor 0|rank 1 on|step 3: momentum: '$tensor' changed in memory after the update of step 2
2 --strategy classifier=out --check-every 1 flip packed 1 4 classifier.weight 22|rank 1 on|step 4: the packed copy of 'classifier.weight'
2 --exchange tree --check-every 1000 flip weight 1 1 features.1.weight 30|step 1: weights: features.1.weight[0] differs|has inf
2 --exchange tree --check-every 1000 flip weight 1 5 $tensor 22|step 6: weights: $tensor[0][0][0][0] differs
END

try "2 --replay-every 1 --bn sync" 78 "--replay-every runs one shard alone, but with --bn sync"
finish
