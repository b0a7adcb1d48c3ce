#!/usr/bin/env bash
# Resuming a run: from its newest valid checkpoint, with its options, on other ranks, in a new folder,
# for longer; and what is refused, with the differences named.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

run=("${tiny[@]}" --epochs 6 --max-steps -1 --save-every 4 --keep-last 3)
newest() { ls -d "$1"/checkpoints/step-* | tail -n 1; }
said() { must grep -qF -- "$1" "$tmp/stderr"; }
like_calm() { # FOLDER
    equal "$(hashes "$tmp/calm")" "$(hashes "$1")"
    equal "$(timeless "$tmp/calm")" "$(timeless "$1")"
}

accepts "${run[@]}" --out "$tmp/calm" # 6 epochs of 2 steps
must test "$(ls "$tmp/calm/checkpoints" | wc -l)" = 3

# a finished run is resumed for nothing, by its own options alone
cp -r "$tmp/calm" "$tmp/again"
accepts --out "$tmp/again" --resume auto --threads 1
like_calm "$tmp/again"

# own DIR: its options, without those that belong to one start
own() { grep -vE '^(threads|.*bucket_mb|out|resume.*|.*steps|scaling|layers|ranks_per_node|json):' "$1/options.yaml"; }
equal "$(own "$tmp/calm")" "$(own "$tmp/again")"
accepts "${run[@]}" --names kuangliu --log-style cs744 --keep-every 6 --keep-best \
    --on-save-error stop --check-every 3 --replay-every 4 --bucket-mb 1 --max-steps 4 --out "$tmp/owned"
was=$(own "$tmp/owned")
accepts --out "$tmp/owned" --resume auto --max-steps 6
equal "$was" "$(own "$tmp/owned")"
must grep -qx "bucket_mb: 25" "$tmp/owned/options.yaml"
accepts --out "$tmp/owned" --resume auto --max-steps 8 --check-every 2
said "check_every: the checkpoint has '3', now '2'"
equal "${was/check_every: 3/check_every: 2}" "$(own "$tmp/owned")"

# a file is no folder
refuses 66 "this is a file" "--init" -- "${tiny[@]}" --resume "$tmp/calm/model.safetensors"
refuses 66 "no options.yaml" -- --resume "$tmp/calm/checkpoints" --out "$tmp/x"

# only rank 0 sees the folder
mkdir "$tmp/near" "$tmp/far"
cp -r "$tmp/calm" "$tmp/near/run"
program "$tmp/apart" <<'END'
#!/bin/sh
if [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 0 ]; then cd "$1/near"; else cd "$1/far"; fi || exit 1
shift
exec "$DTRAIN_BIN" "$@"
END
bounded mpirun -np 2 "$tmp/apart" "$tmp" --out run --resume auto --threads 1
judge 0 "ranks that do not see the run"
like_calm "$tmp/near/run"
must test -z "$(ls -A "$tmp/far")"

# the newest is damaged: it is named, and the one before serves, on three ranks
cp -r "$tmp/calm" "$tmp/torn"
printf X | dd of="$(newest "$tmp/torn")/momentum.safetensors" bs=1 seek=5000 conv=notrunc 2>/dev/null
accepts_on 3 --out "$tmp/torn" --resume auto --threads 1
said "$(basename "$(newest "$tmp/calm")")"
said "resumed from $tmp/torn/checkpoints/step-0000000008"
like_calm "$tmp/torn"

# from one of them, in a new folder, which has only the timeless from there on
accepts "${run[@]}" --out "$tmp/new" --resume "$tmp/calm/checkpoints/step-0000000008"
equal "$(hashes "$tmp/calm")" "$(hashes "$tmp/new")"
must test "$(grep -c '"kind":"step"' "$tmp/new/metrics.jsonl")" = 4

# longer: without a schedule these are the first steps of the longer run
accepts "${run[@]}" --epochs 8 --out "$tmp/long"
cp -r "$tmp/calm" "$tmp/longer"
accepts "${run[@]}" --epochs 8 --out "$tmp/longer" --resume auto
equal "$(hashes "$tmp/long")" "$(hashes "$tmp/longer")"

