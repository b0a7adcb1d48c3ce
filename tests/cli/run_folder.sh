#!/usr/bin/env bash
# The run folder: not writable, in use, or on a full disk. Nothing that exists is lost.
set -u
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

steps=150 many=200 # of runs that last until something has been done to them
[ -z "${ASAN_OPTIONS:-}" ] || steps=40 many=60
accepts "${tiny[@]}" --out "$tmp/good"
for file in options.yaml metrics.jsonl model.safetensors; do
    must test -s "$tmp/good/$file"
done
must test "$(find "$tmp/good" -name '*tmp*' | wc -l)" = 0
sum=$(cksum <"$tmp/good/model.safetensors")

# in the way
: >"$tmp/file"
refuses 73 "$tmp/file" -- "${tiny[@]}" --out "$tmp/file"
refuses 73 "$tmp/file/below" -- "${tiny[@]}" --out "$tmp/file/below"
refuses 73 /proc/dtrain -- "${tiny[@]}" --out /proc/dtrain
# not empty: an older run's, or anything else's
refuses 73 "$tmp/good" "empty" -- "${tiny[@]}" --out "$tmp/good"
must test "$(cksum <"$tmp/good/model.safetensors")" = "$sum"
mkdir "$tmp/mine"
echo precious >"$tmp/mine/notes"
refuses 73 "$tmp/mine" "empty" -- "${tiny[@]}" --out "$tmp/mine"
must test "$(ls "$tmp/mine")" = notes
refuses 73 "run folder / is not empty" -- "${tiny[@]}" --out /
must test "$(grep -c remove "$tmp/stderr")" = 0 # of nobody's folder is that said

# in use by a run that has only begun
timeout -k 2 120 "$DTRAIN_BIN" "${tiny[@]}" --max-steps -1 --epochs 1000000 \
    --out "$tmp/busy" >/dev/null 2>&1 </dev/null &
holder=$!
for _ in $(seq 100); do
    [ -d "$tmp/busy" ] && [ -n "$(ls -A "$tmp/busy")" ] && break
    sleep 0.1
done
must kill -0 "$holder"
refuses 73 "$tmp/busy" -- "${tiny[@]}" --out "$tmp/busy"
must kill -0 "$holder"
kill "$holder"
wait "$holder" 2>/dev/null

# a run whose folder is moved goes on in it, beside another that takes the name
moved=("${tiny[@]}" --epochs 1000 --max-steps $steps --save-every 4)
accepts "${moved[@]}" --out "$tmp/calm"
"$DTRAIN_BIN" "${moved[@]}" --out "$tmp/xa" >"$tmp/moved" 2>&1 </dev/null &
mover=$!
for _ in $(seq 1000); do
    [ -d "$tmp/xa/checkpoints/step-0000000004" ] && break
    sleep 0.01
done
kill -STOP $mover
mv "$tmp/xa" "$tmp/xb"
accepts "${moved[@]}" --out "$tmp/xa"
kill -CONT $mover
wait $mover
code=$?
must test "$code" = 0
must grep -q "run folder $tmp/xa was moved to $tmp/xb: the run goes on there" "$tmp/moved"
must grep -q "the run is in $tmp/xb\$" "$tmp/moved"
must test "$(grep -c /proc/ "$tmp/moved")" = 0
for run in xa xb; do
    must cmp "$tmp/calm/model.safetensors" "$tmp/$run/model.safetensors"
    equal "$(ls -A "$tmp/calm" "$tmp/calm/checkpoints" | tail -n +2)" \
        "$(ls -A "$tmp/$run" "$tmp/$run/checkpoints" | tail -n +2 | sed "s#$tmp/$run#$tmp/calm#")"
    must test "$(wc -l <"$tmp/$run/metrics.jsonl")" = "$(wc -l <"$tmp/calm/metrics.jsonl")"
    accepts verify "$tmp/$run"
    accepts --out "$tmp/$run" --resume auto --threads 1 --max-steps $((steps + 2))
done

# files that others remove or replace while it runs are there again
held=("${tiny[@]}" --epochs 1000 --max-steps $steps --save-every 4)
"$DTRAIN_BIN" "${held[@]}" --out "$tmp/held" >/dev/null 2>"$tmp/said" </dev/null &
run=$!
for _ in $(seq 1000); do
    [ -d "$tmp/held/checkpoints/step-0000000004" ] && break
    sleep 0.01
