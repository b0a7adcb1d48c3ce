#!/usr/bin/env bash
# dtrain-dist-check on two hosts that are real to MPI: network namespaces, two ranks in each.
set -u
. "$DTRAIN_SOURCE/tests/support/hosts.bash" || exit 1
hosts_enter "$0" "${1:-}"
hosts_make 2 3 || { echo "SKIPPED: no bridge between network namespaces"; exit 99; }
timeout -k 2 1800 mpirun "${on_hosts[@]}" "$DTRAIN_BUILD_DIR/dtrain-dist-check" -d all -o all -e 256K -f 32 -n 1 \
    >"$folder/said" 2>&1 && ! grep 'failed$' "$folder/said" && exit 0
tail -n 20 "$folder/said"
exit 1
