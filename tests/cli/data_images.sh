#!/usr/bin/env bash
# Image folders with files that are empty, cut, corrupt, huge or no files at all.
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
head -c 40 "$png" >"$victim"
wrong 65 "$victim"
printf 'no image at all, only text' >"$victim"
wrong 65 "$victim" "PNG or JPEG"
# damaged pixels: the header is whole, the compressed stream is not
cp "$png" "$victim"
printf '\377\377\377\377' | dd of="$victim" bs=1 seek=43 conv=notrunc 2>/dev/null
wrong 65 "$victim"
# headers that promise 50 megapixels, in two shapes
for size in "8000 x 6250" "10000 x 5000"; do
    # shellcheck disable=SC2086
    perl -e 'binmode STDOUT; local $/; open my $f, "<:raw", shift; my $p = <$f>;
        substr($p, 16, 8) = pack("NN", @ARGV[0, 2]); print $p' "$png" $size >"$victim"
    wrong 65 "$victim" "$size"
done
# a form that is not read: GIF
printf 'GIF89a\1\0\1\0\0\0\0;' >"$victim"
wrong 65 "$victim"
rm "$victim"
mkdir "$victim"
wrong 66 "$victim"
folder
rm "$victim"
mkfifo "$victim"
wrong 66 "$victim"
folder
rm "$victim"
ln -s /nonexistent "$victim"
wrong 66 "$victim"
folder
rm -r "$tmp/data/test"
wrong 66 "$tmp/data"
folder
mkdir "$tmp/data/test/fish"
cp "$png" "$tmp/data/test/fish/1.png"
wrong 65 "fish"
folder
rm "$tmp/data/train/cat"/*
wrong 66 "$tmp/data/train/cat"
finish
