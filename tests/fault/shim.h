/* shim.h - calls that change a folder, caught on their way to the kernel.
 *
 * shim.c is loaded by LD_PRELOAD and defines open, write, fsync, rename and their kin. A
 * call that concerns something below RECORD_ROOT is shown to shim_before, which may
 * replace it, and then to shim_after. recorder.c and failing.c each define the two. One
 * call at a time, process-wide, so that the order seen is the order of execution. */
#ifndef SHIM_H
#define SHIM_H
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CREATE is an open with O_CREAT, OPEN any other. FOREIGN changes files in a way that is
 * not followed: a shared writable mapping, copy_file_range and the like. */
#define SHIM_CALL_LIST(X)                                                                          \
    X(OPEN, "open")                                                                                \
    X(CREATE, "create")                                                                            \
    X(WRITE, "write")                                                                              \
    X(PWRITE, "pwrite")                                                                            \
    X(TRUNCATE, "ftruncate")                                                                       \
    X(ALLOCATE, "fallocate")                                                                       \
    X(FSYNC, "fsync")                                                                              \
    X(FDATASYNC, "fdatasync")                                                                      \
    X(SYNC, "sync")                                                                                \
    X(RENAME, "rename")                                                                            \
    X(LINK, "link")                                                                                \
    X(UNLINK, "unlink")                                                                            \
    X(RMDIR, "rmdir")                                                                              \
    X(MKDIR, "mkdir")                                                                              \
    X(CLOSE, "close")                                                                              \
    X(FOREIGN, "foreign")

typedef enum shim_call {
#define X(name, text) SHIM_##name,
    SHIM_CALL_LIST(X)
#undef X
        SHIM_CALLS
} shim_call;

typedef struct shim_op {
    shim_call call;
    const char *path;  /* below the root, "" is the root itself; FOREIGN: the call */
    const char *other; /* RENAME, LINK: the new name */
    const void *data;  /* WRITE, PWRITE */
    size_t size;       /* of data: asked for, then done */
    int64_t offset;    /* of data; ALLOCATE: end of the range; TRUNCATE: new length */
    bool made;         /* OPEN, CREATE: the file was not there before */
    bool emptied;      /* OPEN, CREATE: it was, and O_TRUNC was given */
} shim_op;

/* What shim_before answers: perform it, an errno (> 0), or one of these. */
enum { SHIM_PERFORM = 0, SHIM_SKIP = -1, SHIM_HALF = -2 };
int shim_before(const shim_op *op);
void shim_after(const shim_op *op); /* the call was performed and succeeded */
void shim_stdout(const void *data, size_t size);
void shim_start(void);

/* The path below the root of what fd is open on; false: it is elsewhere, or has no name. */
bool shim_fd_path(int fd, char path[PATH_MAX]);
/* The same of a name in an open folder, which need not exist. */
bool shim_name_path(int folder, const char *name, char path[PATH_MAX]);
/* Tell shim_after of a call on fd, or with -1 in any case, that is not followed. */
void shim_foreign(int fd, const char *what);
/* From here on printf reaches shim_stdout. */
void shim_take_stdout(void);
/* A write around the shim. */
void shim_append(int fd, const void *data, size_t size);
int shim_open_log(const char *path);
#endif
