/* pack.c - operands of tile products: pixels of the input, and weights. */
#include "tiles.h"

/* ---- Pixels ---------------------------------------------------------------------------------- */

/* Blocks of 32 elements of a pixel. */
static int pack_blocks(const dt_tiles *t)
{
    return t->in.blocks * (int)(t->area / DT_TILE_AREA);
}

/* The input's line y of a fold; -1: it lies outside. */
static int pack_line(const dt_tiles *t, int y, int fold)
{
    const int line = y - t->top + fold * t->in_step;
    return line >= 0 && line < t->in_lines ? line : -1;
}

/* `count` blocks of all folds from a pixel on, as g->step, ahead and channels say. */
static void pack_rows(const dt_tiles *t, dt_tile_rows g, const dt_bf16 *in, int group, int y, int x,
                      int count, dt_bf16 *to)
{
    g.row = t->in.row;
    g.fill = t->fold;
    for (int s = 0; s < t->folds; s++, to += t->fold * DT_TILE) {
        const int line = pack_line(t, y, s);
        g.from = in + dt_tile_at(&t->in, group, DT_MAX(line, 0), x);
        g.rows = line < 0 ? 0 : dt_tiles_rows(t, group, x);
        t->backend->gather(&g, count, to);
    }
}

/* Virtual pixels of one fold from column x on whose channels lie alike, at most `count`; returns
 * how many. y: of the output, or -1. */
static int pack_window(const dt_tiles *t, const dt_bf16 *in, int group, int y, int x, int count,
                       dt_bf16 *to)
{
    const dt_conv *c = &t->conv;
    const int64_t ic = c->ic * t->parts;
    const int64_t wide = c->kernel[1] * ic, line = c->iw * ic, step = c->stride[1] * ic;
    const int64_t top = y * c->stride[0] - c->pad[0], left = x * step - c->pad[1] * ic;
    dt_tile_window w = {.from = in + (size_t)group * t->in.group,
                        .at = (ptrdiff_t)(top * line + left),
                        .row = t->in.row,
                        .line = (size_t)line,
                        .step = (size_t)step,
                        .rows = y < 0 ? 0 : dt_tiles_rows(t, group, x),
                        .fill = t->fold,
                        .lines = c->kernel[0],
                        .wide = (int)wide,
                        .line0 = (int)(top < 0 ? -top : 0),
                        .line1 = (int)DT_MIN(c->kernel[0], c->ih - top),
                        .first = (int)(left < 0 ? -left : 0),
                        .end = (int)DT_MIN(wide, line - left),
                        .blocks = pack_blocks(t)};
    int alike = 1;

    while (w.first == 0 && alike < count && left + alike * step + wide <= line)
        alike++;
    t->backend->window(&w, alike, to);
    return alike;
}

static int pack_virtual(const dt_tiles *t, const dt_bf16 *in, int group, int y, int x, int count,
                        dt_bf16 *to)
{
    int alike = 0;

    for (int s = 0; s < t->folds; s++)
        alike = pack_window(t, in, group, pack_line(t, y, s), x, count, to + s * t->fold * DT_TILE);
    return alike;
}

/* The blocks [block, block + count) of one pixel; all of them, or some of those before `end`. */
static void pack_pixel(const dt_tiles *t, const dt_bf16 *in, int group, int y, int x, int block,
                       int count, int end, dt_bf16 *to)
{
    dt_tile_rows g = {.step = DT_TILE,
                      .ahead = block + count < end ? (size_t)count * DT_TILE : t->in.pixel,
                      .channels = DT_TILE};
    const int whole = DT_MIN(count, t->in.channels / DT_TILE - block);

    in += block * DT_TILE;
    pack_rows(t, g, in, group, y, x, whole, to);
    if (whole < count) {
        g.channels = t->in.channels % DT_TILE;
        pack_rows(t, g, in + whole * DT_TILE, group, y, x, 1, to + whole * DT_TILE_AREA);
    }
}

