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
#include "tiles.h"

enum {
    BAND_PIXELS = 32,
    LARGE_PIXELS = 64,
    PART4_BYTES = 1200 * 1024,     /* four parts up to this size of dw, */
    PART2_BYTES = 3 * 1024 * 1024, /* two up to this: adding them is for something */
    PANEL_BLOCKS = 16,
    RIGHT_BYTES = 384 * 1024, /* of dy that are multiplied by all of x before the next */
};

typedef struct weights_unit {
    const dt_tiles *t;
    const char *x, *dy;
    int part;
    int panel0, blocks;   /* the panel: first output block, how many */
    int p0, p1;           /* places in the panel */
    int block0, block1;   /* output blocks of these places */
    int in_b0, in_b1;     /* input blocks */
    int right0, lines0;   /* the first blocks that are packed, and line: */
    int g0;               /* of dy */
    int x0, x1, in0, in1; /* columns of dy and x */
    bool fresh, last;     /* nothing is summed yet; nothing is summed after this band */
    float *dw;            /* where sums go then, or NULL: they stay */
    float *sums;          /* of this part: [output block][tap][input block]; in `room`: */
    float *room;          /* [output block of the panel][tap] */
    dt_tile_run *run;     /* [band] */
    char *lines;          /* x: ring of [input block][column] */
    char *right;          /* dy: [output block of the panel][line of the band][column] */
} weights_unit;

/* ---- How it is cut --------------------------------------------------------------------------- */

struct dt_tiles_sharing dt_tiles_sharing = {60, 512 * 1024};

static size_t weights_sums(const dt_tiles *t, int blocks) /* floats, of output blocks */
{
    return (size_t)blocks * (size_t)dt_tiles_steps(t) * DT_TILE_AREA;
}

size_t dt_tiles_part(const dt_tiles *t)
{
    return weights_sums(t, t->out.blocks);
}

/* The piece of a unit, from place `at` on, in one part and panel; returns the place after it. */
static int64_t weights_piece(const dt_tiles *t, int64_t at, int64_t end, weights_unit *u)
{
    const int taps = t->taps_y * t->taps_x;
    const int64_t part = (int64_t)t->out.blocks * t->in.blocks * taps;
    const int64_t panel = (int64_t)t->panel * t->in.blocks * taps;

    u->part = (int)(at / part);
    u->panel0 = (int)(at % part / panel) * t->panel;
    u->blocks = DT_MIN(t->panel, t->out.blocks - u->panel0);
    const int row = u->blocks * taps;
    u->p0 = (int)(at % part % panel);
    u->p1 = (int)DT_MIN(u->p0 + end - at, (int64_t)row * t->in.blocks);
    u->in_b0 = u->p0 / row;
    u->in_b1 = dt_tiles_up(u->p1, row);
    const bool one = u->in_b1 - u->in_b0 == 1;
    u->block0 = u->panel0 + (one ? u->p0 % row / taps : 0);
    u->block1 = u->panel0 + (one ? ((u->p1 - 1) % row) / taps + 1 : u->blocks);
    u->right0 = t->team ? 0 : u->block0;
    u->lines0 = t->team ? 0 : u->in_b0;
    return at + u->p1 - u->p0;
}

dt_unit dt_tiles_weights_unit(const dt_tiles *t, int unit)
{
    const double block_s = 25e-9 * (double)t->in.each, near = 0.2;
    const double turned = 2, paired = 1.2;
    double time = t->team ? dt_tiles_sharing.wait * dt_tiles_weights_rounds(t) : 0, bytes = 0;
    weights_unit u = {.t = t};

    for (int64_t at = t->start[unit]; at < t->start[unit + 1];) {
        at = weights_piece(t, at, t->start[unit + 1], &u);
        const int first = dt_tiles_strip(t, u.part), end = dt_tiles_strip(t, u.part + 1);
        double x = 0, columns = 0, lines = 0; /* the last two with their taps */
        for (int g = first; g < end; g++)
            lines += t->y[g % t->out_h].count;
        for (int i = 0; i < t->out_w; i++)
            columns += t->x[i].count;
        for (int x0 = 0, in0, in1; x0 < t->out_w; x0 += t->columns) {
            dt_tiles_reads(t, x0, DT_MIN(t->out_w, x0 + t->columns), &in0, &in1);
            x += in1 - in0;
        }
        x *= (double)dt_tiles_lines(t, first, end) * (u.in_b1 - u.in_b0);
        const double dy = (double)(end - first) * t->out_w * (u.block1 - u.block0);
        time += (u.p1 - u.p0) * lines * columns / (t->taps_y * t->taps_x) * t->backend->product;
        time += t->team ? (x + dy) * near : x * turned + dy * paired;
        bytes += (x + dy) * (double)t->block;
    }
    /* Shares of what all threads do afterwards: sum of the parts, bias gradient. */
    const double sums = (double)dt_tiles_part(t) * (t->strips + 1) * sizeof(float);
    const double dy = t->conv.bias ? (double)t->groups * (double)t->out.group : 0;
    time += (sums + dy) / (double)t->block / t->units;
    if (t->team) /* and of the cells */
        time +=
            ((double)dt_tiles_lines(t, 0, t->groups * t->out_h) * t->in_w * t->in.blocks * turned +
             (double)t->groups * t->out_h * t->out_w * t->out.blocks * paired) /
            t->units;
    return (dt_unit){time * block_s, bytes};
}

