/* data.h - images in, batches out; the public header of src/data.
 *
 * A source knows its images (CIFAR-10 binary folder, synthetic, or what an extra adds: a folder
 * of PNG/JPEG files); a loader cuts global batches into shards and writes augmented, normalised
 * NHWC images straight into the engine's input. Everything is Local and deterministic:
 * draws are keyed by (seed, epoch, sample), never by rank, thread or order of calls.
 * Training batches never hold a test image. */
#ifndef DT_DATA_H
#define DT_DATA_H
#include "base/base.h"

typedef struct dt_source dt_source;
typedef struct dt_source_info {
    const char *kind;              /* its row's name */
    int classes, height, width;    /* channels are always 3, RGB */
    int64_t train, test;           /* images */
    const char *const *class_name; /* [classes], valid until the source is closed, as below */
    const char *class_names;       /* the same as a JSON array of strings */
} dt_source_info;

/* Look at the data without reading pixels: names, sizes, counts.
 *   path    folder, or "synthetic[:N]" (N training images, default 2048)
 *   subset  > 0: only the first `subset` training images (all test images stay)
 *   seed    synthetic only
 *   returns DT_NOINPUT missing, unreadable or of no known layout; DT_FORMAT wrong size
 *           or content; DT_CONFIG subset too large, bad "synthetic:N". Deviations that
 *           are allowed (fewer train files, unknown hashes) are noted in the log. */
dt_status dt_source_open(dt_source **s, const char *path, int64_t subset,
                         uint32_t seed) DT_MUST_CHECK;
/* Call this right after dt_source_open. It takes `images` training images, always the same ones,
 * as the test images; 0 changes nothing. DT_CONFIG: no training image would be left. DT_NOMEM. */
dt_status dt_source_hold_out(dt_source *s, int64_t images) DT_MUST_CHECK;
/* Call this before dt_source_bytes. The network takes side x side. PNG and JPEG images have
 * in memory: height x width, if height > 0; else side x side, if they are to be predicted; else the
 * first one's size, divided by the largest whole number that leaves at least side x side. */
void dt_source_fit(dt_source *s, int side, int height, int width);
void dt_source_close(dt_source *s);
const dt_source_info *dt_source_describe(const dt_source *s);

/* Hash of the files' names and sizes, which a rank can see without reading the files. */
dt_digest dt_source_manifest(const dt_source *s);
/* Bytes of memory that hold all images and labels. */
size_t dt_source_bytes(const dt_source *s);
/* Give the source its memory (borrowed, dt_source_bytes, aligned for int32_t, may be
 * shared by the node; labels lie first, then the images, training before test). With
 * `read` also fill and check it (labels in range, known hashes noted);
 * without, another process has filled it. */
dt_status dt_source_load(dt_source *s, void *memory, bool read) DT_MUST_CHECK;
/* Hash of all pixels and labels in memory; once any rank of the node has loaded. */
dt_digest dt_source_digest(const dt_source *s);
/* One image, [height][width][3] uint8 inside the source's memory, and its label. */
const uint8_t *dt_source_image(const dt_source *s, bool test, int64_t i, int32_t *label);

/* The mean of p p' over all patches p of so many training images, normalised so, at their size in
 * memory. The images are evenly spread, because folders list them class by class. Local. */
void dt_source_patches(const dt_source *s, const char *normalize, int64_t images,
                       double out[DT_PATCH][DT_PATCH]);

/* A source may start this program anew as a decoder process, so main calls this first. A decoder
 * process works in this call, which ends it or returns its exit code. Elsewhere: -1. */
int dt_source_serve(int argc, char **argv);

