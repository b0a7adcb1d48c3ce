/* safetensors_files.h - a folder for each test of safetensors, and files of the reference
 * implementation's own tests (safetensors/src/tensor.rs at 24b0b28). */
#ifndef DT_SAFETENSORS_FILES_H
#define DT_SAFETENSORS_FILES_H
#include "test.h"

#include <dirent.h>
#include <unistd.h>

/* ---- A folder and files for each test -------------------------------------------- */

enum { PATH_CHARS = 256 };
typedef struct folder {
    char dir[64], file[PATH_CHARS];
} folder;

static inline int make_folder(void **state)
{
    folder *f = calloc(1, sizeof *f);
    assert_non_null(f);
    dt_fail_clear(); /* of a test that has failed */
    snprintf(f->dir, sizeof f->dir, "safetensors-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->file, sizeof f->file, "%s/a.safetensors", f->dir);
    *state = f;
    return 0;
}

/* Names of the files in a folder; removes them if told to. Returns their number. */
static inline int list_folder(const char *dir, bool remove)
{
    int count = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        char path[PATH_CHARS + 300];
        if (e->d_name[0] == '.')
            continue;
        count++;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (remove)
            assert_int_equal(unlink(path), 0);
    }
    closedir(d);
    return count;
}

static inline int remove_folder(void **state)
{
    folder *f = *state;
    list_folder(f->dir, true);
    assert_int_equal(rmdir(f->dir), 0);
    free(f);
    return 0;
}

static inline void put(const char *path, const void *data, size_t bytes)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

static inline size_t get(const char *path, char *data, size_t room)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(data, 1, room, f);
    assert_true(n < room);
    fclose(f);
    return n;
}

/* ---- The reference's bytes ------------------------------------------------------- */

#define EIGHT(n) n "\0\0\0\0\0\0\0"
#define FLOATS                                                                         \
    "\0\0\0\0"                                                                         \
    "\0\0\x80\x3f"                                                                     \
    "\0\0\0\x40"                                                                       \
    "\0\0\x40\x40"                                                                     \
    "\0\0\x80\x40"                                                                     \
    "\0\0\xa0\x40"

typedef struct golden {
    const char *name; /* of the one tensor, NULL: none */
    int rank;
    int64_t shape[4];
    const char *key; /* of the one entry of the metadata, NULL: none */
    const char *bytes;
    size_t count;
} golden;

#define BYTES(text) text, sizeof(text) - 1
static const golden goldens[] = {
    {NULL, 0, {0}, NULL, BYTES(EIGHT("\x08") "{}      ")},
    {NULL,
     0,
     {0},
     "framework",
     BYTES(EIGHT("\x28") "{\"__metadata__\":{\"framework\":\"pt\"}}     ")},
    {"attn.0",
     3,
     {1, 2, 3},
     NULL,
     BYTES(EIGHT("\x40") "{\"attn.0\":{\"dtype\":\"F32\",\"shape\":[1,2,3],"
                         "\"data_offsets\":[0,24]}}" FLOATS)},
    {"attn0",
     4,
     {1, 1, 2, 3},
     NULL,
     BYTES(EIGHT("\x48") "{\"attn0\":{\"dtype\":\"F32\",\"shape\":[1,1,2,3],"
                         "\"data_offsets\":[0,24]}}       " FLOATS)},
};
static const golden *const sample = &goldens[2];

#endif
