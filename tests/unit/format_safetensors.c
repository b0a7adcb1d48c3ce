/* format_safetensors.c - reading safetensors: files of the reference implementation, everything a
 * reader must reject, and damaged files. */
#include "safetensors_files.h"

#include <math.h>
#include <sys/stat.h>

#include "format/safetensors.h"

/* The length, a header and zeros for data. */
static void put_header(const char *path, const char *header, size_t data_bytes)
{
    const size_t n = strlen(header), bytes = 8 + n + data_bytes;
    char *all = calloc(bytes, 1);
    assert_non_null(all);
    for (size_t i = 0; i < 8; i++)
        all[i] = (char)(n >> 8 * i);
    memcpy(all + 8, header, n);
    put(path, all, bytes);
    free(all);
}

static void reader_takes_the_references_bytes(void **state)
{
    const folder *f = *state;
    float x[6];

    for (size_t i = 0; i < DT_COUNT_OF(goldens); i++) {
        const golden *g = &goldens[i];
        dt_safetensors *s = NULL;
        put(f->file, g->bytes, g->count);
        assert_ok(dt_safetensors_open(&s, f->file));
        assert_int_equal(dt_safetensors_count(s), g->name ? 1 : 0);
        if (g->key)
            assert_string_equal(dt_safetensors_metadata(s, g->key), "pt");
        assert_null(dt_safetensors_metadata(s, "absent"));
        if (g->name) {
            const dt_tensor *t = dt_safetensors_get(s, 0);
            assert_string_equal(t->name, g->name);
            assert_string_equal(t->dtype, "F32");
            assert_int_equal(t->rank, g->rank);
            assert_memory_equal(t->shape, g->shape, (size_t)g->rank * sizeof *g->shape);
            assert_int_equal(t->bytes, sizeof x);
            assert_ok(dt_safetensors_read(s, t, x));
            for (int k = 0; k < 6; k++)
                assert_true(x[k] == (float)k);
        }
        dt_safetensors_close(s);
    }
}

/* All patterns of a 16-bit type, from its definition. */
static void narrow_floats_are_widened_exactly(void **state)
{
    static const struct {
        const char *dtype;
        int fraction_bits, bias;
    } types[] = {{"F16", 10, 15}, {"BF16", 7, 127}};
    static float wide[1 << 16];
    static char file[200 + (2 << 16)];

    (void)state;
    for (size_t k = 0; k < DT_COUNT_OF(types); k++) {
        const int fraction_bits = types[k].fraction_bits;
        dt_safetensors *s = NULL;
        const int n = snprintf(file + 8, 192,
                               "{\"x\":{\"dtype\":\"%s\",\"shape\":[65536],"
                               "\"data_offsets\":[0,131072]}}",
                               types[k].dtype);
        file[0] = (char)n;
        for (unsigned bits = 0; bits < 1 << 16; bits++)
            memcpy(file + 8 + n + 2 * bits, &(uint16_t){(uint16_t)bits}, 2);
        assert_ok(dt_safetensors_open_bytes(&s, "x", file, 8 + (size_t)n + (2 << 16)));
        assert_ok(dt_safetensors_read_floats(s, dt_safetensors_get(s, 0), 0, 1 << 16, wide));
        for (int bits = 0; bits < 1 << 16; bits++) {
            const int exponent = (bits & 0x7fff) >> fraction_bits;
            const int fraction = bits & ((1 << fraction_bits) - 1);
            const int hidden = exponent > 0 ? 1 << fraction_bits : 0;
            const double x = ldexp(hidden + fraction,
                                   (exponent > 0 ? exponent : 1) - types[k].bias - fraction_bits);
            if (exponent == 0x7fff >> fraction_bits)
                assert_true(fraction ? isnan(wide[bits]) : isinf(wide[bits]));
            else
                assert_true((double)wide[bits] == (bits & 0x8000 ? -x : x));
            assert_true(isnan(wide[bits]) || !signbit(wide[bits]) == !(bits & 0x8000));
        }
        dt_safetensors_close(s);
    }
}

