# Sourced by quickstart, runtests and other scripts: packages, build, and the environment of
# Open MPI on small machines. Not a program of its own.

export LC_ALL=C # numbers have a point, in awk, printf and sort, whatever the user's language has

# Debian's and Ubuntu's names, the same in Debian 12 and 13. What only these ask for comes with
# them: perl and ssh with Open MPI, procps with cmake.
DT_BUILD_PACKAGES="gcc libc6-dev cmake ninja-build pkg-config openmpi-bin libopenmpi-dev libstb-dev libyaml-dev libjansson-dev libxxhash-dev libhwloc-dev libssl-dev libopenblas-dev libdnnl-dev"
DT_DEB_PACKAGES="dpkg-dev file git" # what packaging/deb needs beside them
DT_TEST_PACKAGES="abigail-tools environment-modules g++ groff-base zsh libcmocka-dev git gnuplot-nox iproute2 nftables procps perl python3 slurmctld slurmd slurm-client munge"

# Open MPI refuses root, and more ranks than cores; containers have both. Two launchers, two
# sets of names: orterun of Open MPI 4 reads OMPI_MCA, prterun of Open MPI 5 reads PRTE_MCA.
# Without "slot" the latter would put all ranks on the first of several nodes.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1
# Open MPI 4 binds one or two ranks to a core each, where others may be at work. Under Slurm, and
# with DT_SITE_BINDS set, the site's own binding stays.
if [ -z "${SLURM_JOB_ID:-}${DT_SITE_BINDS:-}" ]; then
    export OMPI_MCA_hwloc_base_binding_policy="${OMPI_MCA_hwloc_base_binding_policy:-none}"
    export PRTE_MCA_hwloc_default_binding_policy="${PRTE_MCA_hwloc_default_binding_policy:-none}"
fi
export HOME="${HOME:-/}" # Open MPI 5 does not start without
export PRTE_MCA_rmaps_default_mapping_policy="${PRTE_MCA_rmaps_default_mapping_policy:-slot:oversubscribe}"
# A host that is gone is missed after 5 + 3 x 2 s, not after minutes. Open MPI 4's daemons, and 5's.
export OMPI_MCA_oob_tcp_keepalive_time=5 OMPI_MCA_oob_tcp_keepalive_intvl=2 OMPI_MCA_oob_tcp_keepalive_probes=3
export PRTE_MCA_oob_tcp_keepalive_time=5 PRTE_MCA_oob_tcp_keepalive_intvl=2 PRTE_MCA_oob_tcp_keepalive_probes=3
# An interface with both kinds of addresses pairs with none in Open MPI 5; 4: IPv6 alone.
export OMPI_MCA_btl_tcp_disable_family="${OMPI_MCA_btl_tcp_disable_family:-6}"

# dt_missing PACKAGES...: those that are not installed
dt_missing() {
    local p
    for p in "$@"; do
        dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || printf '%s ' "$p"
    done
}

# dt_install MODE PACKAGES...: MODE "install", or "list": only say what is missing, and end
# with 71 where anything is.
dt_install() {
    local mode=$1 missing root=""
    shift
    command -v dpkg-query >/dev/null || {
        echo "no dpkg here: install what corresponds to these packages of Debian: $*" >&2
        return 0
    }
    missing=$(dt_missing "$@")
    [ -n "$missing" ] || { echo "packages: all there"; return 0; }
    echo "packages missing: $missing"
    [ "$mode" = install ] || return 71
    [ "$(id -u)" = 0 ] || root=sudo
    [ -z "$root" ] || command -v sudo >/dev/null || {
        echo "you are not root, and there is no sudo: an administrator has to run" >&2
        echo "  apt-get update && apt-get install -y --no-install-recommends $missing" >&2
        return 71
    }
    $root apt-get update -qq || echo "apt-get update failed: trying with the lists at hand" >&2
    # shellcheck disable=SC2086
    $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null || {
        echo "could not install: $missing" >&2
        return 71
    }
}

# dt_count LOG: its input into LOG; on a terminal, how far ninja is
dt_count() {
    if [ -t 1 ]; then
        tee "$1" | sed -unE 's/^(\[[0-9]+\/[0-9]+\]).*/\1/p' | tr '\n' '\r'
    else
        cat >"$1"
    fi
}

# dt_settings PRESET: what CMakePresets.json sets in it, for any CMake: those before 3.21 do not
# read the file. A preset begins with its name.
dt_settings() {
    awk -v preset="$1" '
        /"configurePresets"/ { presets = 1 }
        /"buildPresets"/ { presets = 0 }
        match($0, /"name": "[a-z]+"/) { name = substr($0, RSTART + 9, RLENGTH - 10) }
        presets && (name == preset || name == "base") {
            while (match($0, /"[A-Z_]+": "[A-Za-z]+"/)) {
                split(substr($0, RSTART, RLENGTH), word, "\"")
                print "-D" word[2] "=" word[4]
                $0 = substr($0, RSTART + RLENGTH)
            }
        }' CMakePresets.json
}

# dt_build PRESET [program]: configure and build, quiet unless it fails; "program": without
# the tests, and without what they need.
dt_build() {
    local log tests=ON
    [ "${2:-}" != program ] || tests=OFF
    log=$(mktemp)
    echo "building preset $1 ..."
    # shellcheck disable=SC2046
    if ! { cmake -S . -B "build/$1" -G Ninja $(dt_settings "$1") -D BUILD_TESTING=$tests &&
        cmake --build "build/$1"; } 2>&1 | dt_count "$log"; then
        tail -n 40 "$log" >&2
        rm -f "$log"
        echo "the build of preset '$1' failed" >&2
        return 70
    fi
    rm -f "$log"
}
