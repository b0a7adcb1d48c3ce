#!/usr/bin/env bash
# A small /dev/shm, as containers have, in a mount namespace of this script. What the ranks of
# a node share does not lie there, and MPI's own buffers have their room from the start: so
# two runs side by side, a /dev/shm that is full before the run, and one that something fills
# while it runs, all end well; and nothing of a killed run stays behind the next start.
set -u
if [ "${1:-}" != inside ]; then
    unshare -m true 2>/dev/null || { echo "SKIPPED: no rights to make mount namespaces"; exit 99; }
    exec timeout -k 2 1800 unshare -m --propagation private bash "$0" inside
fi
mount -t tmpfs -o size=64m tmpfs /dev/shm || { echo "SKIPPED: no rights to make mount namespaces"; exit 99; }
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
limit=1800

# start NAME ARGS...: at half its width VGG11 shares 46 MB, which fit once. Of two mpirun of one
# moment, one may fail to make the folder that both want: each has one of its own.
start() {
    local name=$1
    shift
    mkdir -p "$tmp/mpi/$name"
    OMPI_MCA_orte_tmpdir_base=$tmp/mpi/$name PRTE_MCA_prte_tmpdir_base=$tmp/mpi/$name \
        timeout -k 2 "$limit" mpirun -np 2 "$DTRAIN_BIN" --data synthetic:64 --net vgg11 --global-batch 8 \
        --shards 2 --image-size 32 --precision fp32 --threads 1 \
        --save-every 0 --out "$tmp/$name" "$@" >"$tmp/$name.log" 2>&1 &
}
fill() { dd if=/dev/zero of=/dev/shm/filler bs=4k 2>/dev/null; }
# ended NAME PID: with success; the hash of its weights goes to $hash
ended() {
    wait "$2"
    code=$?
    cp "$tmp/$1.log" "$tmp/stderr"
    hash=$(grep -a '^weights hash' "$tmp/$1.log")
    cases=$((cases + 1))
    [ "$code" = 0 ] && [ -n "$hash" ] || complain "$1: want success"
}

start a --max-steps 2 --width-divisor 2
a=$!
start b --max-steps 2 --width-divisor 2
b=$!
ended a "$a"
want=$hash
must grep -q "rank.*, exchange shared" "$tmp/a.log"
ended b "$b"
must grep -q "rank.*, exchange shared" "$tmp/b.log"
must test "$hash" = "$want"

# LLVM's OpenMP, which clang takes, writes a file of its own there, and its ranks die of a full one.
own=$(ldd "$DTRAIN_BIN" | grep -o 'libomp[.]so' | head -n 1)
[ -z "$own" ] || echo "SKIPPED: no room from the start: LLVM's OpenMP needs some of /dev/shm"
if [ -z "$own" ] && only_openmpi "no room from the start"; then # MPICH's MPI_Init dies of it
    fill
    start full --max-steps 2 --width-divisor 4
    ended full $!
    must grep -aq "rank.*, exchange shared" "$tmp/full.log"
    rm /dev/shm/filler
fi

# Messages take buffers that were not used before, after the room is gone.
for exchange in shared tree; do
    start "$exchange" --max-steps 8 --width-divisor 4 --exchange "$exchange"
    job=$!
    must soon grep -qs "step 1/" "$tmp/$exchange.log"
    fill
    ended "$exchange" "$job"
    rm /dev/shm/filler
done

# The buffers of a container's 8 ranks fit into its 64 MB.
timeout -k 2 "$limit" mpirun -np 8 "$DTRAIN_BIN" "${tiny[@]}" --out "$tmp/many" \
    >"$tmp/many.log" 2>&1 &
ended many $!

start killed --epochs 1000 --width-divisor 4
job=$!
must soon grep -qs "step 1/" "$tmp/killed.log"
for rank in $(ranks_of "$(pgrep -P "$job" -x "$launcher")"); do kill -9 "$rank"; done
wait "$job"
must test -z "$(find /dev/shm -type f ! -name '*_segment.*' ! -name '__KMP_*')"

only_openmpi "files of killed ranks" || finish
# What MPI leaves of ranks that are killed together with mpirun, the next start removes, but
# nothing of a run that lives.
segments() { find /dev/shm -name '*_segment.*' | sort; }
rm -f /dev/shm/*_segment.*
start dead --epochs 1000 --width-divisor 4
job=$!
must soon grep -qs "step 1/" "$tmp/dead.log"
mpirun=$(pgrep -P "$job" -x "$launcher")
ranks_of_it=$(pgrep -P "$mpirun")
# shellcheck disable=SC2086
kill -9 "$mpirun" $ranks_of_it
wait "$job"
dead=$(segments)
[ -n "$dead" ] || complain "this MPI leaves no files: the test shows nothing"
start lives --epochs 1000 --width-divisor 4
job=$!
must soon grep -qs "step 1/" "$tmp/lives.log"
touch -d '1 minute ago' /dev/shm/*_segment.* # else they might just be made
all=$(segments)
start next --max-steps 2 --width-divisor 4
ended next $!
left=$(segments)
must test "$left" = "$(comm -23 <(echo "$all") <(echo "$dead"))"
kill -USR1 "$(pgrep -P "$job" -x "$launcher")"
wait "$job"
must grep -q "stopped by SIGUSR1" "$tmp/lives.log"
finish
