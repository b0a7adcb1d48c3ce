#!/usr/bin/env bash
# Half a minute of proofs/soak: random faults on three hosts that are namespaces, and the hashes of a run
# without faults. The minute of the day decides which faults they are.
set -u
. "$DTRAIN_SOURCE/tests/support/hosts.bash" || exit 1
hosts_enter "$0" "${1:-}"
hosts_make 2 || { echo "SKIPPED: no bridge between network namespaces"; exit 99; }
# A cable that is cut while mpirun has bytes under way takes longer than a test may: mpi_watch_hosts.
export SOAK_FAULTS="rank_killed daemon_killed launcher_killed everything_killed supervisor_killed
    supervisor_told_to_stop launcher_told_to_stop rank_stopped packets_lost cable_slow disk_full"
"$DTRAIN_SOURCE/proofs/soak" 0.5 "$(($(date +%s) / 60 % 1000))"
