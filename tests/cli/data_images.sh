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
head -c 50 "$png" >"$victim"
wrong 65 "$victim" "longer than the file"
head -c 33 "$png" >"$victim"
wrong 65 "$victim" "ends at byte 33, before its last chunk (IEND)"
printf 'no image at all, only text' >"$victim"
wrong 65 "$victim" "PNG or JPEG"
# damaged pixels: the header is whole, the compressed stream is not
cp "$png" "$victim"
printf '\377\377\377\377' | dd of="$victim" bs=1 seek=43 conv=notrunc 2>/dev/null
wrong 65 "$victim" "IDAT at byte 33 has a wrong checksum"
# headers that promise too much: in all, and on a side
for size in "8000 x 6250" "12000 x 1"; do
    # shellcheck disable=SC2086
    perl -e 'binmode STDOUT; local $/; open my $f, "<:raw", shift; my $p = <$f>;
        substr($p, 16, 8) = pack("NN", @ARGV[0, 2]);
        my $c = 0xffffffff;
        for (unpack "C*", substr($p, 12, 17)) {
            $c ^= $_;
            $c = $c & 1 ? $c >> 1 ^ 0xedb88320 : $c >> 1 for 1 .. 8;
        }
        substr($p, 29, 4) = pack("N", $c ^ 0xffffffff); print $p' "$png" $size >"$victim"
    wrong 65 "$victim" "$size"
done
# a form that is not read: GIF
printf 'GIF89a\1\0\1\0\0\0\0;' >"$victim"
wrong 65 "$victim"
# JPEGs that leave out what decoders then make up: Huffman tables, all scans
frame='\0377\0330\0377\0300\0\013\010\0\010\0\010\01\01\021\0'
rm "$victim"
victim=$tmp/data/train/cat/2.jpg
printf '%b' "$frame\0377\0331" >"$victim"
wrong 65 "$victim" "holds no scan of component 0"
printf '%b' "$frame\0377\0332\0\010\01\01\063\0\077\0\0\0\0377\0331" >"$victim"
wrong 65 "$victim" "DC Huffman table 3, which nothing defines"
rm "$victim"
victim=$tmp/data/train/cat/2.png
mkdir "$victim"
wrong 66 "$victim"
folder
rm "$victim"
mkfifo "$victim"
wrong 66 "$victim"
folder
rm "$victim"
ln -s /dev/null/none "$victim"
wrong 66 "$victim"
folder
rm -r "$tmp/data/test"
wrong 66 "there is no folder '$tmp/data/test'" "test/CLASS/*.png|jpg"
folder
mkdir "$tmp/data/test/fish"
cp "$png" "$tmp/data/test/fish/1.png"
wrong 65 "fish"
folder
rm "$tmp/data/train/cat"/*
wrong 66 "$tmp/data/train/cat"
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
