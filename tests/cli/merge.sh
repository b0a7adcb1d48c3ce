#!/usr/bin/env bash
# dtrain merge: a model cut into pieces is the same model to all commands, and merged the same file;
# what is damaged is refused by name.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
shard=model-00001-of-00001.safetensors
accepts "${tiny[@]}" --out "$tmp/run" --save-every 1
model=$tmp/run/model.safetensors momentum=$(echo "$tmp"/run/checkpoints/*/momentum.safetensors)

accepts merge "$tmp/run" --shards 3 --out "$tmp/three"
must test "$(find "$tmp/three" -type f | wc -l)" = 3
accepts merge "$tmp/three" --out "$tmp/whole.safetensors"
must cmp "$tmp/whole.safetensors" "$model"
accepts merge "$tmp/three" --names kuangliu --out "$tmp/merged.safetensors"
accepts convert "$model" --names kuangliu --out "$tmp/named.safetensors"
must cmp "$tmp/merged.safetensors" "$tmp/named.safetensors"
refuses 78 "--shards 1025: at most 1024 files" -- merge "$tmp/run" --shards 1025 --out "$tmp/many"
accepts merge "$tmp/run" --shards 1024 --out "$tmp/many"
(ulimit -S -n 600 && exec "$DTRAIN_BIN" merge "$tmp/many" --out "$tmp/once.safetensors") >/dev/null || complain "more files than processes have"
must cmp "$tmp/once.safetensors" "$model"
accepts merge "$momentum" --shards 4 --out "$tmp/four"
accepts merge "$tmp/four"/* --shards 2 --out "$tmp/two"
accepts merge "$tmp/two"/* --out "$tmp/momentum"
must cmp "$tmp/momentum" "$momentum"
for it in "$model" "$tmp/three"; do
    accepts eval "$it" --data synthetic:64 --precision fp32 --json
    sed 's/"model":"[^"]*"//' "$tmp/stdout" >"$tmp/eval"
    [ ! -e "$tmp/first" ] || must cmp "$tmp/eval" "$tmp/first"
    mv "$tmp/eval" "$tmp/first"
done
accepts verify "$tmp/three"
# Where the first files have other matrices than the classifier, and where each has a row at most.
accepts --net mlp --width-divisor 64 --image-size 8 --data synthetic:64 --max-steps 1 --batch 8 --shards 1 --threads 1 --out "$tmp/mlp"
refuses 65 "holds momentum" -- eval "$tmp/mlp"/checkpoints/*/momentum.safetensors --data synthetic:64
for shards in 3 150; do
    accepts merge "$tmp/mlp" --shards $shards --out "$tmp/mlp-$shards"
    accepts verify "$tmp/mlp-$shards"
    accepts merge "$tmp/mlp-$shards" --out "$tmp/mlp-$shards.safetensors"
    must cmp "$tmp/mlp-$shards.safetensors" "$tmp/mlp/model.safetensors"
done
accepts merge "$tmp/mlp" --shards 1 --out "$tmp/torch" # one of PyTorch's writer, which counts from 1
mv "$tmp/torch/shard-00000-$shard" "$tmp/torch/shard-00001-$shard"
accepts verify "$tmp/torch"
accepts average "$tmp/three" "$model" --out "$tmp/mean.safetensors"
must cmp "$tmp/mean.safetensors" "$model"
accepts "${tiny[@]}" --max-steps 0 --init "$tmp/three" --out "$tmp/begun"

# "Saving and Loading Models in Hybrid Parallel Mode", MindSpore r1.3: moments of four cards, [2, 8]
# each, are merged and cut for two cards. (Its weights before and after are of different runs.)
python3 - "$tmp" <<'END' || complain "cannot write the cards' files"
import json, struct, sys
rows = """0.2567724 -0.07485991 0.282002 0.2456022 0.454939 0.619168 0.18964815 0.45714882
0.25946522 0.24344791 0.45677605 0.3611395 0.23378398 0.41439137 0.5312468 0.4696194
0.2417504 0.28193963 0.06713893 0.21510397 0.23380603 0.11424308 0.0218009 -0.11969765
0.45955992 0.22664294 0.01990281 0.0731914 0.27125207 0.27298513 -0.01716102 -0.15327111
0.03440702 0.41419312 0.24817684 0.30765256 0.48516113 0.24904746 0.57791173 0.00955463
0.13458519 0.6690533 0.49259356 0.28319967 0.25951773 0.16777472 0.45696738 0.24933104
0.14152306 0.5040985 0.24455397 0.10907605 0.11319532 0.19538902 0.01208619 0.40430856
-0.7773164 -0.47611716 -0.6041424 -0.6144473 -0.2651842 -0.31909415 -0.4510405 -0.12860501"""
rows = [struct.pack('<8f', *map(float, row.split())) for row in rows.split('\n')]
def write(name, first, count):
    place = json.dumps({'moments.weight': {'saved_offsets': [first, 0]}})
    head = json.dumps({'__metadata__': {'DCP_SHARDING_INFO': place},
                       'moments.weight': {'dtype': 'F32', 'shape': [count, 8], 'data_offsets': [0, 32 * count]}}).encode()
    open(name, 'wb').write(struct.pack('<Q', len(head)) + head + b''.join(rows[first:first + count]))
for card in range(4):
    write(f'{sys.argv[1]}/card{card}', 2 * card, 2)
for device in range(2):
    open(f'{sys.argv[1]}/device{device}', 'wb').write(b''.join(rows[4 * device:4 * device + 4]))
END
accepts merge "$tmp"/card? --shards 2 --out "$tmp/cards"
for device in 0 1; do
    tail -c 128 "$tmp/cards/shard-0000$device-$shard" | cmp - "$tmp/device$device" || complain "device$device has other moments"
done

damaged() { # WANT COMMAND: done in a copy of the three files
    rm -rf "$tmp/bad"
    cp -r "$tmp/three" "$tmp/bad"
    (cd "$tmp/bad" && eval "$2")
    refuses 65 "$1" -- verify "$tmp/bad"
}
damaged "is portion 0 of 3, files: 2" "rm shard-00002-*"
damaged "is portion 1 of 3, files: 2" "rm shard-00000-*"
damaged "tensor 'classifier.bias' has element [0], which" "cp shard-00000-* shard-00001-$shard"
damaged "shard-00001-$shard has" "truncate -s -4 shard-00001-*"
# Pieces of other steps, of another kind, and of another run, which only MANIFEST knows.
accepts "${tiny[@]}" --max-steps 0 --out "$tmp/none"
accepts merge "$tmp/none" --shards 3 --out "$tmp/none-three"
damaged "dtrain.steps 1, $tmp/bad/shard-00001-$shard 0: these are not pieces of one model" "cp $tmp/none-three/shard-00001-* ."
damaged "dtrain.holds" "$DTRAIN_BIN merge $momentum --shards 3 --out m && mv m/shard-00002-* ."
for seed in 1 2; do accepts "${tiny[@]}" --save-shards --seed $seed --out "$tmp/seed$seed"; done
ck=$(echo "$tmp"/seed1/checkpoints/*)
accepts merge "$ck" --out "$tmp/seed1.safetensors"
cp "$tmp"/seed2/checkpoints/*/shard-00000-* "$ck"
for command in "merge $ck --out $tmp/no" "merge $ck --shards 2 --out $tmp/no" "verify $ck" "eval $ck" "average $ck --out $tmp/no"; do
    # shellcheck disable=SC2086
    refuses 65 "shard-00000-$shard is damaged" -- $command
done
refuses 64 "--out FILE is missing" -- merge "$tmp/three"/*
refuses 64 "--out FILE is missing" -- merge "$tmp/run" --shards 2
refuses 64 "then convert that" -- merge "$tmp/three"/* --out "$tmp/new.onnx"
refuses 64 "then convert that" -- merge "$tmp/run" --shards 2 --names cs744 --out "$tmp/new"
refuses 73 "it exists" -- merge "$tmp/three"/* --out "$tmp/momentum"
refuses 73 "cannot make folder" -- merge "$tmp/run" --shards 2 --out "$tmp/three"
refuses 66 "absent" -- merge "$tmp/absent" "$model" --out "$tmp/new"
finish
