#!/usr/bin/env bash
# What a run writes takes the place of files alone: links, pipes, devices and folders are left as
# they are. What average and convert write is new. And what killed runs have left goes.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
ranks=1
accepts "${tiny[@]}" --save-every 1 --out "$tmp/run"
echo mine >"$tmp/mine"

# obstacle KIND PATH: sets $kind, what the message calls it
obstacle() {
    rm -rf "$2"
    kind="device, pipe or socket"
    case $1 in
    link) ln -s "$tmp/mine" "$2" && kind=link ;;
    dangling) ln -s "$tmp/absent" "$2" && kind=link ;;
    folder) mkdir "$2" && kind=folder ;;
    pipe) mkfifo "$2" ;;
    device) mknod "$2" c 1 3 2>/dev/null || { echo "SKIPPED: a device: no rights to make one" && return 1; } ;;
    esac
}
kinds="link dangling folder pipe device"

for what in $kinds; do
    obstacle "$what" "$tmp/out" || continue
    before=$(stat -c '%F %i %t:%T' "$tmp/out")
    refuses 73 "$tmp/out" "$kind" -- average "$tmp/run" --out "$tmp/out"
    refuses 73 "$tmp/out" "$kind" -- convert "$tmp/run" --names cs744 --out "$tmp/out"
    must test "$(stat -c '%F %i %t:%T' "$tmp/out")" = "$before"
done
must test "$(cat "$tmp/mine")" = mine
must test ! -e "$tmp/absent"
must test -z "$(find "$tmp" -name '*.tmp')"
accepts average "$tmp/run" --out "$tmp/model"
must cmp "$tmp/model" "$tmp/run/model.safetensors"
: >"$tmp/empty" # a file without a byte, as mktemp makes it, holds nothing
accepts average "$tmp/run" --out "$tmp/empty"
accepts verify "$tmp/empty"

# nothing is replaced
step=$(ls -d "$tmp"/run/checkpoints/step-*)
before=$(cd "$tmp/run" && find . -type f -exec cksum {} + | sort -k 3)
kept() {
    refuses 73 "cannot write $1" "$2" "choose another --out" -- average "$tmp/run" "$tmp/run" --out "$1"
    refuses 73 "cannot write $1" "$2" "choose another --out" -- convert "$tmp/run" --out "$1"
}
for file in "$tmp/mine" "$tmp/model" "$step/MANIFEST" "$step/model.safetensors" "$tmp/run/model.safetensors"; do
    kept "$file" "it exists"
done
must test "$(cat "$tmp/mine")" = mine
equal "$before" "$(cd "$tmp/run" && find . -type f -exec cksum {} + | sort -k 3)"

# a run that is resumed says so before its first step, and changes nothing
for case in model.safetensors:{link,dangling,folder,pipe,device} {options.yaml,metrics.jsonl,.lock}:link; do
    file=$tmp/on/${case%:*}
    rm -rf "$tmp/on"
    cp -r "$tmp/run" "$tmp/on"
    must find "$tmp/on" -name 'model*' -exec touch -d '1 hour ago' {} +
    [ ! -f "$file" ] || cp "$file" "$tmp/mine"
    obstacle "${case#*:}" "$file" || continue
    before=$(stat -c '%F %i %t:%T' "$file")
    refuses 73 "$file" "$kind" -- "${tiny[@]}" --out "$tmp/on" --resume auto --max-steps 2
    must test "$(stat -c '%F %i %t:%T' "$file")" = "$before"
    must test -z "$(find "$tmp/on" -name '*.tmp')"
done

# and while a run lasts its folder is its own
start 1 "${tiny[@]}" --max-steps 100000 --epochs 100000 --out "$tmp/killed"
must soon has_records "$tmp/killed" step 1
kept "$tmp/killed/model.safetensors" "in use by a run"
kept "$tmp/killed/mean.safetensors" "in use by a run"
job_kill
accepts "${tiny[@]}" --out "$tmp/killed" --resume auto --max-steps 1 --epochs 1
must test -z "$(find "$tmp/killed" -name '*.tmp')"
accepts verify "$tmp/killed"
accepts average "$tmp/run" --out "$tmp/killed/mean.safetensors"

# Modes are what the umask leaves: a group's stay the group's, a user's own are read by no other.
while read -r mask files folders; do
    made=$tmp/made-$mask
    mkdir "$made"
    umask "$mask"
    accepts "${tiny[@]}" --max-steps 2 --save-every 1 --save-shards --ema 0.5 --trace "$made/trace.json" \
        --log-dir "$made/logs" --out "$made/new/run"
    accepts average "$made/new/run" --out "$made/mean.safetensors"
    accepts merge "$made/new/run" --shards 3 --out "$made/pieces"
    for name in model.onnx model.safetensors; do
        accepts convert "$made/new/run" --out "$made/$name"
    done
    accepts tensorboard "$made/new/run" --out "$made/board"
    accepts report "$made/new/run" --out "$made/report.html"
    if command -v gnuplot >"$tmp/stdout"; then
        accepts plot "$made/new/run" --out "$made/plot.svg"
    fi
    umask 022
    must test "$(find "$made" -type f | wc -l)" -gt 20
    wrong=$(find "$made" -mindepth 1 \( -type f ! -perm "$files" -o -type d ! -perm "$folders" \) -printf '%m %p; ')
    must test -z "$wrong"
done <<<"002 664 775
077 600 700"
finish
