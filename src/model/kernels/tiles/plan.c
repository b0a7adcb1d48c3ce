/* plan.c - which input pixels and taps an output pixel takes, and what one pass of packed lines
 * may hold: see tiles.h. */
#include "tiles.h"

enum { MOST_FOLDS = 8, RING_BYTES = 768 * 1024 /* packed lines, where columns can be cut */ };

/* ---- Along a side ---------------------------------------------------------------------------- */

typedef struct side {
    int in, out, kernel, stride, pad; /* pixels of x and of y; padding before */
    bool folded;                      /* what lies outside is packed, as zeros or neighbours, */
    int top;                          /* and counted from this many before the first input */
} side;

/* Output i takes the inputs i * stride - pad + tap. */
static void side_forward(const side *s, dt_tile_span *span, int *tap)
{
    for (int k = 0; k < s->kernel; k++)
        tap[k] = k;
    for (int i = 0; i < s->out; i++) {
        const int at = i * s->stride - s->pad;
        const int first = at < 0 && !s->folded ? -at : 0;
        const int end = s->folded ? s->kernel : DT_MIN(s->kernel, s->in - at);
        span[i] = end > first ? (dt_tile_span){at + first + s->top, first, end - first}
                              : (dt_tile_span){0, 0, 0};
    }
}

/* The other way round, pixel i of x takes the outputs (i + pad - tap) / stride where that leaves
 * no rest. Taps of one rest lie side by side, the last first, so that both ascend. */
static void side_data(const side *s, dt_tile_span *span, int *tap)
{
    for (int rest = 0, n = 0; rest < s->stride; rest++) {
        const int first = n;
        for (int k = s->kernel - 1; k >= 0; k--)
            if (k % s->stride == rest)
                tap[n++] = k;
        for (int i = 0; i < s->in; i++) {
            if ((i + s->pad) % s->stride != rest)
                continue;
            dt_tile_span now = {0, 0, 0};
            for (int t = first; t < n; t++) {
                const int away = i + s->pad - tap[t];
                if (!s->folded && (away < 0 || away / s->stride >= s->out))
                    continue;
                if (now.count++ == 0)
                    now.in = away / s->stride + s->top, now.tap = t;
            }
            span[i] = now;
        }
    }
}

/* ---- The problem in tile pixels ------------------------------------------------------------- */

/* Some channels of a tensor whose pixels have `all`. */
static dt_tile_view plan_view(int64_t h, int64_t w, int64_t all, int64_t some, dt_dtype type)
{
    const size_t each = dt_dtype_bytes(type), pixel = (size_t)all * each;

    return (dt_tile_view){.each = each,
                          .row = (size_t)(h * w) * pixel,
                          .pixel = pixel,
                          .line = (size_t)w * pixel,
                          .group = (size_t)(DT_TILE * h * w) * pixel,
                          .channels = (int)some,
                          .blocks = dt_tiles_up(some, DT_TILE)};
}

/* 16 tile pixels make a line, and a line makes a group of its own. */
static void plan_flat_view(dt_tile_view *v, int pixels)
{
    v->row = v->pixel;
    v->pixel = DT_TILE * v->row;
    v->group = v->line = (size_t)pixels * v->pixel;
}

static bool plan_is_plain(const dt_conv *c)
{
    return c->kernel[0] == 1 && c->kernel[1] == 1 && c->pad[0] == 0 && c->pad[1] == 0 &&
           c->pad[2] == 0 && c->pad[3] == 0;
}

static void plan_problem(dt_tiles *t, side *h, side *w)
{
    const dt_conv *c = &t->conv;

    if (t->pass != DT_PASS_DATA && plan_is_plain(c)) {
        /* A 1x1 kernel with a stride: the pixels in between do not exist. */
        t->in.line *= (size_t)h->stride;
        t->in.pixel *= (size_t)w->stride;
        h->in = h->out, w->in = w->out, h->stride = w->stride = 1;
    }
    if (t->merged) {
        *w = (side){w->out, w->out, 1, 1, 0, false, 0};
        *h = (side){h->out, h->out, 1, 1, 0, false, 0};
    }
    if (t->flat) {
        const int pixels = dt_tiles_up(t->rows, DT_TILE);
        const int most = 8192 / DT_MAX(t->in.blocks, t->all_blocks); /* of wide linear layers */
        const int line = DT_MAX(1, DT_MIN(pixels, most < 1 ? 1 : most < 16 ? most : 16));
        *h = (side){1, 1, 1, 1, 0, false, 0};
        *w = (side){line, line, 1, 1, 0, false, 0};
        t->groups = dt_tiles_up(pixels, line);
        plan_flat_view(&t->in, line);
        plan_flat_view(&t->out, line);
    }
}

