/* floats.h - pack_rows and pack_columns of backend.h for float32, in plain C, which
 * backend_fma_avx2.c and backend_fma_plain.c share. */
#ifndef DT_TILE_FLOATS_H
#define DT_TILE_FLOATS_H
#include "plain.h"

static inline void floats_pack_rows(const float *from, size_t row, dt_bf16 *to)
{
    for (int k = 0; k < 16; k++, from += row, to += 32) {
        memcpy(to, from, 16 * sizeof *from);
        memcpy(to + DT_TILE_HALF, from + 16, 16 * sizeof *from);
    }
}

static inline void floats_pack_columns(const float *from, size_t row, dt_bf16 *to)
{
    for (int c = 0; c < DT_TILE; c++)
        for (int k = 0; k < 16; k++)
            memcpy(to + c / 16 * DT_TILE_HALF + k * 32 + c % 16 * 2, from + (size_t)c * row + k,
                   sizeof *from);
}
#endif
