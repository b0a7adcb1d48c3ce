/* format_safetensors.c - safetensors: files of the reference implementation both ways, everything a
 * reader must reject, and old files that survive a failed write. */
#include "folder.h"

#include <signal.h>
#include <sys/resource.h>

#include "format/tensors.h"

static char file[FOLDER_PATH + 32];

static int name_file(void **state)
{
    folder_enter(state);
    snprintf(file, sizeof file, "%s/a.safetensors", here);
    return 0;
}

static void put(const void *data, size_t bytes)
{
    folder_write(here, "a.safetensors", data, bytes);
}

/* The length, a header and zeros for data. */
static void put_header(const char *header, size_t data_bytes)
{
    const size_t n = strlen(header), bytes = 8 + n + data_bytes;
    char *all = calloc(bytes, 1);

    assert_non_null(all);
    for (size_t i = 0; i < 8; i++)
        all[i] = (char)(n >> 8 * i);
    memcpy(all + 8, header, n);
    put(all, bytes);
    free(all);
}

/* The file holds these bytes, and its folder no other file. */
static void assert_file(const void *bytes, size_t count)
{
    char *read = NULL;
    size_t length = 0;

    assert_ok(dt_file_read(AT_FDCWD, file, 1 << 20, &read, &length));
    assert_int_equal(length, count);
    assert_memory_equal(read, bytes, count);
    free(read);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(rmdir(here), 0); /* it is empty */
    assert_int_equal(mkdir(here, 0700), 0);
}

static dt_status write_to(const char *path, const dt_safetensors_content *c)
{
    const dt_target t = path_target(path);
    return dt_safetensors_put(&t, c, NULL);
}

/* ---- The reference's bytes: safetensors/src/tensor.rs at 24b0b28 ------------------ */

#define EIGHT(n) n "\0\0\0\0\0\0\0"
#define FLOATS                                                                                     \
    "\0\0\0\0"                                                                                     \
    "\0\0\x80\x3f"                                                                                 \
    "\0\0\0\x40"                                                                                   \
    "\0\0\x40\x40"                                                                                 \
    "\0\0\x80\x40"                                                                                 \
    "\0\0\xa0\x40"

#define BYTES(text) text, sizeof(text) - 1
typedef struct golden {
    const char *bytes;
    size_t count;
    const char *key;  /* of the one entry of the metadata, NULL: none */
    const char *name; /* of the one tensor, NULL: none */
    int rank;
    int64_t shape[4];
} golden;

static const golden goldens[] = {
    {BYTES(EIGHT("\x08") "{}      "), NULL, NULL, 0, {0}},
    {BYTES(EIGHT("\x28") "{\"__metadata__\":{\"framework\":\"pt\"}}     "),
     "framework",
     NULL,
     0,
     {0}},
    {BYTES(EIGHT("\x40") "{\"attn.0\":{\"dtype\":\"F32\",\"shape\":[1,2,3],"
                         "\"data_offsets\":[0,24]}}" FLOATS),
     NULL,
     "attn.0",
     3,
     {1, 2, 3}},
    {BYTES(EIGHT("\x48") "{\"attn0\":{\"dtype\":\"F32\",\"shape\":[1,1,2,3],"
                         "\"data_offsets\":[0,24]}}       " FLOATS),
     NULL,
     "attn0",
     4,
     {1, 1, 2, 3}},
};
static const golden *const sample = &goldens[2];

static dt_status fill_floats(const void *context, size_t i, void *data)
{
    static const float x[] = {0, 1, 2, 3, 4, 5};
    (void)context;
    (void)i;
    memcpy(data, x, sizeof x);
    return DT_OK;
}

