/* png.h - a PNG writer for tests, from the specification (W3C PNG 2nd edition, RFC
 * 1950, RFC 1951): stored blocks, no filters, or any stream that a test makes up. */
#ifndef DT_TEST_PNG_H
#define DT_TEST_PNG_H
#include "test.h"

struct bytes {
    uint8_t *data;
    size_t count, room;
};

static inline void put(struct bytes *b, const void *data, size_t count)
{
    if (count == 0)
        return;
    if (b->count + count > b->room) {
        b->room = 2 * (b->count + count);
        b->data = realloc(b->data, b->room);
        assert_non_null(b->data);
    }
    memcpy(b->data + b->count, data, count);
    b->count += count;
}

static inline void put_u32(struct bytes *b, uint32_t v)
{
    const uint8_t big[4] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v};
    put(b, big, 4);
}

static inline uint32_t crc32_of(const uint8_t *data, size_t count)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < count; i++) {
        crc ^= data[i];
        for (int k = 0; k < 8; k++)
            crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static inline void put_chunk(struct bytes *b, const char *type, const struct bytes *content)
{
    put_u32(b, (uint32_t)content->count);
    const size_t start = b->count;
    put(b, type, 4);
    put(b, content->data, content->count);
    put_u32(b, crc32_of(b->data + start, b->count - start));
}

/* zlib stream of stored blocks. */
static inline void put_stored(struct bytes *z, const uint8_t *raw, size_t count)
{
    uint32_t s1 = 1, s2 = 0;
    put(z, "\x78\x01", 2);
    for (size_t at = 0; at < count;) {
        const uint16_t n = (uint16_t)(count - at > 65535 ? 65535 : count - at);
        const uint8_t head[5] = {at + n == count, (uint8_t)n, (uint8_t)(n >> 8), (uint8_t)~n,
                                 (uint8_t)(~n >> 8)};
        put(z, head, 5);
        put(z, raw + at, n);
        at += n;
    }
    for (size_t i = 0; i < count; i++) {
        s1 = (s1 + raw[i]) % 65521;
        s2 = (s2 + s1) % 65521;
    }
    put_u32(z, s2 << 16 | s1);
}

/* The signature and the header; colour: 0 grey, 2 RGB, 3 palette, 6 RGBA. */
static inline void put_header(struct bytes *png, int width, int height, uint8_t depth,
                              uint8_t colour)
{
    struct bytes head = {0};
    const uint8_t format[5] = {depth, colour, 0, 0, 0};
    put(png, "\x89PNG\r\n\x1a\n", 8);
    put_u32(&head, (uint32_t)width);
    put_u32(&head, (uint32_t)height);
    put(&head, format, 5);
    put_chunk(png, "IHDR", &head);
    free(head.data);
}

/* A PNG around a finished zlib stream. */
static inline void put_png(struct bytes *png, int width, int height, uint8_t colour,
                           const struct bytes *stream)
{
    put_header(png, width, height, 8, colour);
    put_chunk(png, "IDAT", stream);
    put_chunk(png, "IEND", &(struct bytes){0});
}
#endif
