#!/usr/bin/env bash
# The ways to start a run, on 1, 2 and 4 hosts that are namespaces: mpirun, and dtrain launch with a
# list, a file, a rank table, and as one command on each host, which needs no ssh. All end with one
# pair of hashes. Whoever has not the token is refused, and a host that does not come is named.
set -u
. "$DTRAIN_SOURCE/tests/support/hosts.bash" || exit 1
hosts_enter 280 "$0" "${1:-}"
hosts_make 2 3 4 5 || { echo "SKIPPED: no bridge between network namespaces"; exit 99; }

bad=0 ended=()
ls -d /tmp/dtrain-?????? >"$folder/before" 2>/dev/null
run=(--data synthetic:64 --net vgg11 --width-divisor 16 --global-batch 32 --shards 8 --precision fp32
     --threads 1 --max-steps 3)
"$DTRAIN_BIN" "${run[@]}" --out "$folder/alone" >"$folder/log" 2>&1
want=$(hashes "$folder/alone")
[ -n "$want" ] || { cat "$folder/log"; exit 1; }

way=0
same() { # NAME COMMAND...
    local name=$1 ended
    shift
    way=$((way + 1))
    timeout -k 2 60 "$@" "${run[@]}" --out "$folder/$way" >"$folder/log" 2>&1 </dev/null
    ended=$?
    [ "$(hashes "$folder/$way")" = "$want" ] && return
    bad=1
    echo "FAILED: $name: exit code $ended, other hashes or none"
    sed 's/^/  | /' "$folder/log" | tail -n 20
}
own=(--agent "$folder/agent" --interface 10.99.0.0/24)
same "mpirun on 4 hosts" mpirun "${on_hosts[@]}" "$DTRAIN_BIN"
hosts_unsaid
launched() { same "$1 $2" "$DTRAIN_BIN" launch "${own[@]}" "$1" "$2"; }
launched --hosts 10.99.0.2:2
launched --hosts 10.99.0.2:2,10.99.0.3:2
launched --hosts 10.99.0.2:2,10.99.0.3:2,10.99.0.4:2,10.99.0.5:2
printf '%s slots=2\n' 10.99.0.2 10.99.0.3 >"$folder/hosts"
launched --hostfile "$folder/hosts"
"$DTRAIN_BIN" ranktable --hosts 10.99.0.2,10.99.0.3,10.99.0.4,10.99.0.5 --nproc-per-node 2 >"$folder/table.json"
launched --rank-table "$folder/table.json"
grep -q "8 ranks x 1 thread on 4 nodes" "$folder/log" || { bad=1; echo "FAILED: not on 4 hosts"; cat "$folder/log"; }

# one command on each host
(umask 077 && head -c 24 /dev/urandom | base64 >"$folder/token")
on() { # K ARGS...: on node K
    local k=$1
    shift
    ip netns exec "dt$k" unshare -u sh -c "hostname node$k; exec \"\$@\"" - "$@"
}
each() { # HOSTS ARGS...: host 0 last, as it may be
    local n=$1 k job=()
    shift
    for ((k = n - 1; k >= 0; k--)); do
        on $((k + 2)) timeout -k 2 60 "$DTRAIN_BIN" launch --nnodes "$n" --node-rank "$k" --nproc-per-node 2 \
            --master 10.99.0.2:29500 --token-file "$folder/token" --interface 10.99.0.0/24 "$@" \
            >"$folder/log$k" 2>&1 </dev/null &
        job[k]=$!
    done
    code=""
    for ((k = 0; k < n; k++)); do
        wait "${job[k]}"
        code="$code $?"
    done
}
for n in 2 4; do
    each $n "${run[@]}" --out "$folder/each$n"
    [ "$(hashes "$folder/each$n")" = "$want" ] && ! grep -q '[1-9]' <<<"$code" || {
        bad=1
        echo "FAILED: one command on each of $n hosts: codes$code"
        head -n 20 "$folder"/log?
    }
    grep -q "$((2 * n)) ranks x 1 thread on $n nodes" "$folder/log0" || { bad=1; echo "FAILED: not $n nodes"; }
done
# torchrun's variables, and the run's own failure on every host
for k in 1 0; do
    on $((k + 2)) env MASTER_ADDR=10.99.0.2 MASTER_PORT=29501 NNODES=2 NODE_RANK=$k NPROC_PER_NODE=1 \
        DTRAIN_TOKEN="$(cat "$folder/token")" timeout -k 2 60 "$DTRAIN_BIN" launch --interface 10.99.0.0/24 \
        --data "$folder/no-data" --out "$folder/none" >"$folder/log$k" 2>&1 </dev/null &
    job[k]=$!
