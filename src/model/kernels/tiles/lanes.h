/* lanes.h - the work around products of tiles on AVX-512: what backend.h calls gather, window,
 * turn_left, turn_right, pack_rows and pack_columns, and storing the results. The backends
 * for AVX-512 and AMX include it; each compiles it with its own flags. */
#ifndef DT_TILE_LANES_H
#define DT_TILE_LANES_H
#include "backend.h"

#include <immintrin.h>

/* Lanes [first, end) of 32. */
static inline __mmask32 lanes_mask(int first, int end)
{
    const uint64_t one = 1;
    first = DT_MAX(first, 0), end = DT_MIN(end, DT_TILE);
    return first < end ? (__mmask32)((one << end) - (one << first)) : 0;
}

/* ---- Left operand ---------------------------------------------------------------------------- */

/* Bytes of a number: bf16, unless the backend says otherwise. */
#ifndef LANES_EACH
#define LANES_EACH 2
#endif
enum { LANES_VECTORS = LANES_EACH / 2 }; /* of 64 bytes, in a block's row */

/* Where vector i of a row that goes on through blocks is in the packed blocks. */
static inline size_t lanes_at(int i, int r)
{
    return (size_t)((i / LANES_VECTORS * DT_TILE + r) * LANES_VECTORS + i % LANES_VECTORS) * 64;
}

/* A row of all blocks before the next row: rows are far apart, blocks are near. */
static void lanes_gather(const dt_tile_rows *g, int count, void *to)
{
    const int lanes = g->channels * LANES_VECTORS, vectors = count * LANES_VECTORS;
    const __mmask32 mask[] = {lanes_mask(0, lanes), lanes_mask(0, lanes - DT_TILE)};
    const char *from = g->from;

    for (int r = 0; r < g->rows; r++, from += g->row)
        for (int i = 0; i < vectors; i++) {
            const char *at = from + (size_t)i * 64;
            _mm512_store_si512((char *)to + lanes_at(i, r),
                               _mm512_maskz_loadu_epi16(mask[i % LANES_VECTORS], at));
            if (g->ahead)
                _mm_prefetch(at + g->ahead, _MM_HINT_T0);
        }
    for (int r = g->rows; r < g->fill; r++)
        for (int i = 0; i < vectors; i++)
            _mm512_store_si512((char *)to + lanes_at(i, r), _mm512_setzero_si512());
}

enum { LANES_PIECES = DT_TILE_PIXEL / 2, LANES_ROOM = DT_TILE_PIXEL + 64 };

/* Kernel rows of one row of a virtual pixel, one after the other; what a store leaves beyond its
 * piece, the next one writes over. */
static inline void lanes_line_up(const dt_tile_window *w, uintptr_t from, const __mmask32 *mask,
                                 char *room)
{
    for (int v = 1; v <= LANES_VECTORS; v++)
        _mm512_storeu_si512(room + (w->blocks * LANES_VECTORS - v) * 64, _mm512_setzero_si512());
    for (int m = 0; m < w->lines; m++, from += w->line, room += w->wide)
        for (int k = 0; k < w->wide; k += 64, mask++)
            _mm512_storeu_si512(room + k,
                                _mm512_maskz_loadu_epi16(*mask, (const void *)(from + (size_t)k)));
}

/* A row's pixels are all stored in `room` before one is read: what was just stored loads slowly. */
static void lanes_window(const dt_tile_window *w, int count, void *to)
{
    _Alignas(64) char room[DT_TILE_WINDOWS][LANES_ROOM];
    const int vectors = w->blocks * LANES_VECTORS;
    __mmask32 mask[LANES_PIECES];
    int pieces = 0;

    for (int m = 0; m < w->lines; m++)
        for (int k = 0; k < w->wide; k += 64) {
            const bool inside = m >= w->line0 && m < w->line1;
            mask[pieces++] = inside ? lanes_mask((w->first - k) / 2, (w->end - k) / 2) : 0;
        }
    for (int r = 0; r < w->fill; r++) {
        const uintptr_t from =
            (uintptr_t)w->from + (uintptr_t)((ptrdiff_t)((size_t)r * w->row) + w->at);
        for (int m = 0; m < w->lines && r < w->rows; m++) { /* what the next pixels read first */
            const size_t next = (size_t)m * w->line + (size_t)count * w->step + (size_t)w->wide;
            _mm_prefetch((const char *)(from + next), _MM_HINT_T0);
            _mm_prefetch((const char *)(from + next + 64), _MM_HINT_T0);
        }
        for (int i = 0; i < count && r < w->rows; i++)
            lanes_line_up(w, from + (size_t)i * w->step, mask, room[i]);
        for (int i = 0; i < count * vectors; i++) {
            const __m512i v = _mm512_load_si512(room[i / vectors] + i % vectors * 64);
            _mm512_store_si512((char *)to + lanes_at(i, r),
                               r < w->rows ? v : _mm512_setzero_si512());
        }
    }
}