TEST_WITH(name_file, folder_leave, the_references_bytes_are_read_and_written)
{
    float x[6];

    for (size_t i = 0; i < DT_COUNT_OF(goldens); i++) {
        const golden *g = &goldens[i];
        dt_tensor t = {.name = g->name, .dtype = "F32", .rank = g->rank};
        const dt_field field = {g->key, "pt"};
        dt_safetensors *s = NULL;
        memcpy(t.shape, g->shape, sizeof g->shape);
        put(g->bytes, g->count);
        assert_ok(dt_safetensors_open(&s, file, NULL, 0));
        assert_int_equal(s->count, g->name ? 1 : 0);
        if (g->key)
            assert_string_equal(dt_safetensors_metadata(s, g->key), "pt");
        assert_null(dt_safetensors_metadata(s, "absent"));
        if (g->name) {
            const dt_tensor *read = &s->tensor[0];
            assert_true(strcmp(read->name, g->name) == 0 && strcmp(read->dtype, "F32") == 0);
            assert_int_equal(read->rank, g->rank);
            assert_memory_equal(read->shape, g->shape, (size_t)g->rank * sizeof *g->shape);
            assert_int_equal(read->bytes, sizeof x);
            assert_ok(dt_safetensors_read(s, read, x));
            for (int k = 0; k < 6; k++)
                assert_true(x[k] == (float)k);
        }
        dt_safetensors_close(s);
        assert_ok(write_to(file, &(dt_safetensors_content){.tensor = &t,
                                                           .tensors = g->name != NULL,
                                                           .metadata = &field,
                                                           .fields = g->key != NULL,
                                                           .fill = fill_floats}));
        assert_file(g->bytes, g->count);
    }
}