done
for k in 0 1; do
    wait "${job[k]}"
    code=$?
    [ $code = 66 ] || { bad=1; echo "FAILED: host $k ends with $code, want 66"; tail -n 20 "$folder"/log?; }
done
! grep -q "DTRAIN_TOKEN\|$(cat "$folder/token")" "$folder"/log? || { bad=1; echo "FAILED: the token is told"; }

# another token: refused on both sides, and the run goes on without
echo "another token of some length" >"$folder/other"
chmod 600 "$folder/other"
on 2 timeout -k 2 60 "$DTRAIN_BIN" launch --nnodes 2 --node-rank 0 --nproc-per-node 2 --master 10.99.0.2:29502 \
    --token-file "$folder/token" --interface 10.99.0.0/24 "${run[@]}" --out "$folder/guarded" >"$folder/log0" 2>&1 </dev/null &
job=$!
on 3 timeout 30 "$DTRAIN_BIN" launch --nnodes 2 --node-rank 1 --master 10.99.0.2:29502 --token-file "$folder/other" \
    >"$folder/log1" 2>&1 </dev/null
[ $? = 71 ] && grep -q "has another token" "$folder/log1" || { bad=1; echo "FAILED: another token"; cat "$folder/log1"; }
on 3 bash -c 'exec 3<>/dev/tcp/10.99.0.2/29502 && head -c 300 /dev/urandom >&3 && timeout 5 cat <&3 | wc -c' >"$folder/got"
[ "$(cat "$folder/got")" -le 32 ] || { bad=1; echo "FAILED: a stranger was sent more than a greeting"; }
# silent ones are heard out for 3 s each, and who comes behind them tries again
on 3 timeout 20 bash -c 'exec 3<>/dev/tcp/10.99.0.2/29502 4<>/dev/tcp/10.99.0.2/29502 && echo >&2; exec sleep 20' 2>"$folder/silent" &
until [ -s "$folder/silent" ]; do sleep 0.1; done
on 3 timeout 60 "$DTRAIN_BIN" launch --nnodes 2 --node-rank 1 --nproc-per-node 2 --master 10.99.0.2:29502 \
    --token-file "$folder/token" >"$folder/log1" 2>&1 </dev/null || { bad=1; echo "FAILED: the right token"; cat "$folder/log1"; }
wait "$job" || { bad=1; echo "FAILED: the run behind strangers"; cat "$folder/log0"; }
[ "$(grep -c "does not have the token: refused" "$folder/log0")" = 2 ] && [ "$(grep -c "is silent: left" "$folder/log0")" = 2 ] || { bad=1; echo "FAILED: not told"; cat "$folder/log0"; }
[ "$(hashes "$folder/guarded")" = "$want" ] || { bad=1; echo "FAILED: other hashes behind strangers"; }

wrong() { # WHAT FILE...: with the last lines of each
    bad=1
    echo "FAILED: $1"
    shift
    tail -n 8 "$@"
}
# a launch that is killed, on either host, leaves no rank behind on any
master=10.99.0.2:29510
start() { # K ARGS...: the launch of host K of $nodes, in the background; pid[K] is its process
    local k=$1
    shift
    on $((k + 2)) timeout -k 2 120 "$DTRAIN_BIN" launch --nnodes "$nodes" --node-rank "$k" --nproc-per-node 1 \
        --master $master --token-file "$folder/token" --interface 10.99.0.0/24 "$@" >"$folder/log$k" 2>&1 </dev/null &
    job[k]=$!
    pid[k]=""
    soon 10 launched_on "$k" || wrong "no launch on host $k" "$folder/log$k"
}
launched_on() {
    local p
    for p in $(ip netns pids "dt$(($1 + 2))"); do
        [ "$(cat "/proc/$p/comm" 2>/dev/null)" = dtrain ] && grep -qz '^--node-rank$' "/proc/$p/cmdline" && pid[$1]=$p && return
    done
    return 1
}
soon() { # SECONDS COMMAND...: it succeeds within this time
    local tick ticks=$((10 * $1))
    shift
    for ((tick = 0; tick < ticks; tick++)); do
        "$@" && return
        sleep 0.1
    done
    return 1
}
said() { grep -q -- "$2" "$folder/log$1"; } # K TEXT
met() { on $(($1 + 2)) ss -Htno state established | grep -q "29510.*keepalive"; } # K: set behind the handshake
deserted() { [ -z "$(ip netns pids dt2)$(ip netns pids dt3)" ]; }
nodes=2
for k in 0 1; do
    start 1
    start 0 "${run[@]}" --max-steps 1000000 --epochs 1000000 --out "$folder/killed$k"
    soon 30 said 0 "^epoch 2/" || wrong "no run to be killed" "$folder/log0"
    socket=$(for p in $(ip netns pids dt2); do tr '\0' '\n' <"/proc/$p/environ" | sed -n 's/^LAUNCH_AGENT_SOCKET=//p'; done | head -n 1)
    kill -9 "${pid[k]}"
    soon 15 deserted || wrong "kill -9 of host $k's launch leaves ranks" "$folder"/log?
    wait "${job[0]}" "${job[1]}"
    for p in $(ip netns pids dt2) $(ip netns pids dt3); do kill -9 "$p"; done
    [ -z "$socket" ] || rm -rf "${socket%/*}" # nobody is left who would
