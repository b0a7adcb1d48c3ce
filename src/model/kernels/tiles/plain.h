/* plain.h - the work around products of tiles in plain C: see backend.h. */
#ifndef DT_TILE_PLAIN_H
#define DT_TILE_PLAIN_H
#include "backend.h"

/* Bytes of a number: bf16, unless the backend says otherwise. */
#ifndef PLAIN_EACH
#define PLAIN_EACH 2
#endif
enum { PLAIN_ROW = DT_TILE * PLAIN_EACH, PLAIN_BLOCK = DT_TILE * PLAIN_ROW };

/* Rows are far apart, blocks are near. */
static inline void plain_gather(const dt_tile_rows *g, int count, void *to)
{
    for (int r = 0; r < g->fill; r++)
        for (int i = 0; i < count; i++) {
            char *row = (char *)to + i * PLAIN_BLOCK + r * PLAIN_ROW;
            const char *from = (const char *)g->from + (size_t)r * g->row + (size_t)i * PLAIN_ROW;
            if (r < g->rows && g->channels == DT_TILE) {
                memcpy(row, from, PLAIN_ROW);
                continue;
            }
            memset(row, 0, PLAIN_ROW);
            if (r < g->rows)
                memcpy(row, from, (size_t)g->channels * PLAIN_EACH);
        }
}

static inline void plain_window(const dt_tile_window *w, int count, void *to)
{
    char *at = to;

    for (int i = 0; i < count; i++, at += w->blocks * PLAIN_BLOCK)
        for (int r = 0; r < w->fill; r++) {
            char room[DT_TILE_PIXEL] = {0};
            const char *from = (const char *)w->from + (size_t)r * w->row + (size_t)i * w->step;
            for (int m = w->line0; r < w->rows && m < w->line1 && w->first < w->end; m++)
                memcpy(room + m * w->wide + w->first,
                       from + w->at + (ptrdiff_t)w->line * m + w->first,
                       (size_t)(w->end - w->first));
            for (int b = 0; b < w->blocks; b++)
                memcpy(at + b * PLAIN_BLOCK + r * PLAIN_ROW, room + b * PLAIN_ROW, PLAIN_ROW);
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
            memcpy((char *)o->at + at, sum, (size_t)o->channels * sizeof *sum);
        for (int c = 0; o->type == DT_BF16 && c < o->channels; c++)
            ((dt_bf16 *)(void *)((char *)o->at + at))[c] = dt_tile_round(sum[c]);
    }
}
#endif
