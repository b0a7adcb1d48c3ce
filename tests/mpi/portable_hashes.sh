#!/usr/bin/env bash
# The bits of --isa amx are those of every CPU, C library and compiler: hashes recorded once, made
# here by all that computes tile products (the tile unit, AVX-512, plain C), on 1, 3 and 8 ranks.
# Where there is no tile unit its instructions are trapped ("trap", tests/support/tile_trap.c).
# Other hashes are a difference between two machines. So are the bits of float32.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

# pair NP CAP ARGS...: "weights_hash state_hash" of a run of 4 steps and a test. CAP is the best
# instruction set that the ranks use, A+B: A on the even ones, B on the odd ones.
pair() {
    local np=$1 cap=$2 out=$tmp/last trap=
    shift 2
    rm -rf "$out"
    [ "$cap" != trap ] || trap=$trapped cap=amx
    # shellcheck disable=SC2016
    if ! EVEN=${cap%+*} ODD=${cap#*+} timeout -k 2 1800 mpirun -np "$np" env LD_PRELOAD="$trap" bash -c \
        '[ $((${OMPI_COMM_WORLD_RANK:-$PMI_RANK} % 2)) = 1 ] || ODD=$EVEN; DT_MAX_ISA=$ODD exec "$@"' - \
        "$DTRAIN_BIN" --isa amx --data synthetic:76 \
        --width-divisor 16 --image-size 32 --global-batch 32 --no-drop-remainder --epochs 2 --max-steps 4 --schedule-steps 4 \
        --threads 1 --shards 8 --lr 0.05 --save-every 0 "$@" --out "$out" >"$tmp/log" 2>&1 </dev/null; then
        cat "$tmp/log" >&2
        return 1
    fi
    [ -z "$trap" ] || grep -q 'bf16 (amx)' "$tmp/log" || echo "in software"
    hashes "$out"
}

trapped=$DTRAIN_BUILD_DIR/tests/libtile_trap.so
hows="3:amx+avx512 1:avx2" only=.
if [ -n "${ASAN_OPTIONS:-}" ]; then # plain C takes minutes then; ref_tiles has it
    hows=2:amx only=cosine
fi
while IFS='|' read -r options want; do
    [[ $options =~ $only ]] || continue
    mine=$hows
    [[ $options != *cosine* ]] || mine+=" 8:amx"
    [[ $options != *"--stem cifar"* ]] || mine=3:amx+avx512 # 40 s in plain C
    [[ $options != *fp32* ]] || mine="1:amx 3:avx512+avx2"
    [[ $options != *vgg11*fp32* ]] || mine+=" 3:portable"
    if [[ -z ${ASAN_OPTIONS:-} && $options == *@(cosine|warmup)* ]]; then # not all: a trap takes 2 us
        LD_PRELOAD=$trapped "$DTRAIN_BIN" env | grep -qE '^isa +amx' && mine+=" 2:trap" ||
            echo "SKIPPED: tiles: this CPU has no AVX512_BF16 to go with them"
    fi
    for how in $mine; do
        # shellcheck disable=SC2086
        got=$(pair "${how%%:*}" ${how#*:} $options)
        if [ "$got" != "$want" ]; then
            echo "np $how $options: '$got', recorded '$want'"
            bad=1
        fi
    done
done <<'END'
--net vgg11 --schedule cosine|e123d34fe66a7f89dbc3e9086ac86d35 b6ad338e730f35228d188f6cbc4c005e
--net resnet50 --schedule onecycle --warmup 1|344845bcfb8dee4c373392afba491494 cf974d472a6d9eefb2136863a46e318a
--net resnet50 --variant torchvision --stem cifar --label-smoothing 0.1|c2caa57693aa9da131dd1669c5c7aa1d 942d28b7834620280dfc702216b09421
--net vgg11 --bn sync --nesterov --weight-decay 5e-4|43b600bb5acd155575a230f905160e85 1d9662340c2a37c55a2d6a700ff7ce10
--net vgg11 --precision fp32|bc9003d2a73b4517328182488612dc06 2fbad57b69c62f1db43af54ea422aa9c
--net resnet50 --precision fp32 --variant torchvision --stem cifar|ec8fd6982bf1026fb86864e3c8668921 c9081831e39239b18f33231352e7f145
END
exit "$bad"
