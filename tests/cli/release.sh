#!/usr/bin/env bash
# Runs that 1.0.0 ended after 3 of an epoch's 4 steps, whole (with --ema) and in pieces: every later 1.x verifies, tests
# and extends them. They end as recorded; a version that changes the bits of float32 says so and records other ends.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

for kind in whole pieces; do
    cp -r "$DTRAIN_SOURCE/docs/lab/runs/1.0.0/$kind" "$tmp/$kind"
    accepts verify "$tmp/$kind"
    accepts eval "$tmp/$kind/checkpoints"/step-*
    accepts_on 3 --out "$tmp/$kind" --resume auto --max-steps 6 --threads 1
    must grep -qE "resumed from $tmp/$kind/checkpoints/step-0+3.* step 4" "$tmp/stderr"
    equal "$(hashes "$tmp/$kind")" "$(cat "$DTRAIN_SOURCE/docs/lab/runs/1.0.0/$kind.ends")"
done
finish
