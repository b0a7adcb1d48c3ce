#!/usr/bin/env bash
# dtrain verify: whole checkpoints, runs and models are called so, and the first thing that
# is wrong is named.
set -u
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

run=$tmp/run
accepts "${tiny[@]}" --max-steps 3 --save-every 2 --out "$run"
step=$run/checkpoints/step-0000000003
must test -s "$step/MANIFEST"

# shows TEXT ARGS...: succeeds at every number of ranks and prints TEXT on one line
shows() {
    local text=$1 np
    shift
    for np in $ranks; do
        launch "$np" "$@"
        cases=$((cases + 1))
        [ "$code" = 0 ] || complain "np $np: $*: want success"
        [ "$(grep -cF -- "$text" "$tmp/stdout")" = 1 ] ||
            complain "np $np: $*: want one line with '$text'"
    done
}
shows "ok   $step: step 3" verify "$step"
shows "fit vgg11" verify "$run/model.safetensors"
shows "ok   $run/checkpoints/step-0000000002" verify "$run"
must test "$(grep -c '^ok ' "$tmp/stdout")" = 3 # newest first, then the model
must test "$(sed -n 1p "$tmp/stdout" | cut -d: -f1)" = "ok   $step"

# what is not there
refuses 66 "$tmp/absent" -- verify "$tmp/absent"
mkdir "$tmp/empty"
refuses 66 "has neither a model nor a folder 'checkpoints'" -- verify "$tmp/empty"
refuses 64 "usage: dtrain verify PATH" -- verify
refuses 64 "unexpected argument 'two'" -- verify one two
refuses 64 "unexpected argument '$step'" -- train "$step"

ranks=1 # that all ranks end with one message has been seen

