#!/usr/bin/env bash
# Two nodes that are real to MPI: network namespaces with host names and addresses of their
# own, two ranks on each, which share memory inside a node and send over TCP between them.
# All of it lives in namespaces of this script and ends with them. Skipped where the machine
# does not allow that.
set -u
. "$DTRAIN_SOURCE/tests/support/hosts.bash" || exit 1
hosts_enter "$0" "${1:-}"
hosts_make 2 3 || { echo "SKIPPED: no bridge between network namespaces"; exit 99; }
timeout -k 2 1800 mpirun "${on_hosts[@]}" "$DTRAIN_BUILD_DIR/mpi_exchange" nodes
