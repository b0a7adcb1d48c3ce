/* picture.c - a walk over the chunks of a PNG (W3C, 2nd edition) or the segments of a JPEG (ITU
 * T.81), for what decoder.h lists. */
#include "decoder.h"

#include <stdarg.h>

DT_PRINTF(2, 3)
static bool picture_bad(dt_picture *p, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(p->reason, sizeof p->reason, fmt, args);
    va_end(args);
    return false;
}

static bool picture_size(dt_picture *p, uint32_t width, uint32_t height)
{
    if (width == 0 || height == 0 || width > DT_PICTURE_SIDE || height > DT_PICTURE_SIDE ||
        width * height > DT_PICTURE_PIXELS)
        return picture_bad(p, "%lu x %lu pixels; 1 to %d on a side and at most %d in all are read",
                           (unsigned long)width, (unsigned long)height, DT_PICTURE_SIDE,
                           (int)DT_PICTURE_PIXELS);
    p->width = (int)width;
    p->height = (int)height;
    return true;
}

/* ---- PNG --------------------------------------------------------------------------------- */

enum { PNG_SIGNATURE = 8, PNG_FRAME = 12 /* length, type, checksum */ };

static uint32_t png_u32(const uint8_t *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* The CRC of ISO 3309, four bits at a time. */
static uint32_t png_checksum(const uint8_t *b, size_t count)
{
    static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
                                       0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                                       0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                       0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    uint32_t crc = 0xffffffffu;

    for (size_t i = 0; i < count; i++) {
        crc = crc >> 4 ^ table[(crc ^ b[i]) & 15];
        crc = crc >> 4 ^ table[(crc ^ b[i] >> 4) & 15];
    }
    return ~crc;
}

size_t dt_png_length(const uint8_t *bytes, size_t count, size_t at)
{
    if (at > count || count - at < PNG_FRAME || png_u32(bytes + at) > count - at - PNG_FRAME)
        return SIZE_MAX;
    return png_u32(bytes + at);
}

/* The first chunk. */
static bool png_header(const uint8_t *bytes, dt_picture *p)
{
    /* allowed bits per sample of each colour type, as a set */
    static const uint32_t depths[7] = {[0] = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8 | 1 << 16,
                                       [2] = 1 << 8 | 1 << 16,
                                       [3] = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8,
                                       [4] = 1 << 8 | 1 << 16,
                                       [6] = 1 << 8 | 1 << 16};
    const uint8_t *d = bytes + PNG_SIGNATURE + 8;

    if (memcmp(bytes + PNG_SIGNATURE, "\0\0\0\15IHDR", 8) != 0)
        return picture_bad(p, "the PNG does not begin with its header (IHDR)");
    if (d[9] > 6 || d[8] > 16 || !(depths[d[9]] >> d[8] & 1))
        return picture_bad(p, "no PNG has colour type %d with %d bits", d[9], d[8]);
    return picture_size(p, png_u32(d), png_u32(d + 4));
}

static bool picture_png(const uint8_t *bytes, size_t count, dt_picture *p)
{
    bool pixels = false;

    for (size_t at = PNG_SIGNATURE;;) {
        const size_t length = dt_png_length(bytes, count, at);
        const char *type = (const char *)bytes + at + 4;
        if (length == SIZE_MAX)
            return picture_bad(p, "the PNG is cut: its chunk at byte %zu does not end in it", at);
        if (png_checksum(bytes + at + 4, 4 + length) != png_u32(bytes + at + 8 + length))
            return picture_bad(p, "the PNG's chunk at byte %zu has a wrong checksum", at);
        if (at == PNG_SIGNATURE && !png_header(bytes, p))
            return false;
        if (memcmp(type, "IEND", 4) == 0)
            return true;
        if (memcmp(type, "IDAT", 4) == 0 && !pixels && length == 0)
            return picture_bad(p, "the PNG's pixels (IDAT) begin with an empty chunk");
        pixels = pixels || memcmp(type, "IDAT", 4) == 0;
        at += PNG_FRAME + length;
    }
}

/* ---- JPEG -------------------------------------------------------------------------------- */

enum { SOF0 = 0xc0, SOF2 = 0xc2, SOF15 = 0xcf, DHT = 0xc4, EOI = 0xd9, SOS = 0xda };
enum { RST0 = 0xd0, RST7 = 0xd7, CODES = 256 };

static uint32_t jpeg_u16(const uint8_t *b)
{
    return (uint32_t)b[0] << 8 | b[1];
}

/* Huffman tables: class and number, counts of codes of 1 to 16 bits, a value for each code. */
static bool jpeg_huffman(const uint8_t *data, size_t length, dt_picture *p)
{
    for (size_t at = 0; at < length;) {
        size_t codes = 0;
        for (size_t bits = 1; bits <= 16 && at + bits < length; bits++)
            codes += data[at + bits];
        if (codes > CODES || at + 17 + codes > length)
            return picture_bad(p,
                               "a Huffman table of the JPEG has %zu codes: more than %d or than "
                               "its segment holds",
                               codes, CODES);
        at += 17 + codes;
    }
    return true;
}

/* The place of the first marker from `at` on that is neither padding nor, in coded bytes, one of
 * them or a restart; count: none. */
static size_t jpeg_marker(const uint8_t *bytes, size_t count, size_t at, int *restarts)
{
    for (*restarts = 0; at + 2 <= count; at++) {
        const int next = bytes[at + 1];
        const bool marker = bytes[at] == 0xff && next != 0 && next != 0xff;
        if (marker && (next < RST0 || next > RST7))
            return at;
        *restarts += marker;
    }
    return count;
}

static bool picture_jpeg(const uint8_t *bytes, size_t count, dt_picture *p)
{
    int restarts = 0, marker = 0, components = 0, coded = 0; /* coded: seen in a first scan */

    for (size_t at = 2;;) {
        at = jpeg_marker(bytes, count, at, &restarts);
        if (marker == SOS) {
            p->coded_end = at;
            p->restarts = restarts;
        }
        const size_t left = count - at, length = left >= 4 ? jpeg_u16(bytes + at + 2) : 0;
        const uint8_t *data = bytes + at + 4;
        marker = left >= 2 ? bytes[at + 1] : 0;
        if (marker == EOI && p->width > 0 && coded < components)
            return picture_bad(p, "the JPEG lacks a scan of one of its %d components", components);
        if (marker == EOI)
            return p->width > 0 || picture_bad(p, "the JPEG holds no frame");
        if (length < 2 || length > left - 2)
            return picture_bad(p, "the JPEG is cut: its segment at byte %zu does not end in it",
                               at);
        if (marker == DHT && !jpeg_huffman(data, length - 2, p))
            return false;
        if (marker > SOF2 && marker <= SOF15 && marker != DHT)
            return picture_bad(p, "the JPEG is lossless, hierarchical or arithmetic-coded");
        const bool frame = marker >= SOF0 && marker <= SOF2;
        if (frame && length < 8)
            return picture_bad(p, "the JPEG's frame at byte %zu is damaged", at);
        if (frame && !picture_size(p, jpeg_u16(data + 3), jpeg_u16(data + 1)))
            return false;
        components = frame ? data[5] : components;
        const int n = marker == SOS && length > 2 ? data[0] : 0; /* from 0 on, and no refinement */
        coded += length >= 6 + 2 * (size_t)n && !data[2 * n + 1] && !(data[2 * n + 3] >> 4) ? n : 0;
        at += 2 + length;
    }
}

bool dt_picture_check(const uint8_t *bytes, size_t count, dt_picture *p)
{
    *p = (dt_picture){0};
    if (count >= PNG_SIGNATURE && memcmp(bytes, "\x89PNG\r\n\x1a\n", PNG_SIGNATURE) == 0)
        return picture_png(bytes, count, p);
    if (count >= 2 && memcmp(bytes, "\xff\xd8", 2) == 0)
        return picture_jpeg(bytes, count, p);
    return picture_bad(p, "%zu bytes that begin like neither", count);
}
