/* format_safetensors_write.c - writing safetensors: the reference implementation's bytes and
 * order, and old files that survive every failure. */
#include "safetensors_files.h"

#include <signal.h>
#include <sys/resource.h>

#include "format/safetensors.h"

static void fill_floats(void *context, size_t i, void *data)
{
    static const float x[] = {0, 1, 2, 3, 4, 5};
    (void)context;
    (void)i;
    memcpy(data, x, sizeof x);
}

static void writer_makes_the_references_bytes(void **state)
{
    const folder *f = *state;
    char bytes[512];

    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
        const golden *g = &goldens[i];
        dt_tensor t = {.name = g->name, .dtype = "F32", .rank = g->rank};
        const dt_field field = {g->key, "pt"};
        memcpy(t.shape, g->shape, sizeof g->shape);
        const dt_safetensors_content c = {.tensor = &t,
                                          .tensors = g->name != NULL,
                                          .metadata = &field,
                                          .fields = g->key != NULL,
                                          .fill = fill_floats};
        assert_ok(dt_safetensors_write(f->file, &c));
        assert_int_equal(get(f->file, bytes, sizeof bytes), g->count);
        assert_memory_equal(bytes, g->bytes, g->count);
        assert_int_equal(count_files(f->dir), 1); /* no temporary file is left */
    }
}

static void fill_index(void *context, size_t i, void *data)
{
    const size_t *bytes = context;
    memset(data, (int)i + 1, bytes[i]);
}

/* Wide types first, then names by their bytes; each tensor gets its own data. */
static void tensors_are_ordered(void **state)
{
    const folder *f = *state;
    static const dt_tensor t[] = {
        {.name = "b", .dtype = "F32", .rank = 1, .shape = {2}},
        {.name = "a.10", .dtype = "F32", .rank = 1, .shape = {1}},
        {.name = "z", .dtype = "I64"},
        {.name = "a.9", .dtype = "F32", .rank = 2, .shape = {0, 7}},
        {.name = "B", .dtype = "F16", .rank = 1, .shape = {2}},
    };
    static const size_t order[] = {2, 1, 3, 0, 4};
    size_t bytes[] = {8, 4, 8, 0, 4};
    const dt_safetensors_content c = {
        .tensor = t, .tensors = 5, .fill = fill_index, .context = bytes};
    dt_safetensors *s = NULL;

    assert_ok(dt_safetensors_write(f->file, &c));
    assert_ok(dt_safetensors_open(&s, f->file));
    assert_int_equal(dt_safetensors_count(s), 5);
    for (size_t i = 0; i < 5; i++) {
        const dt_tensor *read = dt_safetensors_get(s, i);
        unsigned char data[8] = {0};
        if (order[i] == 3) /* empty: it shares its offset with its neighbour */
            continue;
        assert_string_equal(read->name, t[order[i]].name);
        assert_int_equal(read->bytes, bytes[order[i]]);
        assert_ok(dt_safetensors_read(s, read, data));
        for (size_t k = 0; k < read->bytes; k++)
            assert_int_equal(data[k], order[i] + 1);
    }
    dt_safetensors_close(s);
}

static dt_status write_large(const char *path)
{
    static const dt_tensor t = {.name = "w", .dtype = "F32", .rank = 2, .shape = {64, 1024}};
    size_t bytes = 4 * 64 * 1024;
    return dt_safetensors_write(
        path, &(dt_safetensors_content){
                  .tensor = &t, .tensors = 1, .fill = fill_index, .context = &bytes});
}

static bool unchanged(const char *path)
{
    char bytes[512];
    return get(path, bytes, sizeof bytes) == sample->count &&
           memcmp(bytes, sample->bytes, sample->count) == 0;
}

/* A limit on file sizes stands in for a full disk, which tests/fault has. */
static void a_failed_write_keeps_the_old_file(void **state)
{
    const folder *f = *state;
    struct rlimit old;

    put(f->file, sample->bytes, sample->count);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){65536, old.rlim_max}), 0);
    const dt_status st = write_large(f->file);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_fails(st, DT_NOMEM, "(262224 bytes), reserving room: File too large; raise");
    assert_true(unchanged(f->file));
    assert_int_equal(count_files(f->dir), 1);
}

static void places_that_cannot_be_written_are_named(void **state)
{
    const folder *f = *state;
    char path[PATH_CHARS + 32], name[5000];

    snprintf(path, sizeof path, "%s/absent/m.safetensors", f->dir);
    assert_fails(write_large(path), DT_CANTCREATE, path);
    put(f->file, "x", 1);
    snprintf(path, sizeof path, "%s/m.safetensors", f->file); /* a file is no folder */
    assert_fails(write_large(path), DT_CANTCREATE, "Not a directory");
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_fails(write_large(name), DT_CANTCREATE, "too long");
    assert_int_equal(count_files(f->dir), 1);
}

static void bad_lists_are_bugs(void **state)
{
    const folder *f = *state;
    const dt_tensor twice[] = {{.name = "a", .dtype = "F16"}, {.name = "a", .dtype = "F16"}};
    const dt_tensor untyped = {.name = "a", .dtype = "F31"};
    const dt_tensor huge = {
        .name = "a", .dtype = "F32", .rank = 2, .shape = {INT64_MAX, INT64_MAX}};
    size_t bytes[] = {2, 2};
    dt_safetensors_content c = {
        .tensor = twice, .tensors = 2, .fill = fill_index, .context = bytes};
    assert_fails(dt_safetensors_write(f->file, &c), DT_BUG, "no safetensors header");
    c.tensors = 1;
    c.tensor = &untyped;
    assert_fails(dt_safetensors_write(f->file, &c), DT_BUG, "no size");
    c.tensor = &huge;
    assert_fails(dt_safetensors_write(f->file, &c), DT_BUG, "no size");
    assert_int_equal(count_files(f->dir), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(writer_makes_the_references_bytes),
        TEST(tensors_are_ordered),
        TEST(a_failed_write_keeps_the_old_file),
        TEST(places_that_cannot_be_written_are_named),
        TEST(bad_lists_are_bugs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
