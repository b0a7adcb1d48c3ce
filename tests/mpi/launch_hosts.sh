#!/usr/bin/env bash
# The ways to start a run, on 1, 2 and 4 hosts that are namespaces: mpirun, and dtrain launch with a
# list, a file and a rank table. All end with one pair of hashes.
set -u
if [ "${1:-}" != inside ]; then
    command -v ip >/dev/null || { echo "no ip: install iproute2"; exit 1; }
    unshare -nm true 2>/dev/null || { echo "SKIPPED: no rights to make network namespaces"; exit 99; }
    exec timeout -k 2 280 unshare -nm --propagation private bash "$0" inside
fi
. "$DTRAIN_SOURCE/tests/support/hosts.bash" || exit 1
hosts_make 2 3 4 5 || { echo "SKIPPED: no bridge between network namespaces"; exit 99; }

bad=0
run=(--data synthetic:64 --net vgg11 --width-divisor 16 --global-batch 32 --shards 8 --precision fp32
     --threads 1 --max-steps 3)
hashes() { tail -n 1 "$1/metrics.jsonl" 2>/dev/null | grep -oE '"(weights|state)_hash":"[0-9a-f]{32}"'; }
"$DTRAIN_BIN" "${run[@]}" --out "$folder/alone" >"$folder/log" 2>&1
want=$(hashes "$folder/alone")
[ -n "$want" ] || { cat "$folder/log"; exit 1; }

way=0
same() { # NAME COMMAND...
    local name=$1
    shift
    way=$((way + 1))
    timeout -k 2 60 "$@" "${run[@]}" --out "$folder/$way" >"$folder/log" 2>&1 </dev/null
    [ "$(hashes "$folder/$way")" = "$want" ] && return
    bad=1
    echo "FAILED: $name: exit code $?, other hashes or none"
    sed 's/^/  | /' "$folder/log" | tail -n 20
}
own=(--agent "$folder/agent" --interface 10.99.0.0/24)
same "mpirun on 4 hosts" mpirun "${on_hosts[@]}" "$DTRAIN_BIN"
unset OMPI_MCA_plm_rsh_agent PRTE_MCA_plm_ssh_agent OMPI_MCA_oob_tcp_if_include \
    PRTE_MCA_prte_if_include OMPI_MCA_btl_tcp_if_include # launch says them
launched() { same "$1 $2" "$DTRAIN_BIN" launch "${own[@]}" "$1" "$2"; }
launched --hosts 10.99.0.2:2
launched --hosts 10.99.0.2:2,10.99.0.3:2
launched --hosts 10.99.0.2:2,10.99.0.3:2,10.99.0.4:2,10.99.0.5:2
printf '%s slots=2\n' 10.99.0.2 10.99.0.3 >"$folder/hosts"
launched --hostfile "$folder/hosts"
"$DTRAIN_BIN" ranktable --hosts 10.99.0.2,10.99.0.3,10.99.0.4,10.99.0.5 --nproc-per-node 2 >"$folder/table.json"
launched --rank-table "$folder/table.json"
grep -q "8 ranks x 1 thread on 4 nodes" "$folder/log" || { bad=1; echo "FAILED: not on 4 hosts"; cat "$folder/log"; }
exit $bad
