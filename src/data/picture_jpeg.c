/* picture_jpeg.c - the segments of a JPEG (ITU T.81): lengths, tables, frame, scans. */
#include "picture.h"

enum {
    TEM = 0x01,
    SOF0 = 0xc0,
    SOF2 = 0xc2,
    DHT = 0xc4,
    RST0 = 0xd0,
    RST7 = 0xd7,
    EOI = 0xd9,
    SOS = 0xda,
    DQT = 0xdb,
    DNL = 0xdc,
    DRI = 0xdd,
    APP0 = 0xe0,
    APP15 = 0xef,
    COM = 0xfe
};
enum { COMPONENTS = 4, TABLES = 4, CODES = 256, SCANS = 1000 };

typedef struct jpeg {
    const uint8_t *bytes;
    size_t count, at;    /* at: of the next byte to read */
    const uint8_t *data; /* of the segment read last */
    size_t length, place;
    dt_picture *p;
    unsigned quantisers, huffman[2]; /* defined tables, as sets; huffman: DC, AC */
    bool progressive;
    int components; /* 0: no frame yet */
    int scans;
    struct jpeg_component {
        int id, h, v, quantiser;
        bool coded;
    } component[COMPONENTS];
} jpeg;

#define jpeg_bad(j, fmt, ...)                                                                      \
    dt_picture_bad((j)->p, "the JPEG's " fmt " at byte %zu", __VA_ARGS__, (j)->place)

static int jpeg_u16(const uint8_t *b)
{
    return b[0] << 8 | b[1];
}

/* Quantisation tables: precision and number, then 64 values. */
static bool jpeg_quantisers(jpeg *j, int marker)
{
    (void)marker;
    for (size_t at = 0; at < j->length;) {
        const int precision = j->data[at] >> 4, number = j->data[at] & 15;
        const size_t bytes = 1 + (size_t)(64 << (precision & 1));
        if (precision > 1 || number >= TABLES || bytes > j->length - at)
            return jpeg_bad(j, "quantisation table %d is damaged,", number);
        j->quantisers |= 1u << number;
        at += bytes;
    }
    return true;
}

/* Huffman tables: class and number, counts of codes of 1 to 16 bits, a value for each
 * code; at most 256 codes, and no more of a length than that length can tell apart. */
static bool jpeg_huffman(jpeg *j, int marker)
{
    (void)marker;
    for (size_t at = 0; at < j->length;) {
        const int kind = j->data[at] >> 4, number = j->data[at] & 15;
        size_t codes = 0, used = 0;
        if (kind > 1 || number >= TABLES || j->length - at < 17)
            return jpeg_bad(j, "Huffman table %d is damaged,", number);
        for (int bits = 1; bits <= 16; bits++) {
            codes += j->data[at + (size_t)bits];
            used += (size_t)j->data[at + (size_t)bits] << (16 - bits);
        }
        if (codes > CODES || used > 1 << 16)
            return jpeg_bad(j, "Huffman table %d has more than %d codes, or more than fit,", number,
                            CODES);
        if (codes > j->length - at - 17)
            return jpeg_bad(j, "Huffman table %d is damaged,", number);
        j->huffman[kind] |= 1u << number;
        at += 17 + codes;
    }
    return true;
}

/* Sampling factors must divide the largest: stb_image repeats pixels a whole number of
 * times and, where it does not check that itself, reads beyond its rows otherwise. */
static bool jpeg_sampling(jpeg *j)
{
    int h = 1, v = 1;

    for (int i = 0; i < j->components; i++) {
        h = DT_MAX(j->component[i].h, h);
        v = DT_MAX(j->component[i].v, v);
    }
    for (int i = 0; i < j->components; i++)
        if (h % j->component[i].h != 0 || v % j->component[i].v != 0)
            return jpeg_bad(j, "component %d has sampling factors that do not divide %d x %d,", i,
                            h, v);
    return true;
}

static bool jpeg_frame(jpeg *j, int marker)
{
    const uint8_t *d = j->data;
    const int n = j->length >= 6 ? d[5] : 0;

    if (j->components > 0 || j->length != 6 + 3 * (size_t)n || (n != 1 && n != 3 && n != 4) ||
        d[0] != 8)
        return jpeg_bad(j, "frame with %d components is damaged, a second one, or none of 8 bits,",
                        n);
    for (int i = 0; i < n; i++) {
        const uint8_t *c = d + 6 + 3 * i;
        j->component[i] = (struct jpeg_component){c[0], c[1] >> 4, c[1] & 15, c[2], false};
        if (j->component[i].h < 1 || j->component[i].h > 4 || j->component[i].v < 1 ||
            j->component[i].v > 4 || c[2] >= TABLES)
            return jpeg_bad(j, "component %d is damaged,", i);
        for (int k = 0; k < i; k++)
            if (j->component[k].id == c[0])
                return jpeg_bad(j, "component %d has another's name,", i);
    }
    j->components = n;
    j->progressive = marker == SOF2;
    return jpeg_sampling(j) &&
           dt_picture_size(j->p, (uint32_t)jpeg_u16(d + 3), (uint32_t)jpeg_u16(d + 1));
}

