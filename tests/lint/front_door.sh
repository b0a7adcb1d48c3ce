#!/usr/bin/env bash
# What a newcomer meets first is there, and a row of a table has its file.
set -u
cd "$DTRAIN_SOURCE" || exit 1
bad=0
for f in LICENSE README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md data/README.md docs/results.md; do
    [ -s "$f" ] || { echo "$f is missing"; bad=1; }
done
for f in quickstart runtests scripts/get-cifar10 proofs/asan scripts/fresh-machine scripts/foreign-machine packaging/deb .ci/run; do
    [ -x "$f" ] || { echo "$f is not executable"; bad=1; }
done
lines=$(wc -l <README.md)
if [ "$lines" -gt 150 ]; then echo "README.md: $lines lines, at most 150"; bad=1; fi
# "An afternoon to read" says how many lines: those of the path of the data, to a twentieth.
said=$(grep -oE 'is some [0-9,]+ lines' README.md | tr -dc 0-9)
path=$(cat src/train/step.c src/model/*.[ch] src/data/*.[ch] src/dist/*.[ch] | wc -l)
if [ "$((20 * (path > said ? path - said : said - path)))" -gt "$path" ]; then
    echo "README.md: the path of the data has $path lines, not ${said:-any}"; bad=1
fi
grep -q runtests .ci/run || { echo ".ci/run does not call ./runtests"; bad=1; }
# one row in an X-list: one file
rows() { grep -ohE "#define $1\(X\)[^/]*" -A3 "$2" | grep -oE 'X\([a-z0-9_]+\)' | tr -d 'X()' ; }
for r in $(rows DT_EXCHANGE_LIST src/dist/dist.h); do [ -f "src/dist/exchange_$r.c" ] || { echo "no file for exchange $r"; bad=1; }; done
for r in $(rows DT_NET_LIST src/model/model.h); do [ -f "src/model/net_$r.c" ] || { echo "no file for network $r"; bad=1; }; done
for r in $(rows DT_SOURCE_LIST src/data/data.h); do [ -f "src/data/source_$r.c" ] || { echo "no file for source $r"; bad=1; }; done
exit $bad
