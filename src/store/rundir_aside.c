/* rundir_aside.c - what an older run has left where another begins at its first step. */
#include "store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const aside_names[] = {"checkpoints", "model.safetensors", "metrics.jsonl",
                                          ".undone-model.safetensors", DT_METRICS_ASIDE};
enum { ASIDE_NAMES = DT_COUNT_OF(aside_names) };

static dt_status aside_error(const char *path, const char *what)
{
    return dt_fail(DT_IO, "cannot put the older run's %s aside: %s: %s; choose another --out", path,
                   what, strerror(errno));
}

/* ---- What there is --------------------------------------------------------------------- */

/* A save or a deletion that did not end is nobody's work. */
static bool is_leftover(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strncmp(name, ".tmp-", 5) == 0 ||
           strncmp(name, ".trash-", 7) == 0;
}

static dt_status folder_counts(const char *path, bool *counts)
{
    DIR *dir = opendir(path);

    if (!dir)
        return errno == ENOENT ? DT_OK : aside_error(path, "opening it");
    for (struct dirent *e = readdir(dir); e && !*counts; e = readdir(dir))
        *counts = !is_leftover(e->d_name);
    closedir(dir);
    return DT_OK;
}

/* Whether anything would be lost with it. Through a link into another folder a new run would
 * write where the old one did; without it, elsewhere than it is told to. */
static dt_status aside_counts(const char *path, bool *counts)
{
    struct stat info;

    *counts = false;
    if (lstat(path, &info) != 0)
        return errno == ENOENT ? DT_OK : aside_error(path, "looking at it");
    if (S_ISDIR(info.st_mode) || S_ISLNK(info.st_mode))
        DT_TRY(folder_counts(path, counts));
    else
        *counts = info.st_size > 0;
    if (*counts && S_ISLNK(info.st_mode))
        return dt_fail(DT_CANTCREATE,
                       "%s is a link, and what it leads to has no checkpoint to go "
                       "on from; move it away, or choose another --out",
                       path);
    return DT_OK;
}

/* ---- Where it goes --------------------------------------------------------------------- */

/* Never a folder that holds anything: what an earlier start has put aside stays. */
static dt_status aside_place(const dt_rundir *d, char place[PATH_MAX], char name[32])
{
    enum { TRIES = 100000 };

    for (int k = 1; k <= TRIES; k++) {
        snprintf(name, 32, ".undone-%d", k);
        dt_rundir_file(d, name, place);
        if (mkdir(place, 0755) == 0 ||
            (errno == EEXIST && rmdir(place) == 0 && mkdir(place, 0755) == 0))
            return DT_OK;
        if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR)
            break;
    }
    return aside_error(place, "making the folder");
}

/* They stay where they are too, until the new ones take their place: a folder without options
 * would be nobody's run. */
static dt_status copy_options(const dt_rundir *d, const char *place)
{
    char from[PATH_MAX], to[PATH_MAX], *text = NULL;
    struct stat info;
    dt_status st = DT_OK;
    const int fd = open(dt_rundir_file(d, "options.yaml", from),
                        O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0)
        return errno == ENOENT ? DT_OK : aside_error(from, "opening it");
    DT_GO(st, fstat(fd, &info) == 0 ? DT_OK : aside_error(from, "looking at it"), out);
    const size_t bytes = (size_t)info.st_size;
    DT_GO(st, dt_calloc(&text, bytes + 1, 1, "the older run's options"), out);
    if (read(fd, text, bytes) != (ssize_t)bytes) {
        st = aside_error(from, "reading it");
        goto out;
    }
    DT_GO(st, dt_path_join(to, place, "options.yaml"), out);
    const dt_target t = dt_target_path(to);
    st = dt_outfile_put(&t, text, bytes, NULL);

out:
    free(text);
    close(fd);
    return st;
}

dt_status dt_rundir_aside(const dt_rundir *d)
{
    char from[PATH_MAX], to[PATH_MAX], place[PATH_MAX], name[32], said[128] = "";
    bool counts[ASIDE_NAMES], any = false;
    size_t used = 0;

    for (size_t i = 0; i < ASIDE_NAMES; i++) {
        DT_TRY(aside_counts(dt_rundir_file(d, aside_names[i], from), &counts[i]));
        any = any || counts[i];
    }
    if (!any)
        return DT_OK;
    DT_TRY(aside_place(d, place, name));
    DT_TRY(copy_options(d, place));
    for (size_t i = 0; i < ASIDE_NAMES; i++) {
        if (!counts[i])
            continue;
        DT_TRY(dt_path_join(to, place, aside_names[i]));
        if (rename(dt_rundir_file(d, aside_names[i], from), to) != 0)
            return aside_error(from, "renaming it");
        used += (size_t)snprintf(said + used, sizeof said - used, "%s%s", used > 0 ? ", " : "",
                                 aside_names[i]);
    }
    DT_TRY(dt_path_sync(place));
    DT_TRY(dt_path_sync(d->at));
    dt_warn("run folder %s: what an older run has left is in its folder %s now: %s", d->path, name,
            said);
    return DT_OK;
}
