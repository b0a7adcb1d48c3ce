/* shim.c - the calls themselves; see shim.h. The kernel is called directly: there is no other
 * library function to find. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t shim_lock = PTHREAD_MUTEX_INITIALIZER;
void shim_append(int fd, const void *data, size_t size)
{
    if (syscall(SYS_write, fd, data, size) != (long)size)
        _exit(99);
}

int shim_open_log(const char *path)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                        0644);
}

/* ---- One call ---------------------------------------------------------------------- */

typedef long shim_do(void *call, const shim_op *op);

/* Ask, perform, tell. Returns what the kernel returned, -1 with errno set otherwise. */
static long shim_run(shim_op *op, shim_do *perform, void *call)
{
    long r = -1;
    int error = 0;

    pthread_mutex_lock(&shim_lock);
    const int verdict = shim_before(op);
    if (verdict == SHIM_SKIP) {
        r = 0;
    } else if (verdict > 0) {
        if (op->call == SHIM_CLOSE) /* the descriptor is gone even so */
            perform(call, op);
        error = verdict;
    } else {
        if (verdict == SHIM_HALF)
            op->size = op->size > 1 ? op->size / 2 : op->size;
        r = perform(call, op);
        error = errno;
        if (r >= 0 && op->data)
            op->size = (size_t)r;
        if (r >= 0)
            shim_after(op);
    }
    pthread_mutex_unlock(&shim_lock);
    if (r < 0)
        errno = error;
    return r;
}

/* Arguments of a call that shim_run performs: a number and up to five arguments. */
typedef struct raw {
    long number, a, b, c, d, e;
} raw;

static long raw_do(void *call, const shim_op *op)
{
    const raw *c = call;
    (void)op;
    return syscall(c->number, c->a, c->b, c->c, c->d, c->e);
}

void shim_foreign(int fd, const char *what)
{
    char path[PATH_MAX];

    if (fd >= 0 && !shim_fd_path(fd, path))
        return;
    pthread_mutex_lock(&shim_lock);
    shim_after(&(shim_op){.call = SHIM_FOREIGN, .path = what});
    pthread_mutex_unlock(&shim_lock);
}

/* ---- Opening and closing ------------------------------------------------------------ */

static int shim_open(int folder, const char *name, int flags, mode_t mode)
{
    char path[PATH_MAX];
    struct stat info;
    raw call = {SYS_openat, folder, (long)name, flags, mode, 0};

    if (!shim_name_path(folder, name, path))
        return (int)raw_do(&call, NULL);
    const bool there = fstatat(folder, name, &info, 0) == 0;
    const bool writes = (flags & O_ACCMODE) != O_RDONLY;
    shim_op op = {.call = flags & O_CREAT ? SHIM_CREATE : SHIM_OPEN,
                  .path = path,
                  .made = !there && (flags & O_CREAT),
                  .emptied = there && writes && (flags & O_TRUNC)};
    const int fd = (int)shim_run(&op, raw_do, &call);
    if (fd >= 0 && (flags & O_TMPFILE) == O_TMPFILE)
        shim_foreign(fd, "O_TMPFILE");
    return fd;
}

#define OPEN_MODE(flags, mode)                                                                     \
    mode_t mode = 0;                                                                               \
    if (((flags)&O_CREAT) || ((flags)&O_TMPFILE) == O_TMPFILE) {                                   \
        va_list list;                                                                              \
        va_start(list, flags);                                                                     \
        mode = va_arg(list, mode_t);                                                               \
        va_end(list);                                                                              \
    }

int open(const char *name, int flags, ...)
{
    OPEN_MODE(flags, mode)
    return shim_open(AT_FDCWD, name, flags, mode);
}

int open64(const char *name, int flags, ...)
{
    OPEN_MODE(flags, mode)
    return shim_open(AT_FDCWD, name, flags, mode);
}

int openat(int folder, const char *name, int flags, ...)
{
    OPEN_MODE(flags, mode)
    return shim_open(folder, name, flags, mode);
}

int openat64(int folder, const char *name, int flags, ...)
{
    OPEN_MODE(flags, mode)
    return shim_open(folder, name, flags, mode);
}

int creat(const char *name, mode_t mode)
{
    return shim_open(AT_FDCWD, name, O_WRONLY | O_CREAT | O_TRUNC, mode);
}

int creat64(const char *name, mode_t mode)
{
    return creat(name, mode);
}

