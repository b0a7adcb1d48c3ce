/* data_source_cifar10.c - the CIFAR-10 reader against files written here by the format's rules
 * (a label, then 3072 bytes), and against what such a folder can be instead. */
#include "data/data.h"
#include "folder.h"

enum { RECORD = 3073, RECORDS = 10000, FILES = 6 };
static const char *const file_name[FILES] = {"data_batch_1.bin", "data_batch_2.bin",
                                             "data_batch_3.bin", "data_batch_4.bin",
                                             "data_batch_5.bin", "test_batch.bin"};
/* Records whose pixels are all filled in; the others hold their number and zeros. */
static const int full_record[] = {0, 1234, 9999};

static char good[FOLDER_PATH]; /* a full set of files */
static char work[FOLDER_PATH]; /* links to them, for a test to break */

static uint8_t pixel(int file, int record, int channel, int y, int x)
{
    return (uint8_t)(file * 31 + record * 7 + channel * 85 + y * 5 + x * 3);
}

static int label_of(int file, int record)
{
    return (record * 3 + file) % 10;
}

static uint8_t *make_batch(int file)
{
    uint8_t *data = calloc(RECORDS, RECORD);
    assert_non_null(data);
    for (int r = 0; r < RECORDS; r++) {
        uint8_t *record = data + (size_t)r * RECORD;
        record[0] = (uint8_t)label_of(file, r);
        record[1] = (uint8_t)file;
        memcpy(record + 2, &r, sizeof r);
    }
    for (size_t i = 0; i < DT_COUNT_OF(full_record); i++) {
        uint8_t *at = data + (size_t)full_record[i] * RECORD + 1;
        for (int c = 0; c < 3; c++)
            for (int y = 0; y < 32; y++)
                for (int x = 0; x < 32; x++)
                    *at++ = pixel(file, full_record[i], c, y, x);
    }
    return data;
}

static int make_good(void **state)
{
    (void)state;
    folder_make(good);
    for (int f = 0; f < FILES; f++) {
        uint8_t *data = make_batch(f);
        folder_write(good, file_name[f], data, (size_t)RECORDS * RECORD);
        free(data);
    }
    return 0;
}

static int remove_good(void **state)
{
    (void)state;
    folder_remove(good);
    return 0;
}

static int link_work(void **state)
{
    (void)state;
    folder_make(work);
    for (int f = 0; f < FILES; f++)
        assert_int_equal(symlink(folder_path(good, file_name[f]), folder_path(work, file_name[f])),
                         0);
    alarm(100); /* a FIFO must not hang the reader; longer than any load takes */
    return 0;
}

static int remove_work(void **state)
{
    (void)state;
    alarm(0);
    folder_remove(work);
    return 0;
}

static void drop(const char *name)
{
    assert_int_equal(unlink(folder_path(work, name)), 0);
}

/* Put a copy of file f in place of its link, so that it can be damaged. */
static const char *own(int f)
{
    uint8_t *data = make_batch(f);
    folder_write(work, file_name[f], data, (size_t)RECORDS * RECORD);
    free(data);
    return folder_path(work, file_name[f]);
}

static dt_source *opened(const char *path, int64_t subset)
{
    dt_source *s = NULL;
    assert_ok(dt_source_open(&s, path, subset, 0));
    return s;
}

static dt_status try_load(const char *path)
{
    dt_source *s = NULL;
    dt_status st = dt_source_open(&s, path, 0, 0);
    void *memory = s ? malloc(dt_source_bytes(s)) : NULL;

    assert_true((st == DT_OK) == (s != NULL));
    if (s)
        st = dt_source_load(s, memory, true);
    dt_source_close(s);
    free(memory);
    return st;
}

static void check_image(const dt_source *s, bool test, int64_t i, int file, int record)
{
    int32_t label = -1;
    const uint8_t *image = dt_source_image(s, test, i, &label);
    assert_int_equal(label, label_of(file, record));
    for (int y = 0; y < 32; y++)
        for (int x = 0; x < 32; x++)
            for (int c = 0; c < 3; c++)
                assert_int_equal(image[(y * 32 + x) * 3 + c], pixel(file, record, c, y, x));
}

