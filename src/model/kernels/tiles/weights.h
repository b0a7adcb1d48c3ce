/* weights.h - a unit of work of a weight gradient; private to weights.c and weights_cut.c. All is
 * Local. */
#ifndef DT_WEIGHTS_H
#define DT_WEIGHTS_H
#include "tiles.h"

typedef struct dt_weights_unit {
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
} dt_weights_unit;

/* The piece of a unit, from place `at` on, in one part and panel; returns the place after it. */
int64_t dt_weights_piece(const dt_tiles *t, int64_t at, int64_t end, dt_weights_unit *u);
/* Bytes of a packed span of one part, of so many output blocks. */
size_t dt_weights_span(const dt_tiles *t, int blocks);
/* Bytes of a thread's scratch: runs; sums that are stored at once. */
size_t dt_weights_runs(const dt_tiles *t);
size_t dt_weights_room(const dt_tiles *t);
#endif
