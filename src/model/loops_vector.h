/* loops_vector.h - two vectors of numbers at a time, in the loops of loops.c; private to src/model.
 *
 * A compiler makes of a loop over channels neither the rounding to bf16 that a CPU has, nor a store
 * past the caches, nor bits of what ReLU let through. The arithmetic is the compiler's own (GCC
 * manual, "Vector Extensions"), so each number goes through the same operations everywhere. A pair
 * of vectors makes one full vector of bf16. */
#ifndef DT_LOOPS_VECTOR_H
#define DT_LOOPS_VECTOR_H
#include "loops.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif
#if defined(__AVX512BW__)
enum { VEC_LANES = 16 };
typedef uint32_t pair_bits;
typedef __mmask16 lane_mask;
#elif defined(__AVX2__)
enum { VEC_LANES = 8 };
typedef uint16_t pair_bits;
#else
enum { VEC_LANES = 4 };
typedef uint8_t pair_bits;
#endif
enum { PAIR = 2 * VEC_LANES };
typedef float vec __attribute__((vector_size(4 * VEC_LANES)));
typedef uint32_t vec_word __attribute__((vector_size(4 * VEC_LANES)));
typedef uint16_t vec_half __attribute__((vector_size(2 * VEC_LANES)));
typedef uint16_t vec_halves __attribute__((vector_size(4 * VEC_LANES)));
/* The same in memory, aligned as numbers are. */
typedef float vec_floats __attribute__((vector_size(4 * VEC_LANES), aligned(4), may_alias));
typedef uint16_t vec_bf16 __attribute__((vector_size(2 * VEC_LANES), aligned(2), may_alias));
typedef uint16_t pair_bf16 __attribute__((vector_size(4 * VEC_LANES), aligned(2), may_alias));
#ifndef __AVX512BW__
typedef vec_word lane_mask; /* all bits of a lane, or none */
#endif
#define VECTOR static inline __attribute__((always_inline))

/* ---- Numbers of either type. `type` is a constant, so no loop asks for it -------------------- */

static inline float get(const void *x, int64_t i, dt_dtype type)
{
    return type == DT_BF16 ? dt_bf16_to_f32(((const dt_bf16 *)x)[i]) : ((const float *)x)[i];
}

static inline void put(void *x, int64_t i, float value, dt_dtype type)
{
    if (type == DT_BF16)
        ((dt_bf16 *)x)[i] = dt_f32_to_bf16(value);
    else
        ((float *)x)[i] = value;
}

VECTOR vec vec_load(const float *from)
{
    return *(const vec_floats *)from;
}

VECTOR vec vec_all(float x)
{
    return x - (vec){0};
}

VECTOR vec vec_widen(vec_half h)
{
#if defined(__AVX512BW__)
    const vec_word wide = (vec_word)_mm512_cvtepu16_epi32((__m256i)h);
#elif defined(__AVX2__)
    const vec_word wide = (vec_word)_mm256_cvtepu16_epi32((__m128i)h);
#else
    const vec_word wide = __builtin_convertvector(h, vec_word);
#endif
    return (vec)(wide << 16);
}

/* ---- Masks of lanes ------------------------------------------------------------------------ */

/* Where x > least, or x is a NaN. */
VECTOR lane_mask vec_above(vec x, float least)
{
#ifdef __AVX512BW__
    return _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(least), _CMP_NLE_UQ);
#elif defined(__AVX2__)
    return (lane_mask)_mm256_cmp_ps((__m256)x, _mm256_set1_ps(least), _CMP_NLE_UQ);
#else
    return ~(lane_mask)(x <= vec_all(least));
#endif
}

/* x where the mask is set, elsewhere 0. */
VECTOR vec vec_keep(lane_mask mask, vec x)
{
#ifdef __AVX512BW__
    return (vec)_mm512_maskz_mov_ps(mask, (__m512)x);
#else
    return (vec)((vec_word)x & mask);
#endif
}

/* A NaN passes: it must be seen. */
VECTOR vec vec_relu(vec x)
{
#ifdef __AVX512BW__
    return (vec)_mm512_max_ps(_mm512_setzero_ps(), (__m512)x); /* of NaNs and zeros, the second */
#else
    return (vec)((vec_word)x & ~(vec_word)(x < 0));
#endif
}

