/* data_source_cifar10.c - the CIFAR-10 reader against files written here by the format's rules
 * (a label, then 3072 bytes), and against what such a folder can be instead. */
#include "sources.h"

enum { RECORD = 3073, RECORDS = 10000, FILES = 6, BYTES = RECORD * RECORDS };
static const char *const file_name[FILES] = {"data_batch_1.bin", "data_batch_2.bin",
                                             "data_batch_3.bin", "data_batch_4.bin",
                                             "data_batch_5.bin", "test_batch.bin"};
/* Records whose pixels are all filled in; the others hold their number and zeros. */
static const int full_record[] = {0, 1234, 9999};

static char good[FOLDER_PATH]; /* a full set of files */
static char work[FOLDER_PATH]; /* links to them, for a test to break */

static int label_of(int file, int record)
{
    return (record * 3 + file) % 10;
}

static void write_batch(const char *folder, int file)
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
        for (int k = 0; k < 3 * 32 * 32; k++)
            at[k] = cifar_pixel(file, full_record[i], k / 1024, k / 32 % 32, k % 32);
    }
    folder_write(folder, file_name[file], data, BYTES);
    free(data);
}

FIXTURE(make_good)
{
    folder_make(good);
    for (int f = 0; f < FILES; f++)
        write_batch(good, f);
    return 0;
}

FIXTURE(remove_good)
{
    folder_remove(good);
    return 0;
}

FIXTURE(link_work)
{
    folder_make(work);
    for (int f = 0; f < FILES; f++)
        assert_int_equal(symlink(folder_path(good, file_name[f]), folder_path(work, file_name[f])),
                         0);
    alarm(100); /* a FIFO must not hang the reader; longer than any load takes */
    return 0;
}

FIXTURE(remove_work)
{
    alarm(0);
    folder_remove(work);
    return 0;
}

static void drop(int file)
{
    assert_int_equal(unlink(folder_path(work, file_name[file])), 0);
}

static void check_image(const dt_source *s, bool test, int64_t i, int file, int record)
{
    cifar_check(s, test, i, label_of(file, record), file, record);
}

/* ---- What a good folder gives -------------------------------------------------------------- */

TEST_WITH(link_work, remove_work, planes_become_interleaved_pixels_in_order)
{
    void *memory = NULL;
    dt_source *s = source_loaded(work, 0, 0, &memory), *t = NULL;
    const dt_source_info *info = dt_source_describe(s);

    assert_string_equal(info->kind, "cifar10");
    assert_true(info->classes == 10 && info->height == 32 && info->width == 32);
    assert_true(info->train == 50000 && info->test == 10000);
    assert_string_equal(info->class_name[0], "airplane");
    assert_string_equal(info->class_name[9], "truck");
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
    assert_ok(dt_source_open(&t, work, 0, 0));
    assert_ok(dt_source_load(t, memory, false));
    check_image(t, true, 9999, 5, 9999);
    const dt_digest a = dt_source_digest(s), b = dt_source_digest(t);
    assert_memory_equal(&a, &b, sizeof a);
    ((uint8_t *)memory)[dt_source_bytes(s) - 1] ^= 1;
    const dt_digest c = dt_source_digest(s);
    assert_memory_not_equal(&a, &c, sizeof a);
    dt_source_close(t);
    source_close(s, memory);
}

/* The folder above is as good, and the manifest the same; of a subset it is another. */
TEST_WITH(link_work, remove_work, subset_takes_the_first_images)
{
    void *memory = NULL;
    char above[FOLDER_PATH];
    dt_source *s = source_loaded(work, 11235, 0, &memory), *whole = NULL, *inner = NULL;

    folder_make(above);
    assert_int_equal(symlink(good, folder_path(above, "cifar-10-batches-bin")), 0);
    assert_ok(dt_source_open(&whole, work, 0, 0));
    assert_ok(dt_source_open(&inner, above, 0, 0));
    folder_remove(above);
    assert_int_equal(dt_source_describe(s)->train, 11235);
    assert_int_equal(dt_source_describe(s)->test, 10000);
    check_image(s, false, 9999, 0, 9999);
    check_image(s, false, 11234, 1, 1234);
    check_image(s, true, 0, 5, 0);
    const dt_digest a = dt_source_manifest(s), b = dt_source_manifest(whole);
    const dt_digest c = dt_source_manifest(inner);
    assert_memory_not_equal(&a, &b, sizeof a);
    assert_memory_equal(&b, &c, sizeof b);
    dt_source_close(whole);
    dt_source_close(inner);
    source_close(s, memory);
    assert_fails(dt_source_open(&s, work, 50001, 0), DT_CONFIG, "50000");
}