done
kill -STOP $run
rm "$tmp/held/options.yaml"
kill -CONT $run
wait $run
code=$?
must test "$code" = 0
must test "$(grep -c 'it is written again' "$tmp/said")" = 1
must test "$(grep -c '"kind":"step"' "$tmp/held/metrics.jsonl")" = $steps
must test -s "$tmp/held/options.yaml"
accepts verify "$tmp/held"
accepts --out "$tmp/held" --resume auto --threads 1 --max-steps $((steps + 2))

# an empty folder is taken
mkdir "$tmp/empty"
accepts "${tiny[@]}" --out "$tmp/empty"

# a full disk, first as a limit on the size of files: 37 MB of model, 16 MiB allowed
(
    ulimit -f 16384
    touch "$tmp/started"
    launch 1 --data synthetic:64 --net vgg11 --batch 4 --precision fp32 --threads 1 \
        --max-steps 0 --out "$tmp/large"
    judge 71 "limit on file size" "$tmp/large" "File too large; raise" "ulimit -f"
    exit "$bad"
) || bad=1
must test ! -e "$tmp/large/model.safetensors"
must test -z "$(find "$tmp/large" -size +1M)"

# goes_on DIR STEPS ARGS...: in the background, some steps on; $job is its process
goes_on() {
    local folder=$1 steps=$2
    shift 2
    "$DTRAIN_BIN" "${tiny[@]}" --epochs "$steps" --max-steps "$steps" --out "$folder" "$@" \
        >"$tmp/stdout" 2>"$tmp/stderr" </dev/null &
    job=$!
    for _ in $(seq 600); do
        [ "$(cat "$folder/metrics.jsonl" 2>/dev/null | wc -l)" -gt 5 ] && break
        sleep 0.05
    done
}

# the folder is removed while the run goes on: it is made again, but not in another's place
for taken in no yes; do
    goes_on "$tmp/tidied" $many --save-every 20
    if [ $taken = no ]; then
        while [ -e "$tmp/tidied" ]; do rm -rf "$tmp/tidied" 2>/dev/null; done
    else # with its file at once: an empty one would be taken
        mkdir "$tmp/others" && : >"$tmp/others/other"
        until mv -T "$tmp/others" "$tmp/tidied" 2>/dev/null; do rm -rf "$tmp/tidied" 2>/dev/null; done
    fi
    wait "$job"
    code=$?
    if [ $taken = no ]; then
        must test "$code" = 0
        must grep -qF "run folder $tmp/tidied was removed while its run goes on: it is made again" "$tmp/stderr"
        accepts verify "$tmp/tidied"
        must test -s "$tmp/tidied/model.safetensors"
        must test -z "$(find "$tmp/tidied" -name '*.tmp')"
    else
        must test "$code" = 73
        must grep -qF "it holds 'other'; empty it" "$tmp/stderr"
        must test "$(ls "$tmp/tidied")" = other
    fi
    rm -rf "$tmp/tidied"
done

# a link that comes to where the model is to be, while the run goes on
goes_on "$tmp/late" $many --save-every 0
ln -s nowhere "$tmp/late/model.safetensors"
wait "$job"
code=$?
must test "$code" = 73
must grep -qF "the model of this run is $tmp/late/model-2.safetensors" "$tmp/stderr"
accepts verify "$tmp/late/model-2.safetensors"
must test -z "$(find "$tmp/late" -name '*.tmp')"

# then as a small file system, where this user may mount one
mkdir "$tmp/small"
# a disk that is too small for the model is seen before the first step
if mount -t tmpfs -o size=64k none "$tmp/small" 2>/dev/null; then
    for np in $ranks; do
        touch "$tmp/started"
        launch "$np" "${tiny[@]}" --out "$tmp/small/run$np"
        judge 74 "np $np: full disk" "$tmp/small/run$np" "bytes left"
        must test ! -e "$tmp/small/run$np/model.safetensors"
        rm -rf "$tmp/small/run$np"
    done
    head -c 1M /dev/zero >"$tmp/small/full" 2>/dev/null # not a byte left
    refuses 74 "No space left on device" "make room" -- "${tiny[@]}" --out "$tmp/small/run"
    umount "$tmp/small"
else
    echo "SKIPPED: a full disk: no rights to mount one"
fi
finish
