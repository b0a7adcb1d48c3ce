#!/usr/bin/env bash
# A minute of proofs/soak: random faults on three hosts that are namespaces, and the hashes of a run
# that nobody disturbed. Which faults they are is told by the minute of the day.
set -u
. "$DTRAIN_SOURCE/tests/support/hosts.bash" || exit 1
hosts_enter 500 "$0" "${1:-}"
hosts_make 2 || { echo "SKIPPED: no bridge between network namespaces"; exit 99; }
"$DTRAIN_SOURCE/proofs/soak" 1 "$(($(date +%s) / 60 % 1000))"
