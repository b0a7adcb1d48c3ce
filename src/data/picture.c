/* picture.c - a walk over the chunks of a PNG (W3C, 2nd edition) or the segments of a JPEG (ITU
 * T.81), for what picture.h lists. */
#include "picture.h"

#include <stdarg.h>
#include <stdio.h>

static bool picture_bad(dt_picture *p, const char *fmt, ...) DT_PRINTF(2, 3);
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
        width * height > DT_PICTURE_BYTES / 3)
        return picture_bad(p, "%lu x %lu pixels; 1 to %d on a side and at most %d in all are read",
                           (unsigned long)width, (unsigned long)height, DT_PICTURE_SIDE,
                           DT_PICTURE_BYTES / 3);
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

enum {
    SOF0 = 0xc0,
    SOF2 = 0xc2,
    DHT = 0xc4,
    RST0 = 0xd0,
    RST7 = 0xd7,
    EOI = 0xd9,
    SOS = 0xda,
    DQT = 0xdb
};
enum { COMPONENTS = 4, TABLES = 4, CODES = 256 };

typedef struct jpeg {
    const uint8_t *bytes;
    size_t count, at; /* at: of the next byte to read */
    size_t place;     /* of the marker read last */
    dt_picture *p;
    unsigned quantisers, huffman[2]; /* defined tables, as sets; huffman: DC, AC */
    bool progressive;
    int components; /* 0: no frame yet */
    struct jpeg_component {
        int id, quantiser;
        bool coded;
    } component[COMPONENTS];
} jpeg;

#define jpeg_bad(j, fmt, ...)                                                                      \
    picture_bad((j)->p, "the JPEG's " fmt " at byte %zu", __VA_ARGS__, (j)->place)

static uint32_t jpeg_u16(const uint8_t *b)
{
    return (uint32_t)b[0] << 8 | b[1];
}

/* Quantisation tables: precision and number, then 64 values. */
static bool jpeg_quantisers(jpeg *j, const uint8_t *data, size_t length)
{
    for (size_t at = 0; at < length;) {
        const int precision = data[at] >> 4, number = data[at] & 15;
        const size_t bytes = 1 + (size_t)(64 << (precision & 1));
        if (precision > 1 || number >= TABLES || bytes > length - at)
            return jpeg_bad(j, "quantisation table %d is damaged,", number);
        j->quantisers |= 1u << number;
        at += bytes;
    }
    return true;
}

/* Huffman tables: class and number, counts of codes of 1 to 16 bits, a value for each code. */
static bool jpeg_huffman(jpeg *j, const uint8_t *data, size_t length)
{
    for (size_t at = 0; at < length;) {
        const int kind = data[at] >> 4, number = data[at] & 15;
        size_t codes = 0;
        for (size_t bits = 1; bits <= 16 && length - at >= 17; bits++)
            codes += data[at + bits];
        if (kind > 1 || number >= TABLES || length - at < 17 || codes > length - at - 17)
            return jpeg_bad(j, "Huffman table %d is damaged,", number);
        if (codes > CODES)
            return jpeg_bad(j, "Huffman table %d has more than %d codes,", number, CODES);
        j->huffman[kind] |= 1u << number;
        at += 17 + codes;
    }
    return true;
}

static bool jpeg_frame(jpeg *j, const uint8_t *data, size_t length)
{
    const int n = length >= 6 ? data[5] : 0;

    if (j->components > 0 || n < 1 || n > COMPONENTS || length != 6 + 3 * (size_t)n)
        return jpeg_bad(j, "frame with %d components is damaged or a second one,", n);
    for (int i = 0; i < n; i++)
        j->component[i] = (struct jpeg_component){data[6 + 3 * i], data[8 + 3 * i], false};
    j->components = n;
    return picture_size(j->p, jpeg_u16(data + 3), jpeg_u16(data + 1));
}

