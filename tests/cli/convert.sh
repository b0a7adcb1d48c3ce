#!/usr/bin/env bash
# dtrain convert: there and back is the same file. The names of each scheme:
# tests/unit/format_modelfile.c.
set -u
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

accepts "${tiny[@]}" --out "$tmp/vgg"
accepts "${tiny[@]}" --net resnet50 --image-size 32 --out "$tmp/resnet"

# there and back
accepts convert "$tmp/vgg" --names cs744 --out "$tmp/cs744"
accepts convert "$tmp/cs744" --names torchvision --out "$tmp/back"
must cmp "$tmp/back" "$tmp/vgg/model.safetensors"
rm "$tmp/back"
accepts convert "$tmp/resnet" --names kuangliu --out "$tmp/kuangliu"
accepts convert "$tmp/kuangliu" --out "$tmp/back"
must cmp "$tmp/back" "$tmp/resnet/model.safetensors"
rm "$tmp/back"
accepts verify "$tmp/kuangliu"
accepts convert "$tmp/resnet" --names mindspore --out "$tmp/mindspore" # counts no batches
accepts convert "$tmp/mindspore" --out "$tmp/back"
must cmp "$tmp/back" "$tmp/resnet/model.safetensors"
accepts verify "$tmp/mindspore"
accepts eval --model "$tmp/mindspore" --data synthetic:64 --precision fp32
ms=("${tiny[@]}" --net resnet50 --image-size 32 --names mindspore --save-every 1 --out "$tmp/ms")
accepts "${ms[@]}" --init "$tmp/mindspore"
must grep -aq '"layer4.c.bn3.gamma"' "$tmp"/ms/checkpoints/*/momentum.safetensors
accepts "${ms[@]}" --init "$tmp/mindspore" --max-steps 2 --resume auto

# a checkpoint, at several ranks
for np in $ranks; do
    launch "$np" convert "$tmp/vgg/checkpoints/step-0000000001" --names kuangliu --out "$tmp/k$np"
    judge 0 "np $np: convert"
done
must cmp "$tmp/k1" "$tmp/k${ranks##* }"

ranks=1 # more of them have been seen to do the same

# what cannot be
refuses 73 "$tmp/absent/no" "make the folder that it is to be in" -- convert "$tmp/vgg" --out "$tmp/absent/no"
refuses 78 "cs744" -- convert "$tmp/resnet" --names cs744 --out "$tmp/no"
refuses 78 "mindspore" -- convert "$tmp/vgg" --names mindspore --out "$tmp/no"
perl -0777 -pe 's/("dtrain.steps":")1"/${1}x"/' "$tmp/mindspore" >"$tmp/steps"
refuses 65 "dtrain.steps" -- convert "$tmp/steps" --out "$tmp/no"
sed 's/"dtrain\.net"/"foreign.xx"/' "$tmp/vgg/model.safetensors" >"$tmp/nameless"
refuses 65 "$tmp/nameless has " "does not say for which network it was made; choose --net" -- convert "$tmp/nameless" --out "$tmp/no"
refuses 64 "usage: dtrain convert" -- convert --out "$tmp/no"
refuses 66 "$tmp/absent" -- convert "$tmp/absent" --out "$tmp/no"
must test ! -e "$tmp/no"
finish
