/* peak_loops.c - see peak_loops.h. Each function is compiled for the instruction set that it is
 * about, whatever the file's flags; sums are as many as hide the latency of a multiplication. */
#include "peak_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define FOR_ISA(names) __attribute__((target(names)))
#endif

/* Without contraction, and so that no product stays the same from round to round. */
static float loop_portable(const void *operands, int64_t rounds)
{
    enum { SUMS = 48 };
    const float *x = operands;
    float sum[SUMS] = {0}, total = 0;

    for (int64_t r = 0; r < rounds; r++)
        for (int i = 0; i < SUMS; i++)
            sum[i] = sum[i] * x[i] + x[SUMS + i];
    for (int i = 0; i < SUMS; i++)
        total += sum[i];
    return total;
}

#if defined(__x86_64__)
FOR_ISA("avx2,fma") static float loop_avx2(const void *operands, int64_t rounds)
{
    enum { A = 3, B = 3 }; /* with their sums 15 of 16 registers */
    const float *x = operands;
    __m256 a[A], b[B], sum[A * B];
    float out[8];

    for (int i = 0; i < A; i++)
        a[i] = _mm256_loadu_ps(x + 8 * i);
    for (int i = 0; i < B; i++)
        b[i] = _mm256_loadu_ps(x + 8 * (A + i));
    for (int i = 0; i < A * B; i++)
        sum[i] = _mm256_setzero_ps();
    for (int64_t r = 0; r < rounds; r++)
        for (int i = 0; i < A * B; i++)
            sum[i] = _mm256_fmadd_ps(a[i % A], b[i / A], sum[i]);
    for (int i = 1; i < A * B; i++)
        sum[0] = _mm256_add_ps(sum[0], sum[i]);
    _mm256_storeu_ps(out, sum[0]);
    return out[0];
}

FOR_ISA("avx512f") static float loop_avx512(const void *operands, int64_t rounds)
{
    enum { A = 4, B = 4 };
    const float *x = operands;
    __m512 a[A], b[B], sum[A * B];

    for (int i = 0; i < A; i++)
        a[i] = _mm512_loadu_ps(x + 16 * i);
    for (int i = 0; i < B; i++)
        b[i] = _mm512_loadu_ps(x + 16 * (A + i));
    for (int i = 0; i < A * B; i++)
        sum[i] = _mm512_setzero_ps();
    for (int64_t r = 0; r < rounds; r++)
        for (int i = 0; i < A * B; i++)
            sum[i] = _mm512_fmadd_ps(a[i % A], b[i / A], sum[i]);
    for (int i = 1; i < A * B; i++)
        sum[0] = _mm512_add_ps(sum[0], sum[i]);
    return _mm512_cvtss_f32(sum[0]);
}

FOR_ISA("avx512f,avx512bf16")
static float loop_avx512_bf16(const void *operands, int64_t rounds)
{
    enum { A = 4, B = 4 };
    const dt_bf16 *x = operands;
    __m512bh a[A], b[B];
    __m512 sum[A * B];

    for (int i = 0; i < A; i++)
        a[i] = (__m512bh)_mm512_loadu_si512(x + 32 * i);
    for (int i = 0; i < B; i++)
        b[i] = (__m512bh)_mm512_loadu_si512(x + 32 * (A + i));
    for (int i = 0; i < A * B; i++)
        sum[i] = _mm512_setzero_ps();
    for (int64_t r = 0; r < rounds; r++)
        for (int i = 0; i < A * B; i++)
            sum[i] = _mm512_dpbf16_ps(sum[i], a[i % A], b[i / A]);
    for (int i = 1; i < A * B; i++)
        sum[0] = _mm512_add_ps(sum[0], sum[i]);
    return _mm512_cvtss_f32(sum[0]);
}

enum { TILE_ROWS = 16, TILE_ROW = 64, TILE = TILE_ROWS * TILE_ROW }; /* bytes in a row */
/* What LDTILECFG reads: eight such tiles. */
static const struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config = {
    .palette = 1,
    .row_bytes = {TILE_ROW, TILE_ROW, TILE_ROW, TILE_ROW, TILE_ROW, TILE_ROW, TILE_ROW, TILE_ROW},
    .rows = {TILE_ROWS, TILE_ROWS, TILE_ROWS, TILE_ROWS, TILE_ROWS, TILE_ROWS, TILE_ROWS,
             TILE_ROWS},
};

/* 2 x 2 tiles of sums, as matrix products have them. */
FOR_ISA("amx-tile,amx-bf16") static float loop_amx(const void *operands, int64_t rounds)
{
    const char *x = operands;
    float out[TILE / sizeof(float)];

    _tile_loadconfig(&tile_config);
    _tile_loadd(4, x, TILE_ROW);
    _tile_loadd(5, x + TILE, TILE_ROW);
    _tile_loadd(6, x + 2 * TILE, TILE_ROW);
    _tile_loadd(7, x + 3 * TILE, TILE_ROW);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t r = 0; r < rounds; r++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, out, TILE_ROW);
    _tile_release();
    return out[0];
}
#endif

/* Best first. */
static const dt_peak_loop loop_table[] = {
#if defined(__x86_64__)
    {DT_ISA_AMX, DT_BF16, "AMX tiles", 4.0 * 2 * 16 * 16 * 32, loop_amx},
    {DT_ISA_AVX512_BF16, DT_BF16, "VDPBF16PS", 16 * 2 * 32, loop_avx512_bf16},
    {DT_ISA_AVX512, DT_F32, "AVX-512 FMA", 16 * 2 * 16, loop_avx512},
    {DT_ISA_AVX2, DT_F32, "AVX2 FMA", 9 * 2 * 8, loop_avx2},
#endif
    {DT_ISA_PORTABLE, DT_F32, "plain C", 48 * 2, loop_portable},
};

/* What multiplies float32 takes bf16 too, once it is converted. */
const dt_peak_loop *dt_peak_loop_of(dt_dtype type)
{
    const dt_isa isa = dt_isa_current();
    const dt_peak_loop *l = loop_table;

    while (l->isa > isa || (l->type == DT_BF16 && type != DT_BF16))
        l++;
    return l;
}
