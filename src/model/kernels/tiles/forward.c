/* forward.c - forward pass and data gradient by products of tiles.
 *
 *     for each panel of output blocks, chunk of columns, band of lines:
 *       pack the lines that the band reads first, into a ring
 *       for some output blocks of the panel, group of tile pixels, output block:
 *         for each chunk of the reduction, tile pixel of the group:
 *           multiply: 32 rows x 32 channels; after the last chunk add the bias, round, store
 *         where a batch norm takes the rows (rows.h): its sums over them, while they are in caches
 *
 * The reduction runs over tap rows, taps, channels, wherever its chunks end. A place is a tile
 * pixel in the order of panels, chunks, lines, columns; a unit is a range of places. */
#include "tiles.h"

enum {
    BAND_BYTES = 224 * 1024,  /* packed lines of a band, at least */
    PANEL_BYTES = 384 * 1024, /* weights beside them in the second-level cache, and rows that are
                               * taken before they are stored past it */
    GROUP = 8, /* tile pixels; half as many where the next group is prefetched beside them */
    STREAM_BYTES = 8 << 20, /* written past the caches: what would not stay in them */
    NARROW = 4, /* columns of a chunk, at least, where more threads than lines share the work */
};

typedef struct forward_unit {
    const dt_tiles *t;
    const char *in, *weights;
    const float *bias;
    char *out;
    dt_dtype type;
    bool stream;
    int block0, block1;   /* output blocks */
    int x0, x1, in0, in1; /* columns of output and input */
    int p0, p1;           /* tile pixels of these columns, line by line from the first line on */
    dt_tile_run *run;     /* [taps_y] */
    float *sums;          /* [group] blocks, of which a single chunk takes the first */
    char *lines;          /* the ring */
    const dt_conv_args *args;
    char *stage;        /* rows of a block that is taken, or NULL: they go to the tensor */
    int stage0, staged; /* output blocks that lie there */
} forward_unit;

/* ---- How it is cut --------------------------------------------------------------------------- */

/* Bytes that the pass writes. Logits are not worth asking. */
static size_t forward_stored(const dt_tiles *t)
{
    const dt_conv *c = &t->conv;
    const int64_t pixels = t->pass == DT_PASS_DATA ? c->ih * c->iw : c->oh * c->ow;
    return t->pass == DT_PASS_FORWARD && c->out_type != c->type
               ? 0
               : (size_t)(c->n * pixels * t->out.channels) * dt_dtype_bytes(c->type);
}

/* The piece of a unit, from place `at` on, in one panel and chunk; returns the place after it. */
static int64_t forward_piece(const dt_tiles *t, int64_t at, int64_t end, forward_unit *u)
{
    const int lines = t->groups * t->out_h;
    const int64_t panel = (int64_t)lines * t->out_w, chunk = (int64_t)lines * t->columns;
    const int64_t first = at % panel / chunk * chunk;

    u->block0 = (int)(at / panel) * t->panel;
    u->block1 = DT_MIN(t->out.blocks, u->block0 + t->panel);
    u->x0 = (int)(first / lines);
    u->x1 = DT_MIN(t->out_w, u->x0 + t->columns);
    const int width = u->x1 - u->x0;
    u->p0 = (int)(at % panel - first);
    u->p1 = (int)DT_MIN((int64_t)lines * width, u->p0 + end - at);
    at += u->p1 - u->p0;
    const int line = u->p0 / width;
    if ((u->p1 - 1) / width == line) { /* some columns of one line */
        u->x1 = u->x0 + (u->p1 - 1) % width + 1;
        u->x0 += u->p0 % width;
        u->p0 = line * (u->x1 - u->x0);
        u->p1 = u->p0 + u->x1 - u->x0;
    }
    dt_tiles_reads(t, u->x0, u->x1, &u->in0, &u->in1);
    return at;
}

/* Columns [x0, x1) of a line, each counted with its taps. */
static int forward_taps(const dt_tiles *t, int line, int x0, int x1)
{
    const int left = dt_tiles_up(t->rows, DT_TILE) - line * t->out_w;
    int taps = 0;

    if (t->flat)
        return DT_MAX(0, DT_MIN(x1, left) - x0);
    for (int x = x0; x < x1; x++)
        taps += t->x[x].count;
    return taps * t->y[line % t->out_h].count;
}

