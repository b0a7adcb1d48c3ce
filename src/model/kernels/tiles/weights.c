/* weights.c - weight gradient by products of tiles.
 *
 * dw of one tap, 32 input and 32 output channels is a block of sums over pixels and images: for
 * each tile pixel of dy, x of the pixel that the tap meets, transposed, times dy. Both are packed
 * once for all taps: to shift by a tap is to take another tile pixel.
 *
 *     for each part of the lines, panel of output blocks, chunk of columns, band of lines:
 *       pack the lines of x that the band reads first, and the lines of dy
 *       for each 32 input channels, 32 output channels, tap:
 *         multiply: sums += all pixels of the band
 *
 * Parts, which follow from the shape alone, are added as a tree by dt_tiles_weights_sum, when all
 * units are done; of one part, blocks are stored after their last band. A place is a block of a
 * part's sums, in the order of panels, input blocks, output blocks, taps; a unit is some places.
 *
 * Many threads would pack the same blocks. Where that costs more than to wait for each other, they
 * pack the lines of a *span*, one round, for all (cells), then each multiplies. */
#include "weights.h"

/* Whether that block of sums is among the places of the piece. */
static bool weights_has(const dt_weights_unit *u, int block, int tap, int in_block)
{
    const int taps = u->t->taps_y * u->t->taps_x;
    const int place = (in_block * u->blocks + block - u->panel0) * taps + tap;
    return place >= u->p0 && place < u->p1;
}

/* ---- Operands -------------------------------------------------------------------------------- */

static char *weights_line(const dt_weights_unit *u, int line)
{
    return u->lines + (size_t)(line % u->t->ring) * u->t->line;
}

static char *weights_right_at(const dt_weights_unit *u, int block, int slot)
{
    const dt_tiles *t = u->t;
    return u->right + (size_t)(((block - u->right0) * t->span + slot) * t->columns) * t->block;
}

/* Lines of x that line g of dy reads and that come after `done`. */
static int weights_left(const dt_weights_unit *u, int g, int done)
{
    const dt_tiles *t = u->t;
    const dt_tile_span ys = t->y[g % t->out_h];
    const int group = g / t->out_h, first = group * t->in_h + ys.in, end = first + ys.count;

    for (int line = DT_MAX(first, done + 1); line < end; line++)
        dt_tiles_left(t, u->x, group, line - group * t->in_h, u->in0, u->in1, u->in_b0, u->in_b1,
                      weights_line(u, line));
    return ys.count ? DT_MAX(done, end - 1) : done;
}

static void weights_right(const dt_weights_unit *u, int g, int slot)
{
    const dt_tiles *t = u->t;

    for (int x = u->x0; x < u->x1; x++)
        for (int b = u->block0; b < u->block1; b++)
            dt_tiles_right(t, u->dy, g, x, b,
                           weights_right_at(u, b, slot) + (size_t)(x - u->x0) * t->block);
}

/* ---- One unit -------------------------------------------------------------------------------- */

/* Columns of dy for which tap column tx lies inside x. */
static void weights_columns(const dt_weights_unit *u, int tx, int *first, int *end)
{
    const dt_tile_span *x = u->t->x;

    *first = u->x0, *end = u->x1;
    while (*first < *end && (tx < x[*first].tap || tx >= x[*first].tap + x[*first].count))
        ++*first;
    while (*end > *first && (tx < x[*end - 1].tap || tx >= x[*end - 1].tap + x[*end - 1].count))
        --*end;
}

/* Where a block of sums lies: all have a place, or each waits only until it is stored. */
static float *weights_at_place(const dt_weights_unit *u, int block, int tap, int ib)
{
    const dt_tiles *t = u->t;
    const int taps = t->taps_y * t->taps_x;
    const int place =
        t->once ? (block - u->panel0) * taps + tap : (block * taps + tap) * t->in.blocks + ib;
    return u->sums + (size_t)place * DT_TILE_AREA;
}

