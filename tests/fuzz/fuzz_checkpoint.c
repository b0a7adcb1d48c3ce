/* fuzz_checkpoint.c - a checkpoint's MANIFEST (first byte M) and state.json. */
#include "store/checkpoint_internal.h"
#include "fuzz.h"

/* What is of a newer format is not damaged. */
static bool judged(dt_status st)
{
    return fuzz_judged(st, st == DT_UNSUPPORTED ? st : DT_FORMAT);
}

static void manifest(const uint8_t *data, size_t size)
{
    char text[DT_MANIFEST_CHARS];
    dt_manifest m;

    fuzz_file("MANIFEST", data, size);
    if (judged(dt_manifest_read(fuzz_root, &m))) {
        fuzz_must(dt_manifest_text(&m, text) == size);
        fuzz_must(memcmp(text, data, size) == 0);
    }
}

static void state(const uint8_t *data, size_t size)
{
    dt_checkpoint_state s;

    fuzz_file("state.json", data, size);
    if (judged(dt_checkpoint_json_read(fuzz_root, NULL, &s, NULL)))
        fuzz_must(s.at.epoch >= 0 && s.at.step >= 0 && s.at.images >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0)
        (data[0] == 'M' ? manifest : state)(data + 1, size - 1);
    return 0;
}