/* Mean and standard deviation of R, G, B in pixel / 255; `tutorial` has them in order B, G, R. */
#define DT_NORMALIZE_LIST(X) /* name, mean, std */                                                 \
    X(tutorial, 0.4465f, 0.4822f, 0.4914f, 0.2010f, 0.1994f, 0.2023f)                              \
    X(cifar, 0.4914f, 0.4822f, 0.4465f, 0.2023f, 0.1994f, 0.2010f)                                 \
    X(cs744, 125.3f / 255, 123.0f / 255, 113.9f / 255, 63.0f / 255, 62.1f / 255, 66.7f / 255)      \
    X(airbench, 0.4914f, 0.4822f, 0.4465f, 0.2470f, 0.2435f, 0.2616f)
/* False: there is no such name, and nothing is written. */
bool dt_normalize_find(const char *name, float mean[3], float std[3]);
/* Name; padding on each side before the crop; whether it mirrors the image (else black); whether
 * images are flipped; whether flips alternate: an image's first side is random, then both take
 * turns, epoch by epoch (Keller Jordan, arXiv 2404.00498, section 3.6; its program pads by 2). */
#define DT_AUGMENT_LIST(X)                                                                         \
    X(cifar, 4, false, true, false)                                                                \
    X(alternate, 4, false, true, true)                                                             \
    X(airbench, 2, true, true, true)                                                               \
    X(none, 0, false, false, false)
/* Name, whether resized images are rounded to bytes before they are normalised. The bytes are
 * the ones that MindSpore 2.10's vision.Resize and OpenCV's resize give (INTER_LINEAR, 8 bits). */
#define DT_RESIZE_LIST(X) X(float, false) X(uint8, true)

typedef struct dt_loader_opts {
    const char *augment, *normalize, *resize; /* names of the lists above */
    int cutout;                               /* side of the square in training images; 0: none */
    int image_size;                           /* output height = width */
    dt_dtype type;                            /* of the images written */
    uint32_t seed;
    int64_t global_batch; /* G: samples per step */
    int shards;           /* S */
    bool drop_remainder;  /* leave the uneven last batch out */
    int threads;
} dt_loader_opts;

typedef struct dt_loader dt_loader;
/* source: borrowed, loaded. All memory is taken here. DT_CONFIG: no full batch with
 * drop_remainder; DT_NOMEM. *l is to be destroyed whatever the outcome. A loader serves one caller
 * at a time and uses opts->threads threads itself. Names must be from the lists, and numbers at
 * least 1: the option table sees to both. */
dt_status dt_loader_create(dt_loader **l, const dt_source *s,
                           const dt_loader_opts *opts) DT_MUST_CHECK;
void dt_loader_destroy(dt_loader *l);
int64_t dt_loader_steps(const dt_loader *l); /* per epoch */
/* Samples of global batch `step` (n <= G): never padded. */
int64_t dt_loader_batch(const dt_loader *l, int64_t step);
/* Samples of one of S contiguous shards of n samples: sizes differ by at most one,
 * larger first (docs/numerics.md section 2). *first may be NULL. */
int64_t dt_shard_size(int64_t n, int shards, int shard, int64_t *first);

/* Write the images and labels of one shard of a training batch: images
 * [size][image_size][image_size][3], labels [size], where size is the shard's; `epoch` from 0 on.
 * The crop's place is random; a flip that does not alternate has probability 1/2. Padding that is
 * not mirrored is black before normalising, as torchvision does it. With cutout a square becomes
 * the mean, which is normalised to 0; its centre may be any pixel of the crop. Then the image is
 * normalised and resized (bilinear, half-pixel centres). If the resize rounds to bytes, the square
 * becomes the byte nearest the mean; the image is resized, then normalised. */
void dt_loader_train(dt_loader *l, int64_t epoch, int64_t step, int shard, void *images,
                     int32_t *labels);
/* Test images [first, first + count), normalised and resized only. shift: moved by so many pixels
 * up and left, with mirrored edges; flip: then flipped horizontally. */
void dt_loader_test(dt_loader *l, int64_t first, int64_t count, int shift, bool flip, void *images,
                    int32_t *labels);
#endif
