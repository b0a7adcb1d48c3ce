#!/usr/bin/env bash
# Simulated hosts, of one rank each: runs on 16 and on 64 of them end with the hashes of one, and the sums
# of a step on 64 hosts with 100 Gbit/s, in two levels, leave at least 0.95 of it to computing.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
. "$DTRAIN_SOURCE/tests/simulate/simulate.bash" || exit 1
simulate_build "$DTRAIN_BUILD_DIR/simulated" || exit
many=(--data synthetic:64 --net vgg11 --width-divisor 16 --global-batch 64 --shards 64 --precision fp32
      --threads 1 --max-steps 2)

accepts "${many[@]}" --out "$tmp/alone"
for np in 1 16 64; do
    cases=$((cases + 1))
    simulate fat-tree $np dtrain "${many[@]}" --save-every 0 --out "$tmp/$np" >"$tmp/stdout" 2>"$tmp/stderr"
    code=$?
    must test "$code" = 0
    equal "$(hashes "$tmp/alone")" "$(hashes "$tmp/$np")"
done
must grep -q "64 ranks x 1 thread on 64 nodes, .* exchange tree" "$tmp/stdout"
# VGG11, 128 images a rank (docs/lab/performance.md)
simulate fat-tree 64 skeleton tree 1 2752 0.0508 2365968:0 6494208:0.0638 370944:0.0196 >"$tmp/stdout" 2>"$tmp/stderr"
code=$?
must awk -F'[ ,]+' '$2 == "ranks" && $3 == 64 && $7 < 0.142 { good = 1 } END { exit !good }' "$tmp/stdout"
must grep -q "messages 168$" "$tmp/stdout"
finish
