#!/usr/bin/env bash
# Ten kills at random moments: every run ends as if undisturbed.
# proofs/kill-campaign has the hundred, and signals.
set -u
exec "$DTRAIN_SOURCE/proofs/kill-campaign" --bin "$DTRAIN_BIN" --kills 10 --signals 0