/* Folds begin with multiples of the stride, so that the same taps are theirs. */
static void plan_folds(dt_tiles *t, side *h)
{
    const bool data = t->pass == DT_PASS_DATA;
    int *lines = data ? &h->in : &h->out;

    t->in_lines = data ? h->out : h->in;
    t->out_lines = *lines;
    for (t->folds = 1; !t->flat && t->folds < MOST_FOLDS && 2 * t->folds <= *lines &&
                       2 * t->folds * t->rows <= DT_TILE;)
        t->folds *= 2;
    t->fold = DT_TILE / t->folds;
    if (t->folds == 1)
        return;
    h->folded = true;
    h->top = data ? DT_MAX(0, (h->kernel - 1 - h->pad) / h->stride) : h->pad;
    *lines = dt_tiles_up(*lines, t->folds);
    if (data)
        *lines = dt_tiles_up(*lines, h->stride) * h->stride;
    t->in_step = data ? *lines / h->stride : *lines * h->stride;
    t->top = h->top;
}

static dt_status plan_tables(dt_tiles *t, const side *h, const side *w)
{
    const bool data = t->pass == DT_PASS_DATA;

    DT_TRY(dt_calloc(&t->tables,
                     (size_t)(t->conv.threads + 1) * sizeof *t->start +
                         (size_t)(t->out_h + t->out_w) * sizeof(dt_tile_span) +
                         (size_t)(t->taps_y + t->taps_x) * sizeof(int),
                     1, "tables of a convolution"));
    t->start = t->tables;
    t->y = (dt_tile_span *)(t->start + t->conv.threads + 1);
    t->x = t->y + t->out_h;
    t->tap_y = (int *)(t->x + t->out_w);
    t->tap_x = t->tap_y + t->taps_y;
    (data ? side_data : side_forward)(h, t->y, t->tap_y);
    (data ? side_data : side_forward)(w, t->x, t->tap_x);
    for (int i = 0; i < t->out_h && h->folded; i++)
        t->in_h = DT_MAX(i ? t->in_h : 1, t->y[i].in + t->y[i].count);
    return DT_OK;
}

/* Tile pixels of a block of rows that is taken: more cost fewer sums, fewer share work better. */
static int plan_piece(const dt_tiles *t)
{
    enum { MANY = 1 << 15 };
    const dt_conv *c = &t->conv;
    const int64_t pixels = t->pass == DT_PASS_DATA ? c->ih * c->iw : c->oh * c->ow;
    return c->n * pixels >= MANY ? 8 : 4;
}

/* All that does not depend on how it is cut. */
static void plan_shape(dt_tiles *t, const dt_conv *c, dt_pass pass, int some, side *h, side *w)
{
    const int64_t window = c->kernel[0] * c->kernel[1] * c->ic;
    const size_t each = dt_dtype_bytes(c->type);
    const bool data = pass == DT_PASS_DATA;
    const int64_t ic = data ? some : c->ic, oc = data ? c->oc : some;
    const dt_tile_view x = plan_view(c->ih, c->iw, ic, ic, c->type);
    const dt_tile_view y = plan_view(c->oh, c->ow, pass == DT_PASS_WEIGHTS ? c->oc : oc, oc,
                                     pass == DT_PASS_FORWARD ? c->out_type : c->type);

    *h = (side){(int)c->ih, (int)c->oh, c->kernel[0], c->stride[0], c->pad[0], false, 0};
    *w = (side){(int)c->iw, (int)c->ow, c->kernel[1], c->stride[1], c->pad[1], false, 0};
    *t = (dt_tiles){.conv = *c,
                    .pass = pass,
                    .all_blocks = dt_tiles_up(data ? c->ic : c->oc, DT_TILE),
                    .wide = DT_TILE * each,
                    .block = DT_TILE_AREA * each,
                    .in = data ? y : x,
                    .out = data ? x : y,
                    .rows = (int)c->n};
    t->flat = plan_is_plain(c) && c->stride[0] == 1 && c->stride[1] == 1;
    if (t->flat)
        t->rows = (int)(c->n * c->ih * c->iw);
    t->merged = pass != DT_PASS_DATA && c->ic < DT_TILE && window > c->ic &&
                (size_t)window * each <= DT_TILE_PIXEL;
    if (t->merged)
        t->in.channels = (int)window, t->in.blocks = dt_tiles_up(window, DT_TILE);
    t->groups = dt_tiles_up(t->rows, DT_TILE);
    plan_problem(t, h, w);
    plan_folds(t, h);
    t->in_h = data ? h->out : h->in, t->in_w = data ? w->out : w->in;
    t->out_h = data ? h->in : h->out, t->out_w = data ? w->in : w->out;
    t->taps_y = h->kernel, t->taps_x = w->kernel, t->step_x = w->stride;
}

