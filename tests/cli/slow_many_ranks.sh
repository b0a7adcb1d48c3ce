#!/usr/bin/env bash
# Many more ranks than cores: 16, 32 and 64 on one host end with the hashes of one. What all ranks see is
# told by one of them.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
limit=1800 # each rank's start has to wait for those of all others
many=(--data synthetic:64 --net vgg11 --width-divisor 16 --global-batch 64 --shards 64 --precision fp32
      --threads 1 --max-steps 2)

accepts "${many[@]}" --out "$tmp/alone"
for np in 16 32 64; do
    accepts_on $np "${many[@]}" --out "$tmp/$np"
    equal "$(hashes "$tmp/alone")" "$(hashes "$tmp/$np")"
    must grep -q "$np ranks x 1 thread" "$tmp/stdout"
done
ranks="8 64"
refuses 64 "unknown option '--nett'" -- --nett vgg11
refuses 66 "$tmp/no-data" -- "${many[@]}" --data "$tmp/no-data" --out "$tmp/none"
finish
