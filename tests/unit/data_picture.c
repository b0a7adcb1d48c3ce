/* data_picture.c - which PNG and JPEG files are whole. Each damage is done to a whole file,
 * so that it alone decides. */
#include "data/picture.h"
#include "jpeg.h"
#include "png.h"

static void check_bytes(const void *bytes, size_t count, const char *reason)
{
    dt_picture p;
    /* a copy of its exact size: sanitizers see a byte read beyond it */
    uint8_t *exact = malloc(count ? count : 1);
    memcpy(exact, bytes, count);
    if (dt_picture_check(exact, count, &p))
        fail_msg("accepted, want '%s'", reason);
    if (!strstr(p.reason, reason))
        fail_msg("reason '%s' does not hold '%s'", p.reason, reason);
    free(exact);
}

static void check_refused(const struct bytes *b, const char *reason)
{
    check_bytes(b->data, b->count, reason);
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

/* Chunks by name: "IDAT" with a byte, "idat" that is empty, others with three bytes. */
static void check_chunks(const char *const *type, uint8_t colour, const char *reason)
{
    struct bytes b = png_start(3, 2, 8, colour);
    uint8_t three[3] = {1, 2, 3};
    const struct bytes content = {three, 3, 3}, none = {0};
    for (; *type; type++)
        put_chunk(&b, strcmp(*type, "idat") == 0 ? "IDAT" : *type,
                  strcmp(*type, "idat") == 0 || strcmp(*type, "IEND") == 0 ? &none : &content);
    if (reason) {
        check_refused(&b, reason);
    } else {
        dt_picture p;
        assert_true(dt_picture_check(b.data, b.count, &p));
        assert_int_equal(p.width, 3);
        assert_int_equal(p.height, 2);
    }
    free(b.data);
}
#define CHUNKS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void png_chunks_have_an_order(void **state)
{
    (void)state;
    check_chunks(CHUNKS("IDAT", "IEND"), 2, NULL);
    check_chunks(CHUNKS("gAMA", "IDAT", "idat", "IDAT", "tEXt", "IEND"), 6, NULL);
    check_chunks(CHUNKS("PLTE", "IDAT", "IEND"), 3, NULL);
    check_chunks(CHUNKS("IEND"), 2, "without pixels");
    check_chunks(CHUNKS("IDAT"), 2, "ends at byte 48, before its last chunk (IEND)");
    check_chunks(CHUNKS("idat", "IDAT", "IEND"), 2, "empty chunk");
    check_chunks(CHUNKS("IDAT", "tEXt", "IDAT", "IEND"), 2, "after another chunk");
    check_chunks(CHUNKS("IDAT", "IEND"), 3, "no palette");
    check_chunks(CHUNKS("PLTE", "PLTE", "IDAT", "IEND"), 3, "PLTE at byte 48 is misplaced");
    check_chunks(CHUNKS("IDAT", "PLTE", "IEND"), 2, "misplaced");
    check_chunks(CHUNKS("IHDR", "IDAT", "IEND"), 2, "IHDR at byte 33 is a second one");
    check_chunks(CHUNKS("CgBI", "IDAT", "IEND"), 2, "chunk CgBI at byte 33 is unknown");
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
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct bytes b = png_start(bad[i].width, bad[i].height, bad[i].depth, bad[i].colour);
        check_refused(&b, bad[i].reason);
        free(b.data);
    }
}

/* Every cut and every changed byte of a file shows: lengths, and a checksum of all else. */
static void damaged_pngs_are_refused(void **state)
{
    (void)state;
    struct bytes stream = {0}, b = {0};
    dt_picture p;
    put_stored(&stream, (const uint8_t *)"\0\1\2\3", 4);
    put_png(&b, 1, 1, 2, &stream);
    assert_true(dt_picture_check(b.data, b.count, &p));
    for (size_t i = 0; i < b.count; i++) {
        check_bytes(b.data, i, "");
        for (int bit = 0; bit < 8; bit++) {
            b.data[i] = (uint8_t)(b.data[i] ^ 1 << bit);
            check_refused(&b, "");
            b.data[i] = (uint8_t)(b.data[i] ^ 1 << bit);
        }
    }
    check_bytes(b.data, 33, "ends at byte 33, before its last chunk");
    b.data[45] ^= 1;
    check_refused(&b, "IDAT at byte 33 has a wrong checksum");
    free(stream.data);
    free(b.data);
}

/* ---- JPEG ---------------------------------------------------------------------------- */

static size_t segment_at(const struct bytes *b, uint8_t marker, int which)
{
    for (size_t at = 2;; at += 2 + (size_t)(b->data[at + 2] << 8 | b->data[at + 3]))
        if (b->data[at + 1] == marker && which-- == 0)
            return at;
}

static struct bytes whole_jpeg(void)
{
    struct bytes b = {0};
    put(&b, jpeg, sizeof jpeg);
    return b;
}