# with one the rates of the steps before were of another run, which is said and refused
accepts "${run[@]}" --schedule cosine --epochs 4 --max-steps 5 --out "$tmp/cosine"
refuses 78 "is of another run" "--resume-force" -- \
    "${run[@]}" --schedule cosine --epochs 5 --max-steps 7 --out "$tmp/cosine" --resume auto
accepts "${run[@]}" --schedule cosine --epochs 5 --max-steps 7 --out "$tmp/cosine" --resume auto --resume-force
# what 2 bits left of the gradients is in no checkpoint
accepts "${run[@]}" --grad-compress 2bit --max-steps 5 --out "$tmp/bits"
refuses 78 "cannot go on" "--init" "--resume-force" -- --max-steps 7 --out "$tmp/bits" --resume auto
# --max-steps alone changes no rate: these are the first steps of one run
accepts "${run[@]}" --schedule cosine --epochs 4 --max-steps 7 --out "$tmp/seven"
accepts "${run[@]}" --schedule cosine --epochs 4 --max-steps 5 --out "$tmp/five"
accepts "${run[@]}" --schedule cosine --epochs 4 --max-steps 7 --out "$tmp/five" --resume auto
equal "$(hashes "$tmp/seven")" "$(hashes "$tmp/five")"
# of a run that is complete no other checkpoint is saved; a folder that is not there no recipe
ls -R "$tmp/calm" >"$tmp/before"
accepts --out "$tmp/calm" --resume auto --threads 1
must cmp "$tmp/before" <(ls -R "$tmp/calm")
equal "$(hashes "$tmp/again")" "$(hashes "$tmp/calm")"
refuses 66 "no run folder '$tmp/typo'" "is its name right?" -- --out "$tmp/typo" --resume auto --threads 1
must test ! -e "$tmp/typo"

# longer from the middle of an epoch: it is resumed, and its early test is undone
accepts "${run[@]}" --max-steps 5 --keep-best --out "$tmp/middle"
must grep -q '"step": 1,' "$(newest "$tmp/middle")/state.json"
must test "$(grep -c '"kind":"epoch"' "$tmp/middle/metrics.jsonl")" = 3
cp -r "$tmp/middle" "$tmp/same"
accepts --out "$tmp/same" --resume auto --threads 1
equal "$(hashes "$tmp/middle")" "$(hashes "$tmp/same")"
equal "$(timeless "$tmp/middle")" "$(timeless "$tmp/same")"
accepts "${run[@]}" --out "$tmp/middle" --resume auto
like_calm "$tmp/middle"

# begun with a model file, which is needed no more
cp "$tmp/calm/model.safetensors" "$tmp/init.safetensors"
accepts "${run[@]}" --init "$tmp/init.safetensors" --max-steps 4 --out "$tmp/begun"
rm "$tmp/init.safetensors"
accepts --out "$tmp/begun" --resume auto --max-steps 6

# what a machine chose belongs to the run
accepts "${run[@]}" --precision auto --max-steps 2 --out "$tmp/chosen"
must grep -qE '^precision: (fp32|bf16)$' "$tmp/chosen/options.yaml"
accepts --out "$tmp/chosen" --resume auto --precision auto --max-steps 4

# another run is refused, each difference named; what does not change the bits is not
cp -r "$tmp/calm" "$tmp/other"
must find "$tmp/other" -name 'model*' -exec touch -d '1 hour ago' {} +
refuses 78 "--resume-force" -- --out "$tmp/other" --resume auto --lr 0.02 --seed 5
said "lr: the checkpoint has '0.01', now '0.02' (changes the run)"
said "seed: the checkpoint has '1', now '5' (changes the run)"
refuses 78 "raise --epochs" -- --out "$tmp/other" --resume auto --epochs 3
refuses 78 "raise --epochs" -- --resume "$tmp/other/checkpoints/step-0000000004" --out "$tmp/no" --epochs 1
refuses 78 "this run of 20 steps, 1 in each epoch, does not pass" -- --out "$tmp/other" --resume auto --global-batch 64 \
    --epochs 20 --resume-force