/* Some neighbouring pixels [pixel][block], at most PACK_BLOCKS blocks; returns how many. */
enum { PACK_BLOCKS = 16 };
static int pack_pixels(const dt_tiles *t, const dt_bf16 *in, int group, int y, int x, int count,
                       dt_bf16 *to)
{
    const int most = DT_MIN(count, PACK_BLOCKS / t->in.blocks);

    if (t->merged)
        return pack_virtual(t, in, group, y, x, DT_MIN(most, DT_TILE_WINDOWS), to);
    /* Under a stride pixels may be whole blocks apart and have fewer channels. */
    if (t->flat || t->in.channels % DT_TILE != 0 || (size_t)t->in.channels != t->in.pixel) {
        pack_pixel(t, in, group, y, x, 0, t->in.blocks, 0, to);
        return 1;
    }
    const dt_tile_rows g = {.step = DT_TILE, /* blocks of pixels and pixels lie side by side */
                            .ahead = (size_t)most * t->in.pixel,
                            .channels = DT_TILE};
    pack_rows(t, g, in, group, y, x, most * t->in.blocks, to);
    return most;
}

void dt_tiles_gather(const dt_tiles *t, const dt_bf16 *in, int group, int y, int x0, int x1,
                     dt_bf16 *to)
{
    const int blocks = t->in.blocks;

    for (int x = x0, some; x < x1; x += some, to += some * blocks * DT_TILE_AREA) {
        some = 1;
        if (t->merged)
            some = pack_virtual(t, in, group, y, x, DT_MIN(x1 - x, DT_TILE_WINDOWS), to);
        else if (blocks <= PACK_BLOCKS)
            some = pack_pixels(t, in, group, y, x, x1 - x, to);
        else
            pack_pixel(t, in, group, y, x, 0, blocks, 0, to);
    }
}

/* Of float32 as it is: [block][2 halves][32 rows][16 channels]. */
static void pack_floats(const dt_tiles *t, const dt_bf16 *in, int group, int y, int x, int b0,
                        int b1, dt_bf16 *to)
{
    const size_t plane = (size_t)t->in_columns * t->area;
    _Alignas(64) dt_bf16 room[DT_TILE_PIXEL * DT_TILE_AREA];

    if (t->merged)
        pack_virtual(t, in, group, y, x, 1, room);
    for (int b = b0; b < b1; b++, to += plane) {
        if (t->merged) {
            memcpy(to, room + (size_t)b * t->area, t->area * sizeof *to);
            continue;
        }
        for (int h = 0; h < 2; h++) {
            const int left = 2 * (t->in.channels - b * DT_TILE) - h * DT_TILE;
            const dt_tile_rows g = {.step = DT_TILE,
                                    .ahead = t->in.pixel,
                                    .channels = DT_MAX(0, DT_MIN(left, DT_TILE))};
            pack_rows(t, g, in + (2 * b + h) * DT_TILE, group, y, x, 1, to + h * DT_TILE_AREA);
        }
    }
}

/* By way of the stack: rows of a pixel may lie in one set of the first-level cache, where each
 * would be loaded anew for every 16 bytes of it. */
void dt_tiles_turn(const dt_tiles *t, const dt_bf16 *in, int group, int y, int x0, int x1, int b0,
                   int b1, dt_bf16 *to)
{
    const size_t plane = (size_t)t->in_columns * DT_TILE_AREA;
    const int blocks = t->in.blocks;
    const bool whole = t->merged || (blocks <= PACK_BLOCKS && b1 - b0 == blocks);
    _Alignas(64) dt_bf16 room[PACK_BLOCKS * DT_TILE_AREA];

    for (int x = x0, some; x < x1; x += some, to += (size_t)some * t->area) {
        some = 1;
        if (t->parts == 2) {
            pack_floats(t, in, group, y, x, b0, b1, to);
            continue;
        }
        if (whole) {
            some = pack_pixels(t, in, group, y, x, x1 - x, room);
            for (int i = 0; i < some * blocks; i++)
                if (i % blocks >= b0 && i % blocks < b1)
                    t->backend->transpose(room + i * DT_TILE_AREA,
                                          to + (size_t)(i % blocks - b0) * plane +
                                              i / blocks * DT_TILE_AREA);
            continue;
        }
        for (int b = b0; b < b1; b += PACK_BLOCKS) {
            const int count = DT_MIN(PACK_BLOCKS, b1 - b);
            pack_pixel(t, in, group, y, x, b, count, b1, room);
            for (int i = 0; i < count; i++)
                t->backend->transpose(room + i * DT_TILE_AREA, to + (size_t)(b - b0 + i) * plane);
        }
    }
}

/* ---- Pixels of dy, for the weight gradient --------------------------------------------------- */

