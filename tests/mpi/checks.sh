#!/usr/bin/env bash
# Checks on several ranks: each flipped bit ends the run with code 80 and one line that names
# what, where, who and when, or is of the kind that the check in question cannot see; healthy
# runs keep their bits. proofs/flip-table has all combinations.
set -u
: "${DTRAIN_BIN:?is set by ctest}"
. "$DTRAIN_SOURCE/tests/support/runs.bash" || exit 1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
common=(--data synthetic:76 --net vgg11 --width-divisor 16 --global-batch 32 --shards 4
        --no-drop-remainder --threads 1 --precision fp32 --max-steps 6 --save-every 0)
tensor=features.4.weight

# run NP ARGS...: sets $code; the log is $dir/log, the run folder $dir/out. A sanitized rank is
# slow: then only what needs two.
run() {
    local np=$1
    shift
    code=left-out
    [ -z "${ASAN_OPTIONS:-}" ] || [ "$np" -le 2 ] || return
    rm -rf "$dir/out"
    timeout -k 2 100 mpirun -np "$np" "$DTRAIN_BIN" "${common[@]}" "$@" --out "$dir/out" >"$dir/log" 2>&1
    code=$?
}

# ends CODE WHAT TEXT...: code and, but for 0, one line without warnings that holds each TEXT
ends() {
    local want=$1 what=$2 text wrong=""
    shift 2
    [ "$code" != left-out ] || return
    [ "$code" = "$want" ] || wrong="code $code instead of $want"
    grep '^dtrain: ' "$dir/log" | grep -v '^dtrain: warning: ' >"$dir/lines"
    [ "$want" = 0 ] || [ "$(wc -l <"$dir/lines")" = 1 ] || wrong="$wrong; not one line"
    for text in "$@"; do
        grep -qF -- "$text" "$dir/lines" || wrong="$wrong; no '$text'"
    done
    [ "$want" = 0 ] || [ ! -e "$dir/out/model.safetensors" ] || wrong="$wrong; a model was left"
    if [ -n "$wrong" ]; then
        echo "FAILED: $what: $wrong"
        tail -n 5 "$dir/log" | sed 's/^/  | /'
        bad=1
    fi
}

# A healthy run: all checks in every step, and the bits of a run without them.
run 1 --check-every 0
ends 0 "no checks"
want=$(hashes "$dir/out")
[ -n "$want" ] || { echo "no hashes without checks"; bad=1; }
for where in "1 tree" "2 shared" "3 tree" "3 shared" "4 tree --split-nodes 2" "3 ring"; do
    # shellcheck disable=SC2086
    set -- $where
    np=$1 exchange=$2
    shift 2
    run "$np" --exchange "$exchange" "$@" --check-every 1 --replay-every 1
    ends 0 "healthy: np $where"
    [ "$code" = left-out ] || [ "$exchange" = ring ] || [ "$(hashes "$dir/out")" = "$want" ] ||
        { echo "FAILED: np $where: $(hashes "$dir/out"), want $want"; bad=1; }
done

# Copies on other ranks: found at the next check, whenever it happened; the odd one is named.
run 3 --exchange tree --check-every 5 --flip weight:2:3:$tensor
ends 80 "weight, tree" "step 5: weights: $tensor[0][0][0][0] differs" "rank 2 on" "most, such as rank 0 on"
run 2 --exchange tree --check-every 2 --flip momentum:1:4:$tensor:0
ends 80 "momentum, tree" "step 4: momentum: $tensor[0][0][0][0] differs" "rank 1 on" "which is right cannot be told"
# a node's ranks share the looking, too: the one that speaks is not the one that was damaged
run 4 --exchange tree --split-nodes 2 --check-every 4 --flip weight:3:2:$tensor
ends 80 "weight, two nodes" "step 4: weights: $tensor[0][0][0][0] differs between nodes that share a copy: rank 2 on"
run 2 --exchange tree --check-every 2 --flip packed:1:4:$tensor
ends 80 "packed, tree" "rank 1 on" "step 4: the packed copy of '$tensor' (layout " "is not that of its weights"

# One copy: found when it happened after the update before the check.
run 3 --exchange shared --check-every 3 --flip weight:1:3:$tensor
ends 80 "weight, shared" "step 3: weights: '$tensor' changed in memory after the update of step 2, in floats 0 to "
run 2 --exchange shared --check-every 3 --flip momentum:0:6:$tensor:0
ends 80 "momentum, shared" "step 6: momentum: '$tensor' changed in memory after the update of step 5"
run 2 --exchange shared --check-every 3 --flip packed:0:3:$tensor
ends 80 "packed, shared" "step 3: the packed copy of '$tensor'"
run 2 --exchange shared --check-every 3 --flip weight:1:2:$tensor
ends 0 "weight, shared, not in the step before a check"

# A wrong gradient or activation: only another run of the shard shows it. Shard 2 is rank 1's
# first and has its turn in steps 2 and 6.
run 2 --exchange tree --replay-every 1 --check-every 1 --flip gradient:1:6:$tensor:0
ends 80 "gradient, tree" "rank 0 on" "step 6: shard 2 has other bits when it is run again: gradient of $tensor (1 of 34" \
    "rank 1 on" "ran it, rank 0 on"
run 2 --exchange shared --replay-every 1 --check-every 1 --flip activation:1:2:$tensor
ends 80 "activation, shared" "step 2: shard 2 has other bits when it is run again: loss, and gradient of classifier.bias"
run 2 --exchange tree --check-every 1 --flip gradient:1:6:$tensor
ends 0 "gradient, without replay"

# Checks that are not due come before a checkpoint, and before the loss is called infinite.
run 2 --exchange tree --check-every 1000 --save-every 2 --flip weight:1:2:$tensor
ends 80 "before a checkpoint" "step 2: weights: $tensor"
if find "$dir/out/checkpoints" -name 'step-*' 2>/dev/null | grep -q .; then
    echo "FAILED: wrong weights were saved"
    bad=1
fi
run 2 --exchange tree --check-every 1000 --flip weight:1:1:features.1.weight:30 # 1 becomes infinity
ends 80 "a loss that is not finite" "step 1: weights: features.1.weight[0] differs" "has inf"
run 2 --exchange tree --check-every 1000 --flip weight:1:5:$tensor
ends 80 "before the model is saved" "step 6: weights: $tensor[0][0][0][0] differs"

run 2 --flip weight:0:1:nowhere.weight
ends 78 "no such tensor" "no weight of tensor 'nowhere.weight'"
run 2 --replay-every 1 --bn sync
ends 78 "replay with sync" "--replay-every runs one shard alone, but with --bn sync"
exit $bad
