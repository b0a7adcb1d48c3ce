/* weights.c - weight gradient by products of tiles.
 *
 * dw of one tap, 32 input and 32 output channels is a block of sums over pixels and images: for
 * each tile pixel of dy, x of the pixel that the tap meets, transposed, times dy in pairs of rows.
 * Both are packed once for all taps: to shift by a tap is to take another tile pixel.
 *
 *     for each chunk of columns, band of lines (a unit has a part of the lines, a panel of oc):
 *       transpose the lines of x that the band reads first, pair the lines of dy
 *       for each 32 input channels, 32 output channels, tap:
 *         multiply: sums += all pixels of the band
 *
 * Parts are added as a tree by dt_tiles_weights_sum, when all units are done. */
#include "../parts.h"
#include "tiles.h"

enum {
    BAND_PIXELS = 32,
    LARGE_PIXELS = 64,
    RING_BYTES = 768 * 1024,
    PART4_BYTES = 1200 * 1024,     /* four parts up to this size of dw, */
    PART2_BYTES = 3 * 1024 * 1024, /* two up to this: adding them is for something */
    UNITS = 4,
    PANEL_BLOCKS = 16,
    PAIR_BYTES = 384 * 1024, /* of dy that are multiplied by all of x before the next */
};

typedef struct weights_unit {
    const dt_tiles *t;
    const dt_bf16 *x, *dy;
    int block0, block1;   /* output blocks */
    int x0, x1, in0, in1; /* columns of dy and x */
    bool fresh;           /* nothing is summed yet */
    float *sums;          /* of this part: [output block][tap y][tap x][input block] */
    dt_tile_run *run;     /* [band] */
    dt_bf16 *lines;       /* x: ring of [input block][column] */
    dt_bf16 *pairs;       /* dy: [output block of the panel][line of the band][column] */
} weights_unit;

/* ---- How it is cut --------------------------------------------------------------------------- */

static size_t weights_part(const dt_tiles *t) /* floats */
{
    return (size_t)t->out.blocks * (size_t)dt_tiles_steps(t) * DT_TILE_AREA;
}

void dt_tiles_weights_cut(dt_tiles *t)
{
    const size_t bytes = weights_part(t) * sizeof(float);
    const int lines = t->groups * t->out_h;
    const int parts = bytes <= PART4_BYTES ? 4 : bytes <= PART2_BYTES ? 2 : 1;

    t->strips = lines >= parts ? parts : lines >= 2 ? 2 : 1;
    t->panels = DT_MIN(t->out.blocks,
                       dt_tiles_up(t->taps_y * t->taps_x > 1 ? UNITS : UNITS / 2, t->strips));
    t->panel = DT_MIN(PANEL_BLOCKS, dt_tiles_up(t->out.blocks, t->panels));
    t->panels = dt_tiles_up(t->out.blocks, t->panel);
    t->band = DT_MIN(lines, dt_tiles_up(bytes >= 1 << 20 ? LARGE_PIXELS : BAND_PIXELS, t->out_w));
    dt_tiles_cut_columns(t, RING_BYTES);
    t->group = DT_MAX(1, PAIR_BYTES / (t->band * t->columns * 2 * (int)t->area));
    t->scratch = ((size_t)t->ring * t->line + (size_t)(t->panel * t->band * t->columns) * t->area) *
                     sizeof(dt_bf16) +
                 dt_align((size_t)t->band * sizeof(dt_tile_run), 64);
}

size_t dt_tiles_partial_bytes(const dt_tiles *t)
{
    return (size_t)t->strips * weights_part(t) * sizeof(float);
}

/* ---- Operands -------------------------------------------------------------------------------- */

static dt_bf16 *weights_line(const weights_unit *u, int line)
{
    return u->lines + (size_t)(line % u->t->ring) * u->t->line;
}

static dt_bf16 *weights_pairs(const weights_unit *u, int block, int slot)
{
    const dt_tiles *t = u->t;
    return u->pairs + (size_t)(((block - u->block0) * t->band + slot) * t->columns) * t->area;
}