/* Without the which-th segment of a kind. */
static void check_without(uint8_t marker, int which, const char *reason)
{
    struct bytes b = whole_jpeg();
    const size_t at = segment_at(&b, marker, which);
    const size_t bytes = 2 + (size_t)(b.data[at + 2] << 8 | b.data[at + 3]);
    memmove(b.data + at, b.data + at + bytes, b.count - at - bytes);
    b.count -= bytes;
    check_refused(&b, reason);
    free(b.data);
}

/* With another byte in the which-th segment of a kind; 0 is the first after the length. */
static void check_changed(uint8_t marker, int which, size_t byte, uint8_t to, const char *reason)
{
    struct bytes b = whole_jpeg();
    b.data[segment_at(&b, marker, which) + 4 + byte] = to;
    check_refused(&b, reason);
    free(b.data);
}

static void jpegs_that_leave_something_out_are_refused(void **state)
{
    (void)state;
    check_without(0xc4, 0, "names DC Huffman table 0, which nothing defines");
    check_without(0xc4, 1, "names AC Huffman table 0, which nothing defines");
    check_without(0xc4, 3, "names AC Huffman table 1, which nothing defines");
    check_without(0xdb, 0, "quantisation table 0, which nothing defines");
    check_without(0xdb, 1, "quantisation table 1, which nothing defines");
    check_without(0xc0, 0, "scan of 3 components is damaged");
    check_without(0xda, 0, ""); /* coded bytes where a marker should be, then the end */
    check_bytes("\xff\xd8\xff\xd9", 4, "no frame");
    /* a frame of one component, no scan: 17 bytes that were an image once */
    check_bytes("\xff\xd8\xff\xc0\0\x0b\x08\0\x08\0\x08\1\1\x11\0\xff\xd9", 17,
                "no scan of component 0");
}

static void jpeg_segments_are_checked(void **state)
{
    (void)state;
    check_changed(0xc0, 0, 0, 12, "none of 8 bits");
    check_changed(0xc0, 0, 2, 0, "4 x 0 pixels");
    check_changed(0xc0, 0, 3, 0x80, "32772 x 4 pixels");
    check_changed(0xc0, 0, 5, 2, "frame with 2 components");
    check_changed(0xc0, 0, 7, 0x51, "component 0 is damaged");
    check_changed(0xc0, 0, 8, 4, "component 0 is damaged");
    check_changed(0xc0, 0, 9, 1, "component 1 has another's name");
    check_changed(0xda, 0, 3, 1, "scan names component 1 twice");
    check_changed(0xda, 0, 1, 9, "codes component 9");
    check_changed(0xda, 0, 2, 0x20, "DC Huffman table 2");
    check_changed(0xda, 0, 7, 1, "coefficients 1 to 63");
    check_changed(0xdb, 0, 0, 0x20, "quantisation table 0");
    check_changed(0xdb, 0, 0, 0x10, "quantisation table 0");
    check_changed(0xc4, 0, 0, 4, "Huffman table 4");
    check_changed(0xc4, 0, 1, 3, "or more than fit");
    check_changed(0xc4, 0, 16, 255, "Huffman table 0 is damaged");
    check_changed(0xdb, 0, (size_t)-1, 0,
                  "segment db is cut"); /* its length, which counts itself */
    check_changed(0xdb, 0, (size_t)-1, 1, "segment db is cut");
    /* sampling 3 x 1 beside 2 x 1 */
    struct bytes b = whole_jpeg();
    const size_t frame = segment_at(&b, 0xc0, 0) + 4;
    b.data[frame + 7] = 0x31;
    b.data[frame + 10] = 0x21;
    check_refused(&b, "do not divide 3 x 1");
    free(b.data);
}

static void cut_jpegs_are_refused(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof jpeg; n++)
        check_bytes(jpeg, n, "");
    check_bytes(jpeg, sizeof jpeg - 2, "it is cut");
}

static void padding_and_what_follows_the_end_are_passed_over(void **state)
{
    (void)state;
    dt_picture p;
    struct bytes b = {0};
    put(&b, jpeg, 2);
    put(&b, "\0\0\xff\xff", 4);
    put(&b, jpeg + 2, sizeof jpeg - 2);
    put(&b, "trailer", 7);
    assert_true(dt_picture_check(b.data, b.count, &p));
    assert_int_equal(p.width, 4);
    assert_int_equal(p.height, 4);
    free(b.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(png_chunks_have_an_order),
        cmocka_unit_test(png_headers_are_checked),
        cmocka_unit_test(damaged_pngs_are_refused),
        cmocka_unit_test(jpegs_that_leave_something_out_are_refused),
        cmocka_unit_test(jpeg_segments_are_checked),
        cmocka_unit_test(cut_jpegs_are_refused),
        cmocka_unit_test(padding_and_what_follows_the_end_are_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