dt_status dt_tiles_plan(dt_tiles *t, const dt_conv *c, dt_pass pass, int some,
                        const dt_tile_backend *backend)
{
    side h, w;

    plan_shape(t, c, pass, some, &h, &w);
    t->backend = backend;
    t->piece = c->taken ? plan_piece(t) : 1;
    DT_TRY(plan_tables(t, &h, &w));
    (pass == DT_PASS_WEIGHTS ? dt_tiles_weights_cut : dt_tiles_forward_cut)(t);
    return DT_OK;
}

/* ---- Questions ------------------------------------------------------------------------------ */

dt_rows dt_kernel_rows(const dt_conv *c, dt_pass pass)
{
    dt_tiles t;
    side h, w;

    plan_shape(&t, c, pass, (int)(pass == DT_PASS_DATA ? c->ic : c->oc), &h, &w);
    const int piece = plan_piece(&t);
    if (t.flat && t.groups > 1 && t.out_w % piece != 0) /* some 16,000 channels */
        return (dt_rows){0};
    if (t.flat)
        return (dt_rows){1, 1, t.rows, (int64_t)piece * DT_TILE, 1, 1};
    return (dt_rows){t.rows, t.out_lines, t.out_w, piece, t.folds, t.out_h};
}

int dt_tiles_rows(const dt_tiles *t, int group, int x)
{
    const int64_t first = (t->flat ? (int64_t)group * t->out_w + x : group) * (int64_t)DT_TILE;
    const int64_t left = t->rows - first;
    return left < 0 ? 0 : (int)DT_MIN(left, DT_TILE);
}

void dt_tiles_reads(const dt_tiles *t, int x0, int x1, int *first, int *end)
{
    *first = t->in_w, *end = 0;
    for (int i = x0; i < x1; i++)
        if (t->x[i].count) {
            *first = DT_MIN(*first, t->x[i].in);
            *end = DT_MAX(*end, t->x[i].in + t->x[i].count);
        }
    if (*first > *end)
        *first = *end = 0;
}

int dt_tiles_strip(const dt_tiles *t, int strip)
{
    return (int)((int64_t)t->groups * t->out_h * strip / t->strips);
}

int dt_tiles_next(const dt_tiles *t, int g, int *done)
{
    const dt_tile_span y = t->y[g % t->out_h];
    const int before = *done, first = g / t->out_h * t->in_h + y.in;

    *done = y.count ? DT_MAX(before, first + y.count - 1) : before;
    return y.count ? DT_MAX(first, before + 1) : before + 1;
}

int dt_tiles_lines(const dt_tiles *t, int g0, int g1)
{
    int lines = 0, done = -1;

    for (int g = g0; g < g1; g++) {
        const int first = dt_tiles_next(t, g, &done);
        lines += done + 1 - first;
    }
    return lines;
}

dt_unit dt_tiles_unit(const dt_tiles *t, int unit)
{
    return (t->pass == DT_PASS_WEIGHTS ? dt_tiles_weights_unit : dt_tiles_forward_unit)(t, unit);
}

double dt_tiles_longest(const dt_tiles *t)
{
    double longest = 0;

    for (int i = 0; i < t->units; i++) {
        const dt_unit u = dt_tiles_unit(t, i);
        longest = DT_MAX(longest, u.seconds);
    }
    return longest;
}

/* ---- Packed lines --------------------------------------------------------------------------- */

/* Bands may begin anywhere and run over groups. */
int dt_tiles_ring(const dt_tiles *t, int lines)
{
    int most = 1;

    for (int first = 0; first < t->out_h; first++) {
        int lo = INT_MAX, hi = 0;
        const int end = DT_MIN(first + lines, t->groups * t->out_h);
        for (int g = first; g < end; g++) {
            const dt_tile_span y = t->y[g % t->out_h];
            const int at = g / t->out_h * t->in_h + y.in;
            if (y.count)
                lo = DT_MIN(lo, at), hi = DT_MAX(hi, at + y.count);
        }
        most = DT_MAX(most, hi - lo);
    }
    return most;
}

void dt_tiles_cut_columns(dt_tiles *t, int most)
{
    for (;; most = (t->columns + 1) / 2) {
        t->columns = DT_MIN(t->out_w, dt_tiles_up(most, t->piece) * t->piece);
        t->in_columns = 1;
        for (int x = 0; x < t->out_w; x += t->columns) {
            int first, end;
            dt_tiles_reads(t, x, DT_MIN(t->out_w, x + t->columns), &first, &end);
            t->in_columns = DT_MAX(t->in_columns, end - first);
        }
        t->line = (size_t)(t->in_columns * t->in.blocks) * t->block;
        t->ring = dt_tiles_ring(t, t->band);
        if (t->columns <= 8 || t->flat || (size_t)t->ring * t->line <= RING_BYTES)
            return;
    }
}
