#!/usr/bin/env bash
# The ways to start a run, on 1, 2 and 4 hosts that are namespaces: mpirun, and dtrain launch with a
# list, a file, a rank table, and as one command on each host, which needs no ssh. All end with one
# pair of hashes. A host without the token is refused, and keeps none out that has it.
set -u
. "$DTRAIN_SOURCE/tests/support/hosts.bash" || exit 1
hosts_enter "$0" "${1:-}"
hosts_make 2 3 4 5 || { echo "SKIPPED: no bridge between network namespaces"; exit 99; }

bad=0
run=(--data synthetic:64 --net vgg11 --width-divisor 16 --global-batch 32 --shards 8 --precision fp32
     --threads 1 --max-steps 3)
endless=("${run[@]}" --max-steps 1000000 --epochs 1000000)
wrong() { # WHAT: with the last lines of all
    bad=1
    echo "FAILED: $1"
    tail -n 8 "$folder"/log*
}
right() { # DIR WHAT: the run in it has the hashes of one alone
    [ "$(hashes "$folder/$1")" = "$want" ] || wrong "$2: other hashes, or none"
}
said() { grep -q -- "$2" "$folder/log$1" || wrong "host $1 does not say '$2'"; }
"$DTRAIN_BIN" "${run[@]}" --out "$folder/alone" >"$folder/log" 2>&1
want=$(hashes "$folder/alone")
[ -n "$want" ] || { cat "$folder/log"; exit 1; }

# ---- One command for all hosts
same() { # NAME COMMAND...
    local name=$1
    shift
    rm -rf "$folder/same"
    timeout -k 2 1800 "$@" "${run[@]}" --out "$folder/same" >"$folder/log" 2>&1 </dev/null
    right same "$name"
}
launched() { same "$1 $2" "$DTRAIN_BIN" launch --agent "$folder/agent" --interface 10.99.0.0/24 "$1" "$2"; }
same "mpirun on 4 hosts" mpirun "${on_hosts[@]}" "$DTRAIN_BIN"
hosts_unsaid
launched --hosts 10.99.0.2:2
launched --hosts 10.99.0.2:2,10.99.0.3:2
printf '%s slots=2\n' 10.99.0.2 10.99.0.3 >"$folder/hosts"
launched --hostfile "$folder/hosts"
grep -q "4 ranks x 1 thread on 2 nodes" "$folder/log" || wrong "not on 2 hosts"
bash "$DTRAIN_SOURCE/scripts/tutorial/ranktable" 10.99.0.2:2,10.99.0.3:2,10.99.0.4:2,10.99.0.5:2 >"$folder/table.json"
launched --rank-table "$folder/table.json"
grep -q "8 ranks x 1 thread on 4 nodes" "$folder/log" || wrong "not on 4 hosts"

# told to stop while the other host's daemon is started: no run, and none that is complete
printf '#!/bin/sh\ntouch "%s/slow.asks"\nuntil [ -e "%s/go" ]; do sleep 0.1; done\nexec "%s/agent" "$@"\n' "$folder" "$folder" "$folder" >"$folder/slow"
chmod +x "$folder/slow"
"$DTRAIN_BIN" launch --agent "$folder/slow" --interface 10.99.0.0/24 --hosts 10.99.0.1:1,10.99.0.3:1 "${endless[@]}" --out "$folder/early" \
    >"$folder/log" 2>&1 </dev/null &
early=$!
within test -e "$folder/slow.asks" || wrong "no agent"
kill -TERM $early
touch "$folder/go"
wait $early
[ $? = 75 ] || wrong "told to stop before its ranks are there, launch does not end with 75"

