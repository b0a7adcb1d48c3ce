/* pack.c - operands of tile products: pixels of the input, and weights. */
#include "tiles.h"

/* ---- Pixels ---------------------------------------------------------------------------------- */

/* The input's line y of a fold; -1: it lies outside. */
static int pack_line(const dt_tiles *t, int y, int fold)
{
    const int line = y - t->top + fold * t->in_step;
    return line >= 0 && line < t->in_lines ? line : -1;
}

/* `count` blocks of all folds from a pixel on, as g.ahead and channels say. */
static void pack_rows(const dt_tiles *t, dt_tile_rows g, const char *in, int group, int y, int x,
                      int count, char *to)
{
    g.row = t->in.row;
    g.fill = t->fold;
    for (int s = 0; s < t->folds; s++, to += (size_t)t->fold * t->wide) {
        const int line = pack_line(t, y, s);
        g.from = in + dt_tile_at(&t->in, group, DT_MAX(line, 0), x);
        g.rows = line < 0 ? 0 : dt_tiles_rows(t, group, x);
        t->backend->gather(&g, count, to);
    }
}

/* Virtual pixels of one fold from column x on whose channels lie alike, at most `count`; returns
 * how many. y: of the output, or -1. */
static int pack_window(const dt_tiles *t, const char *in, int group, int y, int x, int count,
                       char *to)
{
    const dt_conv *c = &t->conv;
    const int64_t ic = c->ic * (int64_t)t->in.each;
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
                        .blocks = t->in.blocks};
    int alike = 1;

    while (w.first == 0 && alike < count && left + alike * step + wide <= line)
        alike++;
    t->backend->window(&w, alike, to);
    return alike;
}

static int pack_virtual(const dt_tiles *t, const char *in, int group, int y, int x, int count,
                        char *to)
{
    int alike = 0;

    for (int s = 0; s < t->folds; s++)
        alike = pack_window(t, in, group, pack_line(t, y, s), x, count,
                            to + (size_t)(s * t->fold) * t->wide);
    return alike;
}

/* The blocks [block, block + count) of one pixel; all of them, or some of those before `end`. */
static void pack_pixel(const dt_tiles *t, const char *in, int group, int y, int x, int block,
                       int count, int end, char *to)
{
    dt_tile_rows g = {.ahead = block + count < end ? (size_t)count * t->wide : t->in.pixel,
                      .channels = DT_TILE};
    const int whole = DT_MIN(count, t->in.channels / DT_TILE - block);

    in += (size_t)block * t->wide;
    pack_rows(t, g, in, group, y, x, whole, to);
    if (whole < count) {
        g.channels = t->in.channels % DT_TILE;
        pack_rows(t, g, in + (size_t)whole * t->wide, group, y, x, 1,
                  to + (size_t)whole * t->block);
    }
}

/* Blocks packed at a time. */
enum { PACK_BYTES = 32 * 1024 };
static int pack_blocks(const dt_tiles *t)
{
    return PACK_BYTES / (int)t->block;
}

/* Some neighbouring pixels [pixel][block], at most `most`; returns how many. */
static int pack_pixels(const dt_tiles *t, const char *in, int group, int y, int x, int most,
                       char *to)
{
    if (t->merged)
        return pack_virtual(t, in, group, y, x, DT_MIN(most, DT_TILE_WINDOWS), to);
    /* Under a stride pixels may be whole blocks apart and have fewer channels. */
    if (t->flat || t->in.channels % DT_TILE != 0 ||
        (size_t)t->in.channels * t->in.each != t->in.pixel) {
        pack_pixel(t, in, group, y, x, 0, t->in.blocks, 0, to);
        return 1;
    }
    const dt_tile_rows g = {.ahead = (size_t)most * t->in.pixel, /* they lie side by side */
                            .channels = DT_TILE};
    pack_rows(t, g, in, group, y, x, most * t->in.blocks, to);
    return most;
}

void dt_tiles_gather(const dt_tiles *t, const char *in, int group, int y, int x0, int x1, char *to)
{
    const int most = t->merged ? DT_TILE_WINDOWS : DT_MAX(1, pack_blocks(t) / t->in.blocks);

    for (int x = x0, some; x < x1; x += some, to += (size_t)(some * t->in.blocks) * t->block)
        some = pack_pixels(t, in, group, y, x, DT_MIN(x1 - x, most), to);
}