dt_unit dt_tiles_forward_unit(const dt_tiles *t, int unit)
{
    const double block_s = 25e-9 * (double)t->in.each;
    const double weight = 0.5; /* of a step: it comes from the third level */
    double time = 0, bytes = 0;
    forward_unit u;

    for (int64_t at = t->start[unit]; at < t->start[unit + 1];) {
        at = forward_piece(t, at, t->start[unit + 1], &u);
        const int width = u.x1 - u.x0, first = u.p0 / width, end = dt_tiles_up(u.p1, width);
        const double blocks = u.block1 - u.block0;
        double taps = 0;
        for (int g = first; g < end; g++)
            taps += forward_taps(t, g, u.x0 + DT_MAX(0, u.p0 - g * width),
                                 u.x0 + DT_MIN(width, u.p1 - g * width));
        const double read =
            t->direct ? taps * t->in.blocks / 2
                      : (double)dt_tiles_lines(t, first, end) * (u.in1 - u.in0) * t->in.blocks;
        const double steps = blocks * dt_tiles_steps(t);
        time += taps * t->in.blocks * blocks * t->backend->product + read +
                weight * steps * dt_tiles_up(end - first, t->band);
        bytes += ((t->direct ? 2 * read : read) + steps) * (double)t->block;
    }
    return (dt_unit){time * block_s, bytes};
}

/* Units with equal numbers of products; returns the largest cost of one. */
static double forward_share(dt_tiles *t)
{
    const int lines = t->groups * t->out_h;
    double total = 0, sum = 0;
    int64_t at = 0;
    int unit = 1;

    for (int g = 0; g < lines; g++)
        total += (double)forward_taps(t, g, 0, t->out_w) * t->out.blocks;
    for (int b = 0; b < t->out.blocks; b += t->panel)
        for (int x = 0; x < t->out_w; x += t->columns)
            for (int g = 0; g < lines; g++) {
                const int width = DT_MIN(t->columns, t->out_w - x);
                const double taps =
                    (double)forward_taps(t, g, x, x + width) * DT_MIN(t->panel, t->out.blocks - b);
                for (; unit < t->units && sum + taps >= total * unit / t->units; unit++) {
                    const double part = taps > 0 ? (total * unit / t->units - sum) / taps : 0;
                    const int pieces = (int)(part * width / t->piece + 0.5);
                    t->start[unit] = at + DT_MIN(width, pieces * t->piece);
                }
                sum += taps;
                at += width;
            }
    for (; unit <= t->units; unit++)
        t->start[unit] = at;
    return dt_tiles_longest(t);
}

static void forward_columns(dt_tiles *t, int columns)
{
    const int64_t width = dt_tiles_up((int64_t)t->in_w * columns, t->out_w);
    const int64_t bytes = width * t->in.blocks * (int64_t)t->block;

    t->band = DT_MIN(t->groups * t->out_h, t->flat ? 1 : dt_tiles_up(BAND_BYTES, bytes));
    dt_tiles_cut_columns(t, columns);
}

/* Tile pixels that are computed before their rows are taken: pieces, and whole groups. */
static int forward_taken(const dt_tiles *t)
{
    return DT_MAX(t->piece, t->group);
}

/* Panels pack lines again for other output blocks, chunks pack their edges twice: as few as keep
 * all threads busy. */
void dt_tiles_forward_cut(dt_tiles *t)
{
    const size_t weights = (size_t)dt_tiles_steps(t) * t->block;
    const int64_t pixels = (int64_t)t->groups * t->out_h * t->out_w;
    int panel = t->out.blocks, columns = t->out_w;
    double best = HUGE_VAL;

    t->group = t->backend->ahead ? GROUP / 2 : GROUP;
    t->direct = t->flat && t->in.channels % DT_TILE == 0;
    t->stream = forward_stored(t) >= STREAM_BYTES && t->out.channels % DT_TILE == 0;
    const size_t rows =
        t->stream && t->conv.taken ? (size_t)(forward_taken(t) * DT_TILE) * t->wide : 0;
    t->weight_panel = DT_MAX(1, (int)(PANEL_BYTES / (weights + rows)));
    if (t->conv.taken && t->pass == DT_PASS_DATA) /* other tensors are read beside these rows: */
        t->weight_panel = t->out.blocks;          /* a CPU foresees whole ones */
    t->stage = (size_t)DT_MIN(t->weight_panel, t->out.blocks) * rows;
    t->panel = panel;
    t->units = 1;
    forward_columns(t, columns);
    forward_share(t);
    t->alone = dt_tiles_forward_unit(t, 0);
    t->units = (int)DT_MIN(t->conv.threads, pixels * t->out.blocks);
    for (t->panel = t->out.blocks; t->units > 1; t->panel = (t->panel + 1) / 2) {
        for (int most = t->out_w;; most = (most + 1) / 2) {
            forward_columns(t, most);
            const double longest = forward_share(t);
            if (longest < 0.99 * best)
                best = longest, panel = t->panel, columns = most;
            if (t->flat || most < 2 * NARROW)
                break;
        }
        if (t->panel == 1)
            break;
    }
    t->panel = panel;
    forward_columns(t, columns);
    forward_share(t);
    t->scratch = t->stage + (size_t)t->ring * t->line +
                 (size_t)t->group * DT_TILE_AREA * sizeof(float) +
                 dt_align((size_t)t->taps_y * sizeof(dt_tile_run), 64);
}

