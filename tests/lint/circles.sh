#!/usr/bin/env bash
# No two files of a folder need each other, directly or through others.
set -u
cd "$DTRAIN_SOURCE" || exit 1
exec python3 tests/lint/circles.py
