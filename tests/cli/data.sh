#!/usr/bin/env bash
# Data that are not what they should be: one message, which names the file, before any training.
# All that can be wrong: tests/unit/data_source_cifar10.c, images_source.c, images_picture.c.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
record=3073
png=$tmp/red.png
red_png "$png"
images "$tmp/images"
# 10,000 records, 1,000 of each class, pixels of no meaning
mkdir "$tmp/cifar10"
for seed in 1 2; do
    perl -e 'binmode STDOUT; for $i (0 .. 9999) {
        print chr($i % 10), chr(($i * 7 + $ARGV[0]) % 251) x 3072 }' $seed >"$tmp/cifar10/$seed"
done
mv "$tmp/cifar10/1" "$tmp/cifar10/data_batch_1.bin"
mv "$tmp/cifar10/2" "$tmp/cifar10/test_batch.bin"

train=("${tiny[@]:2}" --image-size 32 --global-batch 8 --out "$tmp/run")
# copy GOOD: $data becomes a copy of it
copy() {
    data=$tmp/data
    rm -rf "$data"
    cp -r "$tmp/$1" "$data"
}
wrong() { # CODE TEXT...
    refuses "$@" -- --data "$data" "${train[@]}"
    must test ! -e "$tmp/run/model.safetensors"
    rm -rf "$tmp/run"
}

for good in cifar10 images; do
    accepts --data "$tmp/$good" "${train[@]}"
    rm -rf "$tmp/run"
done

data=$tmp/nowhere
wrong 66 "$data" "No such file"
data=$png
wrong 66 "'$data' is a file"
data=$tmp/empty
mkdir "$data"
wrong 66 "'$data' holds neither CIFAR batches" "nor images"

copy cifar10
truncate -s -1 "$data/data_batch_1.bin"
wrong 65 "data_batch_1.bin" 30729999 30730000
copy cifar10
printf '\012' | dd of="$data/data_batch_1.bin" bs=1 seek=$((4321 * record)) conv=notrunc 2>/dev/null
wrong 65 "data_batch_1.bin" "record 4321" "label 10"
copy cifar10
rm "$data/data_batch_1.bin"
mkfifo "$data/data_batch_1.bin"
wrong 66 "data_batch_1.bin" "pipe"

copy images
victim=$data/train/cat/2.png
# the header is whole, the compressed stream is not
cp "$png" "$victim"
printf '\377\377\377\377' | dd of="$victim" bs=1 seek=43 conv=notrunc 2>/dev/null
wrong 65 "$victim" "chunk at byte 33 has a wrong checksum"
copy images
rm -r "$data/test"
wrong 66 "'$data/test': No such file" "test/CLASS/*.png|jpg"
copy images
rm -r "$data"/t*/dog
wrong 65 "$data" "one class, 'cat'" "add the images of a second class"

# too much asked of good data
refuses 78 "10001" "10000" -- --data "$tmp/cifar10" --subset 10001 "${train[@]}"
refuses 78 "synthetic" "none" -- --data synthetic:none "${train[@]}"
refuses 78 "10000" "drop-remainder" -- --data "$tmp/cifar10" "${train[@]}" --global-batch 10001
finish