/* ---- One unit -------------------------------------------------------------------------------- */

/* The runs of one tile pixel inside steps [k0, k1) of the reduction: one for each tap row. */
static int forward_runs(const forward_unit *u, int line, int x, const char *weights, int k0, int k1)
{
    const dt_tiles *t = u->t;
    const int group = line / t->out_h, blocks = t->in.blocks;
    const dt_tile_span ys = t->y[line % t->out_h], xs = t->x[x];
    int runs = 0;

    if (t->direct && dt_tiles_rows(t, group, x) == DT_TILE) {
        const char *a = u->in + dt_tile_at(&t->in, group, 0, x) + (size_t)k0 * t->wide;
        u->run[0] = (dt_tile_run){a,          weights + (size_t)k0 * t->block, t->in.row, t->wide,
                                  t->in.each, DT_MIN(k1, blocks) - k0};
        return 1;
    }
    for (int j = 0; j < ys.count; j++) {
        const int start = ((ys.tap + j) * t->taps_x + xs.tap) * blocks;
        const int lo = DT_MAX(start, k0), hi = DT_MIN(start + xs.count * blocks, k1);
        const char *a = dt_tiles_slot(t, u->lines, group * t->in_h + ys.in + j);
        if (lo >= hi)
            continue;
        a += (size_t)((xs.in - u->in0) * blocks + lo - start) * t->block;
        u->run[runs++] = (dt_tile_run){
            a, weights + (size_t)lo * t->block, t->wide, t->block, t->in.each, hi - lo};
    }
    return runs;
}

/* The rows that are taken of the piece of this tile pixel. */
static char *forward_stage(const forward_unit *u, int x)
{
    const dt_tiles *t = u->t;
    const int piece = x / t->piece % (forward_taken(t) / t->piece);
    return u->stage ? u->stage + (size_t)(piece * t->piece * DT_TILE * u->staged) * t->wide : NULL;
}

static dt_tile_out forward_out(const forward_unit *u, int line, int x, int block)
{
    const dt_tiles *t = u->t;
    const int group = line / t->out_h, y = line % t->out_h, first = block * DT_TILE;
    dt_tile_out out = {.at =
                           u->out + dt_tile_at(&t->out, group, y, x) + (size_t)first * t->out.each,
                       .row = t->out.row,
                       .jump = (size_t)t->out_h * t->out.line,
                       .fold = t->fold,
                       .rows = dt_tiles_rows(t, group, x),
                       .folds = DT_MIN(t->folds, dt_tiles_up(t->out_lines - y, t->out_h)),
                       .channels = DT_MIN(DT_TILE, t->out.channels - first),
                       .type = u->type,
                       .stream = u->stream,
                       .bias = u->bias ? u->bias + first : NULL};

    if (u->stage) { /* [fold][image][pixel], flat [pixel][row] */
        const size_t pixel = (size_t)u->staged * t->wide;
        const int place = x % t->piece, pixels = DT_MIN(t->piece, t->out_w - x + place);
        out.row = t->flat ? pixel : (size_t)pixels * pixel;
        out.jump = (size_t)out.rows * out.row;
        out.at = forward_stage(u, x) + (size_t)(t->flat ? place * DT_TILE : place) * pixel +
                 (size_t)(block - u->stage0) * t->wide;
        out.stream = false;
    }
    return out;
}

/* Prefetches the next group's rows, which are multiplied where they lie: a part of them with each
 * block of the first panel. */
static void forward_ahead(const forward_unit *u, int line0, int p, int block)
{
    const dt_tiles *t = u->t;
    const int width = u->x1 - u->x0, parts = DT_MIN(t->weight_panel, u->block1 - u->block0);
    const int64_t next = (int64_t)(line0 + p / width) * t->out_w + u->x0 + p % width + t->group;
    const int64_t end = DT_MIN((next + t->group) * DT_TILE, t->rows) * (int64_t)t->in.row;
    const int64_t bytes = dt_tiles_up(t->group * (int64_t)t->in.pixel, parts);
    const int64_t from = next * (int64_t)t->in.pixel + (block - u->block0) * bytes;

    for (int64_t i = from; i < DT_MIN(end, from + bytes); i += 64)
        __builtin_prefetch(u->in + i);
}

