#!/usr/bin/env bash
# Model files that are missing, foreign, damaged or hostile.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
accepts "${tiny[@]}" --max-steps 0 --out "$tmp/saved"
good=$tmp/saved/model.safetensors
must test -s "$good"
bad_file=$tmp/bad.safetensors
vgg=(--data synthetic:64 --net vgg11 --width-divisor 16 --precision fp32 --threads 1)

# a good file: one result on any number of ranks, whatever the training batch would be
for np in $ranks; do
    accepts_on "$np" eval "$good" "${vgg[@]}"
    cp "$tmp/stdout" "$tmp/result.$np"
    must cmp "$tmp/result.1" "$tmp/result.$np"
done
must grep -qi accuracy "$tmp/result.1"
accepts eval --json "$good" "${vgg[@]}"
must grep -q '^{"test_loss": ' "$tmp/stdout"
vgg+=(--global-batch 32 --shards 8)

wrong() { # CODE TEXT...: eval of $bad_file
    refuses "$@" -- eval "$bad_file" "${vgg[@]}"
}

# missing, folder, empty, cut
refuses 66 "$tmp/none.safetensors" -- eval "$tmp/none.safetensors" "${vgg[@]}"
refuses 66 "$tmp" -- eval "$tmp" "${vgg[@]}"
size=$(stat -c %s "$good")
for bytes in 0 $((size - 1)); do
    head -c "$bytes" "$good" >"$bad_file"
    wrong 65 bad.safetensors
done

# all others: tests/unit/format_safetensors.c, format_modelfile.c
# a name that would steer the terminal is shown disarmed
perl -0777 -pe 's/features\.0\.bias"/feats\\u001b[31m"/' "$good" >"$bad_file"
wrong 65 bad.safetensors
must sh -c '! grep -q "$(printf "\033")" "$1"' sh "$tmp/stderr"

# the file is good, but of another network, variant or width; eval takes from the file
# what is not given
res=(--data synthetic:64 --precision fp32 --threads 1 --width-divisor 16)
accepts "${tiny[@]}" --net resnet50 --image-size 32 --max-steps 0 --out "$tmp/resnet"
other=$tmp/resnet/model.safetensors
accepts eval "$good" "${res[@]}" --global-batch 32
must cmp "$tmp/result.1" "$tmp/stdout"
res+=(--global-batch 32 --image-size 32)
refuses 65 "$other" "resnet50" "vgg11" -- eval "$other" "${res[@]}" --net vgg11
refuses 65 "$good" "resnet50" "vgg11" -- eval "$good" "${res[@]}" --net resnet50 # given, though the default
refuses 65 "$other" "cs744" -- eval "$other" "${res[@]}" --normalize cs744
refuses 65 "$good" -- "${tiny[@]}" --width-divisor 8 --init "$good" --out "$tmp/run"

finish
