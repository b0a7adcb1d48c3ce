#!/usr/bin/env bash
# The library that was built has the interface of packaging/dtrain-dist.abi, by abidiff; and abidiff
# finds each kind of change, in a library that is made of a changed copy of the source.
set -u
[ "$(uname -m)" = x86_64 ] || { echo "SKIPPED: the recorded interface is of x86-64"; exit 99; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$DTRAIN_SOURCE" || exit 1
bad=0
mpi=$(pkg-config --cflags ompi-c 2>/dev/null || pkg-config --cflags mpich)

# differs LIBRARY: what abidiff finds between the dump and it, and its exit code
differs() {
    abidiff --suppressions packaging/dtrain-dist.suppr packaging/dtrain-dist.abi "$1"
}
differs "$DTRAIN_BUILD_DIR/libdtrain-dist.so.1" >"$dir/log" || {
    cat "$dir/log"
    echo "the interface has changed: what was added goes into the dump by packaging/abi-dump"
    bad=1
}

# finds WORDS FILE SED: abidiff says WORDS, or nothing, of a library in which SED has changed FILE
finds() {
    rm -rf "$dir/src" "$dir/extra"
    cp -r src extra "$dir/"
    sed -i -E "$3" "$dir/$2"
    if [ -n "$3" ] && cmp -s "$2" "$dir/$2"; then
        echo "nothing to change in $2: $3"
        bad=1
    fi
    # Names of other folders stay open: of them abidiff wants to know nothing.
    # shellcheck disable=SC2086,SC2046
    cc -std=c11 -D_GNU_SOURCE -g -O1 -fPIC -fvisibility=hidden -fopenmp -shared -I"$dir/src" -I"$dir/extra" $mpi \
        -Wl,-soname,libdtrain-dist.so.1,--version-script=extra/lib/dist.map $(find "$dir/extra/lib" -name '*.c' ! -name check.c ! -name main.c) \
        -o "$dir/changed.so" || { bad=1; return; }
    differs "$dir/changed.so" >"$dir/log" 2>&1
    code=$?
    if [ -z "$1" ]; then [ "$code" = 0 ]; else [ "$code" != 0 ] && grep -qF -- "$1" "$dir/log"; fi && return
    echo "abidiff ends with $code after '$3', and does not say '$1' but:"
    cat "$dir/log"
    bad=1
}
finds '' extra/lib/dist.h ''
finds '' extra/lib/lib.h 's/^struct dtd_group \{/&\n    int more;/' # no program sees it
finds '' src/dist/dist.h 's/^typedef struct dt_comm \{/&\n    int more;/'
finds "'void* data' offset changed" extra/lib/dist.h 's/^    void \*data;/    int more;\n&/'
finds "'double more[2]'" extra/lib/dist.h 's/^    int threads; .*/&\n    double more[2];/'
finds "'dtd_op::DTD_MAX' from value" extra/lib/dist.h 's/DTD_MIN, DTD_MAX/DTD_MAX, DTD_MIN/'
finds "1 Removed" extra/lib/dist.h 's/^#define DTRAIN_DIST_H/&\n#define dtd_barrier dtd_other/'
exit $bad
