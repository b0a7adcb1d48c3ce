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
    for (int i = 0; i < count; i++, to += w->blocks * DT_TILE_AREA)
        for (int r = 0; r < w->fill; r++) {
            dt_bf16 room[DT_TILE_PIXEL * DT_TILE] = {0};
            const dt_bf16 *from = w->from + (size_t)r * w->row + (size_t)i * w->step;
            for (int m = w->line0; r < w->rows && m < w->line1 && w->first < w->end; m++)
                memcpy(room + m * w->wide + w->first,
                       from + w->at + (ptrdiff_t)w->line * m + w->first,
                       (size_t)(w->end - w->first) * sizeof *room);
            for (int b = 0; b < w->blocks; b++)
                memcpy(to + b * DT_TILE_AREA + r * DT_TILE, room + b * DT_TILE,
                       DT_TILE * sizeof *room);
        }
}

static inline void plain_finish(const dt_tile_out *o, const float *sums)
{
    for (int r = 0; r < DT_TILE; r++, sums += DT_TILE) {
        const ptrdiff_t at = dt_tile_place(o, r);
        float sum[DT_TILE];
        if (at < 0)
            continue;
        memcpy(sum, sums, sizeof sum);
        for (int c = 0; o->bias && c < o->channels; c++)
            sum[c] += o->bias[c];
        if (o->type == DT_F32)
            memcpy((float *)o->at + at, sum, (size_t)o->channels * sizeof *sum);
        for (int c = 0; o->type == DT_BF16 && c < o->channels; c++)
            ((dt_bf16 *)o->at)[at + c] = dt_tile_round(sum[c]);
    }
}

static inline void plain_nothing(void)
{
}
#endif
