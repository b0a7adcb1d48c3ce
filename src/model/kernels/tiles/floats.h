/* floats.h - the packing of backend.h for float32, in plain C, which the backends in float32
 * share. */
#ifndef DT_TILE_FLOATS_H
#define DT_TILE_FLOATS_H
#define PLAIN_EACH 4
#include "plain.h"

static inline void floats_turn_left(const void *block, void *to)
{
    memcpy(to, block, PLAIN_BLOCK);
}

static inline void floats_turn_right(const void *from, size_t row, size_t ahead, void *to)
{
    (void)ahead;
    for (int j = 0; j < DT_TILE; j++)
        memcpy((char *)to + j * PLAIN_ROW, (const char *)from + (size_t)j * row, PLAIN_ROW);
}

static inline void floats_pack_rows(const float *from, size_t row, void *to)
{
    floats_turn_right(from, row * sizeof *from, 0, to);
}

static inline void floats_pack_columns(const float *from, size_t row, void *to)
{
    for (int c = 0; c < DT_TILE; c++)
        for (int k = 0; k < DT_TILE; k++)
            ((float *)to)[k * DT_TILE + c] = from[(size_t)c * row + (size_t)k];
}

#define FLOATS_WORK(packs) /* whose pack_rows and pack_columns */                                  \
    .gather = plain_gather, .window = plain_window, .turn_left = floats_turn_left,                 \
    .turn_right = floats_turn_right, .pack_rows = packs##_pack_rows,                               \
    .pack_columns = packs##_pack_columns
#endif
