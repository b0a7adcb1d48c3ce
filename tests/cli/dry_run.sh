#!/usr/bin/env bash
# --dry-run says what a run is and how long it takes, on any number of ranks, and writes nothing.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
mkdir "$tmp/here"
cd "$tmp/here" || exit 1
for np in $ranks; do
    accepts_on "$np" "${tiny[@]}" --max-steps 40 --dry-run --trace "$tmp/here/trace.json" --out "$tmp/here/run"
    must grep -q '^writes to  nothing' "$tmp/stdout"
    must test "$(grep -cE '^dry run    a step takes [0-9.e-]+ s .* images/s\), a test [0-9.e-]+ s; 20 steps and 10 tests about [0-9.]+ (s|min)$' "$tmp/stdout")" = 1
    must test -z "$(ls -A "$tmp/here")"
done
test -z "$(ls -A "$tmp/here")" || complain "something was written"
accepts "${tiny[@]}" --max-steps 2 --out "$tmp/run"
accepts eval "$tmp/run/model.safetensors" "${tiny[@]:0:2}"
cp "$tmp/stdout" "$tmp/whole"
DTRAIN_DRY_RUN=true accepts eval "$tmp/run/model.safetensors" "${tiny[@]:0:2}" # of training alone
equal "$(grep -o 'accuracy.*' "$tmp/whole")" "$(grep -o 'accuracy.*' "$tmp/stdout")"
refuses 78 "leave out --resume" -- "${tiny[@]}" --dry-run --resume "$tmp/run"
refuses 66 none.safetensors -- "${tiny[@]}" --dry-run --init "$tmp/none.safetensors"
finish