/* One component of a scan and the tables that it names. */
static bool jpeg_coded(jpeg *j, const uint8_t *d, int low, int refines)
{
    struct jpeg_component *c = j->component;
    const bool dc = low == 0, ac = low > 0 || !j->progressive;

    while (c < j->component + j->components && c->id != d[0])
        c++;
    if (c == j->component + j->components)
        return jpeg_bad(j, "scan codes component %d, which the frame has not,", d[0]);
    if (dc && refines == 0 && !(j->huffman[0] >> (d[1] >> 4) & 1))
        return jpeg_bad(j, "scan names DC Huffman table %d, which nothing defines,", d[1] >> 4);
    if (ac && !(j->huffman[1] >> (d[1] & 15) & 1))
        return jpeg_bad(j, "scan names AC Huffman table %d, which nothing defines,", d[1] & 15);
    if (!(j->quantisers >> c->quantiser & 1))
        return jpeg_bad(j, "frame names quantisation table %d, which nothing defines before a scan",
                        c->quantiser);
    if (!j->progressive && c->coded)
        return jpeg_bad(j, "component %d is coded a second time,", d[0]);
    if ((!dc || refines > 0) && !c->coded)
        return jpeg_bad(j, "component %d is refined before it is coded,", d[0]);
    c->coded = true;
    return true;
}

/* Behind a scan's header: everything up to a marker that is no restart. */
static void jpeg_skip_coded(jpeg *j)
{
    while (j->at < j->count) {
        const uint8_t *ff = memchr(j->bytes + j->at, 0xff, j->count - j->at);
        j->at = ff ? (size_t)(ff - j->bytes) : j->count;
        if (j->count - j->at < 2)
            return;
        const int next = j->bytes[j->at + 1];
        if (next != 0 && next != 0xff && !(next >= RST0 && next <= RST7))
            return;
        j->at += next == 0xff ? 1 : 2;
    }
}

static bool jpeg_scan(jpeg *j, int marker)
{
    const uint8_t *d = j->data;
    const int n = j->length >= 1 ? d[0] : 0;

    (void)marker;
    if (j->components == 0 || n < 1 || n > j->components || j->length != 4 + 2 * (size_t)n)
        return jpeg_bad(j, "scan of %d components is damaged,", n);
    const int low = d[1 + 2 * n], high = d[2 + 2 * n], bits = d[3 + 2 * n];
    if (j->progressive ? high > 63 || low > high || (low == 0 && high != 0) || (low > 0 && n > 1) ||
                             bits >> 4 > 13 || (bits & 15) > 13
                       : low != 0 || bits != 0)
        return jpeg_bad(j, "scan of coefficients %d to %d is damaged,", low, high);
    if (++j->scans > SCANS)
        return jpeg_bad(j, "scan is one of more than %d,", SCANS);
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i; k++)
            if (d[1 + 2 * i] == d[1 + 2 * k])
                return jpeg_bad(j, "scan names component %d twice,", d[1 + 2 * i]);
        if (!jpeg_coded(j, d + 1 + 2 * i, low, bits >> 4))
            return false;
    }
    jpeg_skip_coded(j);
    return true;
}

static bool jpeg_skipped(jpeg *j, int marker)
{
    if ((marker == DRI && j->length != 2) ||
        (marker == DNL && (j->length != 2 || jpeg_u16(j->data) != j->p->height)))
        return jpeg_bad(j, "segment %02x is damaged,", (unsigned)marker);
    return true;
}

/* The next marker: padding before it is passed over, as decoders do. 0: none is left. */
static int jpeg_marker(jpeg *j)
{
    while (j->count - j->at >= 2) {
        const int next = j->bytes[j->at + 1];
        j->place = j->at;
        if (j->bytes[j->at] == 0xff && next != 0xff) {
            j->at += 2;
            return next == 0 ? TEM : next;
        }
        j->at++;
    }
    return 0;
}

/* The segment behind a marker. */
static bool jpeg_segment(jpeg *j, int marker)
{
    static const struct {
        int first, last; /* markers */
        bool (*take)(jpeg *j, int marker);
    } row[] = {{SOF0, SOF2, jpeg_frame},    {DHT, DHT, jpeg_huffman}, {SOS, SOS, jpeg_scan},
               {DQT, DQT, jpeg_quantisers}, {DNL, DRI, jpeg_skipped}, {APP0, APP15, jpeg_skipped},
               {COM, COM, jpeg_skipped}};

    for (size_t i = 0; i < DT_COUNT_OF(row); i++) {
        if (marker < row[i].first || marker > row[i].last)
            continue;
        const size_t length = j->count - j->at >= 2 ? (size_t)jpeg_u16(j->bytes + j->at) : 0;
        if (length < 2 || length > j->count - j->at)
            return jpeg_bad(j, "segment %02x is cut,", (unsigned)marker);
        j->data = j->bytes + j->at + 2;
        j->length = length - 2;
        j->at += length;
        return row[i].take(j, marker);
    }
    return jpeg_bad(j, "marker %02x is of no form that is read,", (unsigned)marker);
}

bool dt_picture_jpeg(const uint8_t *bytes, size_t count, dt_picture *p)
{
    jpeg j = {.bytes = bytes, .count = count, .at = 2, .p = p};
    int marker;

    while ((marker = jpeg_marker(&j)) != EOI) {
        if (marker == 0)
            return dt_picture_bad(p, "the JPEG ends at byte %zu, before its end marker: it is cut",
                                  count);
        if (!jpeg_segment(&j, marker))
            return false;
    }
    if (j.components == 0)
        return dt_picture_bad(p, "the JPEG holds no frame");
    for (int i = 0; i < j.components; i++)
        if (!j.component[i].coded)
            return dt_picture_bad(p, "the JPEG holds no scan of component %d", i);
    return true;
}
