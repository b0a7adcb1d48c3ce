/* fuzz_images.c - image files: what passes the check of the structure is decoded, twice, to
 * the same pixels, with memory of other content before each. Checksums are made right, so
 * that changed bytes get beyond them. */
#include "fuzz.h"
#include "images/decoder.h"

enum { PIXELS = 1 << 18 }; /* of an image that is decoded; larger ones only take longer */

static uint32_t big(const uint8_t *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static void mend_checksums(uint8_t *png, size_t size)
{
    for (size_t at = 8; at < size && size - at >= 12;) {
        const size_t length = big(png + at);
        uint32_t crc = 0xffffffffu;
        if (length > size - at - 12)
            return;
        for (size_t i = at + 4; i < at + 8 + length; i++) {
            crc ^= png[i];
            for (int k = 0; k < 8; k++)
                crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
        }
        for (int i = 0; i < 4; i++)
            png[at + 8 + length + (size_t)i] = (uint8_t)(~crc >> (24 - 8 * i));
        at += 12 + length;
    }
}

/* The pixels' hash, zero for none. */
static dt_digest decode(const uint8_t *bytes, size_t size, const dt_picture *p, int dirt)
{
    const char *reason = NULL;
    uint8_t *file = dt_pixels_file(1 << 16);

    fuzz_must(file);
    memset(file, dirt, 1 << 16);
    file = dt_pixels_file(size);
    fuzz_must(file);
    memcpy(file, bytes, size);
    const uint8_t *pixels = dt_pixels_decode(size, p->width, p->height, &reason);
    if (!pixels) {
        fuzz_must(reason && reason[0]);
        return (dt_digest){0};
    }
    return dt_hash_bytes(pixels, 3 * (size_t)p->width * (size_t)p->height);
}

static void check(const uint8_t *bytes, size_t size)
{
    dt_picture p;

    if (!dt_picture_check(bytes, size, &p)) {
        fuzz_must(p.reason[0]);
        return;
    }
    fuzz_must(p.width >= 1 && p.width <= DT_PICTURE_SIDE);
    fuzz_must(p.height >= 1 && p.height <= DT_PICTURE_SIDE);
    if (p.width * p.height > PIXELS)
        return;
    const dt_digest a = decode(bytes, size, &p, 0x00), b = decode(bytes, size, &p, 0xa5);
    fuzz_must(a.low == b.low && a.high == b.high);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool open;

    if (!open)
        fuzz_must(dt_pixels_open() == DT_OK);
    open = true;
    check(data, size);
    if (size < 8 || data[0] != 0x89)
        return 0;
    uint8_t *copy = malloc(size);
    fuzz_must(copy);
    memcpy(copy, data, size);
    mend_checksums(copy, size);
    check(copy, size);
    free(copy);
    return 0;
}
