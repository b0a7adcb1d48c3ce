/* data_picture.c - what is refused of PNG and JPEG files before they are decoded. Each damage is
 * done to a good file, so that it alone decides. */
#include "data/picture.h"
#include "jpeg.h"
#include "png.h"

/* Refused for `reason`; NULL: accepted. */
static void check(const void *bytes, size_t count, const char *reason)
{
    dt_picture p;
    /* a copy of its exact size: sanitizers see a byte read beyond it */
    uint8_t *exact = malloc(count ? count : 1);
    memcpy(exact, bytes, count);
    if (dt_picture_check(exact, count, &p) != !reason)
        fail_msg("%s, want '%s'", p.reason[0] ? p.reason : "accepted", reason ? reason : "good");
    if (reason && !strstr(p.reason, reason))
        fail_msg("reason '%s' does not hold '%s'", p.reason, reason);
    free(exact);
}

/* ---- PNG ----------------------------------------------------------------------------- */

static struct bytes png_start(int width, int height, uint8_t depth, uint8_t colour)
{
    struct bytes b = {0}, head = {0};
    const uint8_t format[5] = {depth, colour, 0, 0, 0};
    put(&b, "\x89PNG\r\n\x1a\n", 8);
    put_u32(&head, (uint32_t)width);
    put_u32(&head, (uint32_t)height);
    put(&head, format, 5);
    put_chunk(&b, "IHDR", &head);
    free(head.data);
    return b;
}

/* Chunks of three bytes, but "idat", an empty IDAT, and IEND. */
static void png_chunks_are_checked(void **state)
{
    static const struct {
        const char *type[5], *reason;
    } rows[] = {
        {{"IDAT", "IEND"}, NULL},
        {{"gAMA", "PLTE", "IDAT", "idat", "IEND"}, NULL},
        {{"idat", "IDAT", "IEND"}, "begin with an empty chunk"},
        {{"IDAT"}, "is cut: its chunk at byte 48"},
    };
    uint8_t three[3] = {1, 2, 3};
    const struct bytes content = {three, 3, 3}, none = {0};

    (void)state;
    for (size_t i = 0; i < DT_COUNT_OF(rows); i++) {
        struct bytes b = png_start(3, 2, 8, 2);
        for (int k = 0; k < 5 && rows[i].type[k]; k++) {
            const char *type = rows[i].type[k];
            const bool empty = strcmp(type, "idat") == 0;
            put_chunk(&b, empty ? "IDAT" : type,
                      empty || strcmp(type, "IEND") == 0 ? &none : &content);
        }
        check(b.data, b.count, rows[i].reason);
        free(b.data);
    }
    check("\x89PNG\r\n\x1a\n\0\0\0\0IEND\xae\x42\x60\x82", 20, "does not begin with its header");
}

static void png_headers_are_checked(void **state)
{
    static const struct {
        int width, height;
        uint8_t depth, colour;
        const char *reason;
    } bad[] = {{0, 2, 8, 2, "0 x 2"},          {3, 0, 8, 2, "3 x 0"},
               {8193, 1, 8, 2, "8193 x 1"},    {1, 8193, 8, 2, "1 x 8193"},
               {8192, 8192, 8, 2, "22369621"}, {-1, -1, 8, 2, "4294967295 x 4294967295"},
               {3, 2, 3, 0, "3 bits"},         {3, 2, 4, 2, "4 bits"},
               {3, 2, 16, 3, "16 bits"},       {3, 2, 0, 0, "0 bits"},
               {3, 2, 32, 2, "32 bits"},       {3, 2, 8, 1, "colour type 1"},
               {3, 2, 8, 7, "colour type 7"}};
    (void)state;
    for (size_t i = 0; i < DT_COUNT_OF(bad); i++) {
        struct bytes b = png_start(bad[i].width, bad[i].height, bad[i].depth, bad[i].colour);
        check(b.data, b.count, bad[i].reason);
        free(b.data);
    }
}

/* Every cut and every changed byte of a file shows: lengths, and a checksum of all else. */
static void damaged_pngs_are_refused(void **state)
{
    (void)state;
    struct bytes stream = {0}, b = {0};
    put_stored(&stream, (const uint8_t *)"\0\1\2\3", 4);
    put_png(&b, 1, 1, 2, &stream);
    check(b.data, b.count, NULL);
    for (size_t i = 0; i < b.count; i++) {
        check(b.data, i, "");
        for (int bit = 0; bit < 8; bit++) {
            b.data[i] = (uint8_t)(b.data[i] ^ 1 << bit);
            check(b.data, b.count, "");
            b.data[i] = (uint8_t)(b.data[i] ^ 1 << bit);
        }
    }
    b.data[45] ^= 1;
    check(b.data, b.count, "chunk at byte 33 has a wrong checksum");
    free(stream.data);
    free(b.data);
}

/* ---- JPEG ---------------------------------------------------------------------------- */

