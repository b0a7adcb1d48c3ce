/* augment.c - crop, mirror, normalise, resize and round in one pass over an image.
 *
 * Crop and mirror are index arithmetic. Bytes are normalised by a table before they are
 * interpolated: the parts of a tap sum to 1, so the order does not matter, and 3,072
 * look-ups do what 150,528 multiplications would; unless they are to be rounded to bytes
 * in between. Each source row is stretched once and kept until the output has passed it.
 * Only multiply, add and round: no instruction set gives other bits. */
#include "augment.h"

dt_tap dt_tap_at(int in, int out, int i)
{
    const double at = ((double)i + 0.5) * ((double)in / (double)out) - 0.5;
    if (at <= 0)
        return (dt_tap){0, 0, {1, 0}};
    if (at >= in - 1)
        return (dt_tap){in - 1, in - 1, {1, 0}};
    const int lo = (int)at;
    const float weight = (float)(at - lo);
    return (dt_tap){lo, lo + 1, {1 - weight, weight}};
}

/* The same as OpenCV's 8-bit resize has it, rounding by rounding (imgproc, resize.cpp): parts are
 * whole numbers that add up to 2048. Past an edge a column puts all of its weight on the edge's
 * pixel; a row puts both parts on the edge's row, each rounded by itself. */
static dt_tap tap_uint8(int in, int out, int i, bool column)
{
    const double scale = 1 / ((double)out / in);
    const float at = (float)(((double)i + 0.5) * scale - 0.5);
    const int lo = (int)floorf(at), last = in - 1, inner = DT_MIN(DT_MAX(lo, 0), last);
    const float weight = at - (float)lo;

    if (column && (lo < 0 || lo >= last))
        return (dt_tap){inner, inner, {2048, 0}};
    return (dt_tap){
        inner, DT_MIN(lo + 1, last), {rintf((1 - weight) * 2048), rintf(weight * 2048)}};
}

