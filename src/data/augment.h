/* augment.h - one image from uint8 to the engine's input; private to src/data and extra/images. */
#ifndef DT_AUGMENT_H
#define DT_AUGMENT_H
#include "data.h"

/* Where an output pixel lies between two source pixels. */
typedef struct dt_tap {
    int32_t lo, hi; /* neighbours, lo <= hi <= lo + 1 */
    float part[2];  /* of lo and hi in the output pixel */
} dt_tap;

/* Tap of output i when `in` pixels become `out`: half-pixel centres, clamped at the edges,
 * no antialiasing (PyTorch with align_corners=False). The parts add up to 1. */
dt_tap dt_tap_at(int in, int out, int i);

/* Which part of the source is seen: cropped, then mirrored. */
typedef struct dt_window {
    int top, left; /* first row and column of the crop; outside the source is black, or */
    bool mirrors;  /* what the source has as far inside its edge */
    bool flip;
    int hole, hole_top, hole_left; /* side and place of the cutout, after the mirror; 0: none */
} dt_window;

typedef struct dt_augment {
    int height, width;    /* of the source and of the crop */
    int size;             /* output height = width */
    int pad;              /* of the random crop, 0: none */
    bool mirrors;         /* the padding is the image, mirrored */
    bool flip;            /* mirror with probability 1/2 */
    bool alternates;      /* in the first epoch; then every other time */
    int cutout;           /* side of the square, 0: none */
    dt_dtype type;        /* of the output */
    bool rounds;          /* interpolates bytes to bytes, normalises then */
    dt_tap *row, *column; /* [size] each, owned */
    float level[3][256];  /* normalised value of a byte, per channel */
    float mean[3];        /* what the square becomes: 0, or (rounds) the byte nearest the mean */
} dt_augment;

/* DT_NOMEM. */
dt_status dt_augment_init(dt_augment *a, const dt_source_info *info,
                          const dt_loader_opts *opts) DT_MUST_CHECK;
void dt_augment_release(dt_augment *a);
/* Floats of scratch that one thread needs. */
size_t dt_augment_scratch(const dt_augment *a);
/* The window of a training sample, drawn by (seed, epoch, sample). */
dt_window dt_augment_draw(const dt_augment *a, uint32_t seed, int64_t epoch, int64_t sample);
/* Crop, mirror, normalise and resize (if a->rounds, resize, then normalise) source
 * [height][width][3] into to [size][size][3]. */
void dt_augment_image(const dt_augment *a, const uint8_t *source, dt_window window, float *scratch,
                      void *to);
#endif
