/* weights_cut.c - how a weight gradient is cut into parts and units: parts follow from the shape
 * alone, units from the threads and a model of their time. */
#include "weights.h"

#include <math.h>

enum {
    BAND_PIXELS = 32,
    LARGE_PIXELS = 64,
    PART4_BYTES = 1200 * 1024,     /* four parts up to this size of dw, */
    PART2_BYTES = 3 * 1024 * 1024, /* two up to this: adding them is for something */
    PANEL_BLOCKS = 16,
    RIGHT_BYTES = 384 * 1024, /* of dy that are multiplied by all of x before the next */
};

struct dt_tiles_sharing dt_tiles_sharing = {60, 512 * 1024};

static size_t weights_sums(const dt_tiles *t, int blocks) /* floats, of output blocks */
{
    return (size_t)blocks * (size_t)dt_tiles_steps(t) * DT_TILE_AREA;
}

size_t dt_tiles_part(const dt_tiles *t)
{
    return weights_sums(t, t->out.blocks);
}

int64_t dt_weights_piece(const dt_tiles *t, int64_t at, int64_t end, dt_weights_unit *u)
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
    dt_weights_unit u = {.t = t};

    for (int64_t at = t->start[unit]; at < t->start[unit + 1];) {
        at = dt_weights_piece(t, at, t->start[unit + 1], &u);
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

size_t dt_weights_span(const dt_tiles *t, int blocks)
{
    return (size_t)t->ring * t->line + (size_t)(blocks * t->span * t->columns) * t->block;
}

size_t dt_weights_runs(const dt_tiles *t)
{
    return dt_align((size_t)t->band * sizeof(dt_tile_run), 64);
}

size_t dt_weights_room(const dt_tiles *t)
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
        t->team = (size_t)t->strips * dt_weights_span(t, t->out.blocks);
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
    t->scratch =
        dt_weights_runs(t) + (t->team ? 0 : dt_weights_span(t, t->panel)) + dt_weights_room(t);
}

size_t dt_tiles_partial_bytes(const dt_tiles *t)
{
    return t->once ? 0 : (size_t)t->strips * dt_tiles_part(t) * sizeof(float);
}
