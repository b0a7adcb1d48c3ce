/* tiles.h - a pass of a convolution as products of tiles: the plan that all passes share.
 *
 * A *tap* is a position of the kernel. A *tile pixel* is 32 rows that are multiplied alike: the
 * same pixel of 32 images, or, where a pixel is read once (1x1, stride 1, no padding: `flat`), 32
 * neighbouring positions of NHWC. With images as rows a tap lies on padding for all rows, and is
 * left out, or for none; so any kernel, stride and padding is the same loop with other tables. Rows
 * beyond the last image are zeros in packed operands and never stored.
 *
 * Few images would leave most rows empty. So with at most 16, 8 or 4 images each map is cut into 2,
 * 4 or 8 *folds*, bands of lines; a tile pixel is one pixel of each fold of each image, and line y
 * means line y of each fold. Lines beyond a fold are its neighbour's, beyond the map zeros.
 *
 * Channels lie in blocks of 32, the last one filled up with zeros. If the input has fewer than 32
 * (stems), each pixel of the output gets a virtual pixel: its channels are all numbers that the
 * kernel meets there, and the kernel becomes 1x1 (`merged`).
 *
 * Lines are numbered through all groups of 32 images: line g of the output is line g % out_h of
 * group g / out_h. Each thread takes a *unit*: a range of all work in its order, cut by cost. Each
 * element (in a weight gradient, of each strip) is summed by one unit, in an order that the shape
 * alone gives; so bits do not depend on the cut. */
#ifndef DT_TILES_H
#define DT_TILES_H
#include "backend.h"

/* Along a side: an output takes the inputs [in, in + count), which meet the packed taps
 * [tap, tap + count). */
typedef struct dt_tile_span {
    int in, tap, count;
} dt_tile_span;

/* A tensor as tile pixels: the bytes of a number, and to the next row, pixel, line and group of
 * lines. */
typedef struct dt_tile_view {
    size_t each, row, pixel, line, group;
    int channels, blocks; /* blocks of 32 channels */
} dt_tile_view;

typedef struct dt_tiles {
    dt_conv conv;
    dt_pass pass;
    int all_blocks; /* of 32 output channels in the whole layer: bits follow from these alone */
    const dt_tile_backend *backend;
    size_t wide, block; /* bytes of a packed block's row, and of the block */

    /* What is multiplied. Input and output are x and y (forward), dy and dx (data gradient), or x
     * and dy (weight gradient, which reads both: dy takes the place of an output). */
    bool flat;
    bool merged;
    int rows;                             /* images, or positions if flat */
    int groups, in_h, in_w, out_h, out_w; /* lines of a fold, as the tables count them */
    int taps_y, taps_x, step_x;           /* step_x: between the inputs of neighbouring outputs */
    int *tap_y, *tap_x;                   /* packed place of a tap: its kernel row, column */
    dt_tile_span *y, *x;                  /* of the output's lines, columns */
    void *tables;                         /* memory of these four and of `start`, owned */
    dt_tile_view in, out;

    /* Line y of fold s is line y + s * out_h of the output's out_lines, and line y - top +
     * s * in_step of the input's in_lines. Beyond these, nothing is stored, and zeros are read. */
    int folds, fold; /* count; rows of each: 32 / folds */
    int in_lines, out_lines, in_step, top;

    /* How it is cut. */
    int piece;               /* tile pixels of a line that one unit computes: 1, or those of a block
                              * of rows that is taken */
    int columns, in_columns; /* output columns at a time; input columns they read, at most */
    int band;                /* output lines that share packed lines */
    int span;                /* weight gradient: output lines that are packed at a time */
    int ring;                /* packed lines, each in slot (its number) % ring */
    int strips;              /* weight gradient: parts of the lines, each with its sums */
    bool once;               /* weight gradient: a block is summed by one product, and stored */
    int panel;               /* output blocks done before the next ones */
    int weight_panel;        /* output blocks whose weights stay in the second-level cache */
    int group;               /* tile pixels that share a chunk of weights */
    bool direct;             /* multiplied where they lie, not packed */
    bool stream;
    size_t stage;   /* bytes of a thread's rows that are taken before they are stored */
    size_t line;    /* bytes of a packed line */
    size_t scratch; /* bytes of a thread */
    size_t team;    /* bytes of packed lines that all threads share; 0: each packs its own */
    int units;      /* at most one for each thread */
    int64_t *start; /* [units + 1]: places in the order of the pass, see forward.c and weights.c */
    dt_unit alone;  /* what one thread would do */
} dt_tiles;

/* For some of the channels that the pass writes. DT_NOMEM. */
dt_status dt_tiles_plan(dt_tiles *t, const dt_conv *c, dt_pass pass, int some,
                        const dt_tile_backend *backend) DT_MUST_CHECK;

