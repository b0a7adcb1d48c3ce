/* blas.c - convolution passes by im2col and OpenBLAS's sgemm, float32: the portable fallback and
 * the independent second opinion.
 *
 * A few images become a matrix col[pixels of y][kh * kw * ic], so that the master
 * weights [kh * kw * ic][oc] are already the other factor. OpenBLAS runs with one
 * thread, whose sums have one order; our threads take whole groups of images, or for
 * the weight gradient whole parts of the batch (parts.h). */
#include "parts.h"

#include <cblas.h>
#include <limits.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLAS_ROWS = 128 }; /* rows of a matrix product that pay for reading the weights */

typedef struct blas_conv {
    dt_conv conv;
    dt_pass pass;
    int64_t group, groups; /* images per matrix product, products (forward, data) */
    int64_t inner;         /* kh * kw * ic */
    bool plain;            /* 1x1, stride 1, no padding: x itself is col */
    int parts, workers;
    size_t col_floats; /* per worker, 0 when plain */
} blas_conv;

/* Images per product: enough pixels together, by the shape alone. */
static int64_t blas_group(const dt_conv *c)
{
    const int64_t group = BLAS_ROWS / (c->oh * c->ow);
    return group < 1 ? 1 : group < c->n ? group : c->n;
}

static bool blas_supports(const dt_conv *c, dt_pass pass)
{
    (void)pass;
    return c->type == DT_F32 && c->out_type == DT_F32 && blas_group(c) * c->oh * c->ow <= INT_MAX &&
           c->oc <= INT_MAX && c->kernel[0] * c->kernel[1] * c->ic <= INT_MAX;
}

static dt_status blas_open(void **state, const dt_conv *c, dt_pass pass, dt_kernel_info *info)
{
    const bool weights = pass == DT_PASS_WEIGHTS;
    blas_conv *b = NULL;

    DT_TRY(dt_calloc(&b, 1, sizeof *b, "a BLAS convolution"));
    openblas_set_num_threads(1);
    b->conv = *c;
    b->pass = pass;
    b->group = blas_group(c);
    b->groups = (c->n + b->group - 1) / b->group;
    b->inner = c->kernel[0] * c->kernel[1] * c->ic;
    b->plain = c->kernel[0] == 1 && c->kernel[1] == 1 && c->stride[0] == 1 && c->stride[1] == 1 &&
               c->ih == c->oh && c->iw == c->ow;
    b->parts = weights ? dt_part_count(c, DT_MAX_PARTS) : 1;
    b->workers = weights ? DT_MIN(c->threads, b->parts) : c->threads;
    b->col_floats = b->plain ? 0 : dt_align((size_t)(b->group * c->oh * c->ow * b->inner), 16);
    *info = (dt_kernel_info){.scratch_bytes = b->col_floats * sizeof(float) * (size_t)b->workers};
    if (weights)
        info->scratch_bytes += dt_align(dt_conv_weights(c) * sizeof(float), 64) * (size_t)b->parts +
                               (c->bias ? dt_bias_scratch_bytes(c) : 0);
    info->scratch_bytes = dt_align(info->scratch_bytes, 64);
    snprintf(info->impl, sizeof info->impl, b->plain ? "sgemm" : "im2col+sgemm");
    *state = b;
    return DT_OK;
}

static void blas_close(void *state)
{
    free(state);
}

/* ---- im2col and back ------------------------------------------------------------- */

/* The first and one-past-last kernel row (or column) that meets the image, and the
 * image row that kernel row 0 would lie on. */
typedef struct blas_window {
    int64_t at, first, end;
} blas_window;
static blas_window blas_clip(int64_t out, int stride, int pad, int kernel, int64_t size)
{
    blas_window w = {out * stride - pad, 0, kernel};

    if (w.at < 0)
        w.first = -w.at < kernel ? -w.at : kernel;
    if (w.at + kernel > size)
        w.end = DT_MAX(size - w.at, w.first);
    return w;
}

/* im2col of one image x[ih][iw][ic] to col[oh * ow][kh][kw][ic], whose entries for places outside
 * of it are not touched. back: its transpose, every entry is added to the pixel it came from. */
static void blas_move(const blas_conv *b, float *x, float *col, bool back)
{
    const dt_conv *c = &b->conv;

    for (int64_t i = 0; i < c->oh; i++) {
        const blas_window v = blas_clip(i, c->stride[0], c->pad[0], c->kernel[0], c->ih);
        for (int64_t j = 0; j < c->ow; j++, col += b->inner) {
            const blas_window h = blas_clip(j, c->stride[1], c->pad[1], c->kernel[1], c->iw);
            const int64_t count = (h.end - h.first) * c->ic;
            for (int64_t k = v.first; k < v.end; k++) {
                float *entry = col + (k * c->kernel[1] + h.first) * c->ic;
                float *pixel = x + ((v.at + k) * c->iw + h.at + h.first) * c->ic;
                if (!back)
                    memcpy(entry, pixel, (size_t)count * sizeof *entry);
                for (int64_t e = 0; back && e < count; e++)
                    pixel[e] += entry[e];
            }
        }
    }
}

/* ---- Passes over one group of images --------------------------------------------- */

/* The factor made from `images` images of x from `first` on: x itself, or col filled.
 */
static const float *blas_factor(const blas_conv *b, const float *x, int64_t first, int64_t images,
                                float *col)
{
    const size_t image = dt_conv_x_image(&b->conv);
    const int64_t each = b->conv.oh * b->conv.ow * b->inner;

    x += (size_t)first * image;
    if (b->plain)
        return x;
    memset(col, 0, (size_t)(images * each) * sizeof *col);
    for (int64_t i = 0; i < images; i++) /* x is only read */
        blas_move(b, (float *)(uintptr_t)x + (size_t)i * image, col + i * each, false);
    return col;
}

