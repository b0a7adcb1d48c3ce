# Sourced by fresh-machine and foreign-machine: bare roots of Debian, kept once they are made, and
# commands in copies of them. Not a program of its own.

roots=${TMPDIR:-/tmp}/dtrain-roots
keep=no

die() { # TEXT
    echo "$(basename "$0"): $1" >&2
    exit 71
}

# roots_need OPTION OF UNSHARE...: or ends with what is missing
roots_need() {
    [ "$(id -u)" = 0 ] || die "only root can make a root file system and enter it: use sudo"
    unshare --mount --pid --fork "$@" true 2>/dev/null || die "this machine allows no namespaces ($*; CAP_SYS_ADMIN): in a container, start it with more rights"
    command -v debootstrap >/dev/null || dt_install install debootstrap >&2 || die "debootstrap is not installed: apt install debootstrap"
    mkdir -p "$roots"
}

# root_bare SUITE FOLDER: a bare root
root_bare() {
    local suite=$1 part=$2 mirror=${DEBIAN_MIRROR:-} certificates=/etc/ssl/certs/ca-certificates.crt
    [ -n "$mirror" ] || mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
        'Origin: Debian' 'Label: Debian' 2>/dev/null | head -n 1)
    [ -n "$mirror" ] || die "apt knows no mirror of Debian here: apt-get update, or set DEBIAN_MIRROR to its URL"
    debootstrap --variant=minbase "$suite" "$part" "$mirror" >"$roots/$suite.log" 2>&1 || {
        tail -n 20 "$roots/$suite.log" >&2
        die "debootstrap could not make '$suite'; the log is $roots/$suite.log"
    }
    echo "deb $mirror $suite main" >"$part/etc/apt/sources.list"
    # How apt gets out of here: proxies, and whom it trusts.
    apt-config dump | grep -iE '^Acquire::https?::' >"$part/etc/apt/apt.conf.d/90network" || true
    if [ "${mirror#https:}" != "$mirror" ] && [ -e "$certificates" ]; then
        install -D -m 644 "$certificates" "$part$certificates"
    fi
    cp -L /etc/resolv.conf "$part/etc/resolv.conf" 2>/dev/null || true
}

# root_kept NAME COMMAND...: COMMAND FOLDER makes the root NAME, once, complete or not at all
root_kept() {
    local base=$roots/$1
    shift
    exec 9>"$base.lock"
    flock 9
    [ -d "$base" ] || {
        rm -rf --one-file-system "$base.part"
        echo "making the root ${base##*/} ..." >&2
        "$@" "$base.part" 9>&-
        mv "$base.part" "$base"
    }
    exec 9>&-
}

# root_copy NAME: sets $root, a copy with a clean clone of HEAD in /dtrain, which goes with this program
root_copy() {
    root=$(mktemp -d "$roots/run-$1-XXXXXX")
    trap root_leave EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    cp -a --reflink=auto "$roots/$1/." "$root/"
    # As any machine knows its own name: mpirun asks for it, and waits 5 s where only a distant
    # server could tell.
    printf '127.0.0.1 localhost %s\n' "$(hostname)" >"$root/etc/hosts"
    git clone -q --no-hardlinks . "$root/dtrain"
}
# Outside of the namespace nothing is mounted in it.
root_leave() {
    if [ $keep = yes ]; then
        echo "$(basename "$0"): kept $root" >&2
    else
        rm -rf --one-file-system "$root"
    fi
}

# root_enter ROOT COMMAND...: in its /dtrain, or / without one. Mounts live in a namespace of the command's
# own, and go with it. $foreign, if set, is a line of binfmt_misc; then the user's namespace is its own, too,
# so that the kernel of this machine stays as it is. $shared, if set, is the folder /shared.
root_enter() {
    local proxies=() own=()
    mapfile -t proxies < <(env | grep -iE '^(https?|no)_proxy=') # the way to the network
    [ -z "${foreign:-}" ] || own=(--user --map-root-user)
    # shellcheck disable=SC2016
    env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb \
        LANG=C.UTF-8 "${proxies[@]}" \
        unshare "${own[@]}" --mount --propagation private --pid --fork --kill-child bash -c '
            root=$1 foreign=$2 shared=$3 && shift 3
            mount --bind "$root" "$root" && cd "$root" &&
                mount -t proc proc proc && mount --rbind /dev dev && mount -t tmpfs tmpfs dev/shm &&
                mount --rbind /sys sys || exit 71 # with the control groups, which Slurm needs
            if [ "$foreign" ]; then
                mount -t binfmt_misc binfmt_misc proc/sys/fs/binfmt_misc &&
                    printf %s "$foreign" >proc/sys/fs/binfmt_misc/register || exit 71
            fi
            if [ "$shared" ]; then
                mkdir -p shared && mount --bind "$shared" shared || exit 71
            fi
            exec chroot . /bin/bash -c '\''cd /dtrain 2>/dev/null || cd / && exec "$@"'\'' - "$@"' \
        - "$1" "${foreign:-}" "${shared:-}" "${@:2}"
}
