# Sourced by quickstart, runtests and other scripts, and by a user's bash: packages, build, and the
# environment of Open MPI on small machines. Not a program of its own.

[[ $- = *i* ]] || export LC_ALL=C # numbers have a point, in awk, printf and sort, whatever the user's language has

# How packages are asked for, how their lists are fetched, where nothing does that by itself, and
# how packages are installed: the first manager that is here. What these columns name beside apt's is
# untried (docs/platforms.md).
DT_MANAGERS='
apt|dpkg-query -W -f=${Status}|apt-get update -qq|apt-get install -y -qq --no-install-recommends
dnf|rpm -q --whatprovides --qf=ok||dnf install -y -q --setopt=install_weak_deps=False
zypper|rpm -q --whatprovides --qf=ok||zypper -n -q install --no-recommends
pacman|pacman -Qi||pacman -S -q --needed --noconfirm'

# Packages by manager. "build": the program; "engine": what it can do without; "openmpi", "mpich": the MPI, which DT_MPI names; "deb":
# packaging/deb; "test": the suite. "=": as for apt; "-": none, or it comes with another; commas
# join several. Debian 11, 12 and 13 and Ubuntu have the same. What only apt's ask for comes with
# them: perl and ssh with Open MPI, procps with cmake.
DT_PACKAGES='
what    apt                         dnf                  zypper                 pacman
build   gcc                         =                    =                      =
build   libc6-dev                   glibc-devel          glibc-devel            -
build   cmake                       =                    =                      =
build   ninja-build                 =                    ninja                  ninja
build   pkg-config                  pkgconf-pkg-config   =                      pkgconf
build   libstb-dev                  stb_image-devel      stb-devel              stb
build   libyaml-dev                 libyaml-devel        libyaml-devel          libyaml
build   libjansson-dev              jansson-devel        libjansson-devel       jansson
build   libxxhash-dev               xxhash-devel         xxhash-devel           xxhash
build   libhwloc-dev                hwloc-devel          hwloc-devel            hwloc
build   libssl-dev                  openssl-devel        libopenssl-devel       openssl
engine  libopenblas-dev             openblas-devel       libopenblas_pthreads-devel,openblas-common-devel  openblas
engine  libdnnl-dev                 onednn-devel         onednn-devel           onednn
openmpi openmpi-bin,libopenmpi-dev  openmpi-devel        openmpi4-devel         openmpi
mpich   mpich,libmpich-dev          mpich-devel          mpich-devel            mpich
deb     dpkg-dev,file,git           -                    -                      -
test    abigail-tools               libabigail           libabigail-tools       -
test    environment-modules         =                    =                      -
test    g++                         gcc-c++              gcc-c++                -
test    groff-base                  =                    groff                  groff
test    zsh                         =                    =                      =
test    libcmocka-dev               libcmocka-devel      libcmocka-devel        cmocka
test    git                         =                    =                      =
test    gnuplot-nox                 gnuplot-minimal      gnuplot                gnuplot
test    iproute2                    iproute              =                      =
test    nftables                    =                    =                      =
test    procps                      procps-ng            =                      procps-ng
test    perl                        =                    =                      =
test    python3                     =                    =                      python
test    slurmctld                   slurm-slurmctld      slurm                  -
test    slurmd                      slurm-slurmd         slurm-node             -
test    slurm-client                slurm                -                      -
test    munge                       =                    =                      -'

# The row of the manager that is here; where there is none, names are apt's.
while IFS='|' read -r dt_manager dt_ask dt_fetch dt_add; do
    [ -z "$dt_add" ] || ! command -v "${dt_add%% *}" >/dev/null || break
done <<<"$DT_MANAGERS"
[ -n "$dt_manager" ] || dt_manager=apt dt_ask=false

# dt_packages WHAT...: their names here
dt_packages() {
    local what apt dnf zypper pacman name
    # shellcheck disable=SC2034
    while read -r what apt dnf zypper pacman; do
        [[ " $* " = *" ${what:-none} "* ]] || continue
        name=${!dt_manager}
        [ "$name" != = ] || name=$apt
        [ "$name" = - ] || printf '%s ' "${name//,/ }"
    done <<<"$DT_PACKAGES"
}
DT_MPI=${DT_MPI:-openmpi}
[[ $DT_MPI = @(openmpi|mpich) ]] || { echo "DT_MPI=$DT_MPI: openmpi or mpich" >&2 && return 64; }
DT_BUILD_PACKAGES=$(dt_packages build engine "$DT_MPI")
DT_DEB_PACKAGES=$(dt_packages deb)
DT_TEST_PACKAGES=$(dt_packages test)

# Fedora and SUSE have each MPI in a folder of its own, which their modules put into PATH.
dt_mpi_path() {
    local folder
    command -v mpirun >/dev/null || for folder in /usr/lib64/{,mpi/gcc/}"$DT_MPI"*/bin; do
        [ ! -x "$folder/mpirun" ] || PATH+=:$folder
    done
}
dt_mpi_path

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
        $dt_ask "$p" 2>/dev/null | grep -qE 'ok installed|^ok|^Name' || printf '%s ' "$p"
    done
}

# dt_install MODE PACKAGES...: MODE "install", or "list": only say what is missing, and end
# with 71 where anything is.
dt_install() {
    local mode=$1 missing root=""
    shift
    [ -n "$dt_add" ] || {
        echo "no apt, dnf, zypper or pacman here: install what corresponds to these packages of Debian: $*" >&2
        return 0
    }
    missing=$(dt_missing "$@")
    [ -n "$missing" ] || { echo "packages: all there"; return 0; }
    echo "packages missing: $missing"
    [ "$mode" = install ] || return 71
    [ "$(id -u)" = 0 ] || root=sudo
    [ -z "$root" ] || command -v sudo >/dev/null || {
        echo "you are not root, and there is no sudo: an administrator has to run" >&2
        echo "  ${dt_fetch:+$dt_fetch && }$dt_add $missing" >&2
        return 71
    }
    [ -z "$dt_fetch" ] || $root $dt_fetch || echo "$dt_fetch failed: trying with the lists at hand" >&2
    # shellcheck disable=SC2086
    $root env DEBIAN_FRONTEND=noninteractive $dt_add $missing >/dev/null || {
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
    dt_mpi_path # of packages that came only now
    dt_mpi_first
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

# dt_mpi_first: where both MPIs are installed, the programs of DT_MPI's come first in PATH, for CMake
# too, which forgets what it has found of the other
dt_mpi_first() {
    local at name cache
    command -v mpirun.openmpi >/dev/null && command -v mpirun.mpich >/dev/null || return 0
    at=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")/build
    for cache in "$at"/*/CMakeCache.txt; do
        grep -qs "^MPI_C_COMPILER:.*=$at/mpi-$DT_MPI/mpicc$" "$cache" || rm -f "$cache"
    done
    at+=/mpi-$DT_MPI
    mkdir -p "$at"
    for name in mpirun mpiexec mpicc; do ln -sfn "$(command -v "$name.$DT_MPI")" "$at/$name"; done
    ln -sfn "$(command -v hydra_pmi_proxy)" "$at/hydra_pmi_proxy" # sought beside mpirun
    [[ :$PATH: = *:$at:* ]] || PATH=$at:$PATH
}