/* By way of the stack: rows of a pixel may lie in one set of the first-level cache, where each
 * would be loaded anew for every 16 bytes of it. */
void dt_tiles_left(const dt_tiles *t, const char *in, int group, int y, int x0, int x1, int b0,
                   int b1, char *to)
{
    const size_t plane = (size_t)t->in_columns * t->block;
    const int blocks = t->in.blocks, most = pack_blocks(t);
    const bool whole = t->merged || (blocks <= most && b1 - b0 == blocks);
    _Alignas(64) char room[PACK_BYTES];

    for (int x = x0, some; x < x1; x += some, to += (size_t)some * t->block) {
        some = 1;
        if (whole) {
            some = pack_pixels(t, in, group, y, x, DT_MIN(x1 - x, most / blocks), room);
            for (int i = 0; i < some * blocks; i++)
                if (i % blocks >= b0 && i % blocks < b1)
                    t->backend->turn_left(room + (size_t)i * t->block,
                                          to + (size_t)(i % blocks - b0) * plane +
                                              (size_t)(i / blocks) * t->block);
            continue;
        }
        for (int b = b0; b < b1; b += most) {
            const int count = DT_MIN(most, b1 - b);
            pack_pixel(t, in, group, y, x, b, count, b1, room);
            for (int i = 0; i < count; i++)
                t->backend->turn_left(room + (size_t)i * t->block,
                                      to + (size_t)(b - b0 + i) * plane);
        }
    }
}

/* ---- Pixels of dy, for the weight gradient --------------------------------------------------- */

void dt_tiles_right(const dt_tiles *t, const char *dy, int line, int x, int block, char *to)
{
    const int group = line / t->out_h, y = line % t->out_h, rows = dt_tiles_rows(t, group, x);
    const int channels = DT_MIN(DT_TILE, t->out.channels - block * DT_TILE);
    const char *from = dy + dt_tile_at(&t->out, group, y, x) + (size_t)block * t->wide;
    _Alignas(64) char room[DT_TILE_AREA * sizeof(float)];

    if (rows == DT_TILE && channels == DT_TILE) {
        t->backend->turn_right(from, t->out.row, t->out.pixel, to);
        return;
    }
    for (int s = 0; s < t->folds; s++, from += (size_t)t->out_h * t->out.line) {
        const dt_tile_rows g = {.from = from,
                                .row = t->out.row,
                                .rows = y + s * t->out_h < t->out_lines ? rows : 0,
                                .channels = channels,
                                .fill = t->fold};
        t->backend->gather(&g, 1, room + (size_t)(s * t->fold) * t->wide);
    }
    t->backend->turn_right(room, t->wide, 0, to);
}

/* ---- Weights: [output block][tap y][tap x][input block], a block each ----------------------- */

/* rows x columns floats of master, both at most 32, to a block. */
static void pack_block(const dt_tiles *t, const float *from, int rows, int columns, char *to)
{
    const size_t from_row = (size_t)dt_tiles_row(t);
    const bool data = t->pass == DT_PASS_DATA;
    float room[DT_TILE_AREA];
    size_t row = from_row;

    if (rows < DT_TILE || columns < DT_TILE) {
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
    const int64_t rows = t->pass == DT_PASS_DATA ? t->out.channels : c->ic;

    return t->merged ? 0 : (t->tap_y[ty] * c->kernel[1] + t->tap_x[tx]) * rows;
}

void dt_tiles_pack(const dt_tiles *t, const float *master, char *packed, size_t first, size_t end)
{
    const bool data = t->pass == DT_PASS_DATA;
    const int steps = dt_tiles_steps(t);

    for (int i = (int)first; i < (int)end; i++) {
        const int o = i / steps * DT_TILE, tap = i % steps / t->in.blocks;
        const int k = i % t->in.blocks * DT_TILE; /* of the reduction */
        const int outs = DT_MIN(DT_TILE, t->out.channels - o);
        const int ins = DT_MIN(DT_TILE, t->in.channels - k);
        const int64_t row = pack_master(t, tap / t->taps_x, tap % t->taps_x) + (data ? o : k);
        pack_block(t, master + row * dt_tiles_row(t) + (data ? k : o), data ? outs : ins,
                   data ? ins : outs, packed + (size_t)i * t->block);
    }
    dt_stream_fence();
}
