#!/usr/bin/env bash
# What the system sees of a run: processes that are called dtrain.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
unset GOMP_SPINCOUNT # as users start it: it starts itself once more

# called NP: each rank of a run is found by its name, by its threads' too, although the
# program starts itself once more to have a short GOMP_SPINCOUNT.
called() {
    local np=$1 mpi=() rank found=0 names
    [ "$np" -gt 1 ] && mpi=(mpirun -np "$np")
    env -u GOMP_SPINCOUNT -u OMP_WAIT_POLICY "${mpi[@]}" "$DTRAIN_BIN" "${tiny[@]}" --epochs 100000 \
        --max-steps 1000000 --save-every 0 --out "$tmp/run$np" >"$tmp/stdout" 2>"$tmp/stderr" </dev/null &
    local job=$!
    must within has_steps 5 "$tmp/run$np"
    for rank in $([ "$np" = 1 ] && echo "$job" || ranks_of "$job"); do
        found=$((found + 1))
        must test "$(cat "/proc/$rank/comm")" = dtrain
        must grep -q GOMP_SPINCOUNT=10000 <(tr '\0' '\n' <"/proc/$rank/environ")
        must test "$(tr '\0' ' ' <"/proc/$rank/cmdline" | cut -d ' ' -f 1)" = "$DTRAIN_BIN"
        names=$(sort -u "/proc/$rank"/task/*/comm)
        must grep -qx dtrain <<<"$names"
    done
    must test "$found" = "$np"
    kill -9 "$job"
    wait "$job" 2>/dev/null
}
called 1
called 2

# OpenMP binds the first thread before main: the process may use as many CPUs as before
threads() { env -u OMP_NUM_THREADS "$@" "$DTRAIN_BIN" env | sed -n 's/^threads_per_rank *//p'; }
must test "$(threads OMP_PROC_BIND=true)" = "$(threads)"
must test "$(threads OMP_PROC_BIND=true taskset -c 0)" = 1

# more threads than cores: --bind-to none helps only those who are bound
for bound in "" "taskset -c 0"; do
    # shellcheck disable=SC2086
    gives 0 $bound "$DTRAIN_BIN" "${tiny[@]}" --threads $(($(nproc --all) + 1)) --max-steps 0 --out "$tmp/threads$bound"
    read -r may all remedy <<<"$(sed -nE 's/.*may use ([0-9]+) of ([0-9]+) cores: /\1 \2 /p' "$tmp/stderr")"
    must test "$may" -gt 0
    if [ "$may" -lt "$all" ]; then want="start mpirun with --bind-to none"; else want="lower --threads"; fi
    equal "$want" "$remedy"
done

finish