done
said 0 "host 1, 10.99.0.3, is gone" || wrong "host 0 does not say who is gone" "$folder/log0"

# a signal to all that has one terminal with host 1's launch comes to the run once, by mpirun
start 1
start 0 "${run[@]}" --max-steps 1000000 --epochs 1000000 --out "$folder/asked"
soon 30 said 0 "^epoch 2/" || wrong "no run to be asked" "$folder/log0"
kill -USR1 -- "-$(ps -o pgid= -p "${pid[1]}" | tr -d ' ')"
wait "${job[0]}"
code=$?
[ $code = 75 ] || wrong "USR1 to the group of host 1's launch ends the run with $code" "$folder"/log?
wait "${job[1]}"

# a host that leaves while others are awaited has left its place to whoever comes next
nodes=3
start 0 "${run[@]}" --out "$folder/left"
freed() { [ "$(grep -c "host 1, 10.99.0.3, has left.* its place is free" "$folder/log0")" = "$1" ]; }
for signal in KILL INT; do
    start 1
    soon 10 met 1 || wrong "host 1 does not meet host 0" "$folder"/log?
    kill -$signal "${pid[1]}"
    wait "${job[1]}"
    ended[${#ended[@]}]=$?
    soon 10 freed ${#ended[@]} || wrong "a place is not free after SIG$signal" "$folder"/log?
done
said 1 "stopped before all hosts had come" || wrong "host 1 does not say that it was stopped" "$folder/log1"
[ "${ended[*]}" = "137 75" ] || wrong "hosts that leave end with ${ended[*]}"
start 1
# a second host of this number, and one of another run: both are told why, and host 0 waits on
soon 10 met 1
refused() { # TEXT ARGS...: host 2 with these
    local text=$1
    shift
    on 4 timeout -k 2 20 "$DTRAIN_BIN" launch "$@" --nproc-per-node 1 --master $master --token-file "$folder/token" \
        >"$folder/log2" 2>&1 </dev/null
    [ $? = 71 ] && said 2 "refuses this one: $text" || wrong "a refused host does not say '$text'" "$folder/log2"
    said 0 "10.99.0.4 says .*: refused: $text" || wrong "host 0 does not say '$text'" "$folder/log0"
}
on 2 timeout -k 2 20 "$DTRAIN_BIN" launch --nnodes 3 --node-rank 2 --master $master --token-file "$folder/token" >"$folder/log2" 2>&1 </dev/null
[ $? = 71 ] && said 2 "host 0 has its address, 10.99.0.2: start a host once" || wrong "two hosts of one address" "$folder/log2"
refused "host 1 is already there, from 10.99.0.3" --nnodes 3 --node-rank 1
refused "this run has 3 hosts, not 4" --nnodes 4 --node-rank 3
DTRAIN_LR=0.5 DTRAIN_CONFIG=/nope start 2 # what host 0 says of the training holds
wait "${job[0]}" && wait "${job[1]}" && wait "${job[2]}" || wrong "a host that comes again" "$folder"/log?
[ "$(hashes "$folder/left")" = "$want" ] || wrong "other hashes with a host that comes again" "$folder"/log?
# who is told to stop before all have come: the others, too
start 0 "${run[@]}" --out "$folder/stopped"
start 1
soon 10 met 1 || wrong "host 1 does not meet host 0" "$folder"/log?
kill -USR1 "${pid[0]}"
for k in 0 1; do
    wait "${job[k]}"
    [ $? = 75 ] && said $k "before all hosts had come" || wrong "host $k is not stopped" "$folder/log$k"
done
[ -z "$(ls -d /tmp/dtrain-?????? 2>/dev/null | grep -vxFf "$folder/before")" ] || { bad=1; echo "FAILED: a socket's folder is left"; }
exit $bad
