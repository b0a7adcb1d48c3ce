# Sourced by quickstart, runtests and scripts/asan: packages, build and the environment of
# Open MPI on small machines. Not a program of its own.

DT_PACKAGES="build-essential cmake ninja-build pkg-config git openmpi-bin libopenmpi-dev libdnnl-dev libopenblas-dev libstb-dev libyaml-dev libjansson-dev libxxhash-dev libhwloc-dev libssl-dev libcmocka-dev iproute2 curl ca-certificates perl"

# Open MPI refuses root, and more ranks than cores; containers have both.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1

dt_missing_packages() {
    local p
    for p in $DT_PACKAGES; do
        dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || printf '%s ' "$p"
    done
}

# dt_install MODE: MODE is "list" to only say what is missing.
dt_install() {
    command -v dpkg-query >/dev/null || {
        echo "no dpkg here: install the packages that match these Debian ones: $DT_PACKAGES" >&2
        return 0
    }
    local missing root=""
    missing=$(dt_missing_packages)
    [ -n "$missing" ] || { echo "packages: all there"; return 0; }
    echo "packages missing: $missing"
    [ "$1" = list ] && return 0
    [ "$(id -u)" = 0 ] || root=sudo
    $root apt-get update -qq || echo "apt-get update failed: trying with the lists at hand" >&2
    # shellcheck disable=SC2086
    $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null || {
        echo "could not install: $missing" >&2
        return 71
    }
}

# dt_build PRESET: configure and build, quiet unless it fails.
dt_build() {
    local log
    log=$(mktemp)
    echo "building preset $1 ..."
    if ! { cmake --preset "$1" && cmake --build --preset "$1"; } >"$log" 2>&1; then
        tail -n 40 "$log" >&2
        rm -f "$log"
        echo "the build of preset '$1' failed" >&2
        return 70
    fi
    rm -f "$log"
}
