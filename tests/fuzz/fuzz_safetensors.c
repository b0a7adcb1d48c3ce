/* fuzz_safetensors.c - model files: a header that is taken describes bytes of the file. */
#include "fuzz.h"
#include "format/tensors.h"
#include "pieces/pieces.h"

/* Every tensor can be read; data: the file, or NULL if it is joined. Closes f. */
static void read_all(dt_safetensors *f, const uint8_t *data, size_t size)
{
    char shape[DT_SHAPE_CHARS];

    for (size_t i = 0; i < f->count; i++) {
        const dt_tensor *t = &f->tensor[i];
        fuzz_must(t->bytes <= size && (!data || t->offset <= size - t->bytes));
        fuzz_must(t->rank >= 0 && t->rank <= DT_TENSOR_MAX_RANK);
        fuzz_must(strlen(dt_shape_text(t->rank, t->shape, shape)) < DT_SHAPE_CHARS);
        const bool narrow = strstr(t->dtype, "F16") != NULL; /* is widened to float32 */
        uint8_t *bytes = malloc(2 * t->bytes + 1);
        fuzz_must(bytes && dt_safetensors_read(f, t, bytes) == DT_OK);
        fuzz_must(!data || narrow || memcmp(bytes, data + t->offset, t->bytes) == 0);
        free(bytes);
    }
    dt_safetensors_metadata(f, "format");
    dt_safetensors_close(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static dt_file_bytes file[2];
    dt_safetensors *f = NULL;

    fuzz_file("a.safetensors", data, size);
    fuzz_path(file[0].path, "a.safetensors");
    fuzz_path(file[1].path, "a.safetensors");
    if (!fuzz_judged(dt_safetensors_open(&f, file[0].path, NULL, 0), DT_FORMAT))
        return 0;
    read_all(f, data, size);
    /* As a piece, joined with itself: twice there, or without a number. */
    for (size_t files = 1; files <= 2; files++)
        if (fuzz_judged(dt_pieces_join(&f, "joined", file, files), DT_FORMAT))
            read_all(f, NULL, size);
    return 0;
}
