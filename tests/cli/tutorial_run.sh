#!/usr/bin/env bash
# scripts/tutorial/run.sh: the Ascend tutorial's arguments, folders and last words.
set -u
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

run=$DTRAIN_SOURCE/scripts/tutorial/run.sh
export DTRAIN_BIN
# tutorial ARGS...: in a folder of its own, $tmp/here
tutorial() {
    mkdir -p "$tmp/here"
    bounded bash -c 'cd "$1" && shift && exec "$@"' - "$tmp/here" bash "$run" "$@"
}
quick=("${tiny[@]:2}") # without --data

accepts "${tiny[@]}" --out "$tmp/alone"
tutorial synthetic:64 2 "${quick[@]}"
must test "$code" = 0
must grep -qx "training success" "$tmp/stdout"
must test "$(grep -c '^start training for device [01]$' "$tmp/stdout")" = 2
equal "$(hashes "$tmp/alone")" "$(hashes "$tmp/here/device0/run")"
must grep -qE "^epoch: 1 step: 1, loss is " "$tmp/here/device0/train.log"
for i in 0 1; do
    for value in "RANK_ID=$i" "DEVICE_ID=$i" "RANK_SIZE=2"; do
        must grep -qx "$value" "$tmp/here/device$i/env.log"
    done
    must test -e "$tmp/here/device$i/train.log"
done
table=$(sed -n 's/^RANK_TABLE_FILE=//p' "$tmp/here/device1/env.log")
accepts ranktable "$table"

# paths of options are read where the script is started
rm -r "$tmp/here" && mkdir "$tmp/here"
printf 'max_steps: 1\n' >"$tmp/here/own.yaml"
tutorial synthetic:64 2 "${quick[@]}" --config own.yaml --init device.st
must test "$code" = 66
must grep -q "device.st" "$tmp/stdout"
rm -r "$tmp/here"/device?
cp "$tmp/alone/model.safetensors" "$tmp/here/device.st"
tutorial synthetic:64 2 "${quick[@]}" --config own.yaml --init device.st
must test "$code" = 0

# what is there stays
: >"$tmp/here/device1/mine"
tutorial synthetic:64 2 "${quick[@]}"
must test "$code" = 73
must grep -q "device0 is there already" "$tmp/stderr"
must test -e "$tmp/here/device1/mine"
rm -r "$tmp/here"

# a failure is one, with its code
tutorial "$tmp/no-data" 2 "${quick[@]}"
must test "$code" = 66
must grep -qx "training failed" "$tmp/stdout"
must grep -q "$tmp/no-data" "$tmp/stdout"
rm -r "$tmp/here"
for bad_size in "" 0 3 16 x; do
    tutorial synthetic:64 "$bad_size"
    must test "$code" = 64
done
must test -z "$(ls "$tmp/here")"
finish
