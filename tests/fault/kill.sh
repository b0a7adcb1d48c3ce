#!/usr/bin/env bash
# Ten kills at random moments, and each signal once: every run ends as if undisturbed.
# scripts/kill-campaign has the hundred.
set -u
exec "$DTRAIN_SOURCE/scripts/kill-campaign" --bin "$DTRAIN_BIN" --kills 10 --signals 1