/* ---- What a good folder gives -------------------------------------------------------------- */

static void planes_become_interleaved_pixels_in_order(void **state)
{
    (void)state;
    dt_source *s = opened(work, 0), *t = opened(work, 0);
    const dt_source_info *info = dt_source_describe(s);
    assert_string_equal(info->kind, "cifar10");
    assert_int_equal(info->classes, 10);
    assert_int_equal(info->height, 32);
    assert_int_equal(info->width, 32);
    assert_int_equal(info->train, 50000);
    assert_int_equal(info->test, 10000);
    assert_string_equal(info->class_name[0], "airplane");
    assert_string_equal(info->class_name[9], "truck");

    void *memory = malloc(dt_source_bytes(s));
    assert_ok(dt_source_load(s, memory, true));
    for (size_t i = 0; i < DT_COUNT_OF(full_record); i++) {
        const int r = full_record[i];
        for (int f = 0; f < 5; f++)
            check_image(s, false, f * RECORDS + r, f, r);
        check_image(s, true, r, 5, r);
    }
    for (int64_t i = 0; i < info->train; i++) {
        int32_t label = -1;
        dt_source_image(s, false, i, &label);
        assert_int_equal(label, label_of((int)(i / RECORDS), (int)(i % RECORDS)));
    }
    /* another process of the node sees the same memory */
    assert_ok(dt_source_load(t, memory, false));
    check_image(t, true, 9999, 5, 9999);
    const dt_digest a = dt_source_digest(s), b = dt_source_digest(t);
    assert_memory_equal(&a, &b, sizeof a);
    ((uint8_t *)memory)[dt_source_bytes(s) - 1] ^= 1;
    const dt_digest c = dt_source_digest(s);
    assert_memory_not_equal(&a, &c, sizeof a);
    dt_source_close(s);
    dt_source_close(t);
    free(memory);
}

static void subset_takes_the_first_images(void **state)
{
    (void)state;
    dt_source *s = opened(work, 11235), *whole = opened(work, 0);
    assert_int_equal(dt_source_describe(s)->train, 11235);
    assert_int_equal(dt_source_describe(s)->test, 10000);
    void *memory = malloc(dt_source_bytes(s));
    assert_ok(dt_source_load(s, memory, true));
    check_image(s, false, 9999, 0, 9999);
    check_image(s, false, 11234, 1, 1234);
    check_image(s, true, 0, 5, 0);
    const dt_digest a = dt_source_manifest(s), b = dt_source_manifest(whole);
    assert_memory_not_equal(&a, &b, sizeof a);
    dt_source_close(s);
    dt_source_close(whole);
    free(memory);

    assert_fails(dt_source_open(&s, work, 50001, 0), DT_CONFIG, "50000");
}

static void parent_folder_is_as_good(void **state)
{
    (void)state;
    char parent[FOLDER_PATH];
    folder_make(parent);
    assert_int_equal(symlink(good, folder_path(parent, "cifar-10-batches-bin")), 0);
    dt_source *s = opened(parent, 0), *t = opened(good, 0);
    const dt_digest a = dt_source_manifest(s), b = dt_source_manifest(t);
    assert_memory_equal(&a, &b, sizeof a);
    dt_source_close(s);
    dt_source_close(t);
    folder_remove(parent);
}

static void fewer_training_files_are_said(void **state)
{
    (void)state;
    char text[1024];
    FILE *into = NULL;
    drop(file_name[1]);
    drop(file_name[3]);
    const int kept = folder_listen(&into);
    dt_source *s = opened(work, 0);
    folder_heard(kept, into, text, sizeof text);
    assert_non_null(strstr(text, "3 of 5 training files"));
    assert_int_equal(dt_source_describe(s)->train, 30000);
    void *memory = malloc(dt_source_bytes(s));
    assert_ok(dt_source_load(s, memory, true));
    check_image(s, false, RECORDS + 1234, 2, 1234);
    dt_source_close(s);
    free(memory);
}