# flip FILE OFFSET: one bit
flip() {
    local byte
    byte=$(od -An -tu1 -j "$2" -N1 "$1")
    # shellcheck disable=SC2059
    printf "$(printf '\\%03o' $((byte ^ 4)))" |
        dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
for file in model.safetensors momentum.safetensors options.yaml state.json MANIFEST; do
    flip "$step/$file" 300
    refuses 65 "$file" "damaged" -- verify "$step"
    refuses 65 "$file" -- verify "$run"
    must grep -qF "ok   $run/checkpoints/step-0000000002" "$tmp/stdout" # the rest goes on
    must grep -q "^bad .*$file" "$tmp/stdout"
    flip "$step/$file" 300
    cp "$step/$file" "$tmp/aside"
    truncate -s -1 "$step/$file"
    refuses 65 "$file" -- verify "$step"
    rm "$step/$file"
    refuses 65 "$file" -- verify "$step"
    cp "$tmp/aside" "$step/$file"
done
shows "ok   $step" verify "$step"
cp "$run/metrics.jsonl" "$tmp/aside"
truncate -s 10 "$run/metrics.jsonl" # shorter than the checkpoints say
refuses 65 "metrics.jsonl has 10 bytes" -- verify "$run"
cp "$tmp/aside" "$run/metrics.jsonl"

# what --resume wants of a run folder: a line's end where its checkpoint was saved, options that
# are some; and what it warns of
# agrees CODE TEXT: both say so
agrees() {
    must find "$run" -name 'model*' -exec touch -d '1 hour ago' {} +
    refuses "$1" "$2" -- verify "$run"
    must grep -qF "$2" "$tmp/stdout"
    refuses "$1" "$2" -- --out "$run" --resume auto
}
bytes=$(sed -n 's/.*"metrics_bytes": \([0-9]*\),.*/\1/p' "$step/state.json")
printf X | dd of="$run/metrics.jsonl" bs=1 seek=$((bytes - 1)) conv=notrunc status=none
agrees 65 "metrics.jsonl: no line ends at byte $bytes"
cp "$tmp/aside" "$run/metrics.jsonl"
cp "$run/options.yaml" "$tmp/options"
for wrong in '{ no: [yaml' $'lr: quick\njson: false' $'learning: 1\njson: false' 'a word'; do
    echo "$wrong" >"$run/options.yaml"
    agrees 78 "options.yaml:1"
done
for cut in 0 1 20; do # lines that are left
    head -n "$cut" "$tmp/options" >"$run/options.yaml"
    agrees 78 "options.yaml ends before 'json'"
done
cp "$tmp/options" "$run/options.yaml"
rm "$run/metrics.jsonl"
accepts verify "$run"
must test "$(grep -c "metrics.jsonl is missing: a new one begins" "$tmp/stderr")" = 1
cp "$tmp/aside" "$run/metrics.jsonl"

# records that began anew are shorter than an older checkpoint says: the newest one counts
rm "$run/metrics.jsonl"
cp -r "$run" "$tmp/anew"
accepts "${tiny[@]}" --max-steps 4 --save-every 2 --keep-last 3 --out "$tmp/anew" --resume auto
must test "$(ls "$tmp/anew/checkpoints" | wc -l)" = 3
accepts verify "$tmp/anew"
cp "$tmp/aside" "$run/metrics.jsonl"

# a hole in the records is no damage, but is said
must test "$(grep -c '"kind":"step"' "$run/metrics.jsonl")" = 3
cp "$run/metrics.jsonl" "$tmp/aside"
sed '/"step":2,"loss":/s/./ /g' "$tmp/aside" >"$run/metrics.jsonl"
accepts verify "$run"
must grep -q "metrics.jsonl lacks the lines of 1 steps between others" "$tmp/stderr"
cp "$tmp/aside" "$run/metrics.jsonl"

# the model is not the one that the run ended with
cp "$run/model.safetensors" "$tmp/aside"
accepts average "$run/checkpoints/step-0000000002" "$step" --out "$tmp/mean" # of as many steps
touch -d '1 hour ago' "$tmp/mean"
cp -p "$tmp/mean" "$run/model.safetensors"
refuses 65 "as metrics.jsonl says: it is another model" -- verify "$run"
# though a line before the last record is none of a run's
cp "$run/metrics.jsonl" "$tmp/records"
mkdir "$tmp/long"
cp -p "$run/model.safetensors" "$tmp/long"
truncate -s 30M "$tmp/long/metrics.jsonl"
{ echo && tail -n 1 "$tmp/records"; } >>"$tmp/long/metrics.jsonl"
refuses 65 "it is another model" -- verify "$tmp/long"
# a line without end is not read to its end
truncate -s 1T "$tmp/long/metrics.jsonl"
refuses 65 "without a line's end" -- verify "$tmp/long"
cp "$tmp/aside" "$run/model.safetensors"
cp "$tmp/aside" "$tmp/long/model.safetensors"
printf '{"kind":"end","weights_hash":"0","steps":3%600s}\n' >"$tmp/long/metrics.jsonl"
cat "$tmp/records" >>"$tmp/long/metrics.jsonl"
accepts verify "$tmp/long"

# records that cannot be read
mkdir "$tmp/unread"
cp "$run/model.safetensors" "$tmp/unread"
mkfifo "$tmp/unread/metrics.jsonl"
refuses 65 "$tmp/unread/metrics.jsonl is no regular file" -- verify "$tmp/unread"
must grep -qF "ok   $tmp/unread/model.safetensors" "$tmp/stdout" # the rest goes on
ln -sf /proc/self/mem "$tmp/unread/metrics.jsonl" # a file, with nothing at its beginning
refuses 74 "reading $tmp/unread/metrics.jsonl: Input/output error" -- verify "$tmp/unread"

# links that lead nowhere, and one that a run would not take
cp -r "$run" "$tmp/away"
rm -f "$tmp/away/model.safetensors"
ln -s "$tmp/not-mounted/model" "$tmp/away/model.safetensors"
refuses 66 "$tmp/away/model.safetensors is a link, and what it leads to is missing" -- verify "$tmp/away"
rm "$tmp/away/model.safetensors"
mv "$tmp/away/metrics.jsonl" "$tmp/away-metrics"
ln -s "$tmp/away-metrics" "$tmp/away/metrics.jsonl"
refuses 66 "cannot read $tmp/away/metrics.jsonl: it is a link" -- verify "$tmp/away"
must test "$(grep -c '^bad ' "$tmp/stdout")" = 1 # checkpoints and all else are whole
cp -r "$step" "$tmp/step-0000000003"
mv "$tmp/step-0000000003/MANIFEST" "$tmp/manifest"
ln -s "$tmp/manifest" "$tmp/step-0000000003/MANIFEST"
refuses 65 "MANIFEST: it is a link" -- verify "$tmp/step-0000000003"
refuses 64 "an argument is empty" -- verify ""

# a model: the header, a number that is none, another network's shapes
cp "$run/model.safetensors" "$tmp/model"
flip "$tmp/model" 1
refuses 65 "$tmp/model" "header" -- verify "$tmp/model"
cp "$run/model.safetensors" "$tmp/model"
size=$(stat -c %s "$tmp/model")
printf '\377\377\377\377' | dd of="$tmp/model" bs=1 seek=$((size - 4)) conv=notrunc status=none
refuses 65 "$tmp/model" "is not a finite number" -- verify "$tmp/model"
sed 's/"dtrain.width_divisor":"16"/"dtrain.width_divisor":"32"/' "$run/model.safetensors" \
    >"$tmp/model"
refuses 65 "$tmp/model" "the network's [2, 3, 3, 3]" -- verify "$tmp/model"

# of a run that is on, what is pruned meanwhile is not bad, and one is gone on from
"$DTRAIN_BIN" "${tiny[@]}" --epochs 1000000 --max-steps -1 --save-every 1 --keep-last 1 \
    --out "$tmp/live" >/dev/null 2>&1 </dev/null &
live=$!
for _ in $(seq 1000); do
    [ -d "$tmp/live/checkpoints/step-0000000002" ] && break
    sleep 0.01
done
for _ in $(seq 30); do
    accepts verify "$tmp/live"
    must test "$(grep -c '^bad' "$tmp/stdout")" = 0
    newest=$(sed -n "s|^the newest state of $tmp/live is \(.*\), step .*|\1|p" "$tmp/stderr")
    must grep -qF "ok   $newest: step" "$tmp/stdout" # it vouches for what it names
done
for i in 1 2 3; do # too short to go on, which shows after the checkpoint is read
    launch 1 --resume "$tmp/live" --out "$tmp/from$i" --max-steps 1
    must test "$code" = 78
    must grep -q "raise --epochs or --max-steps" "$tmp/stderr"
done
kill -9 "$live"
wait "$live" 2>/dev/null

# a checkpoint stands for its model
accepts eval "${tiny[@]:0:2}" --model "$step"
finish
