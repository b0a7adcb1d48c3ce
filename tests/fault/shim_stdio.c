/* shim_stdio.c - streams of the C library; see shim.h. */
#include "shim.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The C library writes its streams by calls of its own that nothing can catch; a stream
 * that writes below the root is therefore made here, on write and close above. */
enum { STREAMS = 32 };
static struct {
    FILE *stream;
    int fd;
} shim_stream[STREAMS];

static ssize_t stream_write(void *cookie, const char *data, size_t size)
{
    const ssize_t n = write((int)(intptr_t)cookie, data, size);
    return n < 0 ? 0 : n;
}

static int stream_close(void *cookie)
{
    const int fd = (int)(intptr_t)cookie;
    for (int i = 0; i < STREAMS; i++)
        if (shim_stream[i].stream && shim_stream[i].fd == fd)
            shim_stream[i].stream = NULL;
    return close(fd);
}

static int stream_flags(const char *mode)
{
    const bool plus = strchr(mode, '+');
    int flags = mode[0] == 'r'   ? (plus ? O_RDWR : O_RDONLY)
                : mode[0] == 'w' ? (plus ? O_RDWR : O_WRONLY) | O_CREAT | O_TRUNC
                                 : (plus ? O_RDWR : O_WRONLY) | O_CREAT | O_APPEND;
    if (strchr(mode, 'e'))
        flags |= O_CLOEXEC;
    if (strchr(mode, 'x'))
        flags |= O_EXCL;
    return flags;
}

FILE *fopen(const char *name, const char *mode)
{
    const int flags = stream_flags(mode);
    char path[PATH_MAX];

    const int fd = open(name, flags, 0666);
    if (fd < 0)
        return NULL;
    if ((flags & O_ACCMODE) == O_RDONLY || !shim_fd_path(fd, path))
        return fdopen(fd, mode);
    if ((flags & O_ACCMODE) == O_RDWR)
        shim_foreign(fd, "a stream that reads and writes");
    FILE *f = fopencookie((void *)(intptr_t)fd, "w",
                          (cookie_io_functions_t){.write = stream_write, .close = stream_close});
    for (int i = 0; f && i < STREAMS; i++)
        if (!shim_stream[i].stream) {
            shim_stream[i].stream = f;
            shim_stream[i].fd = fd;
            break;
        }
    return f;
}

FILE *fopen64(const char *name, const char *mode)
{
    return fopen(name, mode);
}

int fileno(FILE *f)
{
    for (int i = 0; i < STREAMS; i++)
        if (shim_stream[i].stream == f)
            return shim_stream[i].fd;
    return f == stdin    ? STDIN_FILENO
           : f == stdout ? STDOUT_FILENO
           : f == stderr ? STDERR_FILENO
                         : fileno_unlocked(f);
}

static ssize_t stdout_write(void *cookie, const char *data, size_t size)
{
    (void)cookie;
    const ssize_t n = write(STDOUT_FILENO, data, size);
    return n < 0 ? 0 : n;
}

void shim_take_stdout(void)
{
    FILE *f = fopencookie(NULL, "w", (cookie_io_functions_t){.write = stdout_write});
    if (f) {
        setvbuf(f, NULL, _IOLBF, BUFSIZ);
        stdout = f;
    }
}