equal "$(ls -A "$tmp/calm/checkpoints")" "$(ls -A "$tmp/other/checkpoints")"
accepts --out "$tmp/other" --resume auto --threads 2 --bucket-mb 1 --exchange tree
said "exchange: the checkpoint has 'auto', now 'tree'"
like_calm "$tmp/other"
accepts --out "$tmp/other" --resume auto --lr 0.02 --resume-force --epochs 7
differs=$(hashes "$tmp/other")
must test -n "$differs"
must test "$differs" != "$(hashes "$tmp/calm")"

# other instructions change bf16's bits: with consent, and with a warning; inexact exchanges do, too
other_class="another build or instruction set: the bits may differ"
inexact="is inexact: the bits depend on where the run was interrupted and on the number of ranks"
accepts "${run[@]}" --precision fp32 --max-steps 4 --out "$tmp/isa"
DT_MAX_ISA=portable accepts --out "$tmp/isa" --resume auto --threads 1 --max-steps 6
must test "$(grep -cE "$other_class|$inexact" "$tmp/stderr")" = 0
must test "$(grep -c '"kind":"step"' "$tmp/isa/metrics.jsonl")" = 6
if grep -qw avx512_bf16 /proc/cpuinfo; then
    accepts "${run[@]}" --precision bf16 --isa amx --max-steps 4 --out "$tmp/bf16"
    other=(--out "$tmp/bf16" --resume auto --isa avx512_bf16)
    refuses 78 "--resume-force" -- "${other[@]}" --max-steps 6
    refuses 78 "raise --epochs" -- "${other[@]}" --max-steps 1 --resume-force
    accepts "${other[@]}" --max-steps 6 --resume-force
    must test "$(grep -cF "dtrain: warning: $other_class" "$tmp/stderr")" = 1
    must test "$(grep -cE '^  class: the checkpoint has .* on amx, .*now .* on avx512_bf16, ' "$tmp/stderr")" = 1
else
    echo "SKIPPED: other instructions: this CPU has no AVX512_BF16"
fi
accepts_on 2 "${run[@]}" --exchange buckets --max-steps 4 --out "$tmp/inexact"
launch 2 --out "$tmp/inexact" --resume auto --max-steps 6 --threads 1
judge 0 "an inexact run is resumed" "dtrain: warning: exchange buckets $inexact"
must test "$(grep -cF "$other_class" "$tmp/stderr")" = 0
must test "$(grep -c '"kind":"step"' "$tmp/inexact/metrics.jsonl")" = 6

# resumed at an epoch's end: no step of it was made, so no speed is reported
accepts "${tiny[@]}" --epochs 2 --max-steps 4 --save-every 2 --out "$tmp/turn"
accepts --out "$tmp/turned" --resume "$tmp/turn/checkpoints/step-0000000002"
must grep -qE '^epoch 1/2: train loss .*, [0-9.]+ s$' "$tmp/stdout"
must grep -qE '^epoch 2/2: train loss .*, [0-9.]+ images/s$' "$tmp/stdout"
must grep -qE '^2 steps in [0-9.]+ s;' "$tmp/stdout"

# nothing to resume from, or nowhere to write
refuses 66 "no-such-run" -- "${run[@]}" --resume "$tmp/no-such-run" --out "$tmp/x"
refuses 66 "no-such-run" -- --resume "$tmp/no-such-run" --out "$tmp/x"
refuses 78 "--out" -- "${run[@]}" --resume auto
refuses 64 "--save-every: '3 weeks'" -- "${run[@]}" --save-every "3 weeks" --out "$tmp/y"

# --keep-best holds on to the best test so far, beside the newest
accepts "${tiny[@]}" --data synthetic:128 --lr 0.05 --epochs 12 --max-steps -1 --save-every 2 --keep-last 1 \
    --keep-best --out "$tmp/best"