/* Rows in use of each fold of a tile pixel; 0: it lies beyond the end. */
int dt_tiles_rows(const dt_tiles *t, int group, int x);
/* Input columns [*first, *end) that output columns [x0, x1) read. */
void dt_tiles_reads(const dt_tiles *t, int x0, int x1, int *first, int *end);
/* First line of a strip; strip `strips` starts at the end. */
int dt_tiles_strip(const dt_tiles *t, int strip);
/* Set columns (at most `most`), in_columns, line and ring so that a band's packed lines stay in the
 * second-level cache, where possible. */
void dt_tiles_cut_columns(dt_tiles *t, int most);
/* Lines of the input that `lines` neighbouring lines of the output read, at most. */
int dt_tiles_ring(const dt_tiles *t, int lines);
/* Output line g reads lines of the input after the old *done: from the returned one to the new
 * *done. */
int dt_tiles_next(const dt_tiles *t, int g, int *done);
/* Lines of the input that output lines [g0, g1) read. */
int dt_tiles_lines(const dt_tiles *t, int g0, int g1);
/* The cost of a unit, and the largest one. */
dt_unit dt_tiles_unit(const dt_tiles *t, int unit);
double dt_tiles_longest(const dt_tiles *t);
/* Steps of a whole reduction: taps times blocks of input channels. */
static inline int dt_tiles_steps(const dt_tiles *t)
{
    return t->taps_y * t->taps_x * t->in.blocks;
}
/* Elements of master and dw to the next input channel. */
static inline int64_t dt_tiles_row(const dt_tiles *t)
{
    return t->pass == DT_PASS_DATA ? t->conv.oc : t->out.channels;
}
/* Where a packed line lies in a ring. */
static inline char *dt_tiles_slot(const dt_tiles *t, char *ring, int line)
{
    return ring + (size_t)(line % t->ring) * t->line;
}
static inline size_t dt_tile_at(const dt_tile_view *v, int group, int y, int x)
{
    return (size_t)group * v->group + (size_t)y * v->line + (size_t)x * v->pixel;
}

/* pack.c - pack columns [x0, x1) of a line of the input to [column][block of channels]. */
void dt_tiles_gather(const dt_tiles *t, const char *in, int group, int y, int x0, int x1, char *to);
/* The same of blocks [b0, b1) as left operands of the weight gradient: [block][in_columns]. */
void dt_tiles_left(const dt_tiles *t, const char *in, int group, int y, int x0, int x1, int b0,
                   int b1, char *to);
/* Pack a block of a tile pixel of dy as its right operand. */
void dt_tiles_right(const dt_tiles *t, const char *dy, int line, int x, int block, char *to);
void dt_tiles_pack(const dt_tiles *t, const float *master, char *packed, size_t first,
                   size_t end); /* blocks [first, end) of the weights */

/* forward.c - forward and data gradient. */
void dt_tiles_forward_cut(dt_tiles *t);
void dt_tiles_forward(const dt_tiles *t, int unit, const dt_conv_args *a, void *scratch);
dt_unit dt_tiles_forward_unit(const dt_tiles *t, int unit);

/* weights.c - weight gradient: units fill partial sums, of which dt_tiles_weights_sum makes a row
 * of dw, or dw itself if there is one part. A unit packs what it reads, and is done in round 0; but
 * if threads share what they pack (t->team > 0), in each round all cells are packed into `team`,
 * then all units run. */
void dt_tiles_weights_cut(dt_tiles *t);
size_t dt_tiles_partial_bytes(const dt_tiles *t);
void dt_tiles_weights(const dt_tiles *t, int round, int unit, const dt_conv_args *a, float *partial,
                      void *team, void *scratch);
dt_unit dt_tiles_weights_unit(const dt_tiles *t, int unit);
extern struct dt_tiles_sharing { /* tests change it */
    double wait;                 /* of threads in a round, in units of packing a block */
    size_t bytes;                /* of packed lines, for each thread, at most */
} dt_tiles_sharing;
int dt_tiles_weights_rounds(const dt_tiles *t);
int dt_tiles_weights_cells(const dt_tiles *t);
void dt_tiles_weights_cell(const dt_tiles *t, int round, int cell, const dt_conv_args *a,
                           void *team);
size_t dt_tiles_part(const dt_tiles *t); /* floats of a part */

/* parts.c - what has been summed, to dw, past the caches. */
void dt_tiles_store_row(const dt_tiles *t, const float *sums, int block, float *to);
void dt_tiles_weights_sum(const dt_tiles *t, int64_t row, const float *partial, float *dw);
/* dbias = the sum over the rows of dy, of so many channels; scratch of dt_bias_scratch_bytes. */
size_t dt_bias_scratch_bytes(const dt_conv *c, int64_t channels);
void dt_bias_gradient(const dt_conv *c, int64_t channels, const void *dy, void *scratch,
                      float *dbias);

static inline int dt_tiles_up(int64_t a, int64_t b)
{
    return (int)((a + b - 1) / b);
}
#endif
