/* checkpoint_remove.c - checkpoints that go: unlinked, renamed, swept up. */
#include "checkpoint_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

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

bool dt_checkpoint_holds_others(const char *folder)
{
    DIR *dir = opendir(folder);
    bool others = false;

    for (struct dirent *e = dir ? readdir(dir) : NULL; e && !others; e = readdir(dir)) {
        bool own = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
                   strcmp(e->d_name, "MANIFEST") == 0;
        for (int i = 0; i < DT_CHECKPOINT_FILES && !own; i++)
            own = strcmp(e->d_name, dt_checkpoint_file_name[i]) == 0;
        others = !own;
    }
    if (dir)
        closedir(dir);
    return others;
}

dt_status dt_checkpoint_move_aside(const char *folder, const char *name, const char *prefix)
{
    char from[PATH_MAX], to[PATH_MAX], aside[DT_CHECKPOINT_NAME + 16];

    snprintf(aside, sizeof aside, "%s%s", prefix, name);
    DT_TRY(dt_path_join(from, folder, name));
    DT_TRY(dt_path_join(to, folder, aside));
    if (rename(from, to) == 0)
        return DT_OK;
    if (errno == ENOTEMPTY || errno == EEXIST) { /* of an earlier time */
        DT_TRY(dt_path_sync(folder));            /* as in dt_checkpoint_sweep */
        errno = ENOTEMPTY;
        if (dt_checkpoint_remove(to) == 0 && rename(from, to) == 0)
            return DT_OK;
    }
    return dt_fail(DT_IO, "cannot rename %s to %s: %s", from, aside, strerror(errno));
}

/* The steps of a checkpoint that is renamed so; -1 for another's name. */
static int64_t step_behind(const char *prefix, const char *name)
{
    const size_t length = strlen(prefix);
    dt_checkpoint_name n;

    return strncmp(name, prefix, length) == 0 && dt_checkpoint_name_parse(name + length, &n)
               ? n.step
               : -1;
}

/* Of a save or a deletion that did not end; or undone, and the run has come as far again. */
static bool is_leftover(const char *name, int64_t reached)
{
    const int64_t step = step_behind(".undone-", name);

    return (step >= 0 && step <= reached) || step_behind(".tmp-", name) >= 0 ||
           step_behind(".trash-", name) >= 0;
}

/* The renaming that made a .trash-* may be one that is not on disk yet, of a process that
 * was killed: unlinking first could leave a torn folder under the old name. */
dt_status dt_checkpoint_sweep(const char *folder, int64_t reached)
{
    bool synced = false, undone = false;
    dt_status st = DT_OK, removed = DT_OK;
    DIR *dir = opendir(folder);

    if (!dir)
        return errno == ENOENT ? DT_OK
                               : dt_fail(DT_IO, "cannot list %s: %s", folder, strerror(errno));
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        char path[PATH_MAX];
        if (!is_leftover(e->d_name, reached)) {
            undone = undone || step_behind(".undone-", e->d_name) >= 0;
            continue;
        }
        if (!synced)
            DT_GO(st, dt_path_sync(folder), out);
        synced = true;
        DT_GO(st, dt_path_join(path, folder, e->d_name), out);
        if (dt_checkpoint_remove(path) != 0) /* one that stays is no reason to keep others */
            removed =
                dt_fail(DT_IO, "cannot remove %s: %s; remove it by hand", path, strerror(errno));
    }
    if (!undone)
        dt_metrics_drop_aside(folder);

out:
    closedir(dir);
    return st != DT_OK ? st : removed;
}
