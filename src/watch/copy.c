/* copy.c - the file `progress`: a copy of the table for whoever looks at the run from outside. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "eyes.h"

/* Whether a file there may go: an older run's, or what a power cut leaves of it, nothing or
 * zeros. */
static bool is_table(int fd)
{
    static const char cut[sizeof DT_TABLE_MAGIC];
    char magic[sizeof DT_TABLE_MAGIC] = "";
    struct stat info;
    const bool file = fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
    const ssize_t n = file ? pread(fd, magic, sizeof magic, 0) : -1;

    return n >= 0 && (memcmp(magic, DT_TABLE_MAGIC, sizeof magic) == 0 ||
                      memcmp(magic, cut, sizeof magic) == 0);
}

/* A new file each time: somebody may still look at an older run's. */
static int make_file(const char *path)
{
    const int old = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (is_table(old))
        unlink(path);
    if (old >= 0)
        close(old);
    return open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
}

int dt_copy_make(const char *folder, size_t bytes)
{
    char path[PATH_MAX];

    if (!folder || snprintf(path, sizeof path, "%s/progress", folder) >= PATH_MAX)
        return -1;
    const int fd = make_file(path);
    const int error = fd < 0 ? errno : posix_fallocate(fd, 0, (off_t)bytes);
    if (error == 0)
        return fd;
    dt_warn("cannot make %s: %s; dtrain status cannot look at this run%s", path, strerror(error),
            error == EEXIST ? ": remove what is there, which is no run's progress" : "");
    if (fd >= 0) {
        unlink(path);
        close(fd);
    }
    return -1;
}

void dt_copy_write(const dt_watch *w)
{
    if (w->copy >= 0)
        (void)!pwrite(w->copy, w->table.head, w->bytes, 0); /* the next one tells all */
}

void *dt_copy_main(void *context)
{
    dt_watch *w = context;

    for (bool stop = false; !stop;) {
        while (sem_wait(&w->copy_due) != 0)
            ;
        __atomic_load(&w->stop, &stop, __ATOMIC_ACQUIRE);
        dt_copy_write(w);
    }
    return NULL;
}

void dt_copy_ask(dt_watch *w)
{
    int due = 0;

    if (w->copies && sem_getvalue(&w->copy_due, &due) == 0 && due == 0)
        sem_post(&w->copy_due);
}