/* Units of as many places, or (even) of as many lines: parts may differ by one. */
static void weights_starts(dt_tiles *t, bool even)
{
    const int64_t places = (int64_t)t->out.blocks * dt_tiles_steps(t);
    const int64_t lines = t->groups * t->out_h;

    for (int i = 0, part = 0; i <= t->units; i++) {
        const int64_t at = lines * i * places / t->units;
        while (part + 1 < t->strips && dt_tiles_strip(t, part + 1) * places <= at)
            part++;
        const int first = dt_tiles_strip(t, part), here = dt_tiles_strip(t, part + 1) - first;
        t->start[i] =
            even ? part * places + (at - first * places) / here : t->strips * places * i / t->units;
    }
}

/* Finds starts and panel; returns the largest cost of a unit. */
static double weights_share(dt_tiles *t)
{
    const int most = DT_MIN(PANEL_BLOCKS, t->out.blocks);
    double best = HUGE_VAL;
    int panel = most;
    bool even = false;

    for (int try = 0; try < 2 && t->units > 1; try++) {
        weights_starts(t, try);
        for (t->panel = most;; t->panel = (t->panel + 1) / 2) {
            const double longest = dt_tiles_longest(t);
            if (longest < 0.99 * best)
                best = longest, panel = t->panel, even = try;
            if (t->panel == 1)
                break;
        }
    }
    t->panel = panel;
    weights_starts(t, even);
    return best;
}

/* Bytes of a packed span of one part, of so many output blocks. */
static size_t weights_span(const dt_tiles *t, int blocks)
{
    return (size_t)t->ring * t->line + (size_t)(blocks * t->span * t->columns) * t->block;
}

/* Bytes of a thread's scratch: runs; sums that are stored at once. */
static size_t weights_runs(const dt_tiles *t)
{
    return dt_align((size_t)t->band * sizeof(dt_tile_run), 64);
}

static size_t weights_room(const dt_tiles *t)
{
    const int blocks = t->panel * t->taps_y * t->taps_x;
    return t->once ? (size_t)(blocks * DT_TILE_AREA) * sizeof(float) : 0;
}

/* As many lines at a time as the threads' caches hold. */
static void weights_team(dt_tiles *t)
{
    const int lines = dt_tiles_strip(t, 1);
    const size_t most = (size_t)t->units * dt_tiles_sharing.bytes;

    for (t->span = lines;; t->span = (t->span + 1) / 2) {
        t->ring = dt_tiles_ring(t, t->span);
        t->team = (size_t)t->strips * weights_span(t, t->out.blocks);
        if (t->team <= most || t->span <= t->band)
            break;
    }
}

void dt_tiles_weights_cut(dt_tiles *t)
{
    /* Parts, band and columns follow from the whole dw: they decide the order of the sums. */
    const size_t bytes = weights_sums(t, t->all_blocks) * sizeof(float);
    const int lines = t->groups * t->out_h;
    const int parts = bytes <= PART4_BYTES ? 4 : bytes <= PART2_BYTES ? 2 : 1;

    t->strips = lines >= parts ? parts : lines >= 2 ? 2 : 1;
    t->band = DT_MIN(lines, dt_tiles_up(bytes >= 1 << 20 ? LARGE_PIXELS : BAND_PIXELS, t->out_w));
    t->span = t->band;
    dt_tiles_cut_columns(t, t->out_w);
    t->units = 1;
    weights_share(t);
    t->alone = dt_tiles_weights_unit(t, 0);
    t->units = (int)DT_MIN(t->conv.threads, (int64_t)t->strips * t->out.blocks * dt_tiles_steps(t));
    const double apart = weights_share(t);
    if (t->units > t->strips) {
        weights_team(t);
        if (weights_share(t) > 0.95 * apart) {
            t->team = 0;
            t->span = t->band;
            t->ring = dt_tiles_ring(t, t->band);
            weights_share(t);
        }
    }
    t->group = DT_MAX(1, RIGHT_BYTES / (t->band * t->columns * (int)t->block));
    t->once = t->strips == 1 && t->columns == t->out_w && DT_MIN(t->band, t->span) >= lines;
    t->scratch = weights_runs(t) + (t->team ? 0 : weights_span(t, t->panel)) + weights_room(t);
}

size_t dt_tiles_partial_bytes(const dt_tiles *t)
{
    return t->once ? 0 : (size_t)t->strips * dt_tiles_part(t) * sizeof(float);
}

