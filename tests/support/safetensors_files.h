/* safetensors_files.h - a folder for each test of safetensors, and files of the reference
 * implementation's own tests (safetensors/src/tensor.rs at 24b0b28). */
#ifndef DT_SAFETENSORS_FILES_H
#define DT_SAFETENSORS_FILES_H
#include "folder.h"

#include <dirent.h>

/* ---- A folder and files for each test -------------------------------------------- */

enum { PATH_CHARS = FOLDER_PATH + 32 };
typedef struct folder {
    char dir[FOLDER_PATH], file[PATH_CHARS];
} folder;

static inline int make_folder(void **state)
{
    folder *f = *state = calloc(1, sizeof *f);
    assert_non_null(f);
    dt_fail_clear(); /* of a test that has failed */
    folder_make(f->dir);
    snprintf(f->file, sizeof f->file, "%s/a.safetensors", f->dir);
    return 0;
}

static inline int remove_folder(void **state)
{
    folder *f = *state;
    folder_remove(f->dir);
    free(f);
    return 0;
}

/* How many files a folder holds. */
static inline int count_files(const char *dir)
{
    int count = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        count += e->d_name[0] != '.';
    closedir(d);
    return count;
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
#define FLOATS                                                                                     \
    "\0\0\0\0"                                                                                     \
    "\0\0\x80\x3f"                                                                                 \
    "\0\0\0\x40"                                                                                   \
    "\0\0\x40\x40"                                                                                 \
    "\0\0\x80\x40"                                                                                 \
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