/* Lines of x that line g of dy reads and that come after `done`. */
static int weights_transpose(const weights_unit *u, int g, int done)
{
    const dt_tiles *t = u->t;
    const dt_tile_span ys = t->y[g % t->out_h];
    const int group = g / t->out_h, first = group * t->in_h + ys.in, end = first + ys.count;

    for (int line = DT_MAX(first, done + 1); line < end; line++)
        dt_tiles_turn(t, u->x, group, line - group * t->in_h, u->in0, u->in1,
                      weights_line(u, line));
    return ys.count ? DT_MAX(done, end - 1) : done;
}

/* 32 elements of each row in line y of dy, all folds. */
static void weights_gather(const dt_tiles *t, const dt_bf16 *from, int rows, int channels,
                           size_t ahead, int y, dt_bf16 *to)
{
    const size_t apart = (size_t)t->out_h * t->out.line;

    for (int s = 0; s < t->folds; s++, to += t->fold * DT_TILE, from += apart) {
        const dt_tile_rows g = {.from = from,
                                .row = t->out.row,
                                .ahead = ahead,
                                .rows = y + s * t->out_h < t->out_lines ? rows : 0,
                                .channels = channels,
                                .fill = t->fold};
        t->backend->gather(&g, 1, to);
    }
}

static void weights_block_pairs(const dt_tiles *t, const dt_bf16 *from, int rows, int channels,
                                int y, dt_bf16 *to)
{
    _Alignas(64) dt_bf16 room[DT_TILE_AREA];

    if (rows == DT_TILE && channels == DT_TILE) {
        t->backend->pairs(from, t->out.row, t->out.pixel, to);
        return;
    }
    weights_gather(t, from, rows, channels, 0, y, room);
    t->backend->pairs(room, DT_TILE, 0, to);
}

/* [2 halves][32 rows][16 channels] */
static void weights_block_floats(const dt_tiles *t, const dt_bf16 *from, int rows, int channels,
                                 int y, dt_bf16 *to)
{
    for (int h = 0; h < 2; h++) {
        const int left = DT_MAX(0, DT_MIN(2 * channels - h * DT_TILE, DT_TILE));
        weights_gather(t, from + h * DT_TILE, rows, left, t->out.pixel, y, to + h * DT_TILE_AREA);
    }
}

static void weights_pair(const weights_unit *u, int g, int slot)
{
    const dt_tiles *t = u->t;
    const int group = g / t->out_h, y = g % t->out_h;

    for (int x = u->x0; x < u->x1; x++)
        for (int b = u->block0; b < u->block1; b++) {
            const int channels = DT_MIN(DT_TILE, t->out.channels - b * DT_TILE);
            const dt_bf16 *from = u->dy + dt_tile_at(&t->out, group, y, x) + b * DT_TILE * t->parts;
            dt_bf16 *to = weights_pairs(u, b, slot) + (size_t)(x - u->x0) * t->area;
            (t->parts == 2 ? weights_block_floats : weights_block_pairs)(
                t, from, dt_tiles_rows(t, group, x), channels, y, to);
        }
}

/* ---- One unit -------------------------------------------------------------------------------- */

/* Columns of dy for which tap column tx lies inside x. */
static void weights_columns(const weights_unit *u, int tx, int *first, int *end)
{
    const dt_tile_span *x = u->t->x;

    *first = u->x0, *end = u->x1;
    while (*first < *end && (tx < x[*first].tap || tx >= x[*first].tap + x[*first].count))
        ++*first;
    while (*end > *first && (tx < x[*end - 1].tap || tx >= x[*end - 1].tap + x[*end - 1].count))
        --*end;
}

/* All pixels of the band, lines [g0, g1) of dy, for one block of sums. */
static void weights_block(const weights_unit *u, int g0, int g1, int block, int ty, int tx, int ib)
{
    const dt_tiles *t = u->t;
    float *sums =
        u->sums +
        (size_t)(((block * t->taps_y + ty) * t->taps_x + tx) * t->in.blocks + ib) * DT_TILE_AREA;
    int first, end, runs = 0;

    weights_columns(u, tx, &first, &end);
    for (int g = g0; g < g1 && first < end; g++) {
        const dt_tile_span ys = t->y[g % t->out_h];
        if (ty < ys.tap || ty >= ys.tap + ys.count)
            continue;
        const int line = g / t->out_h * t->in_h + ys.in + ty - ys.tap;
        const int in = t->x[first].in + tx - t->x[first].tap - u->in0 + ib * t->in_columns;
        u->run[runs++] =
            (dt_tile_run){weights_line(u, line) + (size_t)in * t->area,
                          weights_pairs(u, block, g - g0) + (size_t)(first - u->x0) * t->area,
                          t->parts == 2 ? 0 : DT_TILE, (size_t)t->step_x * t->area, end - first};
    }
    if (runs || u->fresh)
        t->backend->multiply(sums, u->run, runs, DT_MIN(DT_TILE, t->in.channels - ib * DT_TILE),
                             u->fresh, NULL);
}