/* Calls that take a descriptor first. */
static long shim_fd_call(shim_call kind, int64_t offset, raw call)
{
    char path[PATH_MAX];

    if (!shim_fd_path((int)call.a, path))
        return raw_do(&call, NULL);
    shim_op op = {.call = kind, .path = path, .offset = offset};
    return shim_run(&op, raw_do, &call);
}

int close(int fd)
{
    return (int)shim_fd_call(SHIM_CLOSE, 0, (raw){SYS_close, fd, 0, 0, 0, 0});
}

int fsync(int fd)
{
    return (int)shim_fd_call(SHIM_FSYNC, 0, (raw){SYS_fsync, fd, 0, 0, 0, 0});
}

int fdatasync(int fd)
{
    return (int)shim_fd_call(SHIM_FDATASYNC, 0, (raw){SYS_fdatasync, fd, 0, 0, 0, 0});
}

int syncfs(int fd)
{
    return (int)shim_fd_call(SHIM_SYNC, 0, (raw){SYS_syncfs, fd, 0, 0, 0, 0});
}

int ftruncate(int fd, off_t length)
{
    return (int)shim_fd_call(SHIM_TRUNCATE, length, (raw){SYS_ftruncate, fd, length, 0, 0, 0});
}

int ftruncate64(int fd, off_t length)
{
    return ftruncate(fd, length);
}

int fallocate(int fd, int mode, off_t offset, off_t length)
{
    if (mode & ~FALLOC_FL_KEEP_SIZE)
        shim_foreign(fd, "fallocate with a mode");
    return (int)shim_fd_call(SHIM_ALLOCATE, mode ? 0 : offset + length,
                             (raw){SYS_fallocate, fd, mode, offset, length, 0});
}

int fallocate64(int fd, int mode, off_t offset, off_t length)
{
    return fallocate(fd, mode, offset, length);
}

int posix_fallocate(int fd, off_t offset, off_t length)
{
    const int saved = errno;
    const int error = fallocate(fd, 0, offset, length) == 0 ? 0 : errno;
    errno = saved;
    return error;
}

int posix_fallocate64(int fd, off_t offset, off_t length)
{
    return posix_fallocate(fd, offset, length);
}

void *mmap(void *at, size_t size, int protect, int flags, int fd, off_t offset)
{
    if ((flags & MAP_SHARED) && (protect & PROT_WRITE) && fd >= 0)
        shim_foreign(fd, "mmap, shared and writable");
    const long p = syscall(SYS_mmap, at, size, protect, flags, fd, offset);
    return (void *)(uintptr_t)p;
}

void *mmap64(void *at, size_t size, int protect, int flags, int fd, off_t offset)
{
    return mmap(at, size, protect, flags, fd, offset);
}

ssize_t copy_file_range(int in, off_t *from, int out, off_t *to, size_t n, unsigned f)
{
    shim_foreign(out, "copy_file_range");
    return syscall(SYS_copy_file_range, in, from, out, to, n, f);
}

ssize_t sendfile(int out, int in, off_t *offset, size_t n)
{
    shim_foreign(out, "sendfile");
    return syscall(SYS_sendfile, out, in, offset, n);
}

/* ---- Writing ------------------------------------------------------------------------ */

typedef struct write_call {
    int fd;
    bool at_offset;
} write_call;

static long write_do(void *call, const shim_op *op)
{
    const write_call *w = call;
    if (w->at_offset)
        return syscall(SYS_pwrite64, w->fd, op->data, op->size, op->offset);
    return syscall(SYS_write, w->fd, op->data, op->size);
}

/* Where write(2) will put its bytes; only this process writes, so nothing moves it. */
static int64_t write_place(int fd)
{
    struct stat info;

    if ((fcntl(fd, F_GETFL) & O_APPEND) && fstat(fd, &info) == 0)
        return info.st_size;
    return lseek(fd, 0, SEEK_CUR);
}

ssize_t write(int fd, const void *data, size_t size)
{
    char path[PATH_MAX];
    write_call call = {fd, false};

    shim_op op = {.call = SHIM_WRITE, .path = path, .data = data, .size = size};
    if (!shim_fd_path(fd, path)) {
        pthread_mutex_lock(&shim_lock);
        if (fd == STDOUT_FILENO)
            shim_stdout(data, size);
        pthread_mutex_unlock(&shim_lock);
        return write_do(&call, &op);
    }
    op.offset = write_place(fd);
    return shim_run(&op, write_do, &call);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    char path[PATH_MAX];
    write_call call = {fd, true};
    shim_op op = {.call = SHIM_PWRITE, .path = path, .data = data, .size = size, .offset = offset};

    if (!shim_fd_path(fd, path))
        return write_do(&call, &op);
    return shim_run(&op, write_do, &call);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t offset)
{
    return pwrite(fd, data, size, offset);
}

