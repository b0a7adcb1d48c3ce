#!/usr/bin/env bash
# A run that is killed before any call that changes its folder: the next start ends with the bits and the
# records of the run that was not disturbed, and leaves nothing behind.
. "$DTRAIN_SOURCE/tests/fault/crash.bash" || exit 1
. "$DTRAIN_SOURCE/tests/support/runs.bash" || exit 1
args=(--data synthetic:64 --net vgg11 --width-divisor 16 --global-batch 32 --shards 8
    --precision fp32 --threads 1 --max-steps 3 --save-every 1 --keep-last 2)
cases=0

"$DTRAIN_BIN" "${args[@]}" --out "$tmp/calm" >/dev/null 2>"$tmp/stderr"
[ -n "$(hashes "$tmp/calm")" ] || complain "the undisturbed run: $(cat "$tmp/stderr")"
# its files; a checkpoint that is saved again has a name of its own
names() { (cd "$1" && find . ! -name progress | sed -E "s/(step-[0-9]+)-[0-9]+/\\1/" | sort); }

for call in mkdir create rename fsync unlink; do
    for ((n = 1; n < 200; n += 3)); do
        what="killed at $call number $n"
        rm -rf "$tmp/run"
        failing "$tmp/run" "$call:$n:KILL" "$DTRAIN_BIN" "${args[@]}" --out "$tmp/run" >/dev/null 2>&1
        [ -s "$tmp/fired" ] || break
        cases=$((cases + 1))
        timeout -k 2 1800 "$DTRAIN_BIN" "${args[@]}" --out "$tmp/run" --resume auto >/dev/null 2>"$tmp/stderr" ||
            complain "$what: the next start: $? $(cat "$tmp/stderr")"
        [ "$(hashes "$tmp/run")" = "$(hashes "$tmp/calm")" ] || complain "$what: other bits"
        [ "$(timeless "$tmp/run")" = "$(timeless "$tmp/calm")" ] || complain "$what: other records"
        [ "$(names "$tmp/run")" = "$(names "$tmp/calm")" ] ||
            complain "$what: $(diff <(names "$tmp/run") <(names "$tmp/calm"))"
    done
    [ "$n" -gt 1 ] || complain "$call: never called"
done
echo "$cases cases"
exit "$bad"
