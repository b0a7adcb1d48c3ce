/* fuzz_ckpt.c - MindSpore's checkpoints: a file that is taken describes bytes of the file. */
#include "fuzz.h"
#include "convert/convert.h"
#include "format/tensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool added;
    dt_safetensors *f = NULL;

    if (!added)
        dt_extra_convert();
    added = true;
    if (!fuzz_judged(dt_safetensors_open(&f, "a.ckpt", (const char *)data, size), DT_FORMAT))
        return 0;
    for (size_t i = 0; i < f->count; i++) {
        const dt_tensor *t = &f->tensor[i];
        fuzz_must(t->offset <= size && t->bytes <= size - t->offset);
        fuzz_must(i == 0 || f->tensor[i - 1].offset < t->offset);
        fuzz_must(t->rank >= 0 && t->rank <= DT_TENSOR_MAX_RANK && t->name[0]);
        uint8_t *numbers = malloc(2 * t->bytes + 1); /* as float32 */
        fuzz_must(numbers && dt_safetensors_read(f, t, numbers) == DT_OK);
        free(numbers);
    }
    dt_safetensors_close(f);
    return 0;
}
