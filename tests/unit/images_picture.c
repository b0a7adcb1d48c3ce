/* images_picture.c - what is refused of PNG and JPEG files before they are decoded. Each damage is
 * done to a good file, so that it alone decides. */
#include "images/decoder.h"
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

/* Chunks of three bytes, but "", an empty IDAT, and IEND. */
TEST(png_chunks_are_checked)
{
    static const struct {
        const char *type[5], *reason;
    } rows[] = {
        {{"IDAT", "IEND"}, NULL},
        {{"gAMA", "PLTE", "IDAT", "", "IEND"}, NULL},
        {{"", "IDAT", "IEND"}, "begin with an empty chunk"},
        {{"IDAT"}, "is cut: its chunk at byte 48"},
    };
    uint8_t three[3] = {1, 2, 3};
    const struct bytes content = {three, 3, 3}, none = {0};

    for (size_t i = 0; i < DT_COUNT_OF(rows); i++) {
        struct bytes b = {0};
        put_header(&b, 3, 2, 8, 2);
        for (int k = 0; k < 5 && rows[i].type[k]; k++) {
            const char *type = rows[i].type[k];
            const bool full = type[0] && strcmp(type, "IEND") != 0;
            put_chunk(&b, type[0] ? type : "IDAT", full ? &content : &none);
        }
        check(b.data, b.count, rows[i].reason);
        free(b.data);
    }
    check("\x89PNG\r\n\x1a\n\0\0\0\0IEND\xae\x42\x60\x82", 20, "does not begin with its header");
}

TEST(png_headers_are_checked)
{
    static const struct {
        int width, height;
        uint8_t depth, colour;
        const char *reason;
    } bad[] = {{0, 2, 8, 2, "0 x 2"},          {1, 8193, 8, 2, "1 x 8193"},
               {8192, 8192, 8, 2, "33554432"}, {-1, -1, 8, 2, "4294967295 x 4294967295"},
               {7008, 4672, 8, 2, "is cut"}, /* of a camera of 33 megapixels, as far as here */
               {3, 2, 4, 2, "4 bits"},         {3, 2, 16, 3, "16 bits"},
               {3, 2, 32, 2, "32 bits"},       {3, 2, 8, 7, "colour type 7"}};
    for (size_t i = 0; i < DT_COUNT_OF(bad); i++) {
        struct bytes b = {0};
        put_header(&b, bad[i].width, bad[i].height, bad[i].depth, bad[i].colour);
        check(b.data, b.count, bad[i].reason);
        free(b.data);
    }
}

