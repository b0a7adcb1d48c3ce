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
accepts average "$tmp/three" "$model" --out "$tmp/mean.safetensors"
must cmp "$tmp/mean.safetensors" "$model"
accepts "${tiny[@]}" --max-steps 0 --init "$tmp/three" --out "$tmp/begun"

damaged() { # WANT COMMAND: done in a copy of the three files
    rm -rf "$tmp/bad"
    cp -r "$tmp/three" "$tmp/bad"
    (cd "$tmp/bad" && eval "$2")
    refuses 65 "$1" -- verify "$tmp/bad"
}
damaged "is portion 0 of 3, files: 2" "rm shard-00002-*"
damaged "tensor 'classifier.bias' has element [0], which" "cp shard-00000-* shard-00001-$shard"
damaged "shard-00001-$shard has" "truncate -s -4 shard-00001-*"
refuses 64 "--out FILE is missing" -- merge "$tmp/three"/*
refuses 73 "it exists" -- merge "$tmp/three"/* --out "$tmp/momentum"
refuses 73 "cannot make folder" -- merge "$tmp/run" --shards 2 --out "$tmp/three"
refuses 66 "absent" -- merge "$tmp/absent" "$model" --out "$tmp/new"
finish
