#!/usr/bin/env bash
# --log-dir: a file for each rank with what it says. The bits stay.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

run=("${tiny[@]}" --max-steps -1 --epochs 2)
stamp='^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}Z'
accepts "${run[@]}" --out "$tmp/alone"
for exchange in auto tree; do
    accepts_on 3 "${run[@]}" --out "$tmp/$exchange" --exchange "$exchange" --log-dir "$tmp/logs-$exchange"
    equal "$(hashes "$tmp/alone")" "$(hashes "$tmp/$exchange")"
    for r in 0 1 2; do
        own=$tmp/logs-$exchange/rank-0000$r.log
        must test "$(grep -cvE "$stamp rank $r on [^ ]+: " "$own")" = 0
        must test "$(grep -cE ': epoch [12] ends with step [24]: waited [0-9.]+ s' "$own")" = 2
    done
done

# a second run appends
launch 3 "${run[@]}" --epochs 1 --out "$tmp/more" --log-dir "$tmp/logs-auto"
must test "$(grep -c 'begins: process' "$tmp/logs-auto/rank-00000.log")" = 2

# what a full disk has cut is left out by the next run
printf '2026-11-22T20:00:00.000Z rank 0' >>"$tmp/logs-auto/rank-00000.log"
launch 3 "${run[@]}" --epochs 1 --out "$tmp/mended" --log-dir "$tmp/logs-auto"
must test "$(grep -c 'begins: process' "$tmp/logs-auto/rank-00000.log")" = 3
must test "$(grep -cvE "$stamp rank 0 on [^ ]+: " "$tmp/logs-auto/rank-00000.log")" = 0
if mkdir "$tmp/small" && unshare -m true 2>/dev/null; then
    must unshare -m bash -c 'mount -t tmpfs -o size=8k none "$1" && shift && exec "$@"' - "$tmp/small" bash -c '
        "$@" --log-dir "$0/logs" >"${0%/*}/small.said" 2>&1 && cp "$0/logs/rank-00000.log" "${0%/*}/small.log"' \
        "$tmp/small" "$DTRAIN_BIN" "${run[@]}" --epochs 100 --out "$tmp/full"
    must test "$(grep -c "cannot write to its file of --log-dir: No space left" "$tmp/small.said")" = 1
    must test "$(tail -c 1 "$tmp/small.log" | wc -l)" = 1
fi

# they may lie in the run's own new folder; nothing else may
launch 2 "${tiny[@]}" --out "$tmp/a/in" --log-dir "$tmp/a/in/logs/ranks"
must test "$code" = 0 -a -s "$tmp/a/in/logs/ranks/rank-00001.log"
launch 2 "${tiny[@]}" --out "$tmp/same" --log-dir "$tmp/same"
must test "$code" = 0 -a -s "$tmp/same/rank-00001.log"
# whatever the two are called
(
    cd "$tmp" || exit 1
    for names in "by1 ./by1/logs" "./by2 by2" "by3 $tmp/by3/logs" "$tmp/by4 by4/logs"; do
        launch 2 "${tiny[@]}" --out "${names% *}" --log-dir "${names#* }"
        must test "$code" = 0 -a -s "${names#* }/rank-00001.log"
    done
    exit "$bad"
) || bad=1
ranks=2
mkdir -p "$tmp/taken/logs-2"
refuses 73 "it holds 'logs-2'" -- "${tiny[@]}" --out "$tmp/taken" --log-dir "$tmp/taken/logs"
: >"$tmp/file"
refuses 73 "folder $tmp/file/logs: Not a directory" -- "${tiny[@]}" --out "$tmp/no1" --log-dir "$tmp/file/logs"
refuses 73 "$tmp/file/rank-0000" -- "${tiny[@]}" --out "$tmp/no2" --log-dir "$tmp/file"
finish