/* ---- Transposition --------------------------------------------------------------------------- */

/* 16 bytes of the rows 0, 4, 8 and 12: two of the four levels of a transposition are loads. */
static inline __m512i lanes_column(const char *from, size_t row)
{
    const size_t four = 4 * row;
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i_u *)from));

    v = _mm512_mask_broadcast_i32x4(v, 0x00f0, _mm_loadu_si128((const __m128i_u *)(from + four)));
    v = _mm512_mask_broadcast_i32x4(v, 0x0f00,
                                    _mm_loadu_si128((const __m128i_u *)(from + 2 * four)));
    return _mm512_mask_broadcast_i32x4(v, 0xf000,
                                       _mm_loadu_si128((const __m128i_u *)(from + 3 * four)));
}

/* 16 rows of 16 times four bytes to out[place] = the 16 rows. */
static inline void lanes_turn(const void *from, size_t row, __m512i out[16])
{
    const char *at = from;

#pragma GCC unroll 4
    for (int c = 0; c < 4; c++, at += 16) {
        const __m512i r0 = lanes_column(at, row), r1 = lanes_column(at + row, row);
        const __m512i r2 = lanes_column(at + 2 * row, row);
        const __m512i r3 = lanes_column(at + 3 * row, row);
        const __m512i low01 = _mm512_unpacklo_epi32(r0, r1), high01 = _mm512_unpackhi_epi32(r0, r1);
        const __m512i low23 = _mm512_unpacklo_epi32(r2, r3), high23 = _mm512_unpackhi_epi32(r2, r3);
        out[4 * c] = _mm512_unpacklo_epi64(low01, low23);
        out[4 * c + 1] = _mm512_unpackhi_epi64(low01, low23);
        out[4 * c + 2] = _mm512_unpacklo_epi64(high01, high23);
        out[4 * c + 3] = _mm512_unpackhi_epi64(high01, high23);
    }
}

/* Rows j and j + 16 are a pair, so two channels become two pairs by shifts and blends. */
static inline void lanes_turn_left(const void *block, void *to)
{
    __m512i low[16], high[16];
    char *at = to;

    lanes_turn(block, 64, low);
    lanes_turn((const char *)block + DT_TILE_HALF, 64, high);
#pragma GCC unroll 16
    for (int p = 0; p < 16; p++, at += 128) { /* channels 2 p and 2 p + 1 */
        const __m512i even =
            _mm512_mask_blend_epi16(0xaaaaaaaa, low[p], _mm512_slli_epi32(high[p], 16));
        const __m512i odd =
            _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(low[p], 16), high[p]);
        _mm512_store_si512(at, even);
        _mm512_store_si512(at + 64, odd);
    }
}

static inline void lanes_turn_right(const void *from, size_t row, size_t ahead, void *to)
{
    const char *at = from;

    for (int j = 0; j < 16; j++, at += row) {
        const __m512i a = _mm512_loadu_si512(at), b = _mm512_loadu_si512(at + 16 * row);
        _mm_prefetch(at + ahead, _MM_HINT_T0);
        _mm_prefetch(at + 16 * row + ahead, _MM_HINT_T0);
        _mm512_store_si512((char *)to + j * 64, _mm512_unpacklo_epi16(a, b));
        _mm512_store_si512((char *)to + j * 64 + DT_TILE_HALF, _mm512_unpackhi_epi16(a, b));
    }
}

/* ---- Rounding -------------------------------------------------------------------------------- */

#ifdef __AVX512BF16__
static inline __m512i lanes_round(__m512 low, __m512 high)
{
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}
#else
/* dt_tile_round of 16 numbers. */
static inline __m256i lanes_round_half(__m512 x)
{
    const __m512i u = _mm512_castps_si512(x), top = _mm512_srli_epi32(u, 16);
    const __m512i even = _mm512_and_si512(top, _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), even);
    const __mmask16 tiny = _mm512_testn_epi32_mask(u, _mm512_set1_epi32(0x7f800000));
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    __m512i r = _mm512_srli_epi32(up, 16);
    r = _mm512_mask_or_epi32(r, nan, top, _mm512_set1_epi32(0x40));
    r = _mm512_mask_and_epi32(r, tiny, top, _mm512_set1_epi32(0x8000));
    return _mm512_cvtepi32_epi16(r);
}
static inline __m512i lanes_round(__m512 low, __m512 high)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(lanes_round_half(low)), lanes_round_half(high),
                              1);
}
#endif