static void weights_band(const weights_unit *u, int g0, int g1)
{
    const dt_tiles *t = u->t;

    for (int b0 = u->block0; b0 < u->block1; b0 += t->group)
        for (int ib = 0; ib < t->in.blocks; ib++)
            for (int b = b0; b < DT_MIN(u->block1, b0 + t->group); b++)
                for (int ty = 0; ty < t->taps_y; ty++)
                    for (int tx = 0; tx < t->taps_x; tx++)
                        weights_block(u, g0, g1, b, ty, tx, ib);
}

void dt_tiles_weights(const dt_tiles *t, int unit, const dt_conv_args *a, float *partial,
                      void *scratch)
{
    const int part = unit / t->panels, panel = unit % t->panels;
    const int first = dt_tiles_strip(t, part), end = dt_tiles_strip(t, part + 1);
    weights_unit u = {.t = t,
                      .x = a->x,
                      .dy = a->dy,
                      .block0 = panel * t->panel,
                      .block1 = DT_MIN(t->out.blocks, (panel + 1) * t->panel),
                      .fresh = true,
                      .sums = partial + (size_t)part * weights_part(t),
                      .lines = scratch};

    u.pairs = u.lines + (size_t)t->ring * t->line;
    u.run = (dt_tile_run *)(void *)(u.pairs + (size_t)(t->panel * t->band * t->columns) * t->area);
    for (u.x0 = 0; u.x0 < t->out_w; u.x0 = u.x1) {
        int done = -1;
        u.x1 = DT_MIN(t->out_w, u.x0 + t->columns);
        dt_tiles_reads(t, u.x0, u.x1, &u.in0, &u.in1);
        for (int g0 = first; g0 < end; g0 += t->band) {
            const int g1 = DT_MIN(end, g0 + t->band);
            for (int g = g0; g < g1; g++) {
                done = weights_transpose(&u, g, done);
                weights_pair(&u, g, g - g0);
            }
            weights_band(&u, g0, g1);
            u.fresh = false;
        }
    }
}

/* ---- Sum of the parts ------------------------------------------------------------------------ */

/* The next row: 128 bytes of each block and part, too far apart for the machine to foresee. */
static void weights_ahead(const dt_tiles *t, const float *part)
{
    for (int p = 0; p < t->strips; p++, part += weights_part(t)) {
        __builtin_prefetch(part + DT_TILE);
        __builtin_prefetch(part + DT_TILE + 16);
    }
}

void dt_tiles_weights_sum(const dt_tiles *t, int64_t row, const float *partial, float *dw)
{
    const dt_conv *c = &t->conv;
    const int64_t channels = t->in.channels, tap = row / channels, i = row % channels;
    float *to = dw + row * c->oc, sum[DT_TILE];

    for (int b = 0; b < t->out.blocks; b++, to += DT_TILE) {
        const int64_t at = (b * t->taps_y * t->taps_x + tap) * t->in.blocks + i / DT_TILE;
        const int columns = DT_MIN(DT_TILE, t->out.channels - b * DT_TILE);
        const float *part = partial + at * DT_TILE_AREA + i % DT_TILE * DT_TILE;
        weights_ahead(t, part);
        dt_part_sum(sum, part, weights_part(t), t->strips, DT_TILE);
        for (int c0 = 0; c0 < columns; c0 += 4) /* fours lie side by side */
            memcpy(to + c0, sum + (t->parts == 2 ? c0 : dt_tile_column(c0)),
                   (size_t)DT_MIN(4, columns - c0) * sizeof *to);
    }
}
