/* format_safetensors.c - reading safetensors: files of the reference implementation, everything a
 * reader must reject, and damaged files. */
#include "safetensors_files.h"

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

    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
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

/* ---- What a reader must accept and reject ---------------------------------------- */

#define T(dtype, shape, offsets)                                                                   \
    "\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets

typedef struct header_case {
    const char *header;
    size_t data_bytes;
    const char *message; /* part of it */
} header_case;

static const header_case accepted[] = {
    {"{\"test\":{" T("I32", "[]", "[0,4]") "}}", 4, NULL},
    {"{\"test\":{" T("I32", "[2,0]", "[0, 0]") "}}", 0, NULL},
    {"{}\r \t\n", 0, NULL},
    {"{\"a\":{" T("F4", "[1,2]", "[0,1]") "}}", 1, NULL},
    {"{\"b\":{" T("U8", "[3]", "[2,5]") "},\"a\":{" T("U8", "[2]", "[0,2]") "}}", 5, NULL},
    {"{\"e\":{" T("F32", "[0]", "[4,4]") "},\"a\":{" T(
         "F32", "[1]", "[4,8]") "},"
                                "\"z\":{" T("F32", "[1]", "[0,4]") "}}",
     8, NULL},
    {"{\"test\":{" T("I32", "[-0]", "[0,0]") "}}", 0, NULL},
    {"{\"a\":{" T("F32", "[1,1,1,1,1,1,1,1]", "[0,4]") "}}", 4, NULL},
    {"{\"\xc3\xa4\":{" T("F32", "[1]", "[0,4]") "}}", 4, NULL},
    {"{\"__metadata__\":{}}", 0, NULL},
};

