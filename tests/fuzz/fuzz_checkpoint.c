/* fuzz_checkpoint.c - a checkpoint's MANIFEST (first byte M) and state.json. */
#include "store/checkpoint_internal.h"
#include "fuzz.h"

static void manifest(const uint8_t *data, size_t size)
{
    char text[DT_MANIFEST_CHARS];
    dt_manifest m;

    fuzz_file("MANIFEST", data, size);
    if (fuzz_judged(dt_manifest_read(fuzz_root, &m), DT_FORMAT)) {
        fuzz_must(dt_manifest_text(&m, text) == size);
        fuzz_must(memcmp(text, data, size) == 0);
    }
}

static void state(const uint8_t *data, size_t size)
{
    dt_checkpoint_state s;

    fuzz_file("state.json", data, size);
    if (fuzz_judged(dt_checkpoint_json_read(fuzz_root, NULL, &s, NULL), DT_FORMAT))
        fuzz_must(s.at.epoch >= 0 && s.at.step >= 0 && s.at.images >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0)
        (data[0] == 'M' ? manifest : state)(data + 1, size - 1);
    return 0;
}