epochs=$(sed -nE 's/.*"epoch":([0-9]+),.*"test_accuracy":([0-9.e-]+),.*/\2 \1/p' "$tmp/best/metrics.jsonl")
read -r best epoch <<<"$(sort -k 1,1gr -k 2,2n <<<"$epochs")" # the first of equals
read -r worst _ <<<"$(sort -k 1,1g <<<"$epochs")"
must test "$best" != "$worst"
kept=$(grep -l '"best": true' "$tmp"/best/checkpoints/step-*/state.json)
must grep -q "/step-$(printf %010d $((epoch * 4)))\(-[0-9]*\)\?/state.json$" <<<"$kept"
must test "$(wc -l <<<"$kept")" = 1
must test -s "$tmp/best/checkpoints/step-0000000048/MANIFEST" -o \
    -s "$tmp/best/checkpoints/step-0000000048-2/MANIFEST"
# of equals the first: all test images are the same, half of them right whatever is learnt
images "$tmp/images"
accepts "${tiny[@]}" --data "$tmp/images" --shards 2 --global-batch 4 --epochs 4 --max-steps -1 --save-every 2 --keep-last 1 \
    --keep-best --out "$tmp/equal"
must test "$(grep -c '"test_accuracy":0.5,' "$tmp/equal/metrics.jsonl")" = 4
must grep -q '"best": true' "$tmp"/equal/checkpoints/step-0000000002*/state.json
# in a new folder the first of its own, no better than those of the old one
accepts --resume "$tmp/equal" --epochs 5 --out "$tmp/equal-5"
must grep -q '"best": true' "$tmp"/equal-5/checkpoints/step-*/state.json
# also where nothing else is saved
accepts "${tiny[@]}" --data synthetic:128 --lr 0.05 --epochs 12 --max-steps -1 --save-every 0 --keep-last 1 --keep-best --out "$tmp/only"
must test "$(ls "$tmp/only/checkpoints" | tail -n 1)" = "step-$(printf %010d $((epoch * 4)))"
accepts verify "$tmp/only"
accepts "${run[@]}" --save-every 0 --keep-every 2 --out "$tmp/every"
must grep -qF -- "--keep-every 2 keeps nothing: --save-every 0" "$tmp/stderr"

# Relative data is found from any folder; where a run has moved with its data, from the working one.
moved=("${tiny[@]:2}" --image-size 32 --shards 2 --global-batch 4 --max-steps 2 --save-every 1)
ranks="1 2"
mkdir "$tmp/project" "$tmp/project/sub"
images "$tmp/project/d"
while read -r folder data out; do
    cd "$tmp/project/$folder" || exit 1
    accepts "${moved[@]}" --data "$data" --out "$tmp/project/$out"
    cd / || exit 1
    must test "$(hashes "$tmp/project/$out")" != ""
    accepts --out "$tmp/project/$out" --resume auto --max-steps 3
    must test "$(grep -c "data: the checkpoint has" "$tmp/stderr")" = 0
    accepts --resume "$tmp/project/$out" --out "$tmp/project/$out-2" --max-steps 4
    accepts eval "$tmp/project/$out"
    accepts eval "$tmp/project/$out" --data "$tmp/project/d"
    must test "$(grep -c "was trained with" "$tmp/stderr")" = 0
done <<'END'
. d here
. ./d dot
sub ../d up
END
mv "$tmp/project" "$tmp/"$'caf\xe9' # a name that options.yaml cannot have
cd "$tmp/"$'caf\xe9' || exit 1
accepts "${moved[@]}" --data d --out there
accepts --out there --resume auto --max-steps 3
mv "$PWD" "$tmp/elsewhere"
accepts --out here --resume auto --max-steps 5
accepts eval here
cd / || exit 1
refuses 66 "/project/./d" -- --out "$tmp/elsewhere/here" --resume auto --max-steps 6
accepts --out "$tmp/elsewhere/here" --resume auto --max-steps 6 --data "$tmp/elsewhere/d"
finish
