#!/usr/bin/env bash
# Standard output that cannot be written: a run goes on without it, with one warning; a command
# whose product it is fails, without words where it was the reader who left.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

run=("${tiny[@]}" --max-steps 6 --save-every 0)
accepts "${run[@]}" --out "$tmp/calm"
want=$(hashes "$tmp/calm")
must test "$(wc -w <<<"$want")" = 2

# left COMMAND...: with an output whose reader has left; sets $code
left() {
    mkfifo "$tmp/fifo"
    exec 4<>"$tmp/fifo" 5>"$tmp/fifo" 4<&-
    timeout -k 2 "$limit" "$@" >&5 2>"$tmp/stderr" </dev/null
    code=$?
    exec 5>&-
    rm "$tmp/fifo"
}

# goes_on NAME TEXT: the run in $tmp/NAME ended as if nothing had been
goes_on() {
    judge 0 "$1" "dtrain: warning: standard output cannot be written ($2)" "metrics.jsonl"
    must test "$(grep -c "" "$tmp/$1/metrics.jsonl")" = "$(grep -c "" "$tmp/calm/metrics.jsonl")"
    must test "$(hashes "$tmp/$1")" = "$want"
    must test -s "$tmp/$1/model.safetensors"
}

for style in auto mindspore cs744; do
    left "$DTRAIN_BIN" "${run[@]}" --log-style $style --out "$tmp/left-$style"
    goes_on "left-$style" "Broken pipe"
done
"$DTRAIN_BIN" "${run[@]}" --out "$tmp/full" >/dev/full 2>"$tmp/stderr"
code=$?
goes_on full "No space left on device"
"$DTRAIN_BIN" "${run[@]}" --out "$tmp/closed" >&- 2>"$tmp/stderr"
code=$?
goes_on closed "Bad file descriptor"

for command in "plan ${tiny[*]}" "summary ${tiny[*]}" config env version help; do
    # shellcheck disable=SC2086
    left "$DTRAIN_BIN" $command
    cases=$((cases + 1))
    [ "$code" = 74 ] && [ ! -s "$tmp/stderr" ] || complain "$command: want code 74 and no words"
    touch "$tmp/started"
    # shellcheck disable=SC2086
    "$DTRAIN_BIN" $command >/dev/full 2>"$tmp/stderr"
    code=$?
    judge 74 "$command > /dev/full" "dtrain: standard output cannot be written"
done
# an epoch's training loss is the mean over its images, of which the last step has fewer
accepts "${tiny[@]}" --data synthetic:100 --no-drop-remainder --max-steps -1 --epochs 1 --out "$tmp/uneven"
must test "$(grep -c '"kind":"step"' "$tmp/uneven/metrics.jsonl")" = 4
must awk -F'[:,]' '/"step"/ { n = $6 < 4 ? 32 : 4; sum += n * $8 } /"kind":"epoch"/ { e = $6 - sum / 100 }
    END { exit !(e > -1e-7 && e < 1e-7) }' "$tmp/uneven/metrics.jsonl"
# the first images of an epoch are shard 0 of a large batch, or a small batch
ranks=1
accepts "${tiny[@]}" --global-batch 8 --shards 2 --max-steps 1 --out "$tmp/two"
accepts "${tiny[@]}" --global-batch 4 --shards 1 --max-steps 1 --out "$tmp/first"
shard0() { grep -o "\"$1\":[^,]*" "$tmp/$2/metrics.jsonl" | head -n 1 | cut -d: -f2; }
must test "$(shard0 loss_shard0 two)" = "$(shard0 loss first)"
must test "$(shard0 loss_shard0 two)" != "$(shard0 loss two)"
finish
