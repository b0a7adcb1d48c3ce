/* plain.h - the work around products of tiles in plain C: see backend.h. */
#ifndef DT_TILE_PLAIN_H
#define DT_TILE_PLAIN_H
#include "backend.h"

/* Rows are far apart, blocks are near. */
static inline void plain_gather(const dt_tile_rows *g, int count, dt_bf16 *to)
{
    for (int r = 0; r < g->fill; r++)
        for (int i = 0; i < count; i++) {
            dt_bf16 *row = to + i * DT_TILE_AREA + r * DT_TILE;
            const dt_bf16 *from = g->from + (size_t)r * g->row + (size_t)i * g->step;
            if (r < g->rows && g->channels == DT_TILE) {
                memcpy(row, from, DT_TILE * sizeof *row);
                continue;
            }
            memset(row, 0, DT_TILE * sizeof *row);
            if (r < g->rows)
                memcpy(row, from, (size_t)g->channels * sizeof *row);
        }
}

static inline void plain_window(const dt_tile_window *w, int count, dt_bf16 *to)
{
    for (int i = 0; i < count * w->blocks; i++)
        memset(to + i * DT_TILE_AREA, 0, (size_t)(w->fill * DT_TILE) * sizeof *to);
    for (int i = 0; i < count; i++, to += w->blocks * DT_TILE_AREA)
        for (int r = 0; r < w->rows; r++)
            for (int m = w->line0; m < w->line1; m++)
                for (int k = w->first; k < w->end; k++) {
                    const int c = m * w->wide + k;
                    const size_t at = (size_t)r * w->row + (size_t)i * w->step;
                    to[c / DT_TILE * DT_TILE_AREA + r * DT_TILE + c % DT_TILE] =
                        w->from[(ptrdiff_t)at + w->at + (ptrdiff_t)w->line * m + k];
                }
}

static inline void plain_finish(const dt_tile_out *o, const float *sums)
{
    for (int r = 0; r < DT_TILE; r++) {
        const ptrdiff_t at = dt_tile_place(o, r);
        for (int c = 0; at >= 0 && c < o->channels; c++) {
            const float sum = sums[r * DT_TILE + c], v = o->bias ? sum + o->bias[c] : sum;
            if (o->type == DT_BF16)
                ((dt_bf16 *)o->at)[at + c] = dt_tile_round(v);
            else
                ((float *)o->at)[at + c] = v;
        }
    }
}

static inline void plain_nothing(void)
{
}
#endif
