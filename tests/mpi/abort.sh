#!/usr/bin/env bash
# A rank that fails alone ends the others, who wait for it: mpirun returns its code, soon.
# Without mpirun, and with an empty environment, the same programs are worlds of one, without MPI.
set -u
bin="$DTRAIN_BUILD_DIR/mpi_exchange"
bad=0
said=$(mktemp)
trap 'rm -f "$said"' EXIT
check() { # name, wanted code, command...
    local name=$1 want=$2 rc
    shift 2
    "$@" >"$said" 2>&1
    rc=$?
    [ "$rc" -eq "$want" ] && return
    echo "$name: code $rc instead of $want; it said:"
    cat "$said"
    bad=1
}
for np in 2 3; do
    for row in tree shared p2p; do
        check "abort at np $np, $row" 79 timeout -k 2 1800 mpirun -np "$np" "$bin" abort "$row"
    done
done
check "abort alone" 79 timeout -k 2 1800 "$bin" abort
for test in comm exchange reduce; do
    check "$test alone without an environment" 0 timeout -k 2 1800 env -i \
        ${ASAN_OPTIONS:+ASAN_OPTIONS="$ASAN_OPTIONS"} \
        ${LSAN_OPTIONS:+LSAN_OPTIONS="$LSAN_OPTIONS"} "$DTRAIN_BUILD_DIR/mpi_$test"
done
exit $bad
