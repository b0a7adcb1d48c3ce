/* fuzz_safetensors.c - model files: a header that is taken describes bytes of the file. */
#include "fuzz.h"
#include "format/tensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[128], shape[DT_SHAPE_CHARS];
    dt_safetensors *f = NULL;

    fuzz_file("a.safetensors", data, size);
    if (!fuzz_judged(dt_safetensors_open(&f, fuzz_path(path, "a.safetensors"), NULL, 0), DT_FORMAT))
        return 0;
    for (size_t i = 0; i < f->count; i++) {
        const dt_tensor *t = &f->tensor[i];
        fuzz_must(t->offset <= size && t->bytes <= size - t->offset);
        fuzz_must(t->rank >= 0 && t->rank <= DT_TENSOR_MAX_RANK);
        fuzz_must(strlen(dt_shape_text(t->rank, t->shape, shape)) < DT_SHAPE_CHARS);
        const bool narrow = strstr(t->dtype, "F16") != NULL; /* is widened to float32 */
        uint8_t *bytes = malloc(2 * t->bytes + 1);
        fuzz_must(bytes && dt_safetensors_read(f, t, bytes) == DT_OK);
        fuzz_must(narrow || memcmp(bytes, data + t->offset, t->bytes) == 0);
        free(bytes);
    }
    dt_safetensors_metadata(f, "format");
    dt_safetensors_close(f);
    /* As a piece, joined with itself: twice there, or without a number. */
    static dt_file_bytes file[2];
    fuzz_path(file[0].path, "a.safetensors");
    fuzz_path(file[1].path, "a.safetensors");
    for (size_t files = 1; files <= 2; files++) {
        if (!fuzz_judged(dt_safetensors_join(&f, "joined", file, files), DT_FORMAT))
            continue;
        for (size_t i = 0; i < f->count; i++) {
            const dt_tensor *t = &f->tensor[i];
            uint8_t *bytes = malloc(2 * t->bytes + 1);
            fuzz_must(t->bytes <= size);
            fuzz_must(bytes && dt_safetensors_read(f, t, bytes) == DT_OK);
            free(bytes);
        }
        dt_safetensors_close(f);
    }
    return 0;
}
