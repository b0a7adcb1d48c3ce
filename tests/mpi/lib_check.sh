#!/usr/bin/env bash
# dtrain-dist-check at many numbers of ranks, and a rank that is late, stands still or dies: the
# others do not wait for ever, and the line names it. The library shows dtd_ names alone.
set -u
. "$DTRAIN_SOURCE/tests/support/runs.bash" || exit 1
bin=$DTRAIN_BUILD_DIR/dtrain-dist-check
stall=$DTRAIN_BUILD_DIR/mpi_lib_stall
said=$(mktemp)
trap 'rm -f "$said"' EXIT
bad=0
check() { # CODE TEXT COMMAND...
    local want=$1 text=$2 rc
    shift 2
    timeout -k 2 1800 "$@" >"$said" 2>&1
    rc=$?
    [[ $rc =~ ^($want)$ ]] && grep -qE "$text" "$said" && ! grep -q 'failed$' "$said" && return
    echo "$*: code $rc instead of $want, or not '$text'; it said:"
    tail -n 20 "$said"
    bad=1
}
nps="1 2 3 4 5 6 7 8"
[ -z "${ASAN_OPTIONS:-}" ] || nps="1 3"
for np in $nps; do
    check 0 success mpirun -np "$np" "$bin" -d all -o all -b 8 -e 1M -f 32 -n 1
done
check 0 success mpirun -np 3 "$bin" -b 16M -e 16M -n 1
check 0 success env -i ${ASAN_OPTIONS:+ASAN_OPTIONS="$ASAN_OPTIONS"} \
    ${LSAN_OPTIONS:+LSAN_OPTIONS="$LSAN_OPTIONS"} "$bin" -e 64 # without a launcher
[ -n "${ASAN_OPTIONS:-}" ] || check 0 success mpirun -np 64 "$bin" -d fp16 -e 64K -f 64 -n 1
check 64 'TYPE' "$bin" -d int7
for wrong in '-e -5' '-e 1X' '-e 1KB' '-e 4' '-b 0' '-f 1' '-f 99999999999999999999' '-n 4G' '-n 0' 'more'; do
    check 64 'BYTES' "$bin" $wrong
done
[ -n "${ASAN_OPTIONS:-}" ] || check 71 'no memory for 4398046511104000 bytes' "$bin" -e 4000T
check 0 '^ *8 .*success' "$bin" -b 8 -e 8 -f 4000000T -n 1
check 0 'all is well' mpirun -np 3 "$stall"
check 0 'dtd_finalize after MPI_Finalize' mpirun -np 3 "$stall" after
export DTD_STALL_SECONDS=8
check 0 'all is well' mpirun -np 3 "$stall" late
export DTD_STALL_SECONDS=3
for how in 'stop:is stopped .SIGSTOP. in' 'turn:is in'; do
    check "$stalled" "rank 1 .*${how#*:} the program after call 2 for .*2 ranks wait.*DTD_STALL_SECONDS 3 s" \
        mpirun -np 3 "$stall" "${how%%:*}"
done
killed=137
[ $launched_by = openmpi ] || killed=9 # the signal alone
check $killed . mpirun -np 3 "$stall" kill
check 64 DTD_STALL_SECONDS=soon env DTD_STALL_SECONDS=soon mpirun -np 2 "$bin" -e 8
lib=$DTRAIN_BUILD_DIR/libdtrain-dist.so
if nm -D --defined-only "$lib" | grep -v ' dtd_'; then
    echo "libdtrain-dist shows more than dtd_"
    bad=1
fi
exit $bad
