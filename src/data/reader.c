/* reader.c - single pictures for a trained model: any size becomes that of the images that the
 * model was trained on, then goes the path of its test images. */
#include "augment.h"
#include "image_file.h"

#include <stdlib.h>

struct dt_reader {
    dt_reader_opts opts;
    dt_decoder decoder;
    uint8_t *image; /* [height][width][3] as the source has them, owned */
};

dt_status dt_reader_open(dt_reader **out, const dt_reader_opts *opts)
{
    dt_reader *r = NULL;
    dt_status st = DT_OK;

    DT_TRY(dt_calloc(&r, 1, sizeof *r, "the reader of pictures"));
    r->opts = *opts;
    r->decoder.fd = -1;
    if (opts->height == 0)
        r->opts.height = r->opts.width = opts->loader.image_size;
    const size_t bytes = 3 * (size_t)r->opts.height * (size_t)r->opts.width;
    DT_GO(st, dt_calloc(&r->image, bytes, 1, "a picture"), out);
    st = dt_decoder_start(&r->decoder);
    *out = r;
    r = st == DT_OK ? NULL : r;
out:
    dt_reader_close(r);
    return st;
}

void dt_reader_close(dt_reader *r)
{
    if (!r)
        return;
    dt_decoder_stop(&r->decoder);
    free(r->image);
    free(r);
}

/* A picture that has each pixel of the model's images several times is averaged first: bilinear
 * interpolation alone would look at few of its pixels. */
static dt_status reader_decode(dt_reader *r, const char *path)
{
    const int width = r->opts.width, height = r->opts.height;
    uint8_t *pixels = NULL;
    dt_picture p;

    if (r->decoder.pid == 0) { /* the last picture has ended it */
        dt_decoder_stop(&r->decoder);
        DT_TRY(dt_decoder_start(&r->decoder));
    }
    const dt_status st = dt_image_decode(&r->decoder, path, &p, &pixels);
    if (st == DT_OK) {
        const int by = DT_MIN(p.width / width, p.height / height);
        if (by > 1)
            dt_image_shrink(pixels, &p.width, &p.height, by);
        dt_image_resize(pixels, p.width, p.height, r->image, width, height);
    }
    free(pixels);
    return st;
}

dt_status dt_reader_read(dt_reader *r, const char *path, void *to)
{
    const dt_source_info info = {.height = r->opts.height, .width = r->opts.width};
    dt_augment a = {.size = 0};
    float *scratch = NULL;
    dt_status st = DT_OK;

    DT_TRY(reader_decode(r, path));
    DT_GO(st, dt_augment_init(&a, &info, &r->opts.loader), out);
    DT_GO(st, dt_calloc(&scratch, dt_augment_scratch(&a), sizeof *scratch, "a picture"), out);
    dt_augment_image(&a, r->image, (dt_window){.flip = false}, scratch, to);
out:
    free(scratch);
    dt_augment_release(&a);
    return st;
}
