#!/usr/bin/env bash
# dtrain average: the mean in float64, rounded once, checked by arithmetic elsewhere. dtrain convert:
# there and back is the same file; the names of each scheme: tests/unit/format_modelfile.c.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

for seed in 1 2 3; do
    accepts "${tiny[@]}" --seed "$seed" --max-steps "$seed" --out "$tmp/run$seed"
done
models=("$tmp/run1/model.safetensors" "$tmp/run2" "$tmp/run3/checkpoints/step-0000000003")

for np in $ranks; do
    accepts_on "$np" average "${models[@]}" --out "$tmp/mean$np"
done
must cmp "$tmp/mean1" "$tmp/mean${ranks##* }"
accepts verify "$tmp/mean1"
accepts average "${models[0]}" --out "$tmp/same"
must cmp "$tmp/same" "${models[0]}" # the mean of one is that one
accepts eval --data synthetic:64 "$tmp/mean1"

check=$(python3 - "$tmp/mean1" "$tmp"/run[123]/model.safetensors <<'END'
import array, json, struct, sys
def load(path): # the header, counts of batches, which come first, and numbers
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    first = 8 + n + max(t["data_offsets"][1] for k, t in header.items() if k.endswith("_tracked"))
    return header, array.array("q", data[8 + n:first]), array.array("f", data[first:])
(header, steps, mean), *parts = [load(p) for p in sys.argv[1:]]
trained = [p[0]["__metadata__"].pop("dtrain.steps") for p in parts]
assert trained == ["1", "2", "3"] and header["__metadata__"].pop("dtrain.steps") == "3"
assert all(header == p[0] for p in parts)
assert steps == parts[-1][1] and set(steps) == {3}
assert mean == array.array("f", (((a + b) + c) / 3 for a, b, c in zip(*(p[2] for p in parts))))
print("numbers", len(mean) > 30000)
END
)
must test "$check" = "numbers True"

accepts "${tiny[@]}" --net resnet50 --image-size 32 --out "$tmp/resnet"

# there and back
accepts convert "$tmp/run1" --names cs744 --out "$tmp/cs744"
accepts convert "$tmp/cs744" --names torchvision --out "$tmp/back1"
must cmp "$tmp/back1" "$tmp/run1/model.safetensors"
accepts convert "$tmp/resnet" --names kuangliu --out "$tmp/kuangliu"
accepts convert "$tmp/kuangliu" --out "$tmp/back2"
must cmp "$tmp/back2" "$tmp/resnet/model.safetensors"
accepts verify "$tmp/kuangliu"
accepts convert "$tmp/resnet" --names mindspore --out "$tmp/mindspore" # counts no batches
accepts convert "$tmp/mindspore" --out "$tmp/back3"
must cmp "$tmp/back3" "$tmp/resnet/model.safetensors"
accepts verify "$tmp/mindspore"
accepts eval "$tmp/mindspore" --data synthetic:64 --precision fp32
ms=("${tiny[@]}" --net resnet50 --image-size 32 --names mindspore --save-every 1 --out "$tmp/ms")
accepts "${ms[@]}" --init "$tmp/mindspore"
must grep -aq '"layer4.c.bn3.gamma"' "$tmp"/ms/checkpoints/*/momentum.safetensors
accepts "${ms[@]}" --init "$tmp/mindspore" --max-steps 2 --resume auto

# a checkpoint, at several ranks
for np in $ranks; do
    accepts_on "$np" convert "$tmp/run1/checkpoints/step-0000000001" --names kuangliu --out "$tmp/k$np"
done
must cmp "$tmp/k1" "$tmp/k${ranks##* }"

ranks=1 # more of them have been seen to do the same

# what cannot be
accepts "${tiny[@]}" --width-divisor 32 --out "$tmp/narrow"
refuses 65 "does not fit the network vgg11" -- average "$tmp/run1" "$tmp/narrow" --out "$tmp/no"
accepts "${tiny[@]}" --normalize cifar --out "$tmp/other"
refuses 65 "--normalize" -- average "$tmp/run1" "$tmp/other" --out "$tmp/no"
refuses 64 "--out FILE is missing" -- average "$tmp/run1" "$tmp/run2"
refuses 66 "$tmp/absent" -- average "$tmp/run1" "$tmp/absent" --out "$tmp/no"
refuses 73 "there is a folder" -- average "$tmp/run1" --out "$tmp"
refuses 73 "$tmp/absent/no" "make the folder that it is to be in" -- convert "$tmp/run1" --out "$tmp/absent/no"
refuses 78 "cs744" -- convert "$tmp/resnet" --names cs744 --out "$tmp/no"
refuses 78 "mindspore" -- convert "$tmp/run1" --names mindspore --out "$tmp/no"
perl -0777 -pe 's/("dtrain.steps":")1"/${1}x"/' "$tmp/mindspore" >"$tmp/steps"
refuses 65 "dtrain.steps" -- convert "$tmp/steps" --out "$tmp/no"
sed 's/"dtrain\.net"/"foreign.xx"/' "$tmp/run1/model.safetensors" >"$tmp/nameless"
refuses 65 "$tmp/nameless has " "does not say for which network it was made; choose --net" -- convert "$tmp/nameless" --out "$tmp/no"
accepts verify "$tmp/nameless" --net vgg11 --width-divisor 16
DTRAIN_NET=mlp accepts verify "${models[0]}" # what its file says goes before
refuses 64 "usage: dtrain convert" -- convert --out "$tmp/no"
must test ! -e "$tmp/no"
must test -z "$(find "$tmp" -maxdepth 1 -name '*.tmp')"
finish
