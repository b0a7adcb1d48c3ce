#!/usr/bin/env bash
# CIFAR-10 folders that are not what they should be: named once, before any training. All that can
# be wrong: tests/unit/data_source_cifar10.c.
set -u
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
good=$tmp/good
record=3073

# batch SEED: one file of 10,000 records, 1,000 of each class, pixels of no meaning
batch() {
    perl -e 'binmode STDOUT; for $i (0 .. 9999) {
        print chr($i % 10), chr(($i * 7 + $ARGV[0]) % 251) x 3072 }' "$1"
}
mkdir "$good"
batch 1 >"$good/data_batch_1.bin"
batch 2 >"$good/test_batch.bin"

# folder: a copy of the good one, in $folder
folder() {
    rm -rf "$tmp/data"
    cp -r "$good" "$tmp/data"
    folder=$tmp/data
}
train=("${tiny[@]:2}" --out "$tmp/run")
wrong() { # CODE TEXT...
    refuses "$@" -- --data "$folder" "${train[@]}"
    must test ! -e "$tmp/run/model.safetensors"
    rm -rf "$tmp/run"
}

accepts --data "$good" "${train[@]}"
rm -rf "$tmp/run"

folder=$tmp/nowhere
wrong 66 "$tmp/nowhere" "No such file"
folder=$good/data_batch_1.bin
wrong 66 "$good/data_batch_1.bin" "file"
folder=$tmp/empty
mkdir "$tmp/empty"
wrong 66 "$tmp/empty" "data_batch_1.bin"

folder
truncate -s -1 "$folder/data_batch_1.bin"
wrong 65 "data_batch_1.bin" 30729999 30730000
folder
printf '\012' | dd of="$folder/data_batch_1.bin" bs=1 seek=$((4321 * record)) conv=notrunc 2>/dev/null
wrong 65 "data_batch_1.bin" "record 4321" "label 10"
folder
cp "$folder/data_batch_1.bin" "$folder/test_batch.bin"
wrong 65 "same content"
folder
rm "$folder/test_batch.bin"
wrong 66 "test_batch.bin"
folder
rm "$folder/data_batch_1.bin"
mkfifo "$folder/data_batch_1.bin"
wrong 66 "data_batch_1.bin" "pipe"
folder=$tmp/python
mkdir -p "$folder/cifar-10-batches-py"
wrong 66 "$folder" "the Python version"

# too much asked of good data
folder
refuses 78 "10001" "10000" -- --data "$folder" --subset 10001 "${train[@]}"
refuses 78 "synthetic" "none" -- --data synthetic:none "${train[@]}"
refuses 78 "10000" "drop-remainder" -- --data "$folder" --net vgg11 --width-divisor 16 \
    --global-batch 10001 --threads 1 --out "$tmp/run"

finish
