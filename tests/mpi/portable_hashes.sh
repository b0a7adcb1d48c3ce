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
--net vgg11 --schedule cosine|e91014bd1ef4a957e6d8464bb5386a90 942ea6c6b4540ec6c09b82dabecfa2e4
--net resnet50 --schedule onecycle --warmup 1|bad8388e41f78d4d6dbbc411b2be549d 90cd23e3a5c844dab2fc26df18be1c33
--net resnet50 --variant torchvision --stem cifar --label-smoothing 0.1|0f4e523661e61673de8184f4408b50ef 722690709a80ff38cafac00ac68596c9
--net vgg11 --bn sync --nesterov --weight-decay 5e-4|61dadbb0ae9084d72d956833793f6086 ef479fa459b34a7dd8c2986fb03e879d
--net vgg11 --precision fp32|c28e1c1f267bf47f561d7abf49908111 63f305944f5a526b7668f52f1d7e3965
--net resnet50 --precision fp32 --variant torchvision --stem cifar|3d5a929a0844f514d5c3e21dc6800789 e74d6e2922353e7625759a4f959ae91e
END
exit "$bad"
