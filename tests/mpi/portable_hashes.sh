#!/usr/bin/env bash
# The bits of --isa amx are those of every CPU, C library and compiler: hashes recorded once, made
# here by whatever computes tile products (the tile unit, AVX-512, plain C), on 1, 3 and 8 ranks.
# Whoever sees others has found a difference between two machines.
set -u
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0

# pair NP CAP ARGS...: "weights_hash state_hash" of a run of 4 steps and a test
pair() {
    local np=$1 cap=$2 out=$dir/last
    shift 2
    rm -rf "$out"
    if ! ONEDNN_MAX_CPU_ISA=$cap timeout -k 2 600 mpirun -np "$np" "$DTRAIN_BIN" --isa amx --data synthetic:76 \
        --width-divisor 16 --image-size 32 --global-batch 32 --no-drop-remainder --epochs 2 --max-steps 4 \
        --threads 1 --shards 8 --lr 0.05 --save-every 0 "$@" --out "$out" >"$dir/log" 2>&1 </dev/null; then
        cat "$dir/log" >&2
        return 1
    fi
    tail -n 1 "$out/metrics.jsonl" | grep -oE '"(weights|state)_hash": *"[0-9a-f]{32}"' |
        grep -oE '[0-9a-f]{32}' | paste -sd' '
}

hows="1:ALL 3:ALL 8:ALL 1:AVX2" only=.
if [ -n "${ASAN_OPTIONS:-}" ]; then # plain C takes minutes then; ref_tiles has it
    hows=2:ALL only=cosine
fi
while IFS='|' read -r options want; do
    [[ $options =~ $only ]] || continue
    for how in $hows; do
        # shellcheck disable=SC2086
        got=$(pair "${how%%:*}" ${how#*:} $options)
        if [ "$got" != "$want" ]; then
            echo "np $how $options: '$got', recorded '$want'"
            bad=1
        fi
    done
done <<'END'
--net vgg11 --schedule cosine|72f407958224eb045b13a7683d2621a2 8f03aa98c653dc274f014aa2c4c6fc61
--net resnet50 --schedule onecycle --warmup 1|344845bcfb8dee4c373392afba491494 60f248c4f7089d5a57cddc601f847b9e
--net resnet50 --variant torchvision --stem cifar --label-smoothing 0.1|05563e711a57597f5860348466aa6510 520f1b30cc02b122e8ffad58b2b81f85
--net vgg11 --bn sync --nesterov --weight-decay 5e-4|c85c6aa0b9d9bda6b0212fb5812921cd a2bea035384c4e142b0959ab75d76b3b
END
exit $bad