static void blas_forward(const blas_conv *b, const dt_conv_args *a, int64_t first, int64_t images,
                         float *col)
{
    const dt_conv *c = &b->conv;
    const int rows = (int)(images * c->oh * c->ow), oc = (int)c->oc, inner = (int)b->inner;
    const float *factor = blas_factor(b, a->x, first, images, col);
    float *y = (float *)a->y + (size_t)first * dt_conv_y_image(c);

    if (c->bias)
        for (int r = 0; r < rows; r++)
            memcpy(y + (size_t)r * (size_t)oc, a->bias, (size_t)oc * sizeof *y);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, oc, inner, 1.0f, factor, inner,
                a->master, oc, c->bias ? 1.0f : 0.0f, y, oc);
}

static void blas_data(const blas_conv *b, const dt_conv_args *a, int64_t first, int64_t images,
                      float *col)
{
    const dt_conv *c = &b->conv;
    const int rows = (int)(images * c->oh * c->ow), oc = (int)c->oc, inner = (int)b->inner;
    const float *dy = (const float *)a->dy + (size_t)first * dt_conv_y_image(c);
    float *dx = (float *)a->dx + (size_t)first * dt_conv_x_image(c);

    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, inner, oc, 1.0f, dy, oc, a->master,
                oc, 0.0f, b->plain ? dx : col, inner);
    if (b->plain)
        return;
    memset(dx, 0, (size_t)images * dt_conv_x_image(c) * sizeof *dx);
    for (int64_t i = 0; i < images; i++)
        blas_move(b, dx + (size_t)i * dt_conv_x_image(c), col + i * c->oh * c->ow * b->inner, true);
}

/* dw of the images of one part, group by group. */
static void blas_weights(const blas_conv *b, const dt_conv_args *a, int part, float *col, float *dw)
{
    const dt_conv *c = &b->conv;
    const int64_t from = dt_part_first(c->n, b->parts, part);
    const int64_t end = dt_part_first(c->n, b->parts, part + 1);
    const int oc = (int)c->oc, inner = (int)b->inner;

    for (int64_t first = from; first < end; first += b->group) {
        const int64_t images = DT_MIN(end - first, b->group);
        const float *factor = blas_factor(b, a->x, first, images, col);
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, inner, oc,
                    (int)(images * c->oh * c->ow), 1.0f, factor, inner,
                    (const float *)a->dy + (size_t)first * dt_conv_y_image(c), oc,
                    first == from ? 0.0f : 1.0f, dw, oc);
    }
}

/* ---- Run ------------------------------------------------------------------------- */

static void blas_run_weights(const blas_conv *b, const dt_conv_args *a)
{
    const dt_conv *c = &b->conv;
    const size_t stride = dt_align(dt_conv_weights(c), 16);
    float *part = a->scratch, *col = part + stride * (size_t)b->parts;
    float *bias = col + b->col_floats * (size_t)b->workers;

#pragma omp parallel for num_threads(b->workers) schedule(static, 1)
    for (int i = 0; i < b->parts; i++)
        blas_weights(b, a, i, col + b->col_floats * (size_t)omp_get_thread_num(),
                     part + stride * (size_t)i);
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t r = 0; r < b->inner; r++)
        dt_part_sum(a->dw + r * c->oc, part + r * c->oc, stride, b->parts, (size_t)c->oc);
    if (c->bias)
        dt_bias_gradient(c, a->dy, bias, a->dbias);
}

static dt_status blas_run(void *state, const dt_conv_args *a)
{
    const blas_conv *b = state;
    const dt_conv *c = &b->conv;
    float *col = a->scratch;

    if (b->pass == DT_PASS_WEIGHTS) {
        blas_run_weights(b, a);
        return DT_OK;
    }
#pragma omp parallel for num_threads(b->workers) schedule(static)
    for (int64_t g = 0; g < b->groups; g++) {
        const int64_t first = g * b->group;
        const int64_t images = DT_MIN(c->n - first, b->group);
        float *mine = col + b->col_floats * (size_t)omp_get_thread_num();
        if (b->pass == DT_PASS_FORWARD)
            blas_forward(b, a, first, images, mine);
        else
            blas_data(b, a, first, images, mine);
    }
    return DT_OK;
}

double dt_blas_seconds(float *matrix, int side, int threads)
{
    const size_t all = (size_t)side * (size_t)side;
    const double start = dt_seconds();

    openblas_set_num_threads(1);
#pragma omp parallel num_threads(threads)
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, side, side, side, 1.0f, matrix, side,
                matrix + all, side, 0.0f, matrix + (size_t)(2 + omp_get_thread_num()) * all, side);
    return dt_seconds() - start;
}

/* "OpenBLAS 0.3.21 NO_LAPACK ... Cooperlake MAX_THREADS=64": version and core type, which
 * both decide bits. */
static void blas_version(char *out, size_t size)
{
    const char *config = openblas_get_config();
    const char *version = strchr(config, ' ');
    snprintf(out, size, "%.*s, %s", version ? (int)strcspn(version + 1, " ") : 0,
             version ? version + 1 : "", openblas_get_corename());
}

const dt_kernel dt_kernel_blas = {
    .name = "blas",
    .supports = blas_supports,
    .open = blas_open,
    .run = blas_run,
    .close = blas_close,
    .library = "OpenBLAS",
    .version = blas_version,
};