VECTOR unsigned vec_bits(lane_mask mask)
{
#if defined(__AVX512BW__)
    return mask;
#elif defined(__AVX2__)
    return (unsigned)_mm256_movemask_ps((__m256)mask);
#elif defined(__SSE2__)
    return (unsigned)_mm_movemask_ps((__m128)mask);
#else
    return (mask[0] & 1) | (mask[1] & 2) | (mask[2] & 4) | (mask[3] & 8);
#endif
}

/* Of the lowest bits, one for each lane. */
VECTOR lane_mask vec_mask(unsigned bits)
{
#ifdef __AVX512BW__
    return (lane_mask)bits;
#else
    vec_word one;
    for (unsigned i = 0; i < VEC_LANES; i++)
        one[i] = 1u << i;
    return (lane_mask)((((vec_word){0} + bits) & one) != 0);
#endif
}

VECTOR pair_bits pair_above(const vec v[2], float least)
{
    return (pair_bits)(vec_bits(vec_above(v[0], least)) | vec_bits(vec_above(v[1], least))
                                                              << VEC_LANES);
}

/* ---- Rounding, as dt_f32_to_bf16 does ------------------------------------------------------ */

/* Rounded numbers in the upper halves of the lanes. */
VECTOR vec_word vec_round(vec v)
{
    const vec_word u = (vec_word)v, up = u + 0x7fff + (u >> 16 & 1), quiet = u | 0x400000;
#ifdef __AVX512BW__
    const __mmask16 nan = _mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_UNORD_Q);
    return (vec_word)_mm512_mask_mov_epi32((__m512i)up, nan, (__m512i)quiet);
#else
    const vec_word nan = (vec_word)(v != v);
    return (up & ~nan) | (quiet & nan);
#endif
}

/* The upper halves of all lanes. */
VECTOR vec_halves vec_uppers(vec_word low, vec_word high)
{
#if defined(__AVX512BW__)
    static const uint16_t uppers[PAIR] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21,
                                          23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43,
                                          45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
    const __m512i upper = _mm512_loadu_si512(uppers);
    return (vec_halves)_mm512_permutex2var_epi16((__m512i)low, upper, (__m512i)high);
#elif defined(__AVX2__)
    const __m256i both = _mm256_packus_epi32((__m256i)(low >> 16), (__m256i)(high >> 16));
    return (vec_halves)_mm256_permute4x64_epi64(both, 0xd8);
#else
    const vec_half half[2] = {__builtin_convertvector(low >> 16, vec_half),
                              __builtin_convertvector(high >> 16, vec_half)};
    vec_halves all;
    memcpy(&all, half, sizeof all);
    return all;
#endif
}

VECTOR vec_halves vec_pack(const vec v[2])
{
#ifdef __AVX512BF16__
    /* VCVTNE2PS2BF16 takes denormals as zero, which the loops do not. */
    enum { DENORMAL = 0x20 };
    const __mmask16 tiny = _mm512_fpclass_ps_mask((__m512)v[0], DENORMAL);
    if (__builtin_expect((tiny | _mm512_fpclass_ps_mask((__m512)v[1], DENORMAL)) == 0, 1))
        return (vec_halves)_mm512_cvtne2ps_pbh((__m512)v[1], (__m512)v[0]);
#endif
    return vec_uppers(vec_round(v[0]), vec_round(v[1]));
}

VECTOR void vec_unpack(vec_halves all, vec v[2])
{
#if defined(__AVX512BW__)
    v[0] = vec_widen((vec_half)_mm512_castsi512_si256((__m512i)all));
    v[1] = vec_widen((vec_half)_mm512_extracti64x4_epi64((__m512i)all, 1));
#elif defined(__AVX2__)
    v[0] = vec_widen((vec_half)_mm256_castsi256_si128((__m256i)all));
    v[1] = vec_widen((vec_half)_mm256_extracti128_si256((__m256i)all, 1));
#else
    vec_half half[2];
    memcpy(half, &all, sizeof half);
    v[0] = vec_widen(half[0]);
    v[1] = vec_widen(half[1]);
#endif
}

