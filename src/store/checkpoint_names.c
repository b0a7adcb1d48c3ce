/* Names of checkpoints, and folders that go. */
#include "checkpoint_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void dt_checkpoint_name_set(dt_checkpoint_name *n, int64_t step, int generation)
{
    n->step = step;
    n->generation = generation;
    if (generation > 1)
        snprintf(n->text, sizeof n->text, "step-%010lld-%d", (long long)step, generation);
    else
        snprintf(n->text, sizeof n->text, "step-%010lld", (long long)step);
}

bool dt_checkpoint_name_parse(const char *text, dt_checkpoint_name *n)
{
    long long step = 0;
    int generation = 1;

    /* The widths bound the numbers; rendering them again refuses everything else. */
    if (sscanf(text, "step-%18lld-%6d", &step, &generation) < 1 || step < 0 ||
        generation < 1)
        return false;
    dt_checkpoint_name_set(n, step, generation);
    return strcmp(n->text, text) == 0;
}

bool dt_checkpoint_name_of(const char *path, dt_checkpoint_name *n)
{
    char resolved[PATH_MAX];

    if (!realpath(path, resolved))
        return false;
    const char *slash = strrchr(resolved, '/');
    return dt_checkpoint_name_parse(slash + 1, n);
}

static int by_age(const void *a, const void *b)
{
    const dt_checkpoint_name *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    return (x->generation > y->generation) - (x->generation < y->generation);
}

typedef struct name_list {
    dt_checkpoint_name *name; /* [room], owned */
    size_t count, room;
} name_list;

static dt_status list_add(name_list *l, const dt_checkpoint_name *n)
{
    if (l->count == l->room) {
        const size_t room = l->room ? 2 * l->room : 16;
        void *more = realloc(l->name, room * sizeof *l->name);
        if (!more)
            return dt_fail(DT_NOMEM, "no memory for the names of %zu checkpoints", room);
        l->name = more;
        l->room = room;
    }
    l->name[l->count++] = *n;
    return DT_OK;
}

dt_status dt_checkpoint_list(const char *folder, dt_checkpoint_name **list, size_t *count)
{
    name_list l = {0};
    dt_status st = DT_OK;
    DIR *dir = opendir(folder);

    *list = NULL;
    *count = 0;
    if (!dir && errno == ENOENT)
        return DT_OK;
    if (!dir)
        return dt_fail(DT_IO, "cannot list %s: %s", folder, strerror(errno));
    errno = 0;
    for (struct dirent *e = readdir(dir); e && st == DT_OK; errno = 0, e = readdir(dir)) {
        dt_checkpoint_name n;
        if (dt_checkpoint_name_parse(e->d_name, &n))
            st = list_add(&l, &n);
    }
    if (st == DT_OK && errno != 0)
        st = dt_fail(DT_IO, "cannot list %s: %s", folder, strerror(errno));
    closedir(dir);
    if (st != DT_OK) {
        free(l.name);
        return st;
    }
    if (l.count > 0)
        qsort(l.name, l.count, sizeof *l.name, by_age);
    *list = l.name;
    *count = l.count;
    return DT_OK;
}

/* ---- Removing ------------------------------------------------------------------------ */

enum { DEEPEST = 16 };

/* What is in an open folder, which this closes. Folders in it are not ours, but in the way:
 * they go with the checkpoint that they were put into. */
static int remove_content(int fd, int depth)
{
    DIR *dir = fdopendir(fd);
    int result = 0;

    if (!dir) {
        close(fd);
        return -1;
    }
    for (struct dirent *e = readdir(dir); e && result == 0; e = readdir(dir)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        result = unlinkat(fd, e->d_name, 0);
        if (result == 0 || errno != EISDIR || depth == DEEPEST)
            continue;
        const int in = openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (in >= 0 && remove_content(in, depth + 1) == 0)
            result = unlinkat(fd, e->d_name, AT_REMOVEDIR);
    }
    const int reason = errno;
    closedir(dir);
    errno = reason;
    return result;
}

/* A link goes itself: what it leads to is somebody else's. */
int dt_checkpoint_remove(const char *folder)
{
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return errno == ENOTDIR || errno == ELOOP ? unlink(folder) : -1;
    const int result = remove_content(fd, 0);
    return result == 0 ? rmdir(folder) : result;
}

/* Of a save or a deletion that did not end; or undone, and the run has come as far again. */
static bool is_leftover(const char *name, int64_t reached)
{
    static const char undone[] = ".undone-";
    dt_checkpoint_name n;

    if (strncmp(name, undone, sizeof undone - 1) == 0)
        return dt_checkpoint_name_parse(name + sizeof undone - 1, &n) && n.step <= reached;
    return strncmp(name, ".tmp-", 5) == 0 || strncmp(name, ".trash-", 7) == 0;
}

/* The renaming that made a .trash-* may be one that is not on disk yet, of a process that
 * was killed: unlinking first could leave a torn folder under the old name. */
dt_status dt_checkpoint_sweep(const char *folder, int64_t reached)
{
    bool synced = false;
    dt_status st = DT_OK, removed = DT_OK;
    DIR *dir = opendir(folder);

    if (!dir)
        return errno == ENOENT ? DT_OK
                               : dt_fail(DT_IO, "cannot list %s: %s", folder,
                                         strerror(errno));
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        char path[PATH_MAX];
        if (!is_leftover(e->d_name, reached))
            continue;
        if (!synced)
            DT_GO(st, dt_folder_sync(folder), out);
        synced = true;
        DT_GO(st, dt_path_join(path, folder, e->d_name), out);
        if (dt_checkpoint_remove(path) != 0) /* one that stays is no reason to keep others */
            removed = dt_fail(DT_IO, "cannot remove %s: %s; remove it by hand", path,
                              strerror(errno));
    }

out:
    closedir(dir);
    return st != DT_OK ? st : removed;
}
