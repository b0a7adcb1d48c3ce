#!/usr/bin/env bash
# Image folders with files that are empty, cut, corrupt, huge or no files at all: one message, which
# names the file. All that can be wrong: tests/unit/data_picture.c, data_source_images.c.
set -u
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
good=$tmp/good
png=$tmp/red.png
red_png "$png"
images "$good"

folder() {
    rm -rf "$tmp/data"
    cp -r "$good" "$tmp/data"
    victim=$tmp/data/train/cat/2.png
}
train=("${tiny[@]:2}" --image-size 32 --out "$tmp/run")
wrong() { # CODE TEXT...
    refuses "$@" -- --data "$tmp/data" "${train[@]}" --global-batch 8
    must test ! -e "$tmp/run/model.safetensors"
    rm -rf "$tmp/run"
}

folder
accepts --data "$tmp/data" "${train[@]}" --global-batch 8
rm -rf "$tmp/run"

: >"$victim"
wrong 65 "$victim" "0 bytes"
head -c 50 "$png" >"$victim"
wrong 65 "$victim" "its chunk at byte 33"
# damaged pixels: the header is whole, the compressed stream is not
cp "$png" "$victim"
printf '\377\377\377\377' | dd of="$victim" bs=1 seek=43 conv=notrunc 2>/dev/null
wrong 65 "$victim" "chunk at byte 33 has a wrong checksum"
# JPEGs that leave out what decoders then make up: Huffman tables, all scans
frame='\0377\0330\0377\0300\0\013\010\0\010\0\010\01\01\021\0'
rm "$victim"
victim=$tmp/data/train/cat/2.jpg
printf '%b' "$frame\0377\0331" >"$victim"
wrong 65 "$victim" "holds no scan of component 0"
printf '%b' "$frame\0377\0332\0\010\01\01\063\0\077\0\0\0\0377\0331" >"$victim"
wrong 65 "$victim" "DC Huffman table 3, which nothing defines"
folder
rm "$victim"
mkfifo "$victim"
wrong 66 "$victim"
folder
rm -r "$tmp/data/test"
wrong 66 "'$tmp/data/test': No such file" "test/CLASS/*.png|jpg"
folder
mkdir "$tmp/data/test/fish"
cp "$png" "$tmp/data/test/fish/1.png"
wrong 65 "fish"
folder
rm -r "$tmp/data/train"
: >"$tmp/data/train"
wrong 66 "neither CIFAR-10 batches (data_batch_1.bin) nor images (train/CLASS/*.png|jpg)"
rm -r "$tmp/data"
cp "$png" "$tmp/data"
wrong 66 "'$tmp/data' is a file"
rm "$tmp/data"
folder
rm -r "$tmp/data"/t*/dog
wrong 65 "$tmp/data" "one class, 'cat'" "add the images of a second class"
finish