/* Finished sums of the output blocks [b0, b1), row by row, to dw. */
static void weights_store(const dt_weights_unit *u, int b0, int b1, int ib)
{
    const dt_tiles *t = u->t;
    const int rows = DT_MIN(DT_TILE, t->in.channels - ib * DT_TILE);

    for (int tap = 0; tap < t->taps_y * t->taps_x; tap++) {
        float *to = u->dw + ((int64_t)tap * t->in.channels + ib * DT_TILE) * dt_tiles_row(t);
        for (int r = 0; r < rows; r++, to += dt_tiles_row(t))
            for (int b = b0; b < b1; b++)
                if (weights_has(u, b, tap, ib))
                    dt_tiles_store_row(t, weights_at_place(u, b, tap, ib) + r * DT_TILE, b,
                                       to + b * DT_TILE);
    }
}

/* All pixels of the band, lines [g0, g1) of dy, for one block of sums. */
static void weights_block(const dt_weights_unit *u, int g0, int g1, int block, int tap, int ib)
{
    const dt_tiles *t = u->t;
    const int ty = tap / t->taps_x, tx = tap % t->taps_x;
    const bool floats = t->conv.type == DT_F32; /* packed x has a row for each place */
    const size_t row = floats ? t->in.each : t->wide, place = floats ? t->wide : t->in.each;
    int first, end, runs = 0;

    weights_columns(u, tx, &first, &end);
    for (int g = g0; g < g1 && first < end; g++) {
        const dt_tile_span ys = t->y[g % t->out_h];
        if (ty < ys.tap || ty >= ys.tap + ys.count)
            continue;
        const int line = g / t->out_h * t->in_h + ys.in + ty - ys.tap;
        const int in =
            t->x[first].in + tx - t->x[first].tap - u->in0 + (ib - u->lines0) * t->in_columns;
        const char *a = weights_line(u, line) + (size_t)in * t->block;
        const char *b = weights_right_at(u, block, g - u->g0) + (size_t)(first - u->x0) * t->block;
        u->run[runs++] = (dt_tile_run){a, b, row, (size_t)t->step_x * t->block, place, end - first};
    }
    if (runs || u->fresh)
        t->backend->multiply(weights_at_place(u, block, tap, ib), u->run, runs,
                             DT_MIN(DT_TILE, t->in.channels - ib * DT_TILE), u->fresh, NULL);
}

