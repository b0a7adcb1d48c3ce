#!/usr/bin/env bash
# What a newcomer meets first is there, and a row of a table has its file.
set -u
cd "$DTRAIN_SOURCE" || exit 1
bad=0
for f in LICENSE README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md data/README.md docs/map.md docs/reference.md docs/formats.md docs/lab/results.md; do
    [ -s "$f" ] || { echo "$f is missing"; bad=1; }
done
for f in quickstart runtests scripts/get-cifar10 proofs/asan scripts/fresh-machine scripts/foreign-machine packaging/deb .ci/run; do
    [ -x "$f" ] || { echo "$f is not executable"; bad=1; }
done
# Folders, packages, rows and commands that were promised by name stay where they are.
for f in src/model src/data src/dist src/train configs tests; do
    compgen -G "$f/*" >/dev/null || { echo "the folder $f is missing"; bad=1; }
done
while read -r f line; do
    grep -qE -- "$line" "$f" || { echo "$f has no line with: $line"; bad=1; }
done <<'END'
scripts/setup.sh ^build +libstb-dev
scripts/setup.sh ^engine +libopenblas-dev
scripts/setup.sh ^engine +libdnnl-dev
scripts/setup.sh ^openmpi .*libopenmpi-dev
src/dist/dist.h X\(allreduce\)
src/model/model.h X\(resnet50\) X\(vgg11\)
README.md mpirun -np 8 \./dtrain --data cifar-10-batches-bin
END
lines=$(wc -l <README.md)
if [ "$lines" -gt 150 ]; then echo "README.md: $lines lines, at most 150"; bad=1; fi
words=$(wc -w <README.md)
if [ "$words" -gt 1100 ]; then echo "README.md: $words words, at most 1100"; bad=1; fi
# "An afternoon": the files that README names are these many, and short enough
path=$(grep -oE '`src/[a-z0-9_/]+\.c`' README.md | tr -d '`' | sort -u)
if [ "$(wc -l <<<"$path")" != 11 ]; then echo "README.md names these files, not eleven:" $path; bad=1; fi
# shellcheck disable=SC2086
lines=$(cat $path | wc -l)
if [ "$lines" -gt 3000 ]; then echo "the files that README.md names have $lines lines, at most 3000"; bad=1; fi
grep -q runtests .ci/run || { echo ".ci/run does not call ./runtests"; bad=1; }
# one row in an X-list: one file
rows() { grep -ohE "#define $1\(X\)[^/]*" -A3 "$2" | grep -oE 'X\([a-z0-9_]+\)' | tr -d 'X()' ; }
for r in $(rows DT_EXCHANGE_LIST src/dist/dist.h); do [ -f "src/dist/exchange_$r.c" ] || [ -f "extra/exchanges/exchange_$r.c" ] || { echo "no file for exchange $r"; bad=1; }; done
for r in $(rows DT_NET_LIST src/model/model.h); do [ -f "src/model/net_$r.c" ] || { echo "no file for network $r"; bad=1; }; done
exit $bad
