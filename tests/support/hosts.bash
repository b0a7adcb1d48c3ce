# hosts.bash - hosts for tests: network namespaces with addresses and names of their own, and mpirun
# that starts ranks in them.
. "$DTRAIN_SOURCE/tests/support/runs.bash" || exit 1

# hosts_enter SCRIPT [inside]: the script once more, in namespaces of its own that end with it
hosts_enter() {
    [ "${2:-}" != inside ] || return 0
    only_openmpi "hosts that are namespaces" || exit 99
    command -v ip >/dev/null || { echo "no ip: install iproute2"; exit 1; }
    unshare -nm true 2>/dev/null || { echo "SKIPPED: no rights to make network namespaces"; exit 99; }
    exec timeout -k 2 1800 unshare -nm --propagation private bash "$1" inside
}

# hosts_make K...: host nodeK at 10.99.0.K, its cable is dtvethK; on_hosts is mpirun's arguments
# for two ranks on each; $folder/envK is read where a host's daemon starts
hosts_make() {
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    mkdir -p /run/netns && mount -t tmpfs tmpfs /run/netns &&
        ip link set lo up && ip link add dtbridge type bridge &&
        ip addr add 10.99.0.1/24 dev dtbridge && ip link set dtbridge up || return 1
    local k list=""
    for k in "$@"; do
        ip netns add "dt$k" && ip link add "dtveth$k" type veth peer name eth0 netns "dt$k" &&
            ip link set "dtveth$k" master dtbridge up &&
            ip -n "dt$k" addr add "10.99.0.$k/24" dev eth0 &&
            ip -n "dt$k" link set eth0 up && ip -n "dt$k" link set lo up || return 1
        list=$list,10.99.0.$k:2
    done
    on_hosts=(--host "${list#,}" -np $((2 * $#)))
    cat >"$folder/agent" <<'END'
#!/bin/sh
h=$1; shift
k=${h##*.}
[ ! -e "${0%/*}/env$k" ] || . "${0%/*}/env$k" # what is otherwise on this host
exec ip netns exec "dt$k" unshare -u sh -c "hostname node$k; exec sh -c '$*'"
END
    chmod +x "$folder/agent"
    # Ranks go where the environment of scripts/setup.sh sends them. Open MPI 4's names, then 5's.
    unset PRTE_MCA_rmaps_default_mapping_policy
    . "$DTRAIN_SOURCE/scripts/setup.sh"
    export OMPI_MCA_plm_rsh_agent=$folder/agent OMPI_MCA_oob_tcp_if_include=10.99.0.0/24
    export PRTE_MCA_plm_ssh_agent=$folder/agent PRTE_MCA_prte_if_include=10.99.0.0/24
    export OMPI_MCA_pml=ob1 OMPI_MCA_btl_tcp_if_include=10.99.0.0/24
}

# hosts_shape RATE K...: what those hosts send, and what is sent to them, as tc tbf takes a rate
hosts_shape() {
    local k rate=$1
    for k in "${@:2}"; do
        ip netns exec "dt$k" tc qdisc add dev eth0 root tbf rate "$rate" burst 512kb latency 200ms &&
            tc qdisc add dev "dtveth$k" root tbf rate "$rate" burst 512kb latency 200ms || return
    done
}

# hosts_unsaid: mpirun is no longer told how to reach the hosts of hosts_make: dtrain launch says it
hosts_unsaid() {
    unset OMPI_MCA_plm_rsh_agent PRTE_MCA_plm_ssh_agent OMPI_MCA_oob_tcp_if_include PRTE_MCA_prte_if_include \
        OMPI_MCA_btl_tcp_if_include
}

# hosts_drop MATCH: the bridge loses what matches, until nft flush ruleset; the cables stay up
hosts_drop() {
    nft "add table bridge f; add chain bridge f c { type filter hook forward priority 0; }; add rule bridge f c $1 drop"
}
