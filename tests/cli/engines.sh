#!/usr/bin/env bash
# --engine: one hash over ranks, threads and strategies; what a resumed run keeps; a library whose
# product is wrong, and one that never returns, are named before anything is trained.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
unset OPENBLAS_CORETYPE ONEDNN_MAX_CPU_ISA
narrow=(--data synthetic:64 --net vgg11 --width-divisor 4 --global-batch 24 --shards 8 --max-steps 1 --epochs 1)

# hash_of NP ARGS...: the state's
hash_of() {
    rm -rf "$tmp/run"
    accepts_on "$@" "${narrow[@]}" --out "$tmp/run"
    sed -n 's/^state hash *//p' "$tmp/stdout"
}
must test "$("$DTRAIN_BIN" env | grep -cE '^(openblas|onednn) +[^ ]')" = 2
for engine in openblas onednn; do
    case $("$DTRAIN_BIN" env | sed -n "s/^$engine *//p") in
    engine*) echo "SKIPPED: engine $engine is not there"; continue ;;
    esac
    want=$(OMP_NUM_THREADS=8 hash_of 1 --engine $engine --threads 1)
    must test "$(hash_of 1 --engine $engine --threads 2)" = "$want"
    must test "$(hash_of 1 --engine $engine --threads 5)" = "$want"
    must test "$(hash_of 3 --engine $engine --threads 1)" = "$want"
    must test "$(hash_of 8 --engine $engine --threads 1)" = "$want"
    must test "$(hash_of 2 --engine $engine --threads 2 --strategy all=out)" = "$want"
    must test "$(hash_of 2 --engine $engine --threads 1 --strategy all=out)" = "$want"
    must grep -q "^engine: $engine$" "$tmp/run/options.yaml"
    for odd in "--batch 1" "--global-batch 3 --shards 1"; do
        rm -rf "$tmp/odd"
        accepts --data synthetic:16 --net vgg11 --width-divisor 16 $odd --max-steps 1 --engine $engine --out "$tmp/odd"
    done
    refuses 78 "engine" -- "${tiny[@]}" --engine $engine --precision bf16
done

"$DTRAIN_BIN" env | grep -q '^openblas .*this build has none' && finish

# a library of the test's own: right, or wrong by 1 % in one shape, or without an end; it leaves a
# file where it is mapped
cat >"$tmp/fake.c" <<'EOF'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((constructor)) static void mapped(void) { fclose(fopen(getenv("MAPPED"), "w")); }
char *openblas_get_config(void)
{
    static char text[64];
    snprintf(text, sizeof text, "OpenBLAS 0.0.0 fake%s", getenv("CORE") ? getenv("CORE") : "");
    return text;
}
void openblas_set_num_threads(int n) { (void)n; }
void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                 int lda, const float *b, int ldb, float beta, float *c, int ldc)
{
    const char *fault = getenv("FAKE");
    const int special = fault && ta == 112 && m == 27;
    while (special && strcmp(fault, "hangs") == 0)
        pause();
    (void)order, (void)tb;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int p = 0; p < k; p++)
                sum += (ta == 112 ? a[p * lda + i] : a[i * lda + p]) * b[p * ldb + j];
            c[i * ldc + j] = alpha * sum * (special ? 1.01f : 1) + (beta ? beta * c[i * ldc + j] : 0);
        }
}
EOF
must mkdir "$tmp/lib"
must cc -O2 -shared -fPIC -o "$tmp/lib/libopenblas.so.0" "$tmp/fake.c"
export LD_LIBRARY_PATH=$tmp/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} MAPPED=$tmp/mapped
accepts "${tiny[@]}" --out "$tmp/own"
must test ! -e "$MAPPED"
must test -z "$(ldd "$DTRAIN_BIN" | grep -E 'openblas|dnnl')"
accepts "${tiny[@]}" --engine openblas --out "$tmp/right"
must grep -q "^engine  *OpenBLAS 0.0.0 fake" "$tmp/stdout"
must test -e "$MAPPED"
# ranks whose libraries are not the same, or one of which has none
bounded mpirun -np 2 sh -c 'CORE=${OMPI_COMM_WORLD_RANK:-$PMI_RANK} exec "$@"' - "$DTRAIN_BIN" "${tiny[@]}" --engine openblas
judge 76 "two cores" "disagree on engine" "OpenBLAS 0.0.0 fake0" "OpenBLAS 0.0.0 fake1"
bounded mpirun -np 2 sh -c '[ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 0 ] || set -- "$@" --engine openblas; exec "$@"' - "$DTRAIN_BIN" "${tiny[@]}"
judge 76 "two engines" "engine" "own" "openblas"
export FAKE=wrong
refuses 80 "features.0, weight gradient" "a product of 27 rows" -- "${tiny[@]}" --engine openblas
[ -n "${ASAN_OPTIONS:-}" ] || LD_PRELOAD=$tmp/lib/libopenblas.so.0 LD_LIBRARY_PATH= refuses 80 "features.0, weight gradient" -- "${tiny[@]}" --engine openblas
export FAKE=hangs
launch 1 "${tiny[@]}" --engine openblas --out "$tmp/hangs"
judge 77 "a product without an end" "features.0, weight gradient" "has not returned"
finish
