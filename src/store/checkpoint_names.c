/* checkpoint_names.c - names of checkpoints. */
#include "checkpoint_internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

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
    if (sscanf(text, "step-%18lld-%6d", &step, &generation) < 1 || step < 0 || generation < 1)
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

bool dt_checkpoint_is_file(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 && S_ISREG(info.st_mode);
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

/* After opendir. What cannot be listed may hold checkpoints. */
static dt_status list_failed(const char *folder)
{
    if (errno == ENOENT)
        return dt_fail(DT_IO,
                       "%s is a link, and what it leads to is missing; mount its disk, or, to do "
                       "without the checkpoints, remove the link",
                       folder);
    return dt_fail(DT_IO,
                   "cannot list %s: %s; it must be a folder that can be read: to do without its "
                   "checkpoints, move it away",
                   folder, strerror(errno));
}

dt_status dt_checkpoint_list(const char *folder, dt_checkpoint_name **list, size_t *count)
{
    name_list l = {0};
    dt_status st = DT_OK;
    DIR *dir = opendir(folder);

    *list = NULL;
    *count = 0;
    if (!dir && errno == ENOENT && !dt_path_taken(folder))
        return DT_OK;
    if (!dir)
        return list_failed(folder);
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
