/* checkpoint_prune.c - which checkpoints go; a new name first, so that no name is ever torn. */
#include "checkpoint_internal.h"

#include <dirent.h>

/* ---- Removing --------------------------------------------------------------------------- */

static int is_portion(const struct dirent *e)
{
    char name[DT_PORTION_NAME];
    int portion = -1;

    return sscanf(e->d_name, "shard-%6d", &portion) == 1 && portion >= 0 &&
           strcmp(e->d_name, dt_portion_name(portion, name)) == 0;
}

/* What a checkpoint holds; all else is somebody's. */
static int is_ours(const struct dirent *e)
{
    static const char *const ours[] = {DT_CHECKPOINT_FILE_LIST(DT_TEXT_OF) "MANIFEST", "momentum",
                                       "trained"};

    for (size_t i = 0; i < DT_COUNT_OF(ours); i++)
        if (strcmp(ours[i], e->d_name) == 0)
            return 1;
    return is_portion(e);
}

/* False with errno. A link goes itself: what it leads to is somebody else's. A folder in a
 * checkpoint holds portions alone. */
static bool remove_ours(int in, const char *name, int (*ours)(const struct dirent *e))
{
    const int fd = openat(in, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct dirent **entry = NULL;
    const int n = fd < 0 ? 0 : scandirat(fd, ".", &entry, ours, alphasort);
    bool good = n >= 0;

    if (fd < 0)
        return unlinkat(in, name, 0) == 0 || errno == ENOENT;
    for (int i = 0; i < n; i++) {
        const char *inner = entry[i]->d_name;
        good = good && (ours == is_ours ? remove_ours(fd, inner, is_portion)
                                        : unlinkat(fd, inner, 0) == 0 || errno == ENOENT);
        free(entry[i]);
    }
    free(entry);
    close(fd);
    return good && (unlinkat(in, name, AT_REMOVEDIR) == 0 || errno == ENOTEMPTY);
}

dt_status dt_checkpoint_remove(const dt_folder *in, const char *name)
{
    if (remove_ours(in->fd, name, is_ours))
        return DT_OK;
    return dt_fail(DT_IO, "cannot remove %s/%s: %s; remove it by hand", in->path, name,
                   strerror(errno));
}

/* Of a save or a deletion that did not end. */
static int is_leftover(const struct dirent *e)
{
    static const char *const prefix[] = {".tmp-", ".trash-"};
    dt_checkpoint_name n;

    for (size_t i = 0; i < DT_COUNT_OF(prefix); i++)
        if (strncmp(e->d_name, prefix[i], strlen(prefix[i])) == 0)
            return dt_checkpoint_name_parse(e->d_name + strlen(prefix[i]), &n);
    return 0;
}

/* The renaming to .trash-* must be on disk first: unlinking before it could leave a torn folder
 * under the old name. */
static dt_status sweep(const dt_folder *in)
{
    struct dirent **entry = NULL;
    const int n = scandirat(in->fd, ".", &entry, is_leftover, NULL);
    dt_status st = n > 0 ? dt_folder_sync(in->fd, in->path) : DT_OK;

    if (n < 0)
        return dt_fail(DT_IO, "cannot list %s: %s", in->path, strerror(errno));
    for (int i = 0; i < n; i++) {
        if (st == DT_OK)
            st = dt_checkpoint_remove(in, entry[i]->d_name);
        free(entry[i]);
    }
    free(entry);
    return st;
}

/* ---- Choosing --------------------------------------------------------------------------- */

static dt_status to_trash(const dt_folder *in, const char *name)
{
    char trash[2 * DT_CHECKPOINT_NAME];

    snprintf(trash, sizeof trash, ".trash-%s", name);
    if (renameat(in->fd, name, in->fd, trash) == 0)
        return DT_OK;
    return dt_fail(DT_IO, "cannot rename %s/%s to %s: %s", in->path, name, trash, strerror(errno));
}

/* It was in a folder that a link leads to before the run made that its own. */
static bool was_there(const dt_folder *in, const char *name)
{
    struct stat mark, info;

    return fstatat(in->fd, ".run", &mark, AT_SYMLINK_NOFOLLOW) == 0 &&
           fstatat(in->fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
           (info.st_mtim.tv_sec < mark.st_mtim.tv_sec ||
            (info.st_mtim.tv_sec == mark.st_mtim.tv_sec &&
             info.st_mtim.tv_nsec < mark.st_mtim.tv_nsec));
}

/* Asked from the newest to the oldest: what may stay still is left, and *step is that of the one
 * asked about before. What is no whole checkpoint, or not the run's, may be somebody's, or come
 * back: it stays, and does not count. */
static bool stays(const dt_folder *in, const dt_checkpoint_name *name, dt_keep *left, int64_t *step)
{
    dt_checkpoint *c = NULL;
    const bool whole =
        dt_checkpoint_open(&c, in, name->text) == DT_OK && !was_there(in, name->text);
    const bool best = c && c->best && left->best, superseded = name->step == *step;

    dt_checkpoint_close(c);
    dt_fail_clear();
    if (!whole)
        return true;
    *step = name->step;
    left->best = left->best && !best;
    if (!superseded && (left->last-- > 0 || (left->every > 0 && *step % left->every == 0)))
        return true;
    return best;
}

dt_status dt_checkpoint_prune(dt_rundir *run, int64_t saved, const dt_keep *keep)
{
    dt_keep left = *keep;
    dt_checkpoint_name *list = NULL;
    dt_folder in;
    size_t count = 0;
    int64_t step = -1;
    dt_status st = DT_OK;

    left.last = DT_MAX(keep->last, keep->unproved ? 2 : 1);
    DT_GO(st, dt_checkpoints_own(&in, run), out);
    DT_GO(st, dt_checkpoint_list(&in, &list, &count), out);
    for (size_t i = count; i-- > 0;)
        if (list[i].step <= saved && !stays(&in, &list[i], &left, &step))
            DT_GO(st, to_trash(&in, list[i].text), out);
    if (in.fd >= 0)
        st = sweep(&in);

out:
    free(list);
    dt_folder_close(&in);
    return st;
}
