/* reader.c - single pictures for a trained model: any size becomes that of the images that the
 * model was trained on, then goes the path of its test images. */
#include "augment.h"
#include "decoder.h"

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
    DT_TRY(dt_calloc(&r->image, 3 * (size_t)info.height, (size_t)info.width, "a picture"));
    DT_TRY(dt_augment_init(&r->augment, &info, &opts->loader));
    DT_TRY(dt_calloc(&r->scratch, dt_augment_scratch(&r->augment), sizeof(float), "a picture"));
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

dt_status dt_reader_read(dt_reader *r, const char *path, void *to)
{
    int64_t resized = 0;

    if (r->decoder.pid == 0) { /* the last picture has ended it */
        dt_decoder_stop(&r->decoder);
        DT_TRY(dt_decoder_start(&r->decoder));
    }
    DT_TRY(dt_image_read(&r->decoder, path, r->opts.width, r->opts.height, r->image, &resized));
    dt_augment_image(&r->augment, r->image, (dt_window){.flip = false}, r->scratch, to);
    return DT_OK;
}
