/* data_source_cifar100.c - the CIFAR-100 reader against files written here by the format's rules: a
 * coarse label, a fine one, then 3072 bytes. */
#include "sources.h"

enum { RECORD = 3074 };
static const struct {
    const char *name;
    int records;
} files[] = {{"train.bin", 50000}, {"test.bin", 10000}};
static char root[FOLDER_PATH];

/* `bad`: the fine label of record 7. */
static void write_file(int test, int bad, size_t less)
{
    const size_t bytes = (size_t)files[test].records * RECORD;
    uint8_t *data = calloc(bytes, 1);

    assert_non_null(data);
    for (int r = 0; r < files[test].records; r++) {
        uint8_t *record = data + (size_t)r * RECORD;
        record[0] = (uint8_t)(r % 20);
        record[1] = (uint8_t)((r * 3 + test) % 100);
        for (int k = 0; k < 3072 && r % 4999 == 0; k++)
            record[2 + k] = cifar_pixel(test, r, k / 1024, k / 32 % 32, k % 32);
    }
    data[7 * RECORD + 1] = (uint8_t)bad;
    folder_write(root, files[test].name, data, bytes - less);
    free(data);
}

static void check(const dt_source *s, int test, int record)
{
    cifar_check(s, test, record, (record * 3 + test) % 100, test, record);
}

TEST(records_become_images)
{
    void *memory = NULL;

    folder_make(root);
    write_file(0, 21, 0);
    write_file(1, 22, 0);
    for (int subset = 0; subset < 2; subset++) {
        dt_source *s = source_loaded(root, subset ? 5000 : 0, 0, &memory);
        const dt_source_info *info = dt_source_describe(s);
        assert_string_equal(info->kind, "cifar100");
        assert_true(info->classes == 100 && info->test == 10000);
        assert_int_equal(info->train, subset ? 5000 : 50000);
        assert_string_equal(info->class_name[0], "apple");
        assert_string_equal(info->class_name[33], "forest");
        assert_string_equal(info->class_name[99], "worm");
        for (int c = 1; c < 100; c++) /* they are numbered by the alphabet */
            assert_true(strcmp(info->class_name[c - 1], info->class_name[c]) < 0);
        check(s, 0, 0);
        check(s, 0, 4999);
        check(s, 1, 9998);
        if (!subset)
            check(s, 0, 49990);
        source_close(s, memory);
    }
    folder_remove(root);
}

TEST(damaged_files_are_named)
{
    dt_source *s = NULL;

    folder_make(root);
    write_file(1, 22, 0);
    assert_fails(dt_source_open(&s, root, 0, 0), DT_NOINPUT, "train.bin");
    write_file(0, 21, 1);
    assert_fails(dt_source_open(&s, root, 0, 0), DT_FORMAT, "train.bin: has 153699999 bytes");
    write_file(0, 100, 0);
    assert_ok(dt_source_open(&s, root, 0, 0));
    void *memory = malloc(dt_source_bytes(s));
    assert_fails(dt_source_load(s, memory, true), DT_FORMAT, "record 7 (byte offset 21518)");
    source_close(s, memory);
    folder_remove(root);
}