/* Every cut and every changed byte of a file shows: lengths, and a checksum of all else. */
TEST(damaged_pngs_are_refused)
{
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

/* The good file with one byte changed, by the place of its segment. */
TEST(jpeg_segments_are_checked)
{
    enum { APP0 = 2, DQT0 = 20, SOF = 158, DHT0 = 177 };
    static const struct {
        size_t place;
        uint8_t to;
        const char *reason;
    } rows[] = {
        {SOF + 5, 0x80, "4 x 32772 pixels"},
        {SOF + 6, 0, "4 x 0 pixels"},
        {SOF + 7, 0x80, "32772 x 4 pixels"},
        {SOF + 3, 6, "frame at byte 158 is damaged"},
        {SOF + 1, 0xfe, "no frame"},
        {DQT0 + 3, 0, "segment at byte 20 does not end"},
        {DQT0 + 3, 1, "segment at byte 20 does not end"},
        {APP0 + 2, 0xff, "segment at byte 2 does not end"},
        {DHT0 + 5, 255, "has 255 codes"},
        {DHT0 + 3, 19, "has 1 codes"},
    };

    check(jpeg, sizeof jpeg, NULL);
    for (size_t i = 0; i < DT_COUNT_OF(rows); i++) {
        uint8_t b[sizeof jpeg];
        memcpy(b, jpeg, sizeof b);
        b[rows[i].place] = rows[i].to;
        check(b, sizeof b, rows[i].reason);
    }
    check("\xff\xd8\xff\xd9", 4, "no frame");
    for (size_t n = 0; n < sizeof jpeg; n++)
        check(jpeg, n, "");
    check(jpeg, sizeof jpeg - 2, "the JPEG is cut");
    /* padding, and what follows the end */
    struct bytes b = {0};
    put(&b, jpeg, 2);
    put(&b, "\0\0\xff\xff", 4);
    put(&b, jpeg + 2, sizeof jpeg - 2);
    put(&b, "trailer", 7);
    check(b.data, b.count, NULL);
    free(b.data);
}

/* 257 codes: stb_image 2.27 would write past its own table. */
TEST(overlong_huffman_tables_are_refused)
{
    uint8_t b[2 + 4 + 17 + 257 + 2] = {0xff, 0xd8, 0xff, 0xc4, 1, 276 - 256};

    b[6 + 15] = 200;
    b[6 + 16] = 57;
    memcpy(b + sizeof b - 2, "\xff\xd9", 2);
    check(b, sizeof b, "has 257 codes: more than 256");
}

/* ---- What a JPEG lacks -------------------------------------------------------------------- */

/* A good file without bytes [from, to), and with another byte, is refused when decoded, if not
 * before; reason NULL: it is not. */
static const uint8_t *decode(const uint8_t *jpeg_bytes, size_t count, const size_t cut[2],
                             size_t place, uint8_t to, const char *reason)
{
    uint8_t b[512];
    dt_picture p;
    const char *why = p.reason;
    const uint8_t *pixels = NULL;

    memcpy(b, jpeg_bytes, count);
    b[place] = to;
    memmove(b + cut[0], b + cut[1], count - cut[1]);
    count -= cut[1] - cut[0];
    if (dt_picture_check(b, count, &p)) {
        memcpy(dt_pixels_file(count), b, count);
        pixels = dt_pixels_decode(count, p.width, p.height, &why);
    }
    if (!pixels != !!reason || (reason && !strstr(why, reason)))
        fail_msg("without %zu to %zu, %d at %zu: %s, want '%s'", cut[0], cut[1], to, place,
                 pixels ? "decoded" : why, reason ? reason : "pixels");
    return pixels;
}

TEST(what_a_jpeg_lacks_is_not_made_up)
{
#define FILE(name) name, sizeof name
    static const struct {
        const uint8_t *file;
        size_t count, cut[2], place;
        uint8_t to;
        const char *reason;
    } rows[] = {
        /* quantisation tables; Huffman tables: all, then DC and AC of Y, of Cb and Cr */
        {FILE(jpeg), {20, 89}, 0, 255, "lacks a quantisation table"},
        {FILE(jpeg), {89, 158}, 0, 255, "lacks a quantisation table"},
        {FILE(jpeg), {177, 266}, 0, 255, "lacks a Huffman table, as frames of MJPEG"},
        {FILE(jpeg), {177, 199}, 0, 255, "lacks a Huffman table"},
        {FILE(jpeg), {199, 221}, 0, 255, "lacks a Huffman table"},
        {FILE(jpeg), {221, 244}, 0, 255, "lacks a Huffman table"},
        {FILE(jpeg), {244, 266}, 0, 255, "lacks a Huffman table"},
        {FILE(jpeg_progressive), {102, 125}, 0, 255, "lacks a Huffman table"},
        {FILE(jpeg_progressive), {138, 160}, 0, 255, "lacks a Huffman table"},
        {FILE(jpeg_progressive), {20, 89}, 0, 255, "lacks a quantisation table"},
        /* scans; the bytes of the last one; restarts of it */
        {FILE(jpeg), {266, 284}, 0, 255, "lacks a scan of one of its 3 components"},
        {FILE(jpeg_progressive), {125, 138}, 0, 255, "lacks a scan of one of its 1 components"},
        {FILE(jpeg), {280, 284}, 0, 255, "bad huffman code"},
        {FILE(jpeg), {282, 284}, 0, 255, "bad huffman code"},
        {FILE(jpeg_progressive), {292, 300}, 0, 255, "bad huffman code"},
        {FILE(jpeg_restarts), {183, 190}, 0, 255, "a scan is cut"},
        {FILE(jpeg_restarts), {177, 184}, 0, 255, "a scan is cut"},
        {FILE(jpeg_restarts), {155, 161}, 0, 255, "its restarts are wrong"},
        /* colours: Adobe's marker, and what it says; names */
        {FILE(jpeg_cmyk), {2, 18}, 0, 255, "which colours its components are"},
        {FILE(jpeg_cmyk), {0, 0}, 17, 1, "which colours its components are"},
        {FILE(jpeg_cmyk), {0, 0}, 17, 3, "which colours its components are"},
        /* kinds that are not read */
        {FILE(jpeg), {0, 0}, 159, 0xc3, "lossless, hierarchical or arithmetic-coded"},
        {FILE(jpeg), {0, 0}, 159, 0xc9, "lossless, hierarchical or arithmetic-coded"},
        {FILE(jpeg), {0, 0}, 162, 12, "8-bit"},
    };

    assert_ok(dt_pixels_open());
    decode(FILE(jpeg), (size_t[2]){0, 0}, 0, 255, NULL);
    decode(FILE(jpeg_restarts), (size_t[2]){0, 0}, 0, 255, NULL);
    decode(FILE(jpeg_progressive), (size_t[2]){0, 0}, 0, 255, NULL);
    for (size_t i = 0; i < DT_COUNT_OF(rows); i++)
        decode(rows[i].file, rows[i].count, rows[i].cut, rows[i].place, rows[i].to, rows[i].reason);
}

/* C M Y K as Adobe saves it; components that are named R G B; the same with a marker of Y Cb Cr. */
TEST(colours_are_what_the_file_says)
{
    static const int ink[3] = {205, 44, 125};
    uint8_t b[sizeof jpeg];

    assert_ok(dt_pixels_open());
    const uint8_t *pixels = decode(FILE(jpeg_cmyk), (size_t[2]){0, 0}, 0, 255, NULL);
    for (int i = 0; i < 3 * 8 * 8; i++)
        assert_in_range(pixels[i], ink[i % 3] - 2, ink[i % 3] + 2);
    const uint8_t *plain = decode(FILE(jpeg), (size_t[2]){0, 0}, 0, 255, NULL);
    memcpy(b, jpeg, sizeof b);
    assert_in_range(plain[0], 197, 201);
    for (int i = 0; i < 3; i++) /* in the frame and in the scan */
        b[168 + 3 * i] = b[271 + 2 * i] = (uint8_t) "RGB"[i];
    decode(b, sizeof b, (size_t[2]){0, 0}, 0, 255, "which colours its components are");
    pixels = decode(b, sizeof b, (size_t[2]){2, 20}, 0, 255, NULL);
    static const int coded[3] = {97, 84, 201}; /* Y, Cb and Cr of (200, 60, 20) */
    for (int i = 0; i < 3; i++)
        assert_in_range(pixels[i], coded[i] - 3, coded[i] + 3);
#undef FILE
}
