#!/usr/bin/env bash
# CIFAR-10 folders that are not what they should be: named once, before any training.
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
printf '%s\n' airplane automobile bird cat deer dog frog horse ship truck \
    >"$good/batches.meta.txt"

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
truncate -s 0 "$folder/test_batch.bin"
wrong 65 "test_batch.bin" "0 bytes" 30730000
folder
printf x >>"$folder/data_batch_1.bin"
wrong 65 "data_batch_1.bin" 30730001 30730000
folder
printf '\012' | dd of="$folder/data_batch_1.bin" bs=1 seek=$((4321 * record)) conv=notrunc 2>/dev/null
wrong 65 "data_batch_1.bin" "record 4321" "label 10"
folder
printf '\003' | dd of="$folder/test_batch.bin" bs=1 seek=$((4321 * record)) conv=notrunc 2>/dev/null
wrong 65 "images, expected" # 1,001 of class 3
folder
cp "$folder/data_batch_1.bin" "$folder/test_batch.bin"
wrong 65 "same content"
folder
rm "$folder/test_batch.bin"
wrong 66 "test_batch.bin"
folder
rm "$folder/data_batch_1.bin"
mkdir "$folder/data_batch_1.bin"
wrong 66 "data_batch_1.bin" "folder"
folder
rm "$folder/data_batch_1.bin"
mkfifo "$folder/data_batch_1.bin"
wrong 66 "data_batch_1.bin" "pipe"
folder
ln -sf "$folder/gone" "$folder/data_batch_1.bin"
wrong 66 "data_batch_1.bin"
folder
printf 'only\nthree\nnames\n' >"$folder/batches.meta.txt"
wrong 65 "batches.meta.txt" "3 class names"

# too much asked of good data
folder
refuses 78 "10001" "10000" -- --data "$folder" --subset 10001 "${train[@]}"
refuses 78 "synthetic" "none" -- --data synthetic:none "${train[@]}"
refuses 78 "10000" "drop-remainder" -- --data "$folder" --net vgg11 --width-divisor 16 \
    --global-batch 10001 --threads 1 --out "$tmp/run"

# no permission: root may read everything, so another user tries
folder
chmod 000 "$folder/data_batch_1.bin"
if [ "$(id -u)" != 0 ]; then
    wrong 66 "data_batch_1.bin" "Permission denied"
elif chmod 755 "$tmp" "$folder" && OMPI_MCA_orte_tmpdir_base=/tmp setpriv --reuid 65534 \
        --regid 65534 --clear-groups "$DTRAIN_BIN" --version >/dev/null 2>&1; then
    touch "$tmp/started"
    HOME=/tmp OMPI_MCA_orte_tmpdir_base=/tmp timeout -k 2 "$limit" setpriv --reuid 65534 --regid 65534 --clear-groups \
        "$DTRAIN_BIN" --data "$folder" "${tiny[@]:2}" --out "$tmp/run" \
        >"$tmp/stdout" 2>"$tmp/stderr" </dev/null
    code=$?
    judge 66 "no permission" "data_batch_1.bin" "Permission denied"
else
    echo "SKIPPED: no permission: no other user to try as"
fi
finish
