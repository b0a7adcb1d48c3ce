/* augment.h - one image from uint8 to the engine's input; private to src/data. */
#ifndef DT_AUGMENT_H
#define DT_AUGMENT_H
#include "data.h"

/* Where an output pixel lies between two source pixels. */
typedef struct dt_tap {
    int32_t lo, hi; /* neighbours, lo <= hi <= lo + 1 */
    float weight;   /* of hi; lo has 1 - weight */
} dt_tap;

/* Tap of output i when `in` pixels become `out`: half-pixel centres, clamped at the
 * edges, no antialiasing (OpenCV, PyTorch with align_corners=False, MindSpore). */
dt_tap dt_tap_at(int in, int out, int i);

/* Which part of the source is seen: cropped, then mirrored. */
typedef struct dt_window {
    int top, left; /* first row and column of the crop; outside the source is black */
    bool flip;
} dt_window;

typedef struct dt_augment {
    int height, width;    /* of the source and of the crop */
    int size;             /* output height = width */
    int pad;              /* of the random crop, 0: none */
    bool flip;            /* mirror with probability 1/2 */
    dt_dtype type;        /* of the output */
    dt_tap *row, *column; /* [size] each, owned */
    float level[3][256];  /* normalised value of a byte, per channel */
} dt_augment;

/* DT_CONFIG for a name that is not in DT_AUGMENT_LIST or DT_NORMALIZE_LIST. */
dt_status dt_augment_init(dt_augment *a, const dt_source_info *info,
                          const dt_loader_opts *opts) DT_MUST_CHECK;
void dt_augment_release(dt_augment *a);
/* Floats of scratch that one thread needs. */
size_t dt_augment_scratch(const dt_augment *a);
/* The window of a training sample, drawn by (seed, epoch, sample). */
dt_window dt_augment_draw(const dt_augment *a, uint32_t seed, int64_t epoch,
                          int64_t sample);
/* Crop, mirror, normalise, resize source [height][width][3] into to [size][size][3]. */
void dt_augment_image(const dt_augment *a, const uint8_t *source, dt_window window,
                      float *scratch, void *to);
#endif
