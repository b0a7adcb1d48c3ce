#!/usr/bin/env bash
# Two nodes that are real to MPI: network namespaces with host names and addresses of their
# own, two ranks on each, which share memory inside a node and send over TCP between them.
# All of it lives in namespaces of this script and ends with them. Skipped where the machine
# does not allow that.
set -u
if [ "${1:-}" != inside ]; then
    command -v ip >/dev/null || { echo "no ip: install iproute2"; exit 1; }
    unshare -nm true 2>/dev/null || { echo "SKIPPED: no rights to make network namespaces"; exit 99; }
    exec timeout -k 2 100 unshare -nm --propagation private bash "$0" inside
fi

setup() {
    mkdir -p /run/netns && mount -t tmpfs tmpfs /run/netns &&
        ip link set lo up && ip link add dtbridge type bridge &&
        ip addr add 10.99.0.1/24 dev dtbridge && ip link set dtbridge up || return 1
    local k
    for k in 2 3; do
        ip netns add "dt$k" && ip link add "dtveth$k" type veth peer name eth0 netns "dt$k" &&
            ip link set "dtveth$k" master dtbridge up &&
            ip -n "dt$k" addr add "10.99.0.$k/24" dev eth0 &&
            ip -n "dt$k" link set eth0 up && ip -n "dt$k" link set lo up || return 1
    done
}
setup || { echo "SKIPPED: no bridge between network namespaces"; exit 99; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
agent=$folder/agent
cat >"$agent" <<'END'
#!/bin/sh
h=$1; shift
exec ip netns exec "dt${h##*.}" unshare -u sh -c "hostname node${h##*.}; exec sh -c '$*'"
END
chmod +x "$agent"
# Ranks go where the environment of scripts/setup.sh sends them. Open MPI 4's names, then 5's.
unset PRTE_MCA_rmaps_default_mapping_policy
. "$DTRAIN_SOURCE/scripts/setup.sh"
export OMPI_MCA_plm_rsh_agent=$agent OMPI_MCA_oob_tcp_if_include=10.99.0.0/24
export PRTE_MCA_plm_ssh_agent=$agent PRTE_MCA_prte_if_include=10.99.0.0/24
export OMPI_MCA_pml=ob1 OMPI_MCA_btl_tcp_if_include=10.99.0.0/24
timeout -k 2 80 mpirun --host 10.99.0.2:2,10.99.0.3:2 -np 4 "$DTRAIN_BUILD_DIR/mpi_exchange" nodes