/* Packed weights are larger than caches: a whole line is stored past these. */
static inline void lanes_past(void *to, __m512i v)
{
    if ((uintptr_t)to % 64 == 0)
        _mm512_stream_si512(to, v);
    else
        _mm512_storeu_si512(to, v);
}

/* Prefetches the reduction's next block: the 32 rows below; lanes_pack_columns, 32 columns on. */
static inline void lanes_pack_rows(const float *from, size_t row, void *to)
{
    static const int16_t order[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const __m512i zip = _mm512_loadu_si512(order);

    for (int k = 0; k < 16; k++, from += 2 * row)
        for (int h = 0; h < 2; h++) {
            const __m512i v =
                lanes_round(_mm512_loadu_ps(from + 16 * h), _mm512_loadu_ps(from + row + 16 * h));
            _mm_prefetch((const char *)(from + DT_TILE * row + 16 * h), _MM_HINT_T0);
            _mm_prefetch((const char *)(from + (DT_TILE + 1) * row + 16 * h), _MM_HINT_T0);
            lanes_past((char *)to + k * 64 + h * DT_TILE_HALF, _mm512_permutexvar_epi16(zip, v));
        }
}

static inline void lanes_pack_columns(const float *from, size_t row, void *to)
{
    _Alignas(64) char room[2 * DT_TILE_HALF];
    __m512i turned[16];

    for (int r = 0; r < DT_TILE; r++, from += row) {
        _mm512_store_si512(room + r * 64,
                           lanes_round(_mm512_loadu_ps(from), _mm512_loadu_ps(from + 16)));
        _mm_prefetch((const char *)(from + DT_TILE), _MM_HINT_T0);
        _mm_prefetch((const char *)(from + DT_TILE + 16), _MM_HINT_T0);
    }
    for (int h = 0; h < 2; h++) {
        lanes_turn(room + h * DT_TILE_HALF, 64, turned);
        for (int k = 0; k < 16; k++)
            lanes_past((char *)to + h * DT_TILE_HALF + k * 64, turned[k]);
    }
}

/* ---- Results --------------------------------------------------------------------------------- */

/* Row r of a block. mask: of o->channels. */
static inline void lanes_put(const dt_tile_out *o, __mmask32 mask, int r, __m512 low, __m512 high)
{
    const ptrdiff_t at = dt_tile_place(o, r);
    const __mmask16 mask_high = (__mmask16)(mask >> 16);

    if (at < 0)
        return;
    char *to = (char *)o->at + at;
    if (o->bias) {
        low = _mm512_add_ps(low, _mm512_maskz_loadu_ps((__mmask16)mask, o->bias));
        high = _mm512_add_ps(high, _mm512_maskz_loadu_ps(mask_high, o->bias + 16));
    }
    if (o->type == DT_F32) {
        if (o->stream) {
            _mm512_stream_ps((void *)to, low);
            _mm512_stream_ps((void *)(to + 64), high);
            return;
        }
        _mm512_mask_storeu_ps(to, (__mmask16)mask, low);
        _mm512_mask_storeu_ps(to + 64, mask_high, high);
    } else if (o->stream) {
        _mm512_stream_si512((void *)to, lanes_round(low, high));
    } else if (o->channels == DT_TILE) {
        _mm512_storeu_si512(to, lanes_round(low, high));
    } else {
        _mm512_mask_storeu_epi16(to, mask, lanes_round(low, high));
    }
}

static inline void lanes_finish(const dt_tile_out *out, const float *sums)
{
    const dt_tile_out o = *out; /* which a store might change, for all that the compiler knows */
    const __mmask32 mask = lanes_mask(0, o.channels);

    for (int r = 0; r < DT_TILE; r++, sums += DT_TILE)
        lanes_put(&o, mask, r, _mm512_load_ps(sums), _mm512_load_ps(sums + 16));
}

#define LANES_WORK                                                                                 \
    .gather = lanes_gather, .window = lanes_window, .turn_left = lanes_turn_left,                  \
    .turn_right = lanes_turn_right, .pack_rows = lanes_pack_rows,                                  \
    .pack_columns = lanes_pack_columns
#endif
