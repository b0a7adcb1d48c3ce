#!/usr/bin/env bash
# A file has one purpose and at most 500 lines; banned functions are not called.
set -u
cd "$DTRAIN_SOURCE" || exit 1
bad=0
files=$(find src tests -name '*.[ch]' -o -path 'src/*' -name '*.def')

for f in $files; do
    n=$(wc -l <"$f")
    if [ "$n" -gt 500 ]; then echo "$f: $n lines, at most 500"; bad=1; fi
done
if grep -nE '\b(atoi|atof|strcpy|strcat|sprintf|vsprintf|gets|system|popen|alloca)\(' $(find src -name '*.[ch]'); then
    echo "banned functions (see CONTRIBUTING.md)"; bad=1
fi
if grep -nE '\b(exit|_exit|abort)\(' $(find src -name '*.[ch]') | grep -vE '^src/(cli/main\.c|dist/comm[a-z_]*\.c)'; then
    echo "the process ends in main.c only (dt_comm_abort excepted)"; bad=1
fi
if grep -nE '\b(TODO|FIXME|XXX|HACK)\b' $files; then
    echo "unfinished by its own words"; bad=1
fi
if grep -nP '\t' $files; then
    echo "tabs"; bad=1
fi
exit $bad
