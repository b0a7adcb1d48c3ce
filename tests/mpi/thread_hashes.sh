#!/usr/bin/env bash
# Threads and ranks change no bit: more threads than lines, blocks of channels or cores, an odd last
# batch, in both networks and types.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

# run NP THREADS ARGS...: prints "weights_hash state_hash"
run() {
    limit=1800 trained "$1" "$tmp/run" --data synthetic:90 --global-batch 71 --max-steps 2 --threads "$2" "${@:3}"
}

types=(fp32 bf16)
"$DTRAIN_BIN" plan --precision bf16 --width-divisor 16 >/dev/null 2>&1 || types=(fp32 "bf16 --isa amx")
[ -z "${ASAN_OPTIONS:-}" ] || types=(fp32)
for net in "vgg11 --width-divisor 4" "resnet50 --width-divisor 8"; do
    for type in "${types[@]}"; do
        for shards in "1: 1/2 1/3 1/8 1/24 1/64 1/128" "8: 1/24 2/3 3/64 5/8 8/2"; do
            # shellcheck disable=SC2086
            args=(--net $net --precision $type --shards ${shards%%:*})
            want=$(run 1 1 "${args[@]}")
            echo "${args[*]}: $want"
            for at in ${shards#*:}; do
                got=$(run "${at%/*}" "${at#*/}" "${args[@]}")
                [ -n "$got" ] && [ "$got" = "$want" ] || { echo "$at ranks/threads: '$got'"; bad=1; }
            done
        done
    done
done
exit "$bad"