static void unknown_hashes_are_noted_in_one_line(void **state)
{
    (void)state;
    char text[2048];
    FILE *into = NULL;
    const int kept = folder_listen(&into);
    const dt_status st = try_load(work);
    folder_heard(kept, into, text, sizeof text);
    assert_int_equal(st, DT_OK);
    const char *line = strstr(text, "unknown SHA-256");
    assert_non_null(line);
    for (int f = 0; f < FILES; f++)
        assert_non_null(strstr(line, file_name[f]));
    assert_ptr_equal(strchr(line, '\n'), strrchr(text, '\n'));
}

/* ---- What can be wrong ------------------------------------------------------------------- */

typedef enum wrong_kind { SIZED, BYTE, GONE, FOLDER, PIPE, LINK } wrong_kind;
typedef struct wrong {
    int file;
    wrong_kind kind;
    int64_t at; /* SIZED: bytes; BYTE: of which record the label becomes `value` */
    int value;  /* LINK: to this file of the good set, -1: to itself, -2: to nothing */
    dt_status status;
    const char *words[4]; /* besides the file's name, where one is damaged */
} wrong;

static void make_wrong(const wrong *w)
{
    const char *name = file_name[w->file], *target = w->value == -1 ? name : "nowhere";
    const uint8_t value = (uint8_t)w->value;

    if (w->kind == BYTE) {
        const int fd = open(own(w->file), O_WRONLY);
        assert_int_equal(pwrite(fd, &value, 1, w->at * RECORD), 1);
        close(fd);
        return;
    }
    drop(name);
    if (w->kind == SIZED) {
        folder_write(work, name, "", 0);
        assert_int_equal(truncate(folder_path(work, name), w->at), 0);
    } else if (w->kind == FOLDER)
        assert_int_equal(mkdir(folder_path(work, name), 0700), 0);
    else if (w->kind == PIPE)
        assert_int_equal(mkfifo(folder_path(work, name), 0600), 0);
    else if (w->kind == LINK)
        assert_int_equal(symlink(w->value < 0 ? target : folder_path(good, file_name[w->value]),
                                 folder_path(work, name)),
                         0);
}

static void what_is_wrong_is_named(void **state)
{
    /* class 3 is neither label_of(5, 7) nor label_of(0, 7): it gets one image too many */
    static const wrong rows[] = {
        {2, SIZED, 0, 0, DT_FORMAT, {"has 0 bytes", "30730000"}},
        {5, SIZED, RECORD, 0, DT_FORMAT, {"has 3073 bytes", "30730000"}},
        {0, SIZED, 30730000 - 1, 0, DT_FORMAT, {"has 30729999 bytes", "30730000"}},
        {5, SIZED, 30730000 + 1, 0, DT_FORMAT, {"has 30730001 bytes", "30730000"}},
        {4, SIZED, 30730000 + RECORD, 0, DT_FORMAT, {"has 30733073 bytes", "30730000"}},
        {3, BYTE, 4321, 10, DT_FORMAT, {"record 4321", "byte offset 13278433", "label 10"}},
        {5, BYTE, 9999, 255, DT_FORMAT, {"record 9999", "label 255"}},
        {5, BYTE, 7, 3, DT_FORMAT, {"test class", "images, expected 1000"}},
        {0, BYTE, 7, 3, DT_FORMAT, {"training class", "images, expected 5000"}},
        {2, LINK, 0, 5, DT_FORMAT, {"test_batch.bin have the same content"}},
        {1, LINK, 0, 0, DT_FORMAT, {"data_batch_2.bin have the same content"}},
        {5, GONE, 0, 0, DT_NOINPUT, {"has no test_batch.bin"}},
        {0, FOLDER, 0, 0, DT_NOINPUT, {"is a folder"}},
        {1, PIPE, 0, 0, DT_NOINPUT, {"pipe"}},
        {2, LINK, 0, -1, DT_NOINPUT, {"it is a link"}},
        {3, LINK, 0, -2, DT_NOINPUT, {"No such file"}},
    };

    for (size_t i = 0; i < DT_COUNT_OF(rows); i++) {
        const wrong *w = &rows[i];
        link_work(state);
        make_wrong(w);
        const dt_status st = try_load(work);
        for (int k = 0; k < 4 && w->words[k]; k++)
            if (!strstr(dt_fail_text(), w->words[k]))
                fail_msg("row %zu: '%s' does not hold '%s'", i, dt_fail_text(), w->words[k]);
        if (w->kind != BYTE && w->kind != LINK)
            assert_non_null(strstr(dt_fail_text(), file_name[w->file]));
        assert_fails(st, w->status, work);
        remove_work(state);
    }
    link_work(state);
    drop(file_name[4]); /* four training files need not be balanced */
    make_wrong(&rows[8]);
    assert_ok(try_load(work));
    for (int f = 0; f < 4; f++)
        drop(file_name[f]);
    assert_fails(try_load(work), DT_NOINPUT, "has no data_batch_1.bin");
}

