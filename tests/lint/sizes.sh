#!/usr/bin/env bash
# A file has one purpose and at most 490 lines, an example 150, a
# function at most 60, a folder at most a fifth of the source; banned functions are not called.
set -u
cd "$DTRAIN_SOURCE" || exit 1
bad=0
files=$(find src extra tests examples -name '*.[ch]' -o -path 'examples/*.cpp' -o -path 'src/*' -name '*.def')

for f in $files; do
    n=$(wc -l <"$f") most=490
    [ "${f%%/*}" != examples ] || most=150
    if [ "$n" -gt "$most" ]; then echo "$f: $n lines, at most $most"; bad=1; fi
done
# shellcheck disable=SC2086
awk 'FNR == 1 { start = 0 }
    /^\{/ { start = FNR }
    /^\}/ { if (start && FNR - start + 1 > 60) { printf "%s:%d: a function of %d lines, at most 60\n", FILENAME, start, FNR - start + 1; bad = 1 }; start = 0 }
    END { exit bad }' $files || bad=1
# most LINES WHAT PATH...: all that git knows there
most() {
    local limit=$1 what=$2 n
    shift 2
    n=$(git ls-files "$@" | xargs -r cat 2>/dev/null | wc -l)
    if [ "$n" -gt "$limit" ]; then echo "$what: $n lines, at most $limit"; bad=1; fi
}
if git rev-parse HEAD >/dev/null 2>&1; then # a copy without history is measured where it came from
    most 40079 "src and extra" src extra
    most 23422 "the core, src" src
    most 4000 src/store src/store
    most 3000 "extra/launch and extra/watch" extra/launch extra/watch
    most 31650 tests tests
fi
total=$(cat $(find src extra -name '*.[ch]') | wc -l)
for folder in src/*/ extra/*/ src/model/kernels/; do # the kernels are counted by themselves
    n=$(cat $(find "$folder" -name '*.[ch]' -not -path 'src/model/kernels/*') | wc -l)
    if [ "$folder" = src/model/kernels/ ]; then n=$(cat $(find "$folder" -name '*.[ch]') | wc -l); fi
    if [ $((5 * n)) -gt "$total" ]; then echo "$folder has $n of $total lines, at most a fifth"; bad=1; fi
done
if grep -nE '\b(atoi|atof|strcpy|strcat|sprintf|vsprintf|gets|system|popen|alloca)\(' $(find src extra -name '*.[ch]'); then
    echo "banned functions (see CONTRIBUTING.md)"; bad=1
fi
if grep -nE '\b(exit|_exit|abort)\(' $(find src extra -name '*.[ch]') | grep -vE '^(extra/(engines/check|launch/child|watch/watch)|src/cli/(main|start_mpi))\.c'; then
    echo "the process ends in src/cli only (the watch, failed children and engines that hang excepted)"; bad=1
fi
if grep -nE '\b(TODO|FIXME|XXX|HACK)\b' $files; then
    echo "unfinished by its own words"; bad=1
fi
# Characters, not bytes; tables that a formatter must leave alone may be wider.
# shellcheck disable=SC2086
LC_ALL=C.UTF-8 perl -CSD -ne '$off = /clang-format off/ ? 1 : /clang-format on/ ? 0 : $off; chomp;
    if (!$off && length > 100) { print "$ARGV:$.: a line of ", length, " characters, at most 100\n"; $bad = 1 }
    if (eof) { close ARGV; $off = 0 } END { exit($bad // 0) }' $files || bad=1
if grep -nP '\t' $files; then
    echo "tabs"; bad=1
fi
exit $bad
