/* rows.h - the order in which a batch norm sums over rows (pixels of all images): block by block,
 * each as one thread of a convolution finishes it; private to src/model.
 *
 * A block is up to `piece` neighbouring pixels of a line, in up to 32 images, and of the same line
 * of each fold (kernels/tiles/tiles.h). Blocks are numbered by images, line, piece. In a block the
 * rows follow one another by fold, image, pixel. A convolution whose pixels are read once has one
 * long line. Shapes alone decide. */
#ifndef DT_ROWS_H
#define DT_ROWS_H
#include "model.h"

enum { DT_ROWS_IMAGES = 32 };

typedef struct dt_rows {
    int64_t images, lines, width; /* of the tensor; width 0: not known */
    int64_t piece;                /* pixels of a line */
    int64_t folds, fold;          /* count, lines of each */
} dt_rows;

static inline int64_t dt_rows_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}
static inline int64_t dt_rows_blocks(const dt_rows *r)
{
    return dt_rows_up(r->images, DT_ROWS_IMAGES) * r->fold * dt_rows_up(r->width, r->piece);
}

/* Rows [first + s * fold + i * image, .. + pixels) of each fold s, each image i. */
typedef struct dt_rows_block {
    int64_t first, fold, image;
    int64_t folds, images, pixels;
} dt_rows_block;

static inline dt_rows_block dt_rows_at(const dt_rows *r, int64_t block)
{
    const int64_t pieces = dt_rows_up(r->width, r->piece), x = block % pieces * r->piece;
    const int64_t line = block / pieces % r->fold, group = block / pieces / r->fold;
    const int64_t image = group * DT_ROWS_IMAGES;

    return (dt_rows_block){.first = (image * r->lines + line) * r->width + x,
                           .fold = r->fold * r->width,
                           .image = r->lines * r->width,
                           .folds = DT_MIN(r->folds, dt_rows_up(r->lines - line, r->fold)),
                           .images = DT_MIN(r->images - image, DT_ROWS_IMAGES),
                           .pixels = DT_MIN(r->width - x, r->piece)};
}
static inline int64_t dt_rows_in(const dt_rows_block *b)
{
    return b->folds * b->images * b->pixels;
}

/* Uses a block of finished rows, of channels [first, first + count). Called by the thread that has
 * made them, while they are in its caches.
 *   rows  [rows of the block][count], which are to be stored, and may change; NULL: they lie in the
 *         tensor */
typedef void dt_rows_take(const void *context, int64_t block, int64_t first, int64_t count,
                          void *rows);
#endif
