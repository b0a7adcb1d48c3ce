#!/usr/bin/env bash
# The watch over hosts: two network namespaces with host names of their own. A rank of the other
# host that is stopped is named from here, a cable that is cut is reported and ends the run on
# both sides, and the hashes of a run that came through are those of a calm one.
set -u
. "$DTRAIN_SOURCE/tests/support/hosts.bash" || exit 1
hosts_enter "$0" "${1:-}"
hosts_make 2 3 || { echo "SKIPPED: no bridge between network namespaces"; exit 99; }

# who ends a run here is the watch, not the keep-alive of Open MPI's daemons
unset "${!OMPI_MCA_oob_tcp_keep@}" "${!PRTE_MCA_oob_tcp_keep@}"

bad=0
run=(--data synthetic:64 --net vgg11 --width-divisor 16 --global-batch 32 --shards 4
     --precision fp32 --threads 1 --stall-abort 60)
complain() { bad=1; echo "FAILED: $*"; sed 's/^/  | /' "$folder/log" | tail -n 30; }
begin() { # DIR ARGS...
    out=$folder/$1
    shift
    mpirun "${on_hosts[@]}" "$DTRAIN_BIN" "${run[@]}" --out "$out" "$@" >"$folder/log" 2>&1 </dev/null &
    job=$!
    awaits "steps" has_steps 25 "$out"
    find_ranks "$out"
}
said() { grep -qE -- "$1" "$folder/log"; }
awaits() { within "${@:2}" || complain "waited for $1"; } # WHAT COMMAND...

"$DTRAIN_BIN" "${run[@]}" --epochs 100 --out "$folder/calm" >"$folder/log" 2>&1 || complain "a calm run"

# rank 3 is on the other host
begin on --epochs 100
kill -STOP "${rank[3]}"
awaits "rank 3 to be named" said "^dtrain: rank 3 \(host node3, pid ${rank[3]}\) is stopped \(SIGSTOP\) in .* for [0-9.]+ s; 3 ranks wait"
"$DTRAIN_BIN" status "$out" | grep -qE '^ +3  node3 .* does not run: ' || complain "status does not show it"
kill -CONT "${rank[3]}"
awaits "rank 3 to go on" said "^dtrain: rank 3 goes on"
wait "$job" || complain "the run did not end well"
[ -n "$(hashes "$out")" ] && [ "$(hashes "$out")" = "$(hashes "$folder/calm")" ] || complain "other hashes"

# a cable that carries one way only, between the ranks; mpirun and its daemons go on hearing of each
# other
command -v nft >/dev/null || { echo "no nft: install nftables"; exit 1; }
begin one_way --epochs 100000
sleep 2 # the hosts have heard of each other
hosts_drop "iifname dtveth3"
awaits "the host to be missed" said "^dtrain: rank [23] \(host node3, pid [0-9]+\) has not been heard of"
for r in 0 1 2 3; do awaits "the end of rank $r" gone "${rank[r]}"; done
said "ended after silence of the host for 45 s" || complain "not told why it ended"
wait "$job"
code=$?
# Open MPI 5 gives the code of the rank that it heard of first: one that the others' end left behind
# aborts, with a code of Open MPI's
[ $code = 77 ] || { [ $code != 0 ] && said "MPI_ERRORS_ARE_FATAL"; } || complain "exit code $code, not 77"
nft flush ruleset
# what was not answered while packets were dropped is not found for some seconds more
reached() { ip netns exec dt2 bash -c ': <>/dev/tcp/10.99.0.3/9' 2>&1 | grep -q refused; }
awaits "the other host" reached

# the cable is cut for ever: told, and over on both sides
begin cut --epochs 100000 --stall-abort 8
sleep 2 # the hosts have heard of each other
ip link set dtveth3 down
awaits "the host to be missed" said "^dtrain: rank [23] \(host node3, pid [0-9]+\) has not been heard of"
for r in 0 1 2 3; do awaits "the end of rank $r" gone "${rank[r]}"; done
said "ended after --stall-abort 8 s" || complain "not told why it ended"
kill -9 "$job" 2>/dev/null # Open MPI 4.1 waits for the host that it cannot reach
wait "$job" 2>/dev/null
exit $bad
