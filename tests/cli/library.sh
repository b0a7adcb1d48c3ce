#!/usr/bin/env bash
# libdtrain-dist as another program meets it: installed, in a tree that was moved, found by pkg-config or
# CMake alone, from C and C++. The examples print one curve on any number of ranks; a rank that calls
# with other arguments, or stands still, is named.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
must cmake --install "$DTRAIN_BUILD_DIR" --prefix "$tmp/first" >"$tmp/log"
[ "$bad" = 0 ] || finish
mv "$tmp/first" "$tmp/prefix"
cd "$tmp" || exit 1
export PKG_CONFIG_PATH=$tmp/prefix/lib/pkgconfig
read -ra flags <<<"$(pkg-config --cflags --libs dtrain-dist)"
examples=$tmp/prefix/share/doc/dtrain/examples

# runs NP COMMAND...: succeeds on NP ranks; its output is in $tmp/stdout
runs() {
    gives 0 mpirun -np "$@"
}

# ---- What is installed: what dist.h declares, and nothing else ----
declared=$(grep -oE 'dtd_[a-z_]+\(' "$DTRAIN_SOURCE/extra/lib/dist.h" | tr -d '(' | sort -u)
exported=$(nm -D --defined-only prefix/lib/libdtrain-dist.so | sed -nE 's/.* [TDB] ([^@]*).*/\1/p' | sort -u)
equal "$declared" "$exported"
must cmp "$DTRAIN_SOURCE/extra/lib/dist.h" prefix/include/dtrain/dist.h
must test "$(readlink prefix/lib/libdtrain-dist.so)" = libdtrain-dist.so.1
must gzip -t prefix/share/man/man1/dtrain-dist-check.1.gz
runs 3 prefix/bin/dtrain-dist-check -b 8 -e 8K

# ---- The header, in the standards that it meets ----
echo '#include <dtrain/dist.h>' >header.c
strict=(-Wall -Wextra -Wpedantic -Werror -fsyntax-only)
must cc -std=c99 "${strict[@]}" header.c "${flags[@]}"
must c++ -std=c++98 -Wno-long-long -Wno-variadic-macros "${strict[@]}" -x c++ header.c "${flags[@]}"

# ---- The examples ----
for file in "$examples"/*.c; do
    must cc -Wall -Wextra -Werror "$file" -o "$(basename "$file" .c)" "${flags[@]}"
done
must c++ -Wall -Wextra -Werror "$examples/exact_sum.cpp" -o exact_sum "${flags[@]}"
for example in aiacc_seven_steps ddp_toy_model cs744_four_ways hybrid_parallel_net exact_sum; do
    runs 1 "./$example"
    cp stdout one
    runs 4 "./$example"
    must test -s one
    must cmp one stdout
    mv one "$example.out"
done
# falls FILE: the last loss is at most 0.8 of the first
falls() { awk '/loss/ { last = $NF; if (first == "") first = last } END { exit !(last < 0.8 * first) }' "$1"; }
for example in aiacc_seven_steps ddp_toy_model hybrid_parallel_net; do must falls "$example.out"; done
# The four ways have one curve: without its name each line is there four times.
must test "$(sed 's/^[a-z_]* //' cs744_four_ways.out | sort | uniq -c | awk '$1 != 4' | wc -l)" = 0
runs 3 ./exact_sum
must cmp exact_sum.out stdout
runs 8 ./tf_adapter
must grep -qx 'sum 8.0, mean 1.0, max 7.0, min 0.0, prod 40320.0' stdout
must grep -qx 'sum in the group of every second rank: 4.0' stdout
must grep -qx 'broadcast: weights 0.0 1.0 2.0, step 100' stdout
# A checkpoint: what is done is not done again, on another number of ranks.
runs 2 ./aiacc_seven_steps state
must cmp aiacc_seven_steps.out stdout
runs 3 ./aiacc_seven_steps state
must test ! -s stdout

# ---- CMake's package ----
mkdir project
cat >project/CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C)
find_package(dtrain-dist 1 REQUIRED)
add_executable(user $examples/tf_adapter.c)
target_link_libraries(user PRIVATE dtrain::dist)
END
must cmake -G Ninja -S project -B user -D CMAKE_PREFIX_PATH="$tmp/prefix" >log
must cmake --build user >log
runs 1 user/user
must grep -qF 'sum 1.0, mean 1.0' stdout

# ---- Faults ----
cat >fault.c <<'END'
#include <dtrain/dist.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    float x[8] = {0};
    if (dtd_init(&argc, &argv) != DTD_OK || dtd_barrier(NULL) != DTD_OK)
        return DTD_BUG;
    const int odd = dtd_rank(NULL) == atoi(argv[2]);
    if (odd && argv[1][0] == 's')
        kill(getpid(), SIGSTOP);
    const time_t start = time(NULL);
    const int code = dtd_all_reduce(x, odd ? 5 : 4, DTD_F32, DTD_SUM, NULL);
    printf("rank %d: %d after %d s: %s\n", dtd_rank(NULL), code, (int)(time(NULL) - start), dtd_error());
    return dtd_finalize();
}
END
must cc -D_GNU_SOURCE fault.c -o fault "${flags[@]}"
runs 4 ./fault count 2 # each rank gets the code and the text
for rank in 0 1 2 3; do
    must grep -qE "^rank $rank: 76 after [0-5] s: .*rank 2\b.*\b5\b" stdout
done
DTD_STALL_SECONDS=3 bounded mpirun -np 3 ./fault stop 1 # the others end, by a line and a code
must test "$code" = 77
must grep -qE 'rank 1 .* is stopped .* 2 ranks wait for it' stderr
finish
