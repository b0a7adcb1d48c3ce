/* folder.h - a folder of a test's own, and files in it. */
#ifndef DT_TEST_FOLDER_H
#define DT_TEST_FOLDER_H
#include "test.h"

#include <ftw.h>

enum { FOLDER_PATH = 512 };

/* A new empty folder; path[FOLDER_PATH]. */
static inline void folder_make(char *path)
{
    const char *base = getenv("TMPDIR");
    dt_fail_clear(); /* of a test that has failed */
    snprintf(path, FOLDER_PATH, "%s/dtrain-test-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(path));
}

static inline int folder_remove_entry(const char *path, const struct stat *about, int kind,
                                      struct FTW *where)
{
    (void)about;
    (void)kind;
    (void)where;
    return remove(path);
}

static inline void folder_remove(const char *path)
{
    nftw(path, folder_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* FOLDER_TEST(name) { ... }: a test in a new folder, `here`, which does not stay. */
#define FOLDER_TEST(name) TEST_WITH(folder_enter, folder_leave, name)
static char here[FOLDER_PATH];

FIXTURE(folder_enter)
{
    folder_make(here);
    return 0;
}

FIXTURE(folder_leave)
{
    folder_remove(here);
    return 0;
}

/* "folder/name" in one of four buffers that take turns. */
static inline const char *folder_path(const char *folder, const char *name)
{
    static char buffer[4][2 * FOLDER_PATH];
    static unsigned turn;
    char *path = buffer[turn++ % 4];
    snprintf(path, sizeof buffer[0], "%s/%s", folder, name);
    return path;
}

/* Write a file, replacing what stands there (a link, not its target). */
static inline void folder_write(const char *folder, const char *name, const void *data,
                                size_t bytes)
{
    const char *path = folder_path(folder, name);
    unlink(path);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}
#endif
