#!/usr/bin/env bash
# Every header compiles alone, as C11 without extensions.
set -u
cd "$DTRAIN_SOURCE" || exit 1
bad=0
mpi=$(pkg-config --cflags-only-I ompi-c 2>/dev/null || true)
for h in $(find src extra -name '*.h'); do
    # shellcheck disable=SC2086
    if ! cc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -fsyntax-only -Isrc -Iextra $mpi -x c "$h" 2>/tmp/headers.$$; then
        echo "$h does not compile alone:"; cat /tmp/headers.$$; bad=1
    fi
done
rm -f /tmp/headers.$$
exit $bad