/* Whether that block of sums is among the places of the piece. */
static bool weights_has(const weights_unit *u, int block, int tap, int in_block)
{
    const int taps = u->t->taps_y * u->t->taps_x;
    const int place = (in_block * u->blocks + block - u->panel0) * taps + tap;
    return place >= u->p0 && place < u->p1;
}

/* ---- Operands -------------------------------------------------------------------------------- */

static char *weights_right_at(const weights_unit *u, int block, int slot)
{
    const dt_tiles *t = u->t;
    return u->right + (size_t)(((block - u->right0) * t->span + slot) * t->columns) * t->block;
}

/* Lines of x that line g of dy reads and that come after `done`. */
static int weights_left(const weights_unit *u, int g, int done)
{
    const dt_tiles *t = u->t;
    const int group = g / t->out_h;

    for (int line = dt_tiles_next(t, g, &done); line <= done; line++)
        dt_tiles_left(t, u->x, group, line - group * t->in_h, u->in0, u->in1, u->in_b0, u->in_b1,
                      dt_tiles_slot(t, u->lines, line));
    return done;
}

static void weights_right(const weights_unit *u, int g, int slot)
{
    const dt_tiles *t = u->t;

    for (int x = u->x0; x < u->x1; x++)
        for (int b = u->block0; b < u->block1; b++)
            dt_tiles_right(t, u->dy, g, x, b,
                           weights_right_at(u, b, slot) + (size_t)(x - u->x0) * t->block);
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

/* Where a block of sums lies: all have a place, or each waits only until it is stored. */
static float *weights_at_place(const weights_unit *u, int block, int tap, int ib)
{
    const dt_tiles *t = u->t;
    const int taps = t->taps_y * t->taps_x;
    const int place =
        t->once ? (block - u->panel0) * taps + tap : (block * taps + tap) * t->in.blocks + ib;
    return u->sums + (size_t)place * DT_TILE_AREA;
}

/* Finished sums of the output blocks [b0, b1), row by row, to dw. */
static void weights_store(const weights_unit *u, int b0, int b1, int ib)
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
static void weights_block(const weights_unit *u, int g0, int g1, int block, int tap, int ib)
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
        const char *a = dt_tiles_slot(t, u->lines, line) + (size_t)in * t->block;
        const char *b = weights_right_at(u, block, g - u->g0) + (size_t)(first - u->x0) * t->block;
        u->run[runs++] = (dt_tile_run){a, b, row, (size_t)t->step_x * t->block, place, end - first};
    }
    if (runs || u->fresh)
        t->backend->multiply(weights_at_place(u, block, tap, ib), u->run, runs,
                             DT_MIN(DT_TILE, t->in.channels - ib * DT_TILE), u->fresh, NULL);
}

static void weights_band(const weights_unit *u, int g0, int g1)
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
static void weights_at(weights_unit *u, int round, int part, void *packed, int *end)
{
    const dt_tiles *t = u->t;
    const int spans = weights_spans(t), last = dt_tiles_strip(t, part + 1);

    u->x0 = round / spans * t->columns;
    u->x1 = DT_MIN(t->out_w, u->x0 + t->columns);
    dt_tiles_reads(t, u->x0, u->x1, &u->in0, &u->in1);
    u->fresh = round == 0;
    u->g0 = DT_MIN(last, dt_tiles_strip(t, part) + round % spans * t->span);
    *end = DT_MIN(last, u->g0 + t->span);
    u->lines = (char *)packed + (t->team ? (size_t)part * weights_span(t, t->out.blocks) : 0);
    u->right = u->lines + (size_t)t->ring * t->line;
}

/* The unit's own lines of a round, for itself; `done` as in weights_left. */
static int weights_pack(const weights_unit *u, int end, int done)
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
    char *own = (char *)scratch + weights_runs(t) + weights_room(t);
    weights_unit u = {.t = t,
                      .x = a->x,
                      .dy = a->dy,
                      .dw = t->strips == 1 ? a->dw : NULL,
                      .run = scratch,
                      .room = (float *)scratch + weights_runs(t) / sizeof(float)};

    for (int64_t at = t->start[unit]; at < t->start[unit + 1];) {
        at = weights_piece(t, at, t->start[unit + 1], &u);
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
    dt_stream_fence();
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
    weights_unit u = {.t = t, .x = a->x, .dy = a->dy};
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
        const int group = g / t->out_h;
        for (int line = dt_tiles_next(t, g, &done); line <= done; line++)
            if (g >= u.g0 && skip-- == 0)
                dt_tiles_left(t, u.x, group, line - group * t->in_h, u.in0, u.in1, u.in_b0, u.in_b1,
                              dt_tiles_slot(t, u.lines, line) +
                                  (size_t)(u.in_b0 * t->in_columns) * t->block);
    }
}