/* One output block of the tile pixels [p0, p1) of the band that begins at this line. */
static void forward_group(const forward_unit *u, int line0, int p0, int p1, int block)
{
    const dt_tiles *t = u->t;
    const int steps = dt_tiles_steps(t), width = u->x1 - u->x0;
    const char *weights = u->weights + (size_t)block * (size_t)steps * t->block;
    const int chunk = DT_MIN(steps, t->backend->chunk);

    if (t->direct && t->backend->ahead)
        forward_ahead(u, line0, p0, block);
    for (int k0 = 0; k0 < steps; k0 += chunk) {
        const int k1 = DT_MIN(steps, k0 + chunk);
        for (int p = p0; p < p1; p++) {
            const int line = line0 + p / width, x = u->x0 + p % width;
            const int rows = dt_tiles_rows(t, line / t->out_h, x);
            float *sums = u->sums + (chunk < steps ? p - p0 : 0) * DT_TILE_AREA;
            if (rows == 0)
                continue;
            const int runs = forward_runs(u, line, x, weights, k0, k1);
            const dt_tile_out out = forward_out(u, line, x, block);
            t->backend->multiply(sums, u->run, runs, t->folds > 1 ? DT_TILE : rows, k0 == 0,
                                 k1 == steps ? &out : NULL);
        }
    }
}

/* Output blocks [b0, b1) of the tile pixels [p0, p1), which lie in one line, are finished. */
static void forward_take(const forward_unit *u, int line0, int p0, int p1, int b0, int b1)
{
    const dt_tiles *t = u->t;
    const int width = u->x1 - u->x0, line = line0 + p0 / width;
    const int pieces = dt_tiles_up(t->out_w, t->piece);
    const int channels = DT_MIN(t->out.channels, b1 * DT_TILE) - b0 * DT_TILE;

    for (int x = u->x0 + p0 % width; p0 < p1; p0 += t->piece, x += t->piece)
        if (dt_tiles_rows(t, line / t->out_h, x) > 0)
            u->args->take(u->args->taker, (int64_t)line * pieces + x / t->piece, b0 * DT_TILE,
                          channels, forward_stage(u, x));
}

/* Tile pixels [p0, p1), counted from line0 on. */
static void forward_band(forward_unit *u, int line0, int p0, int p1)
{
    const dt_tiles *t = u->t;
    const int width = u->x1 - u->x0;

    for (int b0 = u->block0, b1; b0 < u->block1; b0 = b1) {
        b1 = DT_MIN(u->block1, b0 + t->weight_panel);
        u->stage0 = b0, u->staged = b1 - b0;
        for (int p = p0, end; p < p1; p = end) {
            const int left = width - p % width; /* of the line */
            end = DT_MIN(p1, p + (u->args->take ? DT_MIN(left, forward_taken(t)) : t->group));
            for (int first = p; first < end; first += t->group)
                for (int b = b0; b < b1; b++, dt_poll())
                    forward_group(u, line0, first, DT_MIN(end, first + t->group), b);
            if (u->args->take)
                forward_take(u, line0, p, end, b0, b1);
        }
    }
}

/* Lines that output line g reads and that are not packed yet: those after `done`. */
static int forward_pack(const forward_unit *u, int g, int done)
{
    const dt_tiles *t = u->t;
    const int group = g / t->out_h;
    int x = u->in0;

    while (t->direct && x < u->in1 && dt_tiles_rows(t, group, x) == DT_TILE)
        x++;
    for (int line = dt_tiles_next(t, g, &done); line <= done; line++)
        dt_tiles_gather(t, u->in, group, line - group * t->in_h, x, u->in1,
                        dt_tiles_slot(t, u->lines, line) +
                            (size_t)((x - u->in0) * t->in.blocks) * t->block);
    return done;
}

void dt_tiles_forward(const dt_tiles *t, int unit, const dt_conv_args *a, void *scratch)
{
    const bool data = t->pass == DT_PASS_DATA;
    forward_unit u = {.t = t,
                      .in = data ? a->dy : a->x,
                      .weights = a->packed,
                      .bias = !data && t->conv.bias ? a->bias : NULL,
                      .out = data ? a->dx : a->y,
                      .type = data ? t->conv.type : t->conv.out_type,
                      .args = a,
                      .sums = (float *)(void *)((char *)scratch + t->stage)};

    u.stream = t->stream && (uintptr_t)u.out % 64 == 0;
    u.stage = a->take && t->stage ? scratch : NULL;
    u.lines = (char *)(u.sums + t->group * DT_TILE_AREA);
    u.run = (dt_tile_run *)(void *)(u.lines + (size_t)t->ring * t->line);
    for (int64_t at = t->start[unit]; at < t->start[unit + 1];) {
        at = forward_piece(t, at, t->start[unit + 1], &u);
        const int width = u.x1 - u.x0, end = dt_tiles_up(u.p1, width);
        int done = -1;
        for (int line = u.p0 / width; line < end; line += t->band) {
            const int stop = DT_MIN(end, line + t->band), first = line * width;
            for (int g = line; g < stop; g++)
                done = forward_pack(&u, g, done);
            forward_band(&u, line, DT_MAX(0, u.p0 - first),
                         DT_MIN(u.p1 - first, (stop - line) * width));
        }
    }
    dt_stream_fence();
}