/* Folders that somebody takes for the binary version. */
static void what_is_taken_for_it_is_named(void **state)
{
    static const char *const rows[][2] = {
        {"data_batch_1", "the Python version"},
        {"cifar-10-batches-py", "the Python version"},
        {"cifar-10-binary.tar.gz", "an archive that is not unpacked"},
        {"notes.txt", "holds neither"},
    };

    (void)state;
    for (size_t i = 0; i < DT_COUNT_OF(rows); i++) {
        char folder[FOLDER_PATH];
        folder_make(folder);
        folder_write(folder, rows[i][0], "x", 1);
        assert_fails(try_load(folder), DT_NOINPUT, rows[i][1]);
        folder_remove(folder);
    }
}

static void permissions_are_named(void **state)
{
    (void)state;
    const bool root = geteuid() == 0;
    assert_int_equal(chmod(own(1), 0), 0);
    assert_int_equal(chmod(good, 0755), 0);
    assert_int_equal(chmod(work, 0755), 0);
    if (root && seteuid(65534) != 0)
        test_skip("no permission: no other user to try as");
    const dt_status st = try_load(work);
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_non_null(strstr(dt_fail_text(), "Permission denied"));
    assert_fails(st, DT_NOINPUT, file_name[1]);

    assert_int_equal(chmod(work, 0), 0);
    if (root)
        assert_int_equal(seteuid(65534), 0);
    const dt_status closed = try_load(work);
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(work, 0700), 0);
    assert_fails(closed, DT_NOINPUT, "Permission denied");
}

static void wrong_paths_are_named(void **state)
{
    (void)state;
    char empty[FOLDER_PATH], longest[6000];
    folder_make(empty);
    assert_fails(try_load(folder_path(empty, "gone")), DT_NOINPUT, "No such file");
    folder_remove(empty);
    assert_fails(try_load(folder_path(good, file_name[0])), DT_NOINPUT, "is a file");
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_fails(try_load(longest), DT_NOINPUT, "4095");
    longest[4090] = '\0';
    assert_fails(try_load(longest), DT_NOINPUT, "4095");
    assert_fails(try_load(""), DT_NOINPUT, "No such file");
}

static void a_file_that_shrinks_is_an_error(void **state)
{
    (void)state;
    const char *path = own(2);
    dt_source *s = opened(work, 0);
    void *memory = malloc(dt_source_bytes(s));
    assert_int_equal(truncate(path, 3073 * 5000 + 17), 0);
    assert_fails(dt_source_load(s, memory, true), DT_FORMAT, "has 15365017 bytes");
    dt_source_close(s);
    free(memory);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, link_work, remove_work)
    const struct CMUnitTest tests[] = {
        T(planes_become_interleaved_pixels_in_order),
        T(subset_takes_the_first_images),
        T(parent_folder_is_as_good),
        T(fewer_training_files_are_said),
        T(unknown_hashes_are_noted_in_one_line),
        cmocka_unit_test_setup_teardown(what_is_wrong_is_named, NULL, remove_work),
        cmocka_unit_test(what_is_taken_for_it_is_named),
        T(permissions_are_named),
        T(wrong_paths_are_named),
        T(a_file_that_shrinks_is_an_error),
    };
    dt_log_init(0, 1);
    return cmocka_run_group_tests(tests, make_good, remove_good);
}