TEST_WITH(link_work, remove_work, missing_files_and_unknown_hashes_are_noted)
{
    capture heard;
    void *memory = NULL;

    drop(1);
    drop(3);
    source_heard(work, 0, &heard);
    assert_non_null(strstr(heard.text, "3 of 5 training files"));
    assert_non_null(strstr(heard.text, "30000 training images"));
    const char *line = strstr(heard.text, "unknown SHA-256");
    assert_non_null(line);
    for (int f = 0; f < FILES; f++)
        assert_true((strstr(line, file_name[f]) != NULL) == (f != 1 && f != 3));
    assert_ptr_equal(strchr(line, '\n'), strrchr(heard.text, '\n'));
    dt_source *s = source_loaded(work, 0, 0, &memory);
    check_image(s, false, RECORDS + 1234, 2, 1234);
    source_close(s, memory);
}

/* ---- What can be wrong ------------------------------------------------------------------- */

typedef enum wrong_kind { SIZED, LABEL, GONE, PIPE } wrong_kind;
typedef struct wrong {
    int file;
    wrong_kind kind;
    int at; /* SIZED: bytes; LABEL: of this record is `value` */
    int value;
    dt_status status;
    const char *words; /* besides the folder's name */
} wrong;

static void make_wrong(const wrong *w)
{
    const char *name = file_name[w->file];

    drop(w->file);
    if (w->kind == SIZED) {
        folder_write(work, name, "", 0);
        assert_int_equal(truncate(folder_path(work, name), w->at), 0);
    } else if (w->kind == LABEL) {
        write_batch(work, w->file);
        const int fd = open(folder_path(work, name), O_WRONLY);
        assert_int_equal(pwrite(fd, &(uint8_t){(uint8_t)w->value}, 1, (off_t)w->at * RECORD), 1);
        close(fd);
    } else if (w->kind == PIPE)
        assert_int_equal(mkfifo(folder_path(work, name), 0600), 0);
}

TEST_WITH(NULL, remove_work, what_is_wrong_is_named)
{
    static const wrong rows[] = {
        {2, SIZED, 0, 0, DT_FORMAT, "/data_batch_3.bin: has 0 bytes, expected 30730000"},
        {0, SIZED, BYTES - 1, 0, DT_FORMAT, "/data_batch_1.bin: has 30729999 bytes"},
        {5, SIZED, BYTES + RECORD, 0, DT_FORMAT, "/test_batch.bin: has 30733073 bytes"},
        {3, LABEL, 4321, 10, DT_FORMAT, "4.bin: record 4321 (byte offset 13278433) has label 10"},
        {5, LABEL, 9999, 255, DT_FORMAT, "/test_batch.bin: record 9999"},
        {5, GONE, 0, 0, DT_NOINPUT, "has no test_batch.bin"},
        {1, PIPE, 0, 0, DT_NOINPUT, "pipe"},
    };

    for (size_t i = 0; i < DT_COUNT_OF(rows); i++) {
        link_work(state);
        make_wrong(&rows[i]);
        const dt_status st = source_try(work);
        if (!strstr(dt_fail_text(), rows[i].words))
            fail_msg("row %zu: '%s' does not hold '%s'", i, dt_fail_text(), rows[i].words);
        assert_fails(st, rows[i].status, work);
        remove_work(state);
    }
    link_work(state);
    for (int f = 0; f < 5; f++)
        drop(f);
    assert_fails(source_try(work), DT_NOINPUT, "has no data_batch_1.bin");
}

/* Paths that are mistaken for the folder of the binary version. */
TEST(what_is_taken_for_it_is_named)
{
    static const char *const rows[][2] = {
        {"data_batch_1", "the Python version"},
        {"cifar-10-batches-py", "the Python version"},
        {"cifar-10-binary.tar.gz", "an archive that is not unpacked"},
        {"notes.txt", "and this build has no part for images"},
    };
    char longest[6000];

    for (size_t i = 0; i < DT_COUNT_OF(rows); i++) {
        char folder[FOLDER_PATH];
        folder_make(folder);
        folder_write(folder, rows[i][0], "x", 1);
        assert_fails(source_try(folder), DT_NOINPUT, rows[i][1]);
        folder_remove(folder);
    }
    assert_fails(source_try(folder_path(good, "gone")), DT_NOINPUT, "No such file");
    assert_fails(source_try(folder_path(good, file_name[0])), DT_NOINPUT, "is a file");
    assert_fails(source_try(""), DT_NOINPUT, "No such file");
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_fails(source_try(longest), DT_NOINPUT, "File name too long");
}

int main(void)
{
    dt_log_init(0, 1);
    return tests_run(make_good, remove_good);
}
