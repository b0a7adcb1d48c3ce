/* floats_vectors.h - products of tiles in float32 by vectors of 8 numbers (AVX2) or 4 (NEON): see
 * backend.h. */
#ifndef DT_TILE_FLOATS_VECTORS_H
#define DT_TILE_FLOATS_VECTORS_H
#include "floats.h"

#if defined(__aarch64__)
#include <arm_neon.h>
enum { VEC = 4 }; /* numbers of a vector */
typedef float32x4_t vec;
#define vec_zero() vdupq_n_f32(0)
#define vec_all(x) vdupq_n_f32(x)
#define vec_load(from) vld1q_f32(from)
#define vec_store(to, v) vst1q_f32(to, v)
#define vec_stream(to, v) vst1q_f32(to, v) /* there is no store past the caches */
#define vec_add(a, b) vaddq_f32(a, b)
#define vec_fma(sum, a, b) vfmaq_f32(sum, a, b)
#elif defined(__x86_64__)
#include <immintrin.h>
enum { VEC = 8 };
typedef __m256 vec;
#define vec_zero() _mm256_setzero_ps()
#define vec_all(x) _mm256_set1_ps(x)
#define vec_load(from) _mm256_loadu_ps(from)
#define vec_store(to, v) _mm256_storeu_ps(to, v)
#define vec_stream(to, v) _mm256_stream_ps(to, v)
#define vec_add(a, b) _mm256_add_ps(a, b)
#define vec_fma(sum, a, b) _mm256_fmadd_ps(a, b, sum)
#endif

/* Two units of AVX2 need 8 chains to hide a latency of 4 cycles, four units of NEON need 16. Both
 * leave registers for what is loaded. Each step's operands are read 8 and 2 times, so as many steps
 * are multiplied at a time as stay in the first-level cache beside the sums. */
enum { VEC_ROWS = 4, VEC_STEPS = 3, VEC_COLUMNS = 16, VECS = VEC_COLUMNS / VEC };

typedef struct vec_steps {
    const char *a[VEC_STEPS];
    const float *b[VEC_STEPS];
    int count;
} vec_steps;

static inline __attribute__((always_inline)) void vec_step(vec s[VEC_ROWS][VECS], const char *a,
                                                           size_t row, size_t place, const float *b)
{
#pragma GCC unroll 4
    for (int p = 0; p < DT_TILE; p++, b += DT_TILE) {
        vec right[VECS];
#pragma GCC unroll 4
        for (int v = 0; v < VECS; v++)
            right[v] = vec_load(b + VEC * v);
#pragma GCC unroll 4
        for (int r = 0; r < VEC_ROWS; r++) {
            float one;
            memcpy(&one, a + (size_t)r * row + (size_t)p * place, sizeof one);
            const vec x = vec_all(one);
#pragma GCC unroll 4
            for (int v = 0; v < VECS; v++)
                s[r][v] = vec_fma(s[r][v], x, right[v]);
        }
    }
}

/* Rows [first, first + VEC_ROWS), columns [half, half + 16). As in registers_run, `place`
 * is a constant in each loop. */
static inline void vec_rows(float *sums, const vec_steps *steps, size_t row, size_t place,
                            size_t first, size_t half, bool fresh)
{
    vec s[VEC_ROWS][VECS];

    sums += first * DT_TILE + half;
#pragma GCC unroll 4
    for (int r = 0; r < VEC_ROWS; r++)
#pragma GCC unroll 4
        for (int v = 0; v < VECS; v++)
            s[r][v] = fresh ? vec_zero() : vec_load(sums + r * DT_TILE + VEC * v);
    if (place == 4)
        for (int k = 0; k < steps->count; k++)
            vec_step(s, steps->a[k] + first * row, row, 4, steps->b[k] + half);
    else
        for (int k = 0; k < steps->count; k++)
            vec_step(s, steps->a[k] + first * 4, 4, 128, steps->b[k] + half);
#pragma GCC unroll 4
    for (int r = 0; r < VEC_ROWS; r++)
#pragma GCC unroll 4
        for (int v = 0; v < VECS; v++)
            vec_store(sums + r * DT_TILE + VEC * v, s[r][v]);
}

/* As plain_finish, whole rows at a time. */
static void vec_finish(const dt_tile_out *o, const float *sums)
{
    if (o->channels < DT_TILE || o->type != DT_F32) {
        plain_finish(o, sums);
        return;
    }
    for (int r = 0; r < DT_TILE; r++, sums += DT_TILE) {
        const ptrdiff_t at = dt_tile_place(o, r);
        for (int v = 0; at >= 0 && v < DT_TILE; v += VEC) {
            float *to = (float *)(void *)((char *)o->at + at);
            vec sum = vec_load(sums + v);
            if (o->bias)
                sum = vec_add(sum, vec_load(o->bias + v));
            if (o->stream)
                vec_stream(to + v, sum);
            else
                vec_store(to + v, sum);
        }
    }
}

/* All runs have the rows and places of the first. */
static void vec_multiply(float *sums, const dt_tile_run *run, int runs, int rows, bool fresh,
                         const dt_tile_out *out)
{
    const size_t row = runs ? run->row : 0, place = runs ? run->place : 4;
    int k = 0;

    do {
        vec_steps steps = {.count = 0};
        while (runs > 0 && steps.count < VEC_STEPS) {
            steps.a[steps.count] = (const char *)run->a + (size_t)k * run->step;
            steps.b[steps.count++] = (const float *)run->b + (size_t)k * DT_TILE_AREA;
            if (++k == run->steps)
                run++, runs--, k = 0;
        }
        for (size_t half = 0; half < DT_TILE; half += VEC_COLUMNS)
            for (int r = 0; r < rows; r += VEC_ROWS)
                vec_rows(sums, &steps, row, place, (size_t)r, half, fresh);
        fresh = false;
    } while (runs > 0);
    if (out)
        vec_finish(out, sums);
}

/* ---- Packed weights -------------------------------------------------------------------------- */

/* They are larger than caches: a block is stored past these, while the block `next` is fetched. */
static void vec_pack(const float *from, size_t row, const float *next, size_t next_row, float *to)
{
    for (int r = 0; r < DT_TILE; r++, from += row, next += next_row, to += DT_TILE) {
        __builtin_prefetch(next);
        __builtin_prefetch(next + DT_TILE / 2);
        for (int c = 0; c < DT_TILE; c += VEC)
            vec_stream(to + c, vec_load(from + c));
    }
}

/* The reduction's next block: the 32 rows below; or 32 columns on. */
static void vec_pack_rows(const float *from, size_t row, void *to)
{
    vec_pack(from, row, from + DT_TILE * row, row, to);
}

static void vec_pack_columns(const float *from, size_t row, void *to)
{
    float turned[DT_TILE_AREA];

    floats_pack_columns(from, row, turned);
    vec_pack(turned, DT_TILE, from + DT_TILE, row, to);
}

#define VEC_BACKEND(text, set)                                                                     \
    {                                                                                              \
        .name = text, .type = DT_F32, .isa = set, .chunk = 8, .product = 4,                        \
        .multiply = vec_multiply, FLOATS_WORK(vec)                                                 \
    }
#endif