/* To float32 in place; every value of the types: tests/unit/base_number.c. */
TEST(narrow_floats_are_widened)
{
    static const char header[] =
        "{\"a\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[0,8]},"
        "\"b\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[8,16]}}";
    static const uint16_t bits[8] = {0x3c00, 0xc000, 0x3800, 1, 0x3f80, 0xc000, 0x3f00, 0x0080};
    static const float want[8] = {1, -2, 0.5f, 0x1p-24f, 1, -2, 0.5f, 0x1p-126f};
    char model[8 + sizeof header - 1 + sizeof bits] = {(char)(sizeof header - 1)};
    dt_safetensors *s = NULL;
    float x[4];

    memcpy(model + 8, header, sizeof header - 1);
    memcpy(model + 8 + sizeof header - 1, bits, sizeof bits);
    assert_ok(dt_safetensors_open(&s, "x", model, sizeof model));
    for (size_t t = 0; t < 2; t++) {
        assert_ok(dt_safetensors_read(s, &s->tensor[t], x));
        assert_memory_equal(x, want + 4 * t, sizeof x);
    }
    dt_safetensors_close(s);
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
    {"{\"__metadata__\":{\"n\":1}}", 0, NULL},
    /* JSON */
    {"", 0, "'{' expected"},
    {"  {}", 0, "'{' expected"},
    {"{} {}", 0, "end of file expected"},
    {"{" T("\xff", "F32", "[1]", "[0,4]") "}", 4, "unable to decode byte 0xff"},
    {"{" T("a\\u0000b", "F32", "[1]", "[0,4]") "}", 4, "NUL byte"},
    {"{" T("a", "F32", "[1]", "[0,4]") "," T("a", "F32", "[1]", "[4,8]") "}", 8, "duplicate"},
    {"{" T("a", "F32", "[1]", "[0,9223372036854775808]") "}", 4, "too big integer"},
    /* schema */
    {"{\"a\":1}", 0, "tensor 'a': expected"},
    {"{\"a\":{\"more\":0,\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
     "tensor 'a': expected"},
    {"{" T("a", "F32", "[1]", "[0,4.0]") "}", 4, "tensor 'a': expected"},
    {"{" T("a", "F64", "[1]", "[0,8]") "}", 8, "dtype 'F64' is not read"},
    {"{" T("a", "F32", "[[1]]", "[0,4]") "}", 4, "the shape is not a list"},
    {"{" T("a", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, "at most 8"},
    {"{" T("a", "F32", "[-1]", "[0,4]") "}", 4, "the shape is not a list"},
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

TEST_WITH(name_file, folder_leave, headers_are_checked)
{
    for (size_t i = 0; i < DT_COUNT_OF(headers); i++) {
        const char *message = headers[i].message;
        dt_safetensors *s = NULL;
        put_header(headers[i].header, headers[i].data_bytes);
        const dt_status st = dt_safetensors_open(&s, file, NULL, 0);
        if (st != (message ? DT_FORMAT : DT_OK) ||
            (message && (!strstr(dt_fail_text(), message) || !strstr(dt_fail_text(), file))))
            fail_msg("%s: '%s', want '%s'", headers[i].header, dt_fail_text(), message);
        dt_safetensors_close(s);
        dt_fail_clear();
    }
}

TEST_WITH(name_file, folder_leave, lengths_are_checked)
{
    static const struct {
        const char *bytes;
        size_t count;
        const char *message;
    } files[] = {
        {BYTES(""), "too short"},
        {BYTES(EIGHT("<")), "cut short"},
        {BYTES("\xff\xff\xff\xff\xff\xff\xff\xff{}"), "at most 1048576"},
        {BYTES("\xf8\xff\xff\xff\xff\xff\xff\xff{}"), "at most 1048576"}, /* 8 + N wraps to 0 */
        {BYTES("\x01\0\x10\0\0\0\0\0{}"), "at most 1048576"},
    };
    for (size_t i = 0; i < DT_COUNT_OF(files); i++) {
        dt_safetensors *s = NULL;
        put(files[i].bytes, files[i].count);
        assert_fails(dt_safetensors_open(&s, file, NULL, 0), DT_FORMAT, files[i].message);
    }
}

/* 4096 tensors are taken, one more is not; nor does nesting exhaust the stack. */
TEST_WITH(name_file, folder_leave, counts_and_depth_are_limited)
{
    enum { ROOM = 512 * 1024 };
    char *header = calloc(ROOM, 1);
    dt_safetensors *s = NULL;
    size_t used = 1;

    assert_non_null(header);
    header[0] = '{';
    for (int i = 0; i <= DT_TENSOR_MAX_COUNT; i++) {
        used +=
            (size_t)snprintf(header + used, ROOM - used, T("t%d", "F16", "[0]", "[0,0]") "}", i);
        if (i >= DT_TENSOR_MAX_COUNT - 1)
            put_header(header, 0);
        if (i == DT_TENSOR_MAX_COUNT - 1)
            assert_ok(dt_safetensors_open(&s, file, NULL, 0));
        header[used - 1] = ',';
    }
    assert_int_equal(s->count, DT_TENSOR_MAX_COUNT);
    dt_safetensors_close(s);
    assert_fails(dt_safetensors_open(&s, file, NULL, 0), DT_FORMAT, "4097 tensors");

    memset(header, '[', ROOM - 1);
    memcpy(header, "{\"a\":", 5);
    put_header(header, 0);
    assert_fails(dt_safetensors_open(&s, file, NULL, 0), DT_FORMAT, "depth");
    free(header);
}

TEST_WITH(name_file, folder_leave, names_are_printed_harmless)
{
    dt_safetensors *s = NULL;

    put_header("{" T("\\u001b[31m\\n\xc3\xa4'", "F33", "[1]", "[0,4]") "}", 4);
    assert_fails(dt_safetensors_open(&s, file, NULL, 0), DT_FORMAT,
                 "tensor '?[31m?\xc3\xa4'': dtype 'F33'");
}

/* ---- Files that move, places, failures -------------------------------------------- */

TEST_WITH(name_file, folder_leave, only_whole_files_are_read)
{
    dt_safetensors *s = NULL;
    char data[64];

    assert_fails(dt_safetensors_open(&s, file, NULL, 0), DT_NOINPUT, "No such file");
    assert_fails(dt_safetensors_open(&s, here, NULL, 0), DT_NOINPUT, "is a folder");
    assert_fails(dt_safetensors_open(&s, "/dev/zero", NULL, 0), DT_NOINPUT,
                 "a pipe, socket or device");
    assert_int_equal(mkfifo(file, 0600), 0);
    assert_fails(dt_safetensors_open(&s, file, NULL, 0), DT_NOINPUT, "a pipe, socket or device");

    put(sample->bytes, sample->count);
    assert_int_equal(symlink("a.safetensors", folder_path(here, "link")), 0);
    assert_ok(dt_safetensors_open(&s, folder_path(here, "link"), NULL, 0));
    assert_int_equal(truncate(file, (off_t)sample->count - 3), 0);
    assert_fails(dt_safetensors_read(s, &s->tensor[0], data), DT_FORMAT,
                 "ends at byte 93");
    dt_safetensors_close(s);
}

static dt_status fill_index(const void *context, size_t i, void *data)
{
    const size_t *bytes = context;
    memset(data, (int)i + 1, bytes[i]);
    return DT_OK;
}

/* Wide types first, then names by their bytes; each tensor gets its own data. */
TEST_WITH(name_file, folder_leave, tensors_are_ordered)
{
    dt_tensor t[] = {
        {.name = "b", .dtype = "F32", .rank = 1, .shape = {2}},
        {.name = "a.10", .dtype = "F32", .rank = 1, .shape = {1}},
        {.name = "z", .dtype = "I64"},
        {.name = "a.9", .dtype = "F32", .rank = 1, .shape = {1}},
        {.name = "B", .dtype = "F16", .rank = 1, .shape = {2}},
    };
    static const size_t order[] = {2, 1, 3, 0, 4};
    size_t bytes[] = {8, 4, 8, 4, 4};
    dt_safetensors *s = NULL;

    assert_ok(write_to(file, &(dt_safetensors_content){
                                 .tensor = t, .tensors = 5, .fill = fill_index, .context = bytes}));
    assert_ok(dt_safetensors_open(&s, file, NULL, 0));
    assert_int_equal(s->count, 5);
    for (size_t i = 0; i < 5; i++) {
        const dt_tensor *read = &s->tensor[i];
        unsigned char data[8] = {0};
        assert_string_equal(read->name, t[order[i]].name);
        assert_int_equal(read->bytes, bytes[order[i]]);
        assert_ok(dt_safetensors_read(s, read, data));
        for (size_t k = 0; k < read->bytes && strcmp(read->name, "B") != 0; k++)
            assert_int_equal(data[k], order[i] + 1);
        if (strcmp(read->name, "B") == 0) { /* widened: 0x0505 in float32 */
            const float wide = dt_f16_to_f32(0x0505);
            assert_memory_equal(data, &wide, sizeof wide);
        }
    }
    dt_safetensors_close(s);
}

static dt_status write_large(const char *path)
{
    dt_tensor t = {.name = "w", .dtype = "F32", .rank = 2, .shape = {64, 1024}};
    size_t bytes = 4 * 64 * 1024;
    return write_to(path, &(dt_safetensors_content){
                              .tensor = &t, .tensors = 1, .fill = fill_index, .context = &bytes});
}

/* A limit on file sizes stands in for a full disk, which tests/fault has. Places that cannot be
 * written are named. */
TEST_WITH(name_file, folder_leave, a_failed_write_keeps_the_old_file)
{
    struct rlimit old;

    put(sample->bytes, sample->count);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){65536, old.rlim_max}), 0);
    const dt_status st = write_large(file);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_fails(st, DT_NOMEM, "(writing): File too large; raise");
    assert_fails(write_large(folder_path(here, "absent/m")), DT_CANTCREATE, "/absent/m");
    assert_fails(write_large(folder_path(file, "m")), DT_CANTCREATE, "Not a directory");
    assert_file(sample->bytes, sample->count);
}
