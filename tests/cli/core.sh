#!/usr/bin/env bash
# The core alone (-D DTRAIN_EXTRAS=OFF): built from a copy without extra/, it trains to README's hash,
# and knows none of the commands and formats that extras add.
set -u
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
mkdir "$tmp/source"
(cd "$DTRAIN_SOURCE" && cp -r CMakeLists.txt cmake configs packaging src "$tmp/source")
must cmake -S "$tmp/source" -B "$tmp/core" -G Ninja -D DTRAIN_EXTRAS=OFF >"$tmp/log"
must grep -q '^CMAKE_BUILD_TYPE:STRING=Release$' "$tmp/core/CMakeCache.txt"
must cmake --build "$tmp/core" >"$tmp/log"
whole=$DTRAIN_BIN DTRAIN_BIN=$tmp/core/dtrain
cd "$tmp/source" || exit 1

hash=$(grep -m 1 -A 1 -- '--config configs/smoke.yaml --max-steps 8 --shards 1 |' "$DTRAIN_SOURCE/README.md" | tail -n 1)
must test "${#hash}" -gt 40
accepts --config configs/smoke.yaml --max-steps 8 --shards 1 --out "$tmp/run"
equal "    $(grep 'weights hash' "$tmp/stdout")" "$hash"
must grep -q . "$tmp/run/model.safetensors"

for command in $("$whole" help table | awk -F '\t' '$1 == "command" { print $2 }'); do
    "$DTRAIN_BIN" help table | grep -q "^command	$command	" || refuses 64 "unknown command '$command'" -- "$command"
done
must test "$refusals" -gt 10
images "$tmp/images"
refuses 66 "this build has no part for images" -- --data "$tmp/images" --out "$tmp/run-images"
refuses 78 "this build has no part for log_style=cs744" -- --config configs/cs744.yaml --out "$tmp/run-style"
refuses 78 "this build has no part for dry_run=true" -- --data synthetic --dry-run
refuses 78 "this build is the core" -- --data synthetic --engine openblas --precision fp32 --out "$tmp/run-engine"
refuses 78 "this build is the core" -- --data synthetic --exchange gather --out "$tmp/run-exchange"
refuses 78 "this build is the core" -- --data synthetic --grad-compress bf16 --out "$tmp/run-compress"
refuses 78 "this build cannot save in portions" -- --data synthetic --save-shards --out "$tmp/run-pieces"
DTRAIN_BIN=$whole accepts --config configs/smoke.yaml --max-steps 2 --shards 1 --save-every 1 --save-shards --out "$tmp/pieces"
rm "$tmp/pieces/model.safetensors"
refuses 78 "in portions (--save-shards), which" -- --out "$tmp/pieces" --resume auto --no-save-shards
finish
