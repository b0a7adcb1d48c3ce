/* loops_strip.h - strips in the loops of loops.c; private to src/model.
 *
 * A compiler's rounding to bf16 costs more than the arithmetic, and it never stores past the
 * caches. So the loops that write large tensors leave float32 in a strip, which stays in the
 * first-level cache, and strips are rounded, as put() does, where they are stored. */
#ifndef DT_LOOPS_STRIP_H
#define DT_LOOPS_STRIP_H
#include "loops_number.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

enum {
    STRIP = DT_NORM_WIDE,
    STRIP_LANES = 32,
    STRIP_LARGE = 8 << 20, /* bytes: more than stays in caches until it is read */
};

static inline bool strip_large(const dt_shape *shape, dt_dtype type)
{
    return dt_shape_count(shape) * (int64_t)dt_dtype_bytes(type) >= STRIP_LARGE;
}

/* Large tensors are stored past the caches, which saves reading the lines that are overwritten. */
typedef struct strip {
    void *out;
    bool stream;
    _Alignas(64) float room[STRIP];
} strip;

/* For a tensor of that shape. Each strip must begin with a pixel or a multiple of STRIP_LANES. */
static inline void strip_begin(strip *s, void *out, const dt_shape *shape, dt_dtype type)
{
    s->out = out;
    s->stream = shape->c % STRIP_LANES == 0 && strip_large(shape, type);
}

/* Where the numbers from element `at` on are to be left. */
static inline float *strip_at(strip *s, int64_t at, dt_dtype type)
{
    return type == DT_BF16 || s->stream ? s->room : (float *)s->out + at;
}

#ifdef __AVX512BW__
/* Rounded numbers in the upper halves of the lanes. */
static inline __m512i strip_round(const float *from)
{
    const __m512 x = _mm512_loadu_ps(from);
    const __m512i u = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_mask_or_epi32(up, nan, u, _mm512_set1_epi32(0x400000));
}

/* All whole vectors; returns how many numbers they hold. */
static inline int64_t strip_vectors(const strip *s, dt_bf16 *to, int64_t count)
{
    static const uint16_t uppers[STRIP_LANES] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21,
                                                 23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43,
                                                 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
    const __m512i upper = _mm512_loadu_si512(uppers);
    int64_t i = 0;

    for (; i + STRIP_LANES <= count; i += STRIP_LANES) {
        const __m512i low = strip_round(s->room + i), high = strip_round(s->room + i + 16);
        const __m512i both = _mm512_permutex2var_epi16(low, upper, high);
        if (s->stream)
            _mm512_stream_si512((void *)(to + i), both);
        else
            _mm512_storeu_si512(to + i, both);
    }
    return i;
}

#else
static inline int64_t strip_vectors(const strip *s, dt_bf16 *to, int64_t count)
{
    (void)s, (void)to, (void)count;
    return 0;
}
#endif

/* Float32 past the caches, a multiple of STRIP_LANES. */
static inline void strip_floats(const strip *s, float *to, int64_t count)
{
#if defined(__AVX512F__)
    for (int64_t i = 0; i < count; i += 16)
        _mm512_stream_ps(to + i, _mm512_load_ps(s->room + i));
#elif defined(__AVX__)
    for (int64_t i = 0; i < count; i += 8)
        _mm256_stream_ps(to + i, _mm256_load_ps(s->room + i));
#else
    memcpy(to, s->room, (size_t)count * sizeof *to);
#endif
}

static inline void strip_fence(const strip *s)
{
#ifdef __SSE2__
    if (s->stream)
        _mm_sfence();
#else
    (void)s;
#endif
}

/* Stores the `count` numbers from element `at` on, which were written where strip_at says. */
static inline void strip_put(const strip *s, int64_t at, int64_t count, dt_dtype type)
{
    if (type == DT_F32) {
        if (s->stream)
            strip_floats(s, (float *)s->out + at, count);
        return;
    }
    dt_bf16 *restrict to = (dt_bf16 *)s->out + at;
#pragma omp simd
    for (int64_t i = strip_vectors(s, to, count); i < count; i++)
        to[i] = dt_f32_to_bf16(s->room[i]);
}
#endif