/* ---- What a reader must accept and reject ---------------------------------------- */

#define T(name, dtype, shape, offsets)                                                             \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static const struct {
    const char *header;
    size_t data_bytes;
    const char *message; /* part of it; NULL: accepted */
} headers[] = {
    {"{" T("a", "F32", "[]", "[0,4]") "}", 4, NULL},
    {"{" T("a", "F32", "[2,0]", "[0, 0]") "}\r \t\n", 0, NULL},
    {"{" T("b", "F16", "[3]", "[4,10]") "," T("a", "BF16", "[2]", "[0,4]") "}", 10, NULL},
    {"{" T("\xc3\xa4", "I64", "[1,1,1,1,1,1,1,1]", "[0,8]") "}", 8, NULL},
    {"{\"__metadata__\":{}}", 0, NULL},
    /* JSON */
    {"", 0, "begins with byte 0x00"},
    {"  {}", 0, "begins with byte 0x20"},
    {"{} {}", 0, "end of file expected"},
    {"{" T("\xff", "F32", "[1]", "[0,4]") "}", 4, "unable to decode byte 0xff"},
    {"{" T("a\\u0000b", "F32", "[1]", "[0,4]") "}", 4, "NUL byte"},
    {"{" T("a", "F32", "[1]", "[0,4]") "," T("a", "F32", "[1]", "[4,8]") "}", 8, "duplicate"},
    {"{" T("a", "F32", "[1]", "[0,9223372036854775808]") "}", 4, "too big integer"},
    /* schema */
    {"{\"a\":1}", 0, "tensor 'a': expected"},
    {"{\"a\":{\"more\":0,\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
     "tensor 'a': expected"},
    {"{" T("a", "F32", "[1]", "[0,4,8]") "}", 4, "tensor 'a': expected"},
    {"{" T("a", "F32", "[1]", "[0,4.0]") "}", 4, "tensor 'a': expected"},
    {"{" T("a", "F64", "[1]", "[0,8]") "}", 8, "dtype 'F64' is not read"},
    {"{" T("a", "F32", "[[1]]", "[0,4]") "}", 4, "the shape is not a list"},
    {"{" T("a", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, "at most 8"},
    {"{" T("a", "F32", "[-1]", "[0,4]") "}", 4, "the shape is not a list"},
    {"{" T("a", "F32", "[1.0]", "[0,4]") "}", 4, "the shape is not a list"},
    {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object of strings"},
    {"{\"__metadata__\":{\"n\":1}}", 0, "__metadata__ is not an object of strings"},
    /* arithmetic; 2^64 wraps to 0 */
    {"{" T("a", "F32", "[281474976710656]", "[0,4]") "}", 4, "the shape is not a list"},
    {"{" T("a", "F16", "[140737488355328,65536]", "[0,0]") "}", 0, "the shape is not a list"},
    {"{" T("a", "F32", "[1]", "[4,0]") "}", 4, "data_offsets [4, 0] do not fit"},
    {"{" T("a", "F32", "[2,2]", "[0, 4]") "}", 4, "[0, 4] do not fit F32 [2, 2] of 16 bytes"},
    /* cover */
    {"{" T("a", "F16", "[2]", "[0,4]") "," T("b", "F16", "[2]", "[2,6]") "}", 6,
     "tensor 'b' begins at byte 2"},
    {"{" T("a", "F16", "[2]", "[0,4]") "," T("b", "F16", "[2]", "[6,10]") "}", 10,
     "tensor 'b' begins at byte 6"},
    {"{" T("a", "F16", "[2]", "[1,5]") "}", 5, "tensor 'a' begins at byte 1"},
    {"{" T("a", "F16", "[2]", "[0,4]") "}", 5, "trailing bytes"},
    {"{" T("a", "F16", "[2]", "[0,4]") "}", 3, "cut short"},
};

static void headers_are_checked(void **state)
{
    const folder *f = *state;

    for (size_t i = 0; i < DT_COUNT_OF(headers); i++) {
        const char *message = headers[i].message;
        dt_safetensors *s = NULL;
        put_header(f->file, headers[i].header, headers[i].data_bytes);
        const dt_status st = dt_safetensors_open(&s, f->file);
        if (st != (message ? DT_FORMAT : DT_OK) ||
            (message && (!strstr(dt_fail_text(), message) || !strstr(dt_fail_text(), f->file))))
            fail_msg("%s: '%s', want '%s'", headers[i].header, dt_fail_text(), message);
        dt_safetensors_close(s);
        dt_fail_clear();
    }
}

static void lengths_are_checked(void **state)
{
    const folder *f = *state;
    static const struct {
        const char *bytes;
        size_t count;
        const char *message;
    } files[] = {
        {BYTES(""), "too short"},
        {BYTES("\x02\0\0\0\0\0\0"), "too short"},
        {BYTES(EIGHT("<")), "cut short"},
        {BYTES(EIGHT("\x03") "{}"), "cut short"},
        {BYTES("<\0\0\0\0\xff\xff\xff{}"), "at most 1048576"},
        {BYTES("\xff\xff\xff\xff\xff\xff\xff\xff{}"), "at most 1048576"},
        {BYTES("\xf8\xff\xff\xff\xff\xff\xff\xff{}"), "at most 1048576"}, /* 8 + N wraps to 0 */
        {BYTES("\x01\0\x10\0\0\0\0\0{}"), "at most 1048576"},
    };
    for (size_t i = 0; i < DT_COUNT_OF(files); i++) {
        dt_safetensors *s = NULL;
        put(f->file, files[i].bytes, files[i].count);
        assert_fails(dt_safetensors_open(&s, f->file), DT_FORMAT, files[i].message);
    }
}

/* 4096 tensors are taken, one more is not; nor does nesting exhaust the stack. */
static void counts_and_depth_are_limited(void **state)
{
    const folder *f = *state;
    const size_t room = 512 * 1024;
    char *header = calloc(room, 1);
    assert_non_null(header);

    for (int extra = 0; extra < 2; extra++) {
        size_t used = (size_t)snprintf(header, room, "{");
        for (int i = 0; i < DT_TENSOR_MAX_COUNT + extra; i++)
            used += (size_t)snprintf(header + used, room - used,
                                     "%s" T("t%d", "F16", "[0]", "[0,0]"), i ? "," : "", i);
        snprintf(header + used, room - used, "}");
        dt_safetensors *s = NULL;
        put_header(f->file, header, 0);
        if (extra == 0) {
            assert_ok(dt_safetensors_open(&s, f->file));
            assert_int_equal(dt_safetensors_count(s), DT_TENSOR_MAX_COUNT);
            dt_safetensors_close(s);
        } else {
            assert_fails(dt_safetensors_open(&s, f->file), DT_FORMAT, "4097 tensors");
        }
    }

    dt_safetensors *s = NULL;
    memset(header, '[', room - 1);
    memcpy(header, "{\"a\":", 5);
    put_header(f->file, header, 0);
    assert_fails(dt_safetensors_open(&s, f->file), DT_FORMAT, "depth");
    free(header);
}

static void names_are_printed_escaped(void **state)
{
    const folder *f = *state;
    dt_safetensors *s = NULL;
    char name[300], out[DT_QUOTED_CHARS];

    put_header(f->file, "{" T("\\u001b[31m\\n\xc3\xa4'\\\\", "F33", "[1]", "[0,4]") "}", 4);
    assert_fails(dt_safetensors_open(&s, f->file), DT_FORMAT,
                 "tensor '\\x1b[31m\\x0a\\xc3\\xa4\\x27\\x5c': dtype 'F33'");
    for (size_t length = 0; length < sizeof name - 1; length++) { /* cut, never overrun */
        memset(name, length % 2 ? 'n' : '\n', length);
        name[length] = '\0';
        assert_true(strlen(dt_quote(name, out)) < DT_QUOTED_CHARS);
        assert_true(out[strlen(out) - 1] == '\'');
    }
}

/* ---- Damaged and moving files ---------------------------------------------------- */

/* Taken or refused with the file's name; what is taken covers the file. The sanitizers watch. */
static bool is_taken(const char *bytes, size_t count)
{
    dt_safetensors *s = NULL;
    char *exact = malloc(count + 1), data[64];
    uint64_t read = 0;

    assert_non_null(exact);
    memcpy(exact, bytes, count);
    const dt_status st = dt_safetensors_open_bytes(&s, "a.safetensors", exact, count);
    if (st != DT_OK)
        assert_fails(st, DT_FORMAT, "a.safetensors");
    for (size_t i = 0; st == DT_OK && i < dt_safetensors_count(s); i++) {
        assert_ok(dt_safetensors_read(s, dt_safetensors_get(s, i), data));
        read += dt_safetensors_get(s, i)->bytes;
    }
    assert_true(st != DT_OK || read == 24);
    dt_safetensors_close(s);
    free(exact);
    return st == DT_OK;
}

/* Any byte of the header is made any other or removed, and the file is cut anywhere. */
static void damage_is_seen_or_does_no_harm(void **state)
{
    char bytes[512];
    size_t taken = 0;

    (void)state;
    for (size_t i = 0; i < 8 + 64; i++) {
        memcpy(bytes, sample->bytes, sample->count);
        for (int value = 0; value < 256; value++) {
            bytes[i] = (char)value;
            taken += is_taken(bytes, sample->count);
        }
        memcpy(bytes + i, sample->bytes + i + 1, sample->count - i - 1);
        assert_false(is_taken(bytes, sample->count - 1));
    }
    assert_in_range(taken, 72, 2000); /* itself, other names */
    for (size_t n = 0; n < sample->count; n++)
        assert_false(is_taken(sample->bytes, n));
}

static void a_file_that_shrinks_is_an_error(void **state)
{
    const folder *f = *state;
    dt_safetensors *s = NULL;
    char data[64];

    put(f->file, sample->bytes, sample->count);
    assert_ok(dt_safetensors_open(&s, f->file));
    assert_int_equal(truncate(f->file, (off_t)sample->count - 3), 0);
    assert_fails(dt_safetensors_read(s, dt_safetensors_get(s, 0), data), DT_FORMAT,
                 "ends at byte 93");
    dt_safetensors_close(s);
}

static void only_files_are_opened(void **state)
{
    const folder *f = *state;
    dt_safetensors *s = NULL;
    char fifo[PATH_CHARS + 8], link[PATH_CHARS + 8];

    assert_fails(dt_safetensors_open(&s, f->file), DT_NOINPUT, "No such file");
    assert_fails(dt_safetensors_open(&s, f->dir), DT_NOINPUT, "is a folder");
    assert_fails(dt_safetensors_open(&s, "/dev/zero"), DT_NOINPUT, "a pipe, socket or device");
    snprintf(fifo, sizeof fifo, "%s/fifo", f->dir);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_fails(dt_safetensors_open(&s, fifo), DT_NOINPUT, "a pipe, socket or device");

    put(f->file, sample->bytes, sample->count);
    snprintf(link, sizeof link, "%s/link", f->dir);
    assert_int_equal(symlink("a.safetensors", link), 0);
    assert_ok(dt_safetensors_open(&s, link));
    dt_safetensors_close(s);
    if (geteuid() != 0) { /* root reads everything */
        assert_int_equal(chmod(f->file, 0), 0);
        assert_fails(dt_safetensors_open(&s, f->file), DT_NOINPUT, "Permission denied");
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(reader_takes_the_references_bytes),
        cmocka_unit_test(narrow_floats_are_widened_exactly),
        TEST(headers_are_checked),
        TEST(lengths_are_checked),
        TEST(counts_and_depth_are_limited),
        TEST(names_are_printed_escaped),
        TEST(damage_is_seen_or_does_no_harm),
        TEST(a_file_that_shrinks_is_an_error),
        TEST(only_files_are_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