/* One component of a scan that begins with coefficient `low`, and the tables that it names. */
static bool jpeg_coded(jpeg *j, const uint8_t *names, int low, bool refines)
{
    const int dc = names[1] >> 4, ac = names[1] & 15;
    int i = 0;

    while (i < j->components && j->component[i].id != names[0])
        i++;
    if (i == j->components)
        return jpeg_bad(j, "scan codes component %d, which the frame has not,", names[0]);
    if (low == 0 && !refines && !(j->huffman[0] >> dc & 1))
        return jpeg_bad(j, "scan names DC Huffman table %d, which nothing defines,", dc);
    if ((low > 0 || !j->progressive) && !(j->huffman[1] >> ac & 1))
        return jpeg_bad(j, "scan names AC Huffman table %d, which nothing defines,", ac);
    const int quantiser = j->component[i].quantiser;
    if (quantiser >= TABLES || !(j->quantisers >> quantiser & 1))
        return jpeg_bad(j, "frame names quantisation table %d, which nothing defines before a scan",
                        quantiser);
    j->component[i].coded = j->component[i].coded || (low == 0 && !refines);
    return true;
}

static bool jpeg_scan(jpeg *j, const uint8_t *data, size_t length)
{
    const int n = length >= 1 ? data[0] : 0;

    if (n < 1 || n > j->components || length != 4 + 2 * (size_t)n)
        return jpeg_bad(j, "scan of %d components is damaged,", n);
    const int low = data[1 + 2 * n], refines = data[3 + 2 * n] >> 4;
    for (int i = 0; i < n; i++)
        if (!jpeg_coded(j, data + 1 + 2 * i, low, refines > 0))
            return false;
    /* coded bytes: up to a marker that is no restart */
    for (; j->count - j->at >= 2; j->at++) {
        const int next = j->bytes[j->at + 1];
        if (j->bytes[j->at] == 0xff && next != 0 && next != 0xff && (next < RST0 || next > RST7))
            break;
    }
    return true;
}

/* The next marker, after any padding. -1: none is left. */
static int jpeg_marker(jpeg *j)
{
    for (; j->count - j->at >= 2; j->at++)
        if (j->bytes[j->at] == 0xff && j->bytes[j->at + 1] != 0xff) {
            j->place = j->at;
            j->at += 2;
            return j->bytes[j->place + 1];
        }
    return -1;
}

/* The segment after a marker. */
static bool jpeg_segment(jpeg *j, int marker)
{
    const size_t left = j->count - j->at;
    const size_t length = left >= 2 ? jpeg_u16(j->bytes + j->at) : 0;
    const uint8_t *data = j->bytes + j->at + 2;

    if (marker < SOF0 || (marker >= RST0 && marker < SOS))
        return jpeg_bad(j, "marker %02x is out of place", (unsigned)marker);
    if (length < 2 || length > left)
        return jpeg_bad(j, "segment %02x is cut,", (unsigned)marker);
    j->at += length;
    if (marker <= SOF2) {
        j->progressive = marker == SOF2;
        return jpeg_frame(j, data, length - 2);
    }
    return marker == DHT   ? jpeg_huffman(j, data, length - 2)
           : marker == DQT ? jpeg_quantisers(j, data, length - 2)
           : marker == SOS ? jpeg_scan(j, data, length - 2)
                           : true;
}

static bool picture_jpeg(const uint8_t *bytes, size_t count, dt_picture *p)
{
    jpeg j = {.bytes = bytes, .count = count, .at = 2, .p = p};

    for (int marker; (marker = jpeg_marker(&j)) != EOI;) {
        if (marker < 0)
            return picture_bad(p, "the JPEG ends at byte %zu, before its end marker: it is cut",
                               count);
        if (!jpeg_segment(&j, marker))
            return false;
    }
    if (j.components == 0)
        return picture_bad(p, "the JPEG holds no frame");
    for (int i = 0; i < j.components; i++)
        if (!j.component[i].coded)
            return picture_bad(p, "the JPEG holds no scan of component %d", i);
    return true;
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
