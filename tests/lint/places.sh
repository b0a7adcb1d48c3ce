#!/usr/bin/env bash
# Folders, packages and commands that were promised by name stay where they are.
set -u
cd "$DTRAIN_SOURCE" || exit 1
bad=0
for f in src/model src/data src/dist src/train configs tests; do
    [ -n "$(ls "$f" 2>/dev/null)" ] || { echo "the folder $f is missing"; bad=1; }
done
[ -s data/README.md ] || { echo "data/README.md is missing"; bad=1; }
has() { grep -qE -- "$2" "$1" || { echo "$1 has no line with: $2"; bad=1; }; }
for package in libstb-dev libopenblas-dev libdnnl-dev libopenmpi-dev; do
    has scripts/setup.sh "^(build|openmpi) .*\b$package\b"
done
has src/dist/dist.h '\bX\(allreduce\)'
has src/model/model.h '\bX\(resnet50\)'
has src/model/model.h '\bX\(vgg11\)'
has README.md 'mpirun -np 8 \./dtrain --data cifar-10-batches-bin'
exit $bad