/* Gathered: one write for the recorder, and one that may fail. */
static ssize_t shim_gather(int fd, const struct iovec *v, int n, off_t offset)
{
    size_t bytes = 0, at = 0;

    for (int i = 0; i < n; i++)
        bytes += v[i].iov_len;
    char *all = malloc(bytes + 1);
    if (!all) {
        errno = ENOMEM;
        return -1;
    }
    for (int i = 0; i < n; at += v[i++].iov_len)
        memcpy(all + at, v[i].iov_base, v[i].iov_len);
    const ssize_t r = offset < 0 ? write(fd, all, bytes) : pwrite(fd, all, bytes, offset);
    free(all);
    return r;
}

ssize_t writev(int fd, const struct iovec *v, int n)
{
    char path[PATH_MAX];

    if (fd == STDOUT_FILENO || shim_fd_path(fd, path))
        return shim_gather(fd, v, n, -1);
    return syscall(SYS_writev, fd, v, n);
}

ssize_t pwritev(int fd, const struct iovec *v, int n, off_t offset)
{
    return shim_gather(fd, v, n, offset);
}

ssize_t pwritev64(int fd, const struct iovec *v, int n, off_t offset)
{
    return pwritev(fd, v, n, offset);
}

/* ---- Names -------------------------------------------------------------------------- */

static int shim_name_call(shim_call kind, int folder, const char *name, raw call)
{
    char path[PATH_MAX];

    if (!shim_name_path(folder, name, path))
        return (int)raw_do(&call, NULL);
    shim_op op = {.call = kind, .path = path};
    return (int)shim_run(&op, raw_do, &call);
}

static int shim_two_names(shim_call kind, const char *from, const char *to, raw call)
{
    char old[PATH_MAX], new[PATH_MAX];

    const bool in = shim_name_path((int)call.c, to, new);
    if (!shim_name_path((int)call.a, from, old) || !in) {
        if (in) /* the content is not known */
            shim_foreign(-1, "rename from outside");
        return (int)raw_do(&call, NULL);
    }
    shim_op op = {.call = kind, .path = old, .other = new};
    return (int)shim_run(&op, raw_do, &call);
}

int renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
    raw call = {SYS_renameat2, a, (long)from, b, (long)to, (long)flags};
    if (flags & ~(unsigned)RENAME_NOREPLACE)
        shim_foreign(-1, "renameat2 with a flag");
    return shim_two_names(SHIM_RENAME, from, to, call);
}

int renameat(int a, const char *from, int b, const char *to)
{
    return renameat2(a, from, b, to, 0);
}

int rename(const char *from, const char *to)
{
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int linkat(int a, const char *from, int b, const char *to, int flags)
{
    raw call = {SYS_linkat, a, (long)from, b, (long)to, flags};
    return shim_two_names(SHIM_LINK, from, to, call);
}

int link(const char *from, const char *to)
{
    return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlinkat(int folder, const char *name, int flags)
{
    raw call = {SYS_unlinkat, folder, (long)name, flags, 0, 0};
    return shim_name_call(flags & AT_REMOVEDIR ? SHIM_RMDIR : SHIM_UNLINK, folder, name, call);
}

int unlink(const char *name)
{
    return unlinkat(AT_FDCWD, name, 0);
}

int rmdir(const char *name)
{
    return unlinkat(AT_FDCWD, name, AT_REMOVEDIR);
}

int remove(const char *name)
{
    struct stat info;
    const bool folder = lstat(name, &info) == 0 && S_ISDIR(info.st_mode);
    return folder ? rmdir(name) : unlink(name);
}

int mkdirat(int folder, const char *name, mode_t mode)
{
    raw call = {SYS_mkdirat, folder, (long)name, mode, 0, 0};
    return shim_name_call(SHIM_MKDIR, folder, name, call);
}

int mkdir(const char *name, mode_t mode)
{
    return mkdirat(AT_FDCWD, name, mode);
}
