#!/usr/bin/env bash
# scripts/setup.sh on systems that are not here: their package managers are stand-ins, which note what
# they are called with. And its builds, without presets, have the presets' settings.
set -u
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
bad=0
wrong() {
    printf '%s\n' "$*"
    bad=1
}

mkdir "$tmp/tools"
for name in bash id env grep dirname mktemp; do
    ln -s "$(command -v "$name")" "$tmp/tools/"
done
# standin FOLDER NAME TEXT: a program of this text there
standin() {
    mkdir -p "$tmp/$1"
    printf '#!%s\n%s\n' "$(command -v bash)" "$3" >"$tmp/$1/$2"
    chmod +x "$tmp/$1/$2"
}
# What is there: cmake. Others are installed, but where $refuse says so.
there='[ "${!#}" != cmake ]'
for manager in dnf zypper; do
    standin "$manager" rpm "$there"' && { echo "no package provides ${!#}"; exit 1; }; printf ok'
done
standin pacman pacman 'if [ "$1" = -Qi ]; then
    '"$there"' && { echo "error: package ${!#} was not found" >&2; exit 1; }; echo "Name : ${!#}"; exit
fi'
standin apt dpkg-query "$there"' && exit 1; printf "install ok installed"'
for manager in apt-get:apt dnf:dnf zypper:zypper pacman:pacman; do
    file=$tmp/${manager#*:}/${manager%:*}
    [ -e "$file" ] || standin "${manager#*:}" "${manager%:*}" ""
    printf '%s\n' 'echo "${0##*/} $*" >>"$CALLS"; exit ${refuse:-0}' >>"$file"
done
standin none true ""
# as MANAGER COMMANDS...: with setup.sh, where that manager alone is
as() {
    local folder=$1
    shift
    : >"$tmp/calls"
    CALLS=$tmp/calls PATH=$tmp/$folder:$tmp/tools bash -c '. "$1" && eval "$2"' - "$DTRAIN_SOURCE/scripts/setup.sh" "$*" >"$tmp/said" 2>&1
}

# Each: what it installs of what CMakeLists.txt asks for, and how.
declare -A want=(
    [apt]="apt-get update -qq
apt-get install -y -qq --no-install-recommends libstb-dev openmpi-bin libopenmpi-dev"
    [dnf]="dnf install -y -q --setopt=install_weak_deps=False stb_image-devel openmpi-devel"
    [zypper]="zypper -n -q install --no-recommends stb-devel openmpi4-devel"
    [pacman]="pacman -S -q --needed --noconfirm stb openmpi"
)
for manager in "${!want[@]}"; do
    # shellcheck disable=SC2016
    few='set -- $DT_BUILD_PACKAGES; for p; do case $p in cmake | *stb* | *mpi*) some+=" $p" ;; esac; done'
    as "$manager" "$few"'; dt_install install $some' || wrong "$manager: $(cat "$tmp/said")"
    [ "$(cat "$tmp/calls")" = "${want[$manager]}" ] || wrong "$manager: $(cat "$tmp/calls" "$tmp/said")"
    as "$manager" 'dt_install list $DT_BUILD_PACKAGES'
    [ $? = 71 ] || wrong "$manager, list: not 71"
    grep -q '^packages missing: gcc ' "$tmp/said" || wrong "$manager, list: $(cat "$tmp/said")"
    [ ! -s "$tmp/calls" ] || wrong "$manager, list: $(cat "$tmp/calls")"
    refuse=1 as "$manager" 'dt_install install gcc cmake'
    [ $? = 71 ] || wrong "$manager, refused: not 71"
    grep -q '^could not install: gcc $' "$tmp/said" || wrong "$manager, refused: $(cat "$tmp/said")"
    as "$manager" 'dt_install list cmake' || wrong "$manager: cmake is there"
    DT_MPI=mpich as "$manager" 'echo "$DT_BUILD_PACKAGES"'
    grep -q 'mpich' "$tmp/said" && ! grep -q openmpi "$tmp/said" || wrong "$manager, mpich: $(cat "$tmp/said")"
    # Not root, and no sudo: what an administrator has to run.
    as "$manager" 'id() { echo 1000; }; dt_install install gcc'
    [ $? = 71 ] || wrong "$manager, no root: not 71"
    [ "$(tail -n 1 "$tmp/said" | tr -d '\n' | sed 's/.* //')" = "" ] || wrong "$manager, no root: $(cat "$tmp/said")"
done
as none 'dt_install install $DT_BUILD_PACKAGES' || wrong "none: $(cat "$tmp/said")"
grep -q 'these packages of Debian: gcc libc6-dev' "$tmp/said" || wrong "none: $(cat "$tmp/said")"

# quickstart goes on without engines, up to the build, whose tools are not here; and a build looks for the
# MPI of packages that came only now.
standin few dnf ""
standin few rpm '[[ ${!#} != *blas* ]] && printf ok'
(cd "$DTRAIN_SOURCE" && PATH=$tmp/few:$tmp/tools bash ./quickstart --no-install >"$tmp/said" 2>&1)
[ $? != 71 ] && grep -q '^building' "$tmp/said" || wrong "quickstart without OpenBLAS: $(cat "$tmp/said")"
as none 'dt_mpi_path() { echo again; }; dt_build release'
grep -q '^again' "$tmp/said" || wrong "dt_build does not look for MPI"

# A user's -ffast-math changes nothing, in objects and in what is linked with them.
cc=$(sed -n 's/^set(CMAKE_C_COMPILER "\(.*\)")/\1/p' "$DTRAIN_BUILD_DIR"/CMakeFiles/*/CMakeCCompiler.cmake)
words() { sed -n "s/^  $1 = //p" "$DTRAIN_BUILD_DIR/build.ninja" | grep -m 1 -- -fno-fast-math; }
if [ -e "$DTRAIN_BUILD_DIR/build.ninja" ]; then
    "$cc" -ffast-math $(words FLAGS) -dM -E -x c /dev/null | grep -q '__FINITE_MATH_ONLY__ 0' || wrong "-ffast-math stays"
    "$cc" -ffast-math $(words LINK_FLAGS) '-###' /dev/null 2>&1 | grep crtfastmath && wrong "-ffast-math is linked"
else
    echo "SKIPPED: flags: built by another tool than Ninja"
fi

# Every row of the table has a name for each manager.
. "$DTRAIN_SOURCE/scripts/setup.sh"
while read -r line; do
    [ "$(wc -w <<<"$line")" = 5 ] || [ -z "$line" ] || wrong "a row of DT_PACKAGES: $line"
done <<<"$DT_PACKAGES"

cd "$DTRAIN_SOURCE" || exit 1
if cmake -N --list-presets >"$tmp/presets" 2>&1 && grep -q '"release"' "$tmp/presets"; then
    for preset in release dev asan cov; do
        diff <(cmake -N --preset $preset | sed -n '/environment/q; s/^  \([A-Z_]*\)="\(.*\)"$/-D\1=\2/p' | sort) \
            <(dt_settings $preset | sort) || wrong "preset $preset: other settings"
    done
else
    echo "SKIPPED: presets: this CMake has none"
fi
exit $bad