# ---- One command on each host
(umask 077 && head -c 24 /dev/urandom | base64 >"$folder/token")
program=$DTRAIN_BIN
on() { # K ARGS...: on host K
    ip netns exec "dt$(($1 + 2))" unshare -u sh -c "hostname node$(($1 + 2)); exec \"\$@\"" - "${@:2}"
}
start() { # K ARGS...: launch of host K of $nodes, in the background; pid[K] is its process
    on "$1" timeout -k 2 1800 "$program" launch --nnodes "$nodes" --node-rank "$1" --nproc-per-node "${slots:-1}" \
        --master 10.99.0.2:29510 --token-file "$folder/token" --interface 10.99.0.0/24 "${@:2}" >"$folder/log$1" 2>&1 </dev/null &
    job[$1]=$!
    within launched_on "$1" || wrong "no launch on host $1"
}
launched_on() {
    for p in $(ip netns pids "dt$(($1 + 2))"); do
        [ "$(cat "/proc/$p/comm" 2>/dev/null)" = dtrain ] && grep -qz '^--node-rank$' "/proc/$p/cmdline" && pid[$1]=$p && return
    done
    return 1
}
ends() { # CODE K...: these hosts end with it
    for k in "${@:2}"; do
        wait "${job[k]}"
        code=$?
        [ $code = "$1" ] || wrong "host $k ends with $code, want $1"
    done
}
trains() { within grep -q "^epoch 2/" "$folder/log0" || wrong "no run"; }
met() { on "$1" ss -Htno state established | grep -q "29510.*keepalive"; } # K: set after the handshake
listens() { on 0 ss -Htnl | grep -q ":29510 "; }
said_gone() { grep -q "host 1, .*is gone" "$folder/log0"; }
deserted() { [ -z "$(ip netns pids dt2)$(ip netns pids dt3)" ]; }

slots=2
mkdir "$folder/a b" && cp "$DTRAIN_BIN" "$folder/a b/dtrain"
for nodes in 2 4; do # host 0 last, as it may be; from a path with a blank, too
    for ((k = nodes - 1; k >= 0; k--)); do start $k "${run[@]}" --out "$folder/each$nodes"; done
    ends 0 $(seq 0 $((nodes - 1)))
    right each$nodes "one command on each of $nodes hosts"
    said 0 "$((2 * nodes)) ranks x 1 thread on $nodes nodes"
    program="$folder/a b/dtrain"
done
program=$DTRAIN_BIN slots=1
# torchrun's variables, and the run's own failure on every host
for k in 1 0; do
    on $k env MASTER_ADDR=10.99.0.2 MASTER_PORT=29501 NNODES=2 NODE_RANK=$k NPROC_PER_NODE=1 \
        DTRAIN_TOKEN="$(cat "$folder/token")" timeout -k 2 1800 "$DTRAIN_BIN" launch --interface 10.99.0.0/24 \
        --data "$folder/no-data" --out "$folder/none" >"$folder/log$k" 2>&1 </dev/null &
    job[k]=$!
done
ends 66 0 1
! grep -q "DTRAIN_TOKEN\|$(cat "$folder/token")" "$folder"/log? || wrong "the token is told"

# ---- Strangers
nodes=2
start 0 "${endless[@]}" --out "$folder/guarded"
within listens || wrong "host 0 does not listen"
joins() { # CODE LOG ARGS...: the launch of another host with these, on host 1
    on 1 timeout -k 2 1800 "$DTRAIN_BIN" launch --master 10.99.0.2:29510 --token-file "$folder/token" --nproc-per-node 1 "${@:3}" \
        >"$folder/log$2" 2>&1 </dev/null
    code=$?
    [ $code = "$1" ] || wrong "host $2 ends with $code, want $1"
}
(umask 077 && echo "another token of some length" >"$folder/other")
joins 71 9 --nnodes 2 --node-rank 1 --token-file "$folder/other"
said 9 "has another token"
said 0 "does not have the token"
on 1 bash -c 'exec 3<>/dev/tcp/10.99.0.2/29510 && head -c 300 /dev/urandom >&3 && timeout 5 cat <&3 | wc -c' >"$folder/got"
[ "$(cat "$folder/got")" -le 32 ] || wrong "a stranger was sent more than an alert"
# silent ones, and one that sends a byte now and then, keep no host waiting
on 1 timeout 20 bash -c 'for i in {10..60}; do eval "exec $i<>/dev/tcp/10.99.0.2/29510"; done; echo >&2
    for i in {1..20}; do printf "\26" >&10; sleep 0.5; done' 2>"$folder/silent" &
