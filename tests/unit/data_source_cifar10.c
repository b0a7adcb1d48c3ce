/* data_source_cifar10.c - the CIFAR-10 reader against files written here by the format's rules
 * (a label, then 3072 bytes), and against every way in which such a folder can be wrong. */
#include "data/data.h"
#include "folder.h"

enum { RECORD = 3073, RECORDS = 10000, FILES = 6 };
static const char *const file_name[FILES] = {"data_batch_1.bin", "data_batch_2.bin",
                                             "data_batch_3.bin", "data_batch_4.bin",
                                             "data_batch_5.bin", "test_batch.bin"};
static const char names[] = "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\n"
                            "ship\ntruck\n\n";
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
    for (size_t i = 0; i < sizeof full_record / sizeof *full_record; i++) {
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
    folder_write(good, "batches.meta.txt", names, sizeof names - 1);
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
    folder_write(work, "batches.meta.txt", names, sizeof names - 1);
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

static void set_byte(int f, int64_t offset, uint8_t value)
{
    const int fd = open(own(f), O_WRONLY);
    assert_int_equal(pwrite(fd, &value, 1, offset), 1);
    close(fd);
}

static dt_status try_open(const char *path)
{
    dt_source *s = NULL;
    const dt_status st = dt_source_open(&s, path, 0, 0);
    assert_true((st == DT_OK) == (s != NULL));
    dt_source_close(s);
    return st;
}

static dt_source *opened(const char *path, int64_t subset)
{
    dt_source *s = NULL;
    assert_ok(dt_source_open(&s, path, subset, 0));
    return s;
}

static dt_status try_load(const char *path)
{
    dt_source *s = opened(path, 0);
    void *memory = malloc(dt_source_bytes(s));
    assert_non_null(memory);
    const dt_status st = dt_source_load(s, memory, true);
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

/* ---- What a good folder gives
 * -------------------------------------------------------- */

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
    for (size_t i = 0; i < sizeof full_record / sizeof *full_record; i++) {
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

static void class_names_come_from_the_meta_file(void **state)
{
    (void)state;
    static const char crlf[] = "a\r\nb\r\nc\r\nd\r\ne\r\nf\r\ng\r\nh\r\ni\r\nlast one\r\n";
    folder_write(work, "batches.meta.txt", crlf, sizeof crlf - 1);
    dt_source *s = opened(work, 0);
    assert_string_equal(dt_source_describe(s)->class_name[0], "a");
    assert_string_equal(dt_source_describe(s)->class_name[9], "last one");
    dt_source_close(s);
    drop("batches.meta.txt");
    s = opened(work, 0);
    assert_string_equal(dt_source_describe(s)->class_name[9], "truck");
    dt_source_close(s);
}

/* ---- What can be wrong
 * --------------------------------------------------------------- */

static void wrong_sizes_are_refused(void **state)
{
    (void)state;
    static const int64_t size[] = {
        0,           1, 3072, 3073, 30730000 - 3073, 30730000 - 1, 30730000 + 1, 30730000 + 3073,
        2 * 30730000};
    char found[32];
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        const int f = i % 2 ? 5 : 2;
        drop(file_name[f]);
        folder_write(work, file_name[f], "", 0);
        assert_int_equal(truncate(folder_path(work, file_name[f]), size[i]), 0);
        snprintf(found, sizeof found, "has %lld bytes", (long long)size[i]);
        assert_int_equal(try_open(work), DT_FORMAT);
        assert_non_null(strstr(dt_fail_text(), "30730000"));
        assert_non_null(strstr(dt_fail_text(), file_name[f]));
        assert_fails(DT_FORMAT, DT_FORMAT, found);
        own(f);
    }
    assert_int_equal(try_open(work), DT_OK);
}

static void wrong_labels_name_file_record_and_offset(void **state)
{
    (void)state;
    set_byte(3, 4321LL * RECORD, 10);
    assert_int_equal(try_load(work), DT_FORMAT);
    assert_non_null(strstr(dt_fail_text(), "data_batch_4.bin"));
    assert_non_null(strstr(dt_fail_text(), "byte offset 13278433"));
    assert_non_null(strstr(dt_fail_text(), "label 10"));
    assert_fails(DT_FORMAT, DT_FORMAT, "record 4321");
    own(3);
    set_byte(5, 9999LL * RECORD, 255);
    assert_fails(try_load(work), DT_FORMAT, "label 255");
}

static void class_counts_are_exact(void **state)
{
    (void)state;
    /* record 7 of the test file becomes class 3, of which there were 1000 */
    assert_int_not_equal(label_of(5, 7), 3);
    set_byte(5, 7LL * RECORD, 3);
    assert_fails(try_load(work), DT_FORMAT, "images, expected 1000");
    own(5);
    set_byte(0, 7LL * RECORD, label_of(0, 7) == 3 ? 4 : 3);
    assert_fails(try_load(work), DT_FORMAT, "images, expected 5000");
    drop(file_name[4]); /* four files need not be balanced */
    assert_int_equal(try_load(work), DT_OK);
}

static void one_file_twice_is_refused(void **state)
{
    (void)state;
    drop(file_name[2]);
    assert_int_equal(symlink(folder_path(good, file_name[5]), folder_path(work, file_name[2])), 0);
    assert_fails(try_load(work), DT_FORMAT, "same content");
}

static void missing_files_are_named(void **state)
{
    (void)state;
    drop("test_batch.bin");
    assert_fails(try_open(work), DT_NOINPUT, "test_batch.bin");
    own(5);
    for (int f = 0; f < 5; f++)
        drop(file_name[f]);
    assert_fails(try_open(work), DT_NOINPUT, "data_batch_1.bin");
}

static void only_regular_files_are_read(void **state)
{
    (void)state;
    drop(file_name[0]);
    assert_int_equal(mkdir(folder_path(work, file_name[0]), 0700), 0);
    assert_fails(try_open(work), DT_NOINPUT, "is a folder");
    assert_int_equal(rmdir(folder_path(work, file_name[0])), 0);
    assert_int_equal(mkfifo(folder_path(work, file_name[0]), 0600), 0);
    assert_fails(try_open(work), DT_NOINPUT, "pipe");
    drop(file_name[0]);
    assert_int_equal(symlink(file_name[0], folder_path(work, file_name[0])), 0);
    assert_fails(try_open(work), DT_NOINPUT, file_name[0]); /* a loop */
    drop(file_name[0]);
    assert_int_equal(symlink("nowhere", folder_path(work, file_name[0])), 0);
    assert_fails(try_open(work), DT_NOINPUT, file_name[0]);
    drop(file_name[0]);
    drop("batches.meta.txt");
    assert_int_equal(mkfifo(folder_path(work, "batches.meta.txt"), 0600), 0);
    assert_fails(try_open(work), DT_NOINPUT, "batches.meta.txt");
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
    const dt_status st = try_open(work);
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_non_null(strstr(dt_fail_text(), "Permission denied"));
    assert_fails(st, DT_NOINPUT, file_name[1]);

    assert_int_equal(chmod(work, 0), 0);
    if (root)
        assert_int_equal(seteuid(65534), 0);
    const dt_status closed = try_open(work);
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
    assert_fails(try_open(empty), DT_NOINPUT, "holds neither");
    assert_fails(try_open(folder_path(empty, "gone")), DT_NOINPUT, "No such file");
    folder_remove(empty);
    assert_fails(try_open(folder_path(good, file_name[0])), DT_NOINPUT, "is a file");
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_fails(try_open(longest), DT_NOINPUT, "File name too long");
    longest[4090] = '\0';
    assert_fails(try_open(longest), DT_NOINPUT, "4095");
    assert_fails(try_open(""), DT_NOINPUT, "No such file");
}

static void wrong_meta_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t bytes;
        const char *message;
    } wrong[] = {
#define TEXT(text, message) {text, sizeof text - 1, message}
        TEXT("", "has 0 class names"),
        TEXT("a\nb\nc\nd\ne\nf\ng\nh\ni\n", "has 9 class names"),
        TEXT("a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\n", "has 11 class names"),
        TEXT("a\nb\nc\nd\ne\nf\ng\nh\ni\na\n", "are both 'a'"),
        TEXT("a\nb\nc\nd\ne\nf\ng\nh\ni\n\033[31m\n", "byte 0x1b"),
        TEXT("a\nb\nc\nd\ne\nf\ng\nh\ni\0\nj\n", "zero byte"),
#undef TEXT
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        folder_write(work, "batches.meta.txt", wrong[i].text, wrong[i].bytes);
        assert_fails(try_open(work), DT_FORMAT, wrong[i].message);
    }
    assert_int_equal(truncate(folder_path(work, "batches.meta.txt"), 1 << 30), 0);
    assert_fails(try_open(work), DT_FORMAT, "1073741824");
}