/* 32 elements of each row in line y of dy, all folds. */
static void pair_gather(const dt_tiles *t, const dt_bf16 *from, int rows, int channels,
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

static void pair_block(const dt_tiles *t, const dt_bf16 *from, int rows, int channels, int y,
                       dt_bf16 *to)
{
    _Alignas(64) dt_bf16 room[DT_TILE_AREA];

    if (rows == DT_TILE && channels == DT_TILE) {
        t->backend->pairs(from, t->out.row, t->out.pixel, to);
        return;
    }
    pair_gather(t, from, rows, channels, 0, y, room);
    t->backend->pairs(room, DT_TILE, 0, to);
}

/* [2 halves][32 rows][16 channels] */
static void pair_floats(const dt_tiles *t, const dt_bf16 *from, int rows, int channels, int y,
                        dt_bf16 *to)
{
    for (int h = 0; h < 2; h++) {
        const int left = DT_MAX(0, DT_MIN(2 * channels - h * DT_TILE, DT_TILE));
        pair_gather(t, from + h * DT_TILE, rows, left, t->out.pixel, y, to + h * DT_TILE_AREA);
    }
}

void dt_tiles_pair(const dt_tiles *t, const dt_bf16 *dy, int line, int x, int block, dt_bf16 *to)
{
    const int group = line / t->out_h, y = line % t->out_h;
    const int channels = DT_MIN(DT_TILE, t->out.channels - block * DT_TILE);
    const dt_bf16 *from = dy + dt_tile_at(&t->out, group, y, x) + block * DT_TILE * t->parts;

    (t->parts == 2 ? pair_floats : pair_block)(t, from, dt_tiles_rows(t, group, x), channels, y,
                                               to);
}

/* ---- Weights: [output block][tap y][tap x][input block], a block each ----------------------- */

size_t dt_tiles_packed_bytes(const dt_tiles *t)
{
    return (size_t)t->out.blocks * (size_t)dt_tiles_steps(t) * DT_TILE_AREA * sizeof(dt_bf16);
}

/* rows x columns floats of master, both at most 32, to a block. */
static void pack_block(const dt_tiles *t, const float *from, int rows, int columns, dt_bf16 *to)
{
    const size_t from_row = (size_t)dt_tiles_row(t);
    const bool data = t->pass == DT_PASS_DATA;
    const int most = DT_TILE / t->parts; /* of the reduction */
    float room[DT_TILE_AREA];
    size_t row = from_row;

    if (rows < (data ? DT_TILE : most) || columns < (data ? most : DT_TILE)) {
        memset(room, 0, sizeof room);
        for (int r = 0; r < rows; r++)
            memcpy(room + r * DT_TILE, from + (size_t)r * from_row, (size_t)columns * sizeof *room);
        from = room;
        row = DT_TILE;
    }
    (data ? t->backend->pack_columns : t->backend->pack_rows)(from, row, to);
}

/* Master seen as [kernel place and input channel][output channel]: its first row of a tap. */
static int64_t pack_master(const dt_tiles *t, int ty, int tx)
{
    const dt_conv *c = &t->conv;
    const int64_t rows = t->pass == DT_PASS_DATA ? t->some.weights : c->ic;

    return t->merged ? 0 : (t->tap_y[ty] * c->kernel[1] + t->tap_x[tx]) * rows;
}

void dt_tiles_pack(const dt_tiles *t, const float *master, dt_bf16 *packed, size_t first,
                   size_t end)
{
    const bool data = t->pass == DT_PASS_DATA;
    const int steps = dt_tiles_steps(t);

    for (int i = (int)first; i < (int)end; i++) {
        const int o = i / steps * DT_TILE, tap = i % steps / t->in.blocks;
        const int most = DT_TILE / t->parts, k = i % t->in.blocks * most; /* of the reduction */
        const int outs = DT_MIN(DT_TILE, t->out.channels - o);
        const int ins = DT_MIN(most, t->in.channels / t->parts - k);
        const int64_t row = pack_master(t, tap / t->taps_x, tap % t->taps_x) + (data ? o : k);
        pack_block(t, master + row * dt_tiles_row(t) + (data ? k : o), data ? outs : ins,
                   data ? ins : outs, packed + (size_t)i * DT_TILE_AREA);
    }
    t->backend->fence();
}
