#!/usr/bin/env bash
# Comments and documents name only files, sections and functions that exist.
set -u
cd "$DTRAIN_SOURCE" || exit 1
exec python3 tests/lint/references.py
