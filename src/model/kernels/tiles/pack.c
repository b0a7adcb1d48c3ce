/* pack.c - operands of tile products: pixels of the input, and weights. */
#include "tiles.h"

/* ---- Pixels ---------------------------------------------------------------------------------- */

/* A virtual pixel: the places of the kernel, or of one of its rows, are channels. */
static void pack_virtual(const dt_tiles *t, const dt_bf16 *in, int group, int y, int x, int rows,
                         dt_bf16 *to)
{
    const dt_conv *c = &t->conv;
    const int64_t wide = c->kernel[1] * c->ic, line = c->iw * c->ic;
    const int64_t at = (x * c->stride[1] - c->pad[1]) * c->ic; /* of the first, in its line */
    const int64_t first = DT_MIN(wide, at < 0 ? -at : 0);
    const int64_t end = DT_MAX(first, DT_MIN(wide, line - at));

    for (int m = 0; m < t->merged; m++) {
        const int64_t h = t->merged > 1 ? y * c->stride[0] - c->pad[0] + m : y;
        const bool inside = h >= 0 && h < c->ih && end > first;
        const dt_bf16 *from = in + (size_t)group * t->in.group;
        if (inside)
            from += h * line + at + first;
        t->way->gather(from, t->in.row, rows, (int)(m * wide + first),
                       inside ? (int)(end - first) : 0, m > 0, to);
    }
}

/* A block whose rows and channels are all there is transposed where it lies. */
static void pack_turned(const dt_tiles *t, const dt_bf16 *from, int rows, int channels, dt_bf16 *to)
{
    _Alignas(64) dt_bf16 room[DT_TILE_AREA];

    if (rows == DT_TILE && channels >= DT_TILE) {
        t->way->transpose(from, t->in.row, to);
        return;
    }
    t->way->gather(from, t->in.row, rows, 0, DT_MIN(channels, DT_TILE), false, room);
    t->way->transpose(room, DT_TILE, to);
}

void dt_tiles_gather(const dt_tiles *t, const dt_bf16 *in, int group, int y, int x, bool turned,
                     dt_bf16 *to, size_t step)
{
    const int rows = dt_tiles_rows(t, group, x);
    _Alignas(64) dt_bf16 room[DT_TILE_AREA];

    if (t->merged) {
        pack_virtual(t, in, group, y, x, rows, turned ? room : to);
        if (turned)
            t->way->transpose(room, DT_TILE, to);
        return;
    }
    in += dt_tile_at(&t->in, group, y, x);
    for (int left = t->in.channels; left > 0; left -= DT_TILE, in += DT_TILE, to += step) {
        if (turned)
            pack_turned(t, in, rows, left, to);
        else
            t->way->gather(in, t->in.row, rows, 0, DT_MIN(left, DT_TILE), false, to);
    }
}

/* ---- Weights: [output block][tap y][tap x][input block], a block each ------------------------- */

size_t dt_tiles_packed_bytes(const dt_tiles *t)
{
    return (size_t)t->out.blocks * (size_t)dt_tiles_steps(t) * DT_TILE_AREA * sizeof(dt_bf16);
}

/* rows x columns floats of master, both at most 32, to a block. */
static void pack_block(const dt_tiles *t, const float *from, int rows, int columns, dt_bf16 *to)
{
    const size_t oc = (size_t)t->conv.oc;
    const bool data = t->pass == DT_PASS_DATA;
    float room[DT_TILE_AREA];
    size_t row = oc;

    if (rows < DT_TILE || columns < DT_TILE) {
        memset(room, 0, sizeof room);
        for (int r = 0; r < rows; r++)
            memcpy(room + r * DT_TILE, from + (size_t)r * oc, (size_t)columns * sizeof *room);
        from = room;
        row = DT_TILE;
    }
    (data ? t->way->pack_columns : t->way->pack_rows)(from, row, to);
}

/* Master seen as [kernel place and input channel][output channel]: its first row of a tap. */
static int64_t pack_row(const dt_tiles *t, int ty, int tx)
{
    const dt_conv *c = &t->conv;

    if (t->merged)
        return t->merged > 1 ? 0 : ty * c->kernel[1] * c->ic;
    return (t->tap_y[ty] * c->kernel[1] + t->tap_x[tx]) * c->ic;
}

void dt_tiles_pack(const dt_tiles *t, const float *master, dt_bf16 *packed)
{
    const bool data = t->pass == DT_PASS_DATA;
    const int steps = dt_tiles_steps(t);

    for (int i = 0; i < t->out.blocks * steps; i++, packed += DT_TILE_AREA) {
        const int o = i / steps * DT_TILE, tap = i % steps / t->in.blocks;
        const int k = i % t->in.blocks * DT_TILE; /* of the reduction */
        const int outs = DT_MIN(DT_TILE, t->out.channels - o);
        const int ins = DT_MIN(DT_TILE, t->in.channels - k);
        const int64_t row = pack_row(t, tap / t->taps_x, tap % t->taps_x) + (data ? o : k);
        pack_block(t, master + row * t->conv.oc + (data ? k : o), data ? outs : ins,
                   data ? ins : outs, packed);
    }
}