within test -s "$folder/silent" || wrong "no silent strangers"
start 1
trains
# all have come: the port is closed, which one host more finds
! listens || wrong "host 0 listens while the run goes on"
on 2 timeout 8 "$DTRAIN_BIN" launch --nnodes 2 --node-rank 1 --master 10.99.0.2:29510 --token-file "$folder/token" >"$folder/log2" 2>&1 </dev/null
said 2 "Connection refused; .*or its run has begun without this host"
kill -USR1 "${pid[0]}"
ends 75 0 1

# ---- Ends: a launch that is killed, on either host, leaves no rank behind on any
for k in 0 1; do
    start 1
    start 0 "${endless[@]}" --out "$folder/killed$k"
    trains
    kill -9 "${pid[k]}"
    within deserted || wrong "kill -9 of host $k's launch leaves ranks"
    wait "${job[0]}" "${job[1]}"
    for p in $(ip netns pids dt2) $(ip netns pids dt3); do kill -9 "$p"; done
done
said 0 "host 1, 10.99.0.3, is gone"
# one that has gone before its daemon is asked for: mpirun, which is held up, gets no daemon
mkdir "$folder/held"
printf '#!/bin/sh\ntouch "%s/held/there"\nuntil [ -e "%s/held/go" ]; do sleep 0.1; done\nPATH=${PATH#*:} exec mpirun "$@"\n' "$folder" "$folder" >"$folder/held/mpirun"
chmod +x "$folder/held/mpirun"
start 1
PATH=$folder/held:$PATH start 0 "${endless[@]}" --out "$folder/gone"
within test -e "$folder/held/there" || wrong "no mpirun"
kill -9 "${pid[1]}"
within said_gone || wrong "host 0 does not notice"
touch "$folder/held/go"
ends 71 0
wait "${job[1]}"
# a signal to all that has one terminal with host 1's launch comes to the run once, by mpirun
start 1
start 0 "${endless[@]}" --out "$folder/asked"
trains
kill -USR1 -- "-$(ps -o pgid= -p "${pid[1]}" | tr -d ' ')"
ends 75 0

# ---- Before all have come: hosts that do not fit are refused, and host 0 waits on
nodes=3
start 0 "${run[@]}" --out "$folder/refused"
start 1
within met 1 || wrong "host 1 does not meet host 0"
while read -r k total rank; do # an address that is there, a number that is there, another total
    on "$k" timeout -k 2 1800 "$DTRAIN_BIN" launch --nnodes "$total" --node-rank "$rank" --nproc-per-node 1 \
        --master 10.99.0.2:29510 --token-file "$folder/token" >"$folder/log2" 2>&1 </dev/null
    [ $? = 71 ] || wrong "a host that does not fit does not end with 71: $rank of $total"
    said 2 "or refuses this one"
    said 0 "host $rank of $total with 1 ranks: refused: each of 3 hosts comes once"
done <<'END'
0 3 2
2 3 1
2 4 3
END
start 2
ends 0 0 1 2
right refused "hosts that do not fit"
# one that leaves ends it for all, and so does a signal to any of them
nodes=3
for try in "1 KILL 71 137" "1 INT 75 75" "0 USR1 75 75"; do
    read -r k signal want_code left_code <<<"$try"
    start 0 "${run[@]}" --out "$folder/left"
    start 1
    within met 1 || wrong "host 1 does not meet host 0"
    kill -"$signal" "${pid[k]}"
    ends "$want_code" 0
    ends "$left_code" 1
    said 0 "before all .*had come"
done
said 1 "the first host has ended before the run began"
exit $bad
