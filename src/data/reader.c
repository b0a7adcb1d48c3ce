/* reader.c - single pictures for a trained model: any size becomes that of the images that the
 * model was trained on, then goes the path of its test images. */
#include "augment.h"
#include "image_file.h"

#include <stdlib.h>

struct dt_reader {
    dt_reader_opts opts;
    dt_decoder decoder;
    dt_augment augment;
    uint8_t *image; /* [height][width][3] as the source has them, owned */
    float *scratch; /* owned */
};

dt_status dt_reader_open(dt_reader **out, const dt_reader_opts *opts)
{
    DT_TRY(dt_calloc(out, 1, sizeof **out, "the reader of pictures"));
    dt_reader *r = *out;
    r->opts = *opts;
    r->decoder.fd = -1;
    if (opts->height == 0)
        r->opts.height = r->opts.width = opts->loader.image_size;
    const dt_source_info info = {.height = r->opts.height, .width = r->opts.width};
    const size_t bytes = 3 * (size_t)info.height * (size_t)info.width;
    DT_TRY(dt_calloc(&r->image, bytes, 1, "a picture"));
    DT_TRY(dt_augment_init(&r->augment, &info, &opts->loader));
    const size_t floats = dt_augment_scratch(&r->augment);
    DT_TRY(dt_calloc(&r->scratch, floats, sizeof *r->scratch, "a picture"));
    return dt_decoder_start(&r->decoder);
}

void dt_reader_close(dt_reader *r)
{
    if (!r)
        return;
    dt_decoder_stop(&r->decoder);
    dt_augment_release(&r->augment);
    free(r->image);
    free(r->scratch);
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
    DT_TRY(reader_decode(r, path));
    dt_augment_image(&r->augment, r->image, (dt_window){.flip = false}, r->scratch, to);
    return DT_OK;
}
