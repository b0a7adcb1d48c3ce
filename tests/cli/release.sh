#!/usr/bin/env bash
# Runs that 1.0.0 stopped after 4 of 6 steps, whole and in pieces: every later 1.x verifies, tests and resumes
# them. Their end is that of an undisturbed run, until a version changes float32's bits on purpose.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

for kind in whole pieces; do
    cp -r "$DTRAIN_SOURCE/docs/lab/runs/1.0.0/$kind" "$tmp/$kind"
    accepts verify "$tmp/$kind"
    accepts eval "$tmp/$kind/checkpoints/step-0000000004"
    accepts_on 3 --out "$tmp/$kind" --resume auto --max-steps 6 --threads 1
    must grep -qF "resumed from $tmp/$kind/checkpoints/step-0000000004" "$tmp/stderr"
    equal "$(hashes "$tmp/$kind")" "$(cat "$DTRAIN_SOURCE/docs/lab/runs/1.0.0/ends")"
done
finish
