#!/usr/bin/env bash
# ARM64 under emulation: the bits of this machine (proofs/foreign).
set -u
cd "$DTRAIN_SOURCE" || exit 1
[ "$(uname -m)" = x86_64 ] || { echo "SKIPPED: no x86-64 here"; exit 99; }
proofs/foreign --short arm64
code=$?
[ $code != 71 ] || { echo "SKIPPED: no rights to make namespaces with emulation"; exit 99; }
exit $code