bool dt_normalize_find(const char *name, float mean[3], float std[3])
{
#define X(row, m0, m1, m2, s0, s1, s2)                                                             \
    if (strcmp(name, #row) == 0) {                                                                 \
        memcpy(mean, (const float[3]){m0, m1, m2}, 3 * sizeof *mean);                              \
        memcpy(std, (const float[3]){s0, s1, s2}, 3 * sizeof *std);                                \
        return true;                                                                               \
    }
    DT_NORMALIZE_LIST(X)
#undef X
    return false;
}

dt_status dt_augment_init(dt_augment *a, const dt_source_info *info, const dt_loader_opts *opts)
{
    float mean[3] = {0}, std[3] = {1, 1, 1};

    *a = (dt_augment){.height = info->height,
                      .width = info->width,
                      .size = opts->image_size,
                      .cutout = opts->cutout,
                      .type = opts->type};
#define X(name, pixels, mirrored, flips, turns)                                                    \
    if (strcmp(opts->augment, #name) == 0)                                                         \
        a->pad = pixels, a->mirrors = mirrored, a->flip = flips, a->alternates = turns;
    DT_AUGMENT_LIST(X)
#undef X
#define X(name, to_bytes)                                                                          \
    if (strcmp(opts->resize, #name) == 0)                                                          \
        a->rounds = to_bytes;
    DT_RESIZE_LIST(X)
#undef X
    (void)dt_normalize_find(opts->normalize, mean, std);
    for (int c = 0; c < 3; c++) {
        for (int v = 0; v < 256; v++)
            a->level[c][v] = (float)((v / 255.0 - (double)mean[c]) / (double)std[c]);
        a->mean[c] = a->rounds ? rintf(255 * mean[c]) : 0;
    }
    DT_TRY(dt_calloc(&a->row, 2 * (size_t)a->size, sizeof *a->row, "resize taps"));
    a->column = a->row + a->size;
    for (int i = 0; i < a->size; i++) {
        a->row[i] =
            a->rounds ? tap_uint8(a->height, a->size, i, false) : dt_tap_at(a->height, a->size, i);
        a->column[i] =
            a->rounds ? tap_uint8(a->width, a->size, i, true) : dt_tap_at(a->width, a->size, i);
    }
    return DT_OK;
}

void dt_augment_release(dt_augment *a)
{
    free(a->row);
    *a = (dt_augment){0};
}

size_t dt_augment_scratch(const dt_augment *a)
{
    return 3 * ((size_t)a->width + 3 * (size_t)a->size);
}

dt_window dt_augment_draw(const dt_augment *a, uint32_t seed, int64_t epoch, int64_t sample)
{
    const uint32_t places = 2 * (uint32_t)a->pad + 1;
    uint32_t bits[4];

    dt_random(seed, DT_STREAM_AUGMENT, (uint32_t)epoch, (uint64_t)sample, 0, bits);
    dt_window w = {.top = (int)dt_below(bits[0], places) - a->pad,
                   .left = (int)dt_below(bits[1], places) - a->pad,
                   .mirrors = a->mirrors,
                   .flip = a->flip && dt_below(bits[2], 2) == 1,
                   .hole = a->cutout};
    if (a->alternates) { /* as in the first epoch, whose draw it is, or the other way */
        dt_random(seed, DT_STREAM_AUGMENT, 0, (uint64_t)sample, 0, bits);
        w.flip = (dt_below(bits[2], 2) == 1) != (epoch % 2 == 1);
    }
    if (w.hole > 0) {
        dt_random(seed, DT_STREAM_AUGMENT, (uint32_t)epoch, (uint64_t)sample, 1, bits);
        w.hole_top = (int)dt_below(bits[0], (uint32_t)a->height) - w.hole / 2;
        w.hole_left = (int)dt_below(bits[1], (uint32_t)a->width) - w.hole / 2;
    }
    return w;
}

/* Place `at` on a line of n pixels, mirrored at its edges, which are there once: -1 is 1. */
static int augment_mirror(int at, int n)
{
    const int inside = at < 0 ? -at : at >= n ? 2 * (n - 1) - at : at;
    return DT_MIN(DT_MAX(inside, 0), n - 1); /* of an image smaller than the padding */
}

/* Row r of the window into line [width][3]: normalised, or bytes. */
static void augment_line(const dt_augment *a, const uint8_t *source, dt_window w, int r,
                         float *restrict line)
{
    const int from = w.mirrors ? augment_mirror(r + w.top, a->height) : r + w.top;
    const bool inside = from >= 0 && from < a->height;
    const uint8_t *pixels = source + 3 * (size_t)a->width * (size_t)(inside ? from : 0);

    for (int x = 0; x < a->width; x++) {
        const int place = (w.flip ? a->width - 1 - x : x) + w.left;
        const int at = w.mirrors ? augment_mirror(place, a->width) : place;
        const bool seen = inside && at >= 0 && at < a->width;
        const uint8_t *p = pixels + 3 * (seen ? at : 0);
        for (int c = 0; c < 3; c++) {
            const uint8_t byte = seen ? p[c] : 0;
            line[3 * x + c] = a->rounds ? (float)byte : a->level[c][byte];
        }
    }
    if (r < w.hole_top || r >= w.hole_top + w.hole)
        return;
    for (int x = DT_MAX(w.hole_left, 0); x < DT_MIN(w.hole_left + w.hole, a->width); x++)
        for (int c = 0; c < 3; c++)
            line[3 * x + c] = a->mean[c];
}

/* line [width][3] to wide [size][3]; of bytes, whole numbers up to 255 * 2048, which a
 * float holds. */
static void augment_stretch(const dt_augment *a, const float *restrict line, float *restrict wide)
{
    for (int x = 0; x < a->size; x++) {
        const dt_tap t = a->column[x];
        const float *lo = line + 3 * t.lo, *hi = line + 3 * t.hi;
        for (int c = 0; c < 3; c++)
            wide[3 * x + c] = t.part[0] * lo[c] + t.part[1] * hi[c];
    }
}

/* One output row of n floats from two wide ones. */
static void augment_blend(const dt_augment *a, dt_tap t, const float *restrict lo,
                          const float *restrict hi, float *restrict out)
{
    const int n = 3 * a->size;

    for (int i = 0; i < n; i++)
        out[i] = t.part[0] * lo[i] + t.part[1] * hi[i];
}

/* The same of bytes times 2048: 4 bits go before the second product, 16 after it and 2
 * after the sum, which alone is rounded. */
static void augment_blend_uint8(const dt_augment *a, dt_tap t, const float *restrict lo,
                                const float *restrict hi, float *restrict out)
{
    const int32_t part[2] = {(int32_t)t.part[0], (int32_t)t.part[1]};

    for (int x = 0; x < a->size; x++)
        for (int c = 0; c < 3; c++) {
            const int32_t l = (int32_t)lo[3 * x + c] >> 4, h = (int32_t)hi[3 * x + c] >> 4;
            const int32_t v = (((part[0] * l) >> 16) + ((part[1] * h) >> 16) + 2) >> 2;
            out[3 * x + c] = a->level[c][v];
        }
}

void dt_augment_image(const dt_augment *a, const uint8_t *source, dt_window window, float *scratch,
                      void *to)
{
    const size_t values = 3 * (size_t)a->size;
    float *line = scratch, *out = line + 3 * (size_t)a->width;
    float *wide[2] = {out + values, out + 2 * values};
    int held[2] = {-1, -1}; /* source rows that wide[0] (even) and wide[1] (odd) hold */

    for (int y = 0; y < a->size; y++) {
        const dt_tap t = a->row[y];
        for (int r = t.lo; r <= t.hi; r++)
            if (held[r & 1] != r) {
                augment_line(a, source, window, r, line);
                augment_stretch(a, line, wide[r & 1]);
                held[r & 1] = r;
            }
        float *row = a->type == DT_F32 ? (float *)to + (size_t)y * values : out;
        (a->rounds ? augment_blend_uint8 : augment_blend)(a, t, wide[t.lo & 1], wide[t.hi & 1],
                                                          row);
        if (a->type == DT_BF16)
            for (size_t i = 0; i < values; i++)
                ((dt_bf16 *)to)[(size_t)y * values + i] = dt_f32_to_bf16(out[i]);
    }
}
