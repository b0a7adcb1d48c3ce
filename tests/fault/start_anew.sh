#!/usr/bin/env bash
# A run that begins anew where an older one has left its work, killed before any call that
# changes the folder: the start after it, too, needs nobody, and nothing of the old is lost.
. "$DTRAIN_SOURCE/tests/fault/crash.bash" || exit 1
args=(--data synthetic:64 --net vgg11 --width-divisor 16 --global-batch 32 --shards 8
    --precision fp32 --threads 1 --max-steps 1 --save-every 1)
cases=0

# content FOLDER: sums of all files, wherever they lie
content() { (cd "$1" && find . -type f ! -name progress -exec cksum {} + | sed 's/ [^ ]*$//' | sort -u); }

"$DTRAIN_BIN" "${args[@]}" --seed 7 --out "$tmp/old" >/dev/null 2>"$tmp/stderr" ||
    complain "the older run: $(cat "$tmp/stderr")"
rm "$tmp"/old/checkpoints/step-*/MANIFEST
was=$(content "$tmp/old")
[ "$(wc -l <<<"$was")" -ge 5 ] || complain "the older run has left little: $was"

for call in mkdir rename fsync create; do
    for ((n = 1; n < 100; n++)); do
        what="killed at $call number $n"
        rm -rf "$tmp/run"
        cp -r "$tmp/old" "$tmp/run"
        failing "$tmp/run" "$call:$n:KILL" "$DTRAIN_BIN" "${args[@]}" --out "$tmp/run" \
            --resume auto >/dev/null 2>&1
        [ -s "$tmp/fired" ] || break
        cases=$((cases + 1))
        timeout -k 2 60 "$DTRAIN_BIN" "${args[@]}" --out "$tmp/run" --resume auto >/dev/null \
            2>"$tmp/stderr" || complain "$what: the next start: $? $(cat "$tmp/stderr")"
        [ -z "$(comm -23 <(echo "$was") <(content "$tmp/run"))" ] ||
            complain "$what: lost: $(comm -23 <(echo "$was") <(content "$tmp/run"))"
        "$DTRAIN_BIN" verify "$tmp/run" >/dev/null 2>"$tmp/stderr" ||
            complain "$what: $(cat "$tmp/stderr")"
    done
    [ "$n" -gt 1 ] || complain "$call: never called"
done
echo "$cases cases"
exit "$bad"
