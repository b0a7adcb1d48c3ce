/* fuzz_checkpoint.c - a checkpoint's MANIFEST (first byte M) and state.json. */
#include "store/checkpoint_internal.h"
#include "fuzz.h"

/* What is of a newer format is not damaged. */
static bool judged(dt_status st)
{
    return fuzz_judged(st, st == DT_UNSUPPORTED ? st : DT_FORMAT);
}

static void manifest(const char *text, size_t length)
{
    char again[DT_MANIFEST_CHARS];
    dt_manifest m;

    if (judged(dt_manifest_parse("x", text, length, &m)))
        fuzz_must(dt_manifest_text(&m, again) < sizeof again);
}

static void state(const char *text, size_t length)
{
    dt_checkpoint *c = calloc(1, sizeof *c);

    fuzz_must(c != NULL);
    c->in.fd = -1;
    if (judged(dt_checkpoint_state_parse(c, text, length)))
        fuzz_must(c->at.epoch >= 0 && c->at.step >= 0 && c->at.images >= 0);
    dt_checkpoint_close(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = size > 0 ? calloc(1, size) : NULL; /* ended by a zero, as files are read */

    if (text) {
        memcpy(text, data + 1, size - 1);
        (data[0] == 'M' ? manifest : state)(text, size - 1);
    }
    free(text);
    return 0;
}