/* ---- Memory: n numbers from element i on, a pair unless they are the last ------------------ */

/* Missing numbers are 0. */
VECTOR void pair_get(const void *x, int64_t i, int64_t n, vec v[2], dt_dtype type)
{
    for (int h = 0; h < 2; h++, i += VEC_LANES, n -= VEC_LANES) {
        float all[VEC_LANES] = {0};
        for (int64_t k = 0; n < VEC_LANES && k < n; k++)
            all[k] = get(x, i + k, type);
        v[h] = n < VEC_LANES     ? vec_load(all)
               : type == DT_BF16 ? vec_widen(*(const vec_bf16 *)((const dt_bf16 *)x + i))
                                 : vec_load((const float *)x + i);
    }
}

/* Large tensors are stored past the caches, which saves reading the lines that are overwritten. */
VECTOR void vec_store(void *to, vec_halves v, bool past)
{
#if defined(__AVX512BW__)
    if (past)
        _mm512_stream_si512(to, (__m512i)v);
    else
#elif defined(__AVX2__)
    if (past)
        _mm256_stream_si256(to, (__m256i)v);
    else
#else
    (void)past;
#endif
        *(pair_bf16 *)to = v;
}

/* Stores `half`, or in float32 v. */
VECTOR void pair_store(void *x, int64_t i, int64_t n, const vec v[2], vec_halves half, bool past,
                       dt_dtype type)
{
    const int64_t first = n < VEC_LANES ? 0 : VEC_LANES;
    const size_t size = dt_dtype_bytes(type);
    char *const to = (char *)x + (size_t)i * size;

    if (n < PAIR) {
        memcpy(to, type == DT_BF16 ? (const void *)&half : v, (size_t)first * size);
        for (int64_t k = first; k < n; k++)
            put(x, i + k, v[k / VEC_LANES][k % VEC_LANES], type);
    } else if (type == DT_BF16)
        vec_store(to, half, past);
    else
        for (int h = 0; h < 2; h++)
            vec_store(to + h * VEC_LANES * 4, (vec_halves)v[h], past);
}

/* v becomes what is stored, in which bf16 is rounded. */
VECTOR void pair_put(void *x, int64_t i, int64_t n, vec v[2], bool past, dt_dtype type)
{
    vec_halves half = {0};

    if (type == DT_BF16) {
        half = vec_pack(v);
        vec_unpack(half, v);
    }
    pair_store(x, i, n, v, half, past, type);
}

/* The same of numbers that need no rounding. */
VECTOR void pair_put_exact(void *x, int64_t i, int64_t n, const vec v[2], bool past, dt_dtype type)
{
    pair_store(x, i, n, v, vec_uppers((vec_word)v[0], (vec_word)v[1]), past, type);
}

/* d where the ReLU that made `out` let its number through: all but zeros and negative numbers. */
VECTOR void pair_through(const void *out, int64_t i, int64_t n, vec d[2], dt_dtype type)
{
    vec y[2];

    pair_get(out, i, n, y, type);
    for (int h = 0; h < 2; h++)
        d[h] = vec_keep(vec_above(y[h], 0), d[h]);
}

/* Fetches the lines `far` numbers behind the pair, unless that is 0. */
VECTOR void pair_fetch(const void *x, int64_t i, int64_t far, dt_dtype type)
{
    const int size = (int)dt_dtype_bytes(type);

    for (int byte = 0; far && byte < PAIR * size; byte += 64)
        __builtin_prefetch((const char *)((uintptr_t)x + (uintptr_t)((i + far) * size + byte)));
}

enum { PAST_BYTES = 8 << 20 }; /* more than stays in caches until it is read */

static inline bool vec_large(const dt_shape *shape, dt_dtype type)
{
    return dt_shape_count(shape) * (int64_t)dt_dtype_bytes(type) >= PAST_BYTES;
}

/* Stores past the caches must begin at a multiple of their size. */
static inline bool vec_past(const dt_shape *shape, dt_dtype type)
{
    return shape->c % DT_PAIR_MOST == 0 && vec_large(shape, type);
}
#endif
