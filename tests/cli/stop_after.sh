#!/usr/bin/env bash
# --stop-after cuts a run into pieces, on other numbers of ranks; they end with the hashes of the run
# that was not cut, with the network and the draws that no other test has.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
steps=60
[ -z "${ASAN_OPTIONS:-}" ] || steps=12
run=("${tiny[@]}" --data synthetic:2048 --max-steps $steps --save-every 0 --net resnet9 --cutout 8 --logit-scale 0.125)
accepts "${run[@]}" --out "$tmp/whole"
for np in 2 1; do
    launch "$np" "${run[@]}" --out "$tmp/cut" --resume auto --stop-after 0.1s
    exits 75 "np $np"
    must grep -qE "stopped by --stop-after after step [0-9]+ of $steps; checkpoint .*--resume auto" "$tmp/stderr"
done
accepts "${run[@]}" --out "$tmp/cut" --resume auto --stop-after 10m # it ends long before that
equal "$(hashes "$tmp/whole")" "$(hashes "$tmp/cut")"
must grep -q '^stop_after: "0"' "$tmp/whole/options.yaml"
refuses 64 "stop_after" "2h" -- "${run[@]}" --stop-after 50
finish