static void a_file_that_shrinks_is_an_error(void **state)
{
    (void)state;
    const char *path = own(2);
    dt_source *s = opened(work, 0);
    void *memory = malloc(dt_source_bytes(s));
    assert_int_equal(truncate(path, 3073 * 5000 + 17), 0);
    assert_fails(dt_source_load(s, memory, true), DT_FORMAT, "15365017");
    dt_source_close(s);
    free(memory);
}

static void real_files_are_recognised(void **state)
{
    (void)state;
    const char *path = getenv("DTRAIN_DATA");
    char text[1024];
    FILE *into = NULL;
    if (!path)
        test_skip("real files: DTRAIN_DATA is not set");
    const int kept = folder_listen(&into);
    const dt_status st = try_load(path);
    folder_heard(kept, into, text, sizeof text);
    assert_ok(st);
    assert_true(strstr(text, "the original distribution (SHA-256 of all 6 files)") ||
                strstr(text, "JPEG copy, whose pixels differ slightly (SHA-256 of all 6"));
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
        T(class_names_come_from_the_meta_file),
        T(wrong_sizes_are_refused),
        T(wrong_labels_name_file_record_and_offset),
        T(class_counts_are_exact),
        T(one_file_twice_is_refused),
        T(missing_files_are_named),
        T(only_regular_files_are_read),
        T(permissions_are_named),
        T(wrong_paths_are_named),
        T(wrong_meta_files_are_refused),
        T(a_file_that_shrinks_is_an_error),
        T(real_files_are_recognised),
    };
    dt_log_init(0, 1);
    return cmocka_run_group_tests(tests, make_good, remove_good);
}
