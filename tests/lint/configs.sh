#!/usr/bin/env bash
# Numbers of the recipes are numbers to every YAML reader: 1e-4 is a word to those of YAML 1.1
# (PyYAML), which want a point and a signed exponent.
set -u
cd "$DTRAIN_SOURCE" || exit 1
bad=0
for f in configs/*.yaml; do
    if grep -nHE '^[a-z_]+: *[-+]?([0-9]+[eE]|[0-9]*\.[0-9]*[eE][0-9]|\.[0-9])' "$f"; then
        echo "$f: write these numbers without an exponent, as 0.0001"; bad=1
    fi
done
exit $bad