enum { SOF = 0xc0, DHT = 0xc4, SOS = 0xda, DQT = 0xdb };
enum { LENGTH = -2, REMOVED = -1 }; /* places of a change */

static size_t segment_bytes(const uint8_t *at)
{
    return 2 + (size_t)(at[2] << 8 | at[3]);
}

/* The good file with another byte in the which-th segment of a kind, or without the segment. */
static void check_changed(int marker, int which, int place, uint8_t to, const char *reason)
{
    uint8_t b[sizeof jpeg];
    size_t at = 2, count = sizeof b;

    memcpy(b, jpeg, sizeof b);
    while (b[at + 1] != marker || which-- > 0)
        at += segment_bytes(b + at);
    if (place == REMOVED) {
        const size_t bytes = segment_bytes(b + at);
        count -= bytes;
        memmove(b + at, b + at + bytes, count - at);
    } else
        b[place == LENGTH ? at + 3 : at + 4 + (size_t)place] = to;
    check(b, count, reason);
}

static void jpeg_segments_are_checked(void **state)
{
    static const struct {
        int marker, which, place;
        uint8_t to;
        const char *reason;
    } rows[] = {
        {DHT, 0, REMOVED, 0, "names DC Huffman table 0, which nothing defines"},
        {DHT, 1, REMOVED, 0, "names AC Huffman table 0, which nothing defines"},
        {DHT, 3, REMOVED, 0, "names AC Huffman table 1, which nothing defines"},
        {DQT, 0, REMOVED, 0, "quantisation table 0, which nothing defines"},
        {DQT, 1, REMOVED, 0, "quantisation table 1, which nothing defines"},
        {SOF, 0, REMOVED, 0, "scan of 3 components is damaged"},
        {SOS, 0, REMOVED, 0, ""}, /* coded bytes where a marker should be */
        {SOF, 0, 2, 0, "4 x 0 pixels"},
        {SOF, 0, 3, 0x80, "32772 x 4 pixels"},
        {SOF, 0, 5, 2, "frame with 2 components"},
        {SOF, 0, 8, 4, "quantisation table 4, which nothing defines"},
        {SOF, 0, 9, 1, "codes component 2, which the frame has not"},
        {SOS, 0, 3, 1, "no scan of component 1"},
        {SOS, 0, 1, 9, "codes component 9"},
        {SOS, 0, 2, 0x20, "DC Huffman table 2"},
        {SOS, 0, 7, 1, "no scan of component 0"},
        {DQT, 0, 0, 0x20, "quantisation table 0"},
        {DQT, 0, 0, 0x10, "quantisation table 0"},
        {DQT, 0, LENGTH, 0, "segment db is cut"},
        {DQT, 0, LENGTH, 1, "segment db is cut"},
        {DHT, 0, 0, 4, "Huffman table 4"},
        {DHT, 0, 16, 255, "Huffman table 0 is damaged"},
    };

    (void)state;
    check(jpeg, sizeof jpeg, NULL);
    for (size_t i = 0; i < DT_COUNT_OF(rows); i++)
        check_changed(rows[i].marker, rows[i].which, rows[i].place, rows[i].to, rows[i].reason);
    check("\xff\xd8\xff\xd9", 4, "no frame");
    /* a frame of one component, no scan: 17 bytes */
    check("\xff\xd8\xff\xc0\0\x0b\x08\0\x08\0\x08\1\1\x11\0\xff\xd9", 17, "no scan of component 0");
}

/* 257 codes: stb_image 2.27 would write past its own table. */
static void overlong_huffman_tables_are_refused(void **state)
{
    uint8_t b[2 + 4 + 17 + 257 + 2] = {0xff, 0xd8, 0xff, DHT, 1, 276 - 256};

    (void)state;
    b[6 + 15] = 200;
    b[6 + 16] = 57;
    memcpy(b + sizeof b - 2, "\xff\xd9", 2);
    check(b, sizeof b, "more than 256 codes");
}

static void cut_jpegs_are_refused(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof jpeg; n++)
        check(jpeg, n, "");
    check(jpeg, sizeof jpeg - 2, "it is cut");
}

static void padding_and_what_follows_the_end_are_passed_over(void **state)
{
    (void)state;
    struct bytes b = {0};
    put(&b, jpeg, 2);
    put(&b, "\0\0\xff\xff", 4);
    put(&b, jpeg + 2, sizeof jpeg - 2);
    put(&b, "trailer", 7);
    check(b.data, b.count, NULL);
    free(b.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(png_chunks_are_checked),
        cmocka_unit_test(png_headers_are_checked),
        cmocka_unit_test(damaged_pngs_are_refused),
        cmocka_unit_test(jpeg_segments_are_checked),
        cmocka_unit_test(overlong_huffman_tables_are_refused),
        cmocka_unit_test(cut_jpegs_are_refused),
        cmocka_unit_test(padding_and_what_follows_the_end_are_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