static void weights_band(const dt_weights_unit *u, int g0, int g1)
{
    const dt_tiles *t = u->t;

    for (int b0 = u->block0; b0 < u->block1; b0 += t->group) {
        const int b1 = DT_MIN(u->block1, b0 + t->group);
        for (int ib = u->in_b0; ib < u->in_b1; ib++, dt_poll()) {
            for (int b = b0; b < b1; b++)
                for (int tap = 0; tap < t->taps_y * t->taps_x; tap++)
                    if (weights_has(u, b, tap, ib))
                        weights_block(u, g0, g1, b, tap, ib);
            if (u->dw && u->last)
                weights_store(u, b0, b1, ib);
        }
    }
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

static int weights_spans(const dt_tiles *t) /* of a part and chunk of columns */
{
    int lines = 0;

    for (int p = 0; p < t->strips; p++)
        lines = DT_MAX(lines, dt_tiles_strip(t, p + 1) - dt_tiles_strip(t, p));
    return dt_tiles_up(lines, t->span);
}

int dt_tiles_weights_rounds(const dt_tiles *t)
{
    return dt_tiles_up(t->out_w, t->columns) * weights_spans(t);
}

/* What a round is for a part: its columns, the packed lines, lines [u->g0, *end) of dy. */
static void weights_at(dt_weights_unit *u, int round, int part, void *packed, int *end)
{
    const dt_tiles *t = u->t;
    const int spans = weights_spans(t), last = dt_tiles_strip(t, part + 1);

    u->x0 = round / spans * t->columns;
    u->x1 = DT_MIN(t->out_w, u->x0 + t->columns);
    dt_tiles_reads(t, u->x0, u->x1, &u->in0, &u->in1);
    u->fresh = round == 0;
    u->g0 = DT_MIN(last, dt_tiles_strip(t, part) + round % spans * t->span);
    *end = DT_MIN(last, u->g0 + t->span);
    u->lines = (char *)packed + (t->team ? (size_t)part * dt_weights_span(t, t->out.blocks) : 0);
    u->right = u->lines + (size_t)t->ring * t->line;
}

/* The unit's own lines of a round, for itself; `done` as in weights_left. */
static int weights_pack(const dt_weights_unit *u, int end, int done)
{
    for (int g = u->g0; g < end; g++) {
        done = weights_left(u, g, done);
        weights_right(u, g, g - u->g0);
    }
    return done;
}

void dt_tiles_weights(const dt_tiles *t, int round, int unit, const dt_conv_args *a, float *partial,
                      void *team, void *scratch)
{
    const int rounds = dt_tiles_weights_rounds(t), stop = t->team ? round + 1 : rounds;
    char *own = (char *)scratch + dt_weights_runs(t) + dt_weights_room(t);
    dt_weights_unit u = {.t = t,
                         .x = a->x,
                         .dy = a->dy,
                         .dw = t->strips == 1 ? a->dw : NULL,
                         .run = scratch,
                         .room = (float *)scratch + dt_weights_runs(t) / sizeof(float)};

    for (int64_t at = t->start[unit]; at < t->start[unit + 1];) {
        at = dt_weights_piece(t, at, t->start[unit + 1], &u);
        u.sums = t->once ? u.room : partial + (size_t)u.part * dt_tiles_part(t);
        for (int r = round, end, done = -1; r < stop; r++) {
            weights_at(&u, r, u.part, t->team ? team : own, &end);
            if (!t->team) /* another chunk of columns is packed anew */
                done = weights_pack(&u, end, u.g0 == dt_tiles_strip(t, u.part) ? -1 : done);
            for (int g = u.g0; g < end; g += t->band) {
                u.last = r == rounds - 1 && g + t->band >= end;
                weights_band(&u, g, DT_MIN(end, g + t->band));
                u.fresh = false;
            }
        }
    }
    dt_tile_fence();
}

/* ---- Threads that pack for each other -------------------------------------------------------- */

/* Of each part: a line of dy and one of its blocks; an input block (all, if pixels are merged)
 * in the lines of x that the round reads first. */
int dt_tiles_weights_cells(const dt_tiles *t)
{
    return t->strips * (t->span * t->out.blocks + t->ring * (t->merged ? 1 : t->in.blocks));
}

void dt_tiles_weights_cell(const dt_tiles *t, int round, int cell, const dt_conv_args *a,
                           void *team)
{
    const int each = dt_tiles_weights_cells(t) / t->strips, rights = t->span * t->out.blocks;
    const int at = cell % each - rights, part = cell / each;
    dt_weights_unit u = {.t = t, .x = a->x, .dy = a->dy};
    int end;

    weights_at(&u, round, part, team, &end);
    if (at < 0) {
        const int g = u.g0 + (at + rights) / t->out.blocks;
        u.block0 = (at + rights) % t->out.blocks;
        u.block1 = u.block0 + 1;
        if (g < end)
            weights_right(&u, g, g - u.g0);
        return;
    }
    const int blocks = t->merged ? 1 : t->in.blocks, first = dt_tiles_strip(t, part);
    int done = -1, skip = at / blocks;
    u.in_b0 = u.lines0 = t->merged ? 0 : at % blocks;
    u.in_b1 = t->merged ? t->in.blocks : u.in_b0 + 1;
    for (int g = first; g < end; g++) { /* the lines that others of this round do not pack */
        const dt_tile_span ys = t->y[g % t->out_h];
        const int group = g / t->out_h, from = group * t->in_h + ys.in;
        for (int line = DT_MAX(from, done + 1); line < from + ys.count; line++, done = line - 1)
            if (g >= u.g0 && skip-- == 0)
                dt_tiles_left(t, u.x, group, line - group * t->in_h, u.in0, u.in1, u.in_b0, u.in_b1,
                              weights_line(&u, line) +
                                  (size_t)(u.in_b0 * t->in_columns) * t->block);
    }
}