static const header_case rejected[] = {
    /* JSON */
    {"", 0, "begins with byte 0x00"},
    {"{", 0, "line 1"},
    {"[]", 0, "begins with byte 0x5b"},
    {"  {}", 0, "begins with byte 0x20"},
    {"\xff", 0, "begins with byte 0xff"},
    {"{\"\xff\":{" T("F32", "[1]", "[0,4]") "}}", 4, "unable to decode byte 0xff"},
    {"{} {}", 0, "end of file expected"},
    {"{\"a\":{" T("F32", "[1]", "[0,4]") ",}}", 4, "line 1"},
    {"{\"a\\u0000b\":{" T("F32", "[1]", "[0,4]") "}}", 4, "NUL byte"},
    {"{\"a\":{" T("F32", "[1]", "[0,4]") "},\"a\":{" T("F32", "[1]", "[4,8]") "}}", 8, "duplicate"},
    {"{\"a\":{\"dtype\":\"F32\"," T("F32", "[1]", "[0,4]") "}}", 4, "duplicate"},
    {"{\"a\":{" T("F32", "[01]", "[0,4]") "}}", 4, "line 1"},
    {"{\"a\":{" T("F32", "[NaN]", "[0,4]") "}}", 4, "line 1"},
    {"{\"a\":{" T("F32", "[1]", "[0,9223372036854775808]") "}}", 4, "too big integer"},
    /* schema */
    {"{\"a\":1}", 0, "tensor 'a' must have the keys"},
    {"{\"a\":[]}", 0, "tensor 'a' must have the keys"},
    {"{\"a\":{}}", 0, "tensor 'a' must have the keys"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "tensor 'a' must have the keys"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"offsets\":[0,4]}}", 4,
     "tensor 'a' must have the keys"},
    {"{\"a\":{\"more\":0," T("F32", "[1]", "[0,4]") "}}", 4, "tensor 'a' must have the keys"},
    {"{\"a\":{" T("F33", "[1]", "[0,4]") "}}", 4, "dtype 'F33'"},
    {"{\"a\":{" T("f32", "[1]", "[0,4]") "}}", 4, "dtype 'f32'"},
    {"{\"a\":{\"dtype\":32,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "not a string"},
    {"{\"a\":{" T("F32", "1", "[0,4]") "}}", 4, "the shape is not a list"},
    {"{\"a\":{" T("F32", "{}", "[0,4]") "}}", 4, "the shape is not a list"},
    {"{\"a\":{" T("F32", "[[1]]", "[0,4]") "}}", 4, "dimension 0"},
    {"{\"a\":{" T("F32", "[[[[[1]]]]]", "[0,4]") "}}", 4, "dimension 0"},
    {"{\"a\":{" T("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}}", 4, "at most 8"},
    {"{\"a\":{" T("F32", "[1,-1]", "[0,4]") "}}", 4, "dimension 1"},
    {"{\"a\":{" T("F32", "[1.0]", "[0,4]") "}}", 4, "dimension 0"},
    {"{\"a\":{" T("F32", "[1e0]", "[0,4]") "}}", 4, "dimension 0"},
    {"{\"a\":{" T("F32", "[\"1\"]", "[0,4]") "}}", 4, "dimension 0"},
    {"{\"a\":{" T("F32", "[281474976710656]", "[0,4]") "}}", 4, "dimension 0"},
    {"{\"a\":{" T("F32", "[1]", "[0]") "}}", 4, "data_offsets is not"},
    {"{\"a\":{" T("F32", "[1]", "[0,4,8]") "}}", 4, "data_offsets is not"},
    {"{\"a\":{" T("F32", "[1]", "[4,0]") "}}", 4, "data_offsets is not"},
    {"{\"a\":{" T("F32", "[1]", "[-4,0]") "}}", 4, "data_offsets is not"},
    {"{\"a\":{" T("F32", "[1]", "[0,4.0]") "}}", 4, "data_offsets is not"},
    {"{\"a\":{" T("F32", "[1]", "\"04\"") "}}", 4, "data_offsets is not"},
    {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object"},
    {"{\"__metadata__\":{\"n\":1}}", 0, "value of 'n' is not a string"},
    {"{\"__metadata__\":{\"n\":{\"m\":\"o\"}}}", 0, "value of 'n' is not a string"},
    /* arithmetic */
    {"{\"test\":{" T("I32", "[2,18446744073709551614]", "[0,16]") "}}", 16, "too big integer"},
    {"{\"test\":{" T("I32", "[2,9223372036854775807]", "[0,16]") "}}", 16, "dimension 1"},
    {"{\"a\":{" T("F32", "[281474976710655,281474976710655]", "[0,4]") "}}", 4,
     "no whole number of bytes"},
    {"{\"a\":{" T("U8", "[140737488355328,131072]", "[0,0]") "}}", 0,
     "no whole number of bytes"}, /* 2^64: wraps to 0 */
    {"{\"a\":{" T("F4", "[1,3]", "[0,2]") "}}", 2, "no whole number of bytes"},
    {"{\"test\":{" T("I32", "[2,2]", "[0, 4]") "}}", 4, "hold 4 bytes, but I32 [2, 2] has 16"},
    {"{\"a\":{" T("F32", "[0]", "[0,4]") "}}", 4, "hold 4 bytes, but F32 [0] has 0"},
    /* cover */
    {"{\"a\":{" T("U8", "[2]", "[0,2]") "},\"b\":{" T("U8", "[2]", "[1,3]") "}}", 3,
     "tensor 'b' begins at byte 1"},
    {"{\"a\":{" T("U8", "[2]", "[0,2]") "},\"b\":{" T("U8", "[2]", "[0,2]") "}}", 2,
     "begins at byte 0"},
    {"{\"a\":{" T("U8", "[2]", "[0,2]") "},\"b\":{" T("U8", "[2]", "[3,5]") "}}", 5,
     "tensor 'b' begins at byte 3"},
    {"{\"a\":{" T("U8", "[2]", "[1,3]") "}}", 3, "tensor 'a' begins at byte 1"},
    {"{\"a\":{" T("U8", "[2]", "[0,2]") "}}", 3, "trailing bytes"},
    {"{}", 1, "trailing bytes"},
    {"{\"a\":{" T("U8", "[2]", "[0,2]") "}}", 1, "cut short"},
    {"{\"a\":{" T("U8", "[281474976710655]", "[0,281474976710655]") "}}", 1, "cut short"},
};

static void headers_are_checked(void **state)
{
    const folder *f = *state;

    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++) {
        dt_safetensors *s = NULL;
        put_header(f->file, accepted[i].header, accepted[i].data_bytes);
        assert_ok(dt_safetensors_open(&s, f->file));
        dt_safetensors_close(s);
    }
    for (size_t i = 0; i < sizeof rejected / sizeof *rejected; i++) {
        dt_safetensors *s = NULL;
        put_header(f->file, rejected[i].header, rejected[i].data_bytes);
        if (dt_safetensors_open(&s, f->file) != DT_FORMAT ||
            !strstr(dt_fail_text(), rejected[i].message) || !strstr(dt_fail_text(), f->file))
            fail_msg("%s: '%s', want '%s'", rejected[i].header, dt_fail_text(),
                     rejected[i].message);
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
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
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
                                     "%s\"t%d\":{" T("U8", "[0]", "[0,0]") "}", i ? "," : "", i);
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

    put_header(f->file, "{\"\\u001b[31m\\n\xc3\xa4'\\\\\":{" T("F33", "[1]", "[0,4]") "}}", 4);
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

static void every_cut_is_seen(void **state)
{
    const folder *f = *state;
    for (size_t n = 0; n < sample->count; n++) {
        dt_safetensors *s = NULL;
        put(f->file, sample->bytes, n);
        assert_int_equal(dt_safetensors_open(&s, f->file), DT_FORMAT);
        dt_fail_clear();
    }
}

/* Three random bytes of the header are changed: the file is taken or refused, and what
 * is taken can be read. The sanitizers watch. */
static void random_damage_does_no_harm(void **state)
{
    const folder *f = *state;
    char bytes[512], data[64];
    size_t refused = 0;

    for (uint64_t i = 0; i < 1000; i++) {
        dt_safetensors *s = NULL;
        memcpy(bytes, sample->bytes, sample->count);
        for (uint32_t k = 0; k < 3; k++) {
            uint32_t bits[4];
            dt_random(1, DT_STREAM_TEST, 0, i, k, bits);
            bytes[dt_below(bits[0], 8 + 64)] = (char)bits[1];
        }
        put(f->file, bytes, sample->count);
        if (dt_safetensors_open(&s, f->file) == DT_OK) {
            assert_int_equal(dt_safetensors_count(s), 1);
            assert_int_equal(dt_safetensors_get(s, 0)->bytes, 24);
            assert_ok(dt_safetensors_read(s, dt_safetensors_get(s, 0), data));
        } else {
            assert_string_not_equal(dt_fail_text(), "");
            dt_fail_clear();
            refused++;
        }
        dt_safetensors_close(s);
    }
    assert_true(refused > 800);
}

static void a_file_that_shrinks_is_an_error(void **state)
{
    const folder *f = *state;
    dt_safetensors *s = NULL;
    char data[64];

    put(f->file, sample->bytes, sample->count);
    assert_ok(dt_safetensors_open(&s, f->file));
    assert_int_equal(truncate(f->file, (off_t)sample->count - 3), 0);
    assert_fails(dt_safetensors_read(s, dt_safetensors_get(s, 0), data), DT_IO,
                 "ends at byte 93 of 96");
    dt_safetensors_close(s);
}

static void only_files_are_opened(void **state)
{
    const folder *f = *state;
    dt_safetensors *s = NULL;
    char fifo[PATH_CHARS + 8], link[PATH_CHARS + 8];

    assert_fails(dt_safetensors_open(&s, f->file), DT_NOINPUT, "No such file");
    assert_fails(dt_safetensors_open(&s, f->dir), DT_NOINPUT, "is a folder");
    assert_fails(dt_safetensors_open(&s, "/dev/zero"), DT_NOINPUT, "a device or pipe");
    snprintf(fifo, sizeof fifo, "%s/fifo", f->dir);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_fails(dt_safetensors_open(&s, fifo), DT_NOINPUT, "a device or pipe");

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
        TEST(headers_are_checked),
        TEST(lengths_are_checked),
        TEST(counts_and_depth_are_limited),
        TEST(names_are_printed_escaped),
        TEST(every_cut_is_seen),
        TEST(random_damage_does_no_harm),
        TEST(a_file_that_shrinks_is_an_error),
        TEST(only_files_are_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
