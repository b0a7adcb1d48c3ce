#!/usr/bin/env bash
# No two files of a folder need each other, directly or through others.
set -u
LEAN=${LEAN:-0} # 1: a circle fails the test, 0: it is printed
cd "$DTRAIN_SOURCE" || exit 1
python3 tests/lint/circles.py || [ "$LEAN" = 0 ]
