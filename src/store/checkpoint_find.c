/* checkpoint_find.c - which checkpoint, of which run. */
#include "store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "checkpoint_internal.h"

static bool folder_has(const char *folder, const char *name)
{
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n > 0 && (size_t)n < sizeof path && dt_path_taken(path);
}

/* A torn one may hold any of its files; its name alone is enough. */
static bool is_checkpoint(const char *path)
{
    dt_checkpoint_name name;

    if (folder_has(path, "checkpoints"))
        return false;
    return folder_has(path, "MANIFEST") || folder_has(path, "state.json") ||
           dt_checkpoint_name_of(path, &name);
}

bool dt_checkpoint_holds(const char *folder)
{
    static const char below[] = "/checkpoints";
    const size_t length = sizeof below - 1;
    char path[PATH_MAX];
    dt_checkpoint_name name;

    if (folder_has(folder, "MANIFEST") || dt_checkpoint_name_of(folder, &name))
        return true;
    if (!realpath(folder, path))
        return false;
    for (char *at = strstr(path, below); at; at = strstr(at + 1, below)) {
        if (at[length] != '/' && at[length] != '\0')
            continue;
        *at = '\0';
        const bool run = folder_has(path, "options.yaml");
        *at = '/';
        if (run)
            return true;
    }
    return false;
}

bool dt_checkpoint_gone(const char *path)
{
    struct stat info;
    return lstat(path, &info) != 0 && errno == ENOENT;
}

/* The failure `st`, with a remedy. */
static dt_status find_advise(dt_status st, const char *remedy)
{
    char text[2 * PATH_MAX];

    snprintf(text, sizeof text, "%s", dt_fail_text());
    dt_fail_clear();
    return dt_fail(st, "%s; %s", text, remedy);
}

/* What is damaged is passed over. What the system failed to read may be whole, and what a newer
 * program wrote is: whoever passed over it would go on from an older one, or begin anew, and put
 * it aside. */
static dt_status find_failed(dt_status st)
{
    if (st == DT_FORMAT || st == DT_NOINPUT) {
        char text[2 * PATH_MAX];
        snprintf(text, sizeof text, "%s; skipped", dt_fail_text());
        dt_warn_once(text); /* a run looks twice: for its options, and for its state */
        dt_fail_clear();
        return DT_OK;
    }
    if (st == DT_UNSUPPORTED)
        return find_advise(st, "or move it away, to do without it");
    if (st != DT_IO)
        return st;
    return find_advise(
        st, "it may be whole, so nothing is done without it: try again, or move it away");
}

/* The newest of a list, oldest first, that is valid; *gone: one went meanwhile. */
static dt_status find_newest(const char *folder, const dt_checkpoint_name *list, size_t count,
                             char found[PATH_MAX], bool *gone)
{
    char hash[DT_DIGEST_CHARS];
    dt_progress at;

    for (size_t i = count; i-- > 0;) {
        char path[PATH_MAX];
        DT_TRY(dt_path_join(path, folder, list[i].text));
        const dt_status st = dt_checkpoint_try(path, &at, hash);
        if (st == DT_OK) {
            memcpy(found, path, sizeof path);
            return DT_OK;
        }
        if (!dt_checkpoint_gone(path)) {
            DT_TRY(find_failed(st));
            continue;
        }
        *gone = true;
        dt_fail_clear();
    }
    return DT_OK;
}

/* The newest valid one whose step is above `than` and below `end`. */
static dt_status find_within(const char *folder, int64_t than, int64_t end, char found[PATH_MAX])
{
    bool gone = true;

    for (int look = 0; look < DT_CHECKPOINT_LOOKS && gone && !found[0]; look++) {
        dt_checkpoint_name *list = NULL;
        size_t count = 0, older = 0;
        gone = false;
        DT_TRY(dt_checkpoint_list(folder, &list, &count));
        while (older < count && list[older].step <= than)
            older++;
        while (count > older && list[count - 1].step >= end)
            count--;
        const dt_status st = find_newest(folder, list + older, count - older, found, &gone);
        free(list);
        DT_TRY(st);
    }
    return DT_OK;
}

dt_status dt_checkpoint_find(const char *path, char found[PATH_MAX])
{
    char folder[PATH_MAX], hash[DT_DIGEST_CHARS];
    dt_progress at;

    found[0] = '\0';
    if (access(path, F_OK) != 0)
        return dt_fail(DT_NOINPUT, "%s: %s: name a run folder or a checkpoint", path,
                       strerror(errno));
    if (is_checkpoint(path)) {
        const dt_status st = dt_checkpoint_try(path, &at, hash);
        if (st == DT_FORMAT)
            return find_advise(st, "name another, or its run for the newest valid one");
        DT_TRY(st);
        if (strlen(path) >= PATH_MAX)
            return dt_fail(DT_NOINPUT, "%.200s...: the path is too long", path);
        snprintf(found, PATH_MAX, "%s", path);
        return DT_OK;
    }
    DT_TRY(dt_path_join(folder, path, folder_has(path, "checkpoints") ? "checkpoints" : "."));
    return find_within(folder, -1, INT64_MAX, found);
}

dt_status dt_checkpoint_last(const char *run, char name[DT_CHECKPOINT_NAME], double *age_s)
{
    char folder[PATH_MAX], path[PATH_MAX];
    dt_checkpoint_name *list = NULL;
    struct stat info;
    size_t count = 0;

    name[0] = '\0';
    DT_TRY(dt_path_join(folder, run, "checkpoints"));
    DT_TRY(dt_checkpoint_list(folder, &list, &count));
    dt_status st = DT_OK;
    for (size_t i = count; i-- > 0 && st == DT_OK && !name[0];) {
        st = dt_path_join(path, folder, list[i].text);
        if (st != DT_OK || stat(path, &info) != 0) /* the newest may have gone meanwhile */
            continue;
        memcpy(name, list[i].text, DT_CHECKPOINT_NAME);
        *age_s = difftime(time(NULL), info.st_mtime);
    }
    free(list);
    return st;
}

dt_status dt_checkpoint_newer(const char *run, int64_t than, char found[PATH_MAX])
{
    char folder[PATH_MAX];

    found[0] = '\0';
    DT_TRY(dt_path_join(folder, run, "checkpoints"));
    return find_within(folder, than, INT64_MAX, found);
}

dt_status dt_checkpoint_older(const char *run, int64_t than, char found[PATH_MAX])
{
    char folder[PATH_MAX];

    found[0] = '\0';
    DT_TRY(dt_path_join(folder, run, "checkpoints"));
    return find_within(folder, -1, than, found);
}

dt_status dt_checkpoint_run(const char *path, char out[PATH_MAX])
{
    char resolved[PATH_MAX];
    dt_checkpoint_name name;

    out[0] = '\0';
    if (!realpath(path, resolved))
        return dt_fail(DT_NOINPUT, "%s: %s: name a run folder or a checkpoint", path,
                       strerror(errno));
    if (folder_has(path, "checkpoints")) {
        if (strlen(path) >= PATH_MAX)
            return dt_fail(DT_NOINPUT, "%.200s...: the path is too long", path);
        snprintf(out, PATH_MAX, "%s", path);
        return DT_OK;
    }
    char *slash = strrchr(resolved, '/');
    if (!dt_checkpoint_name_parse(slash + 1, &name))
        return DT_OK;
    *slash = '\0';
    slash = strrchr(resolved, '/');
    if (!slash || strcmp(slash, "/checkpoints") != 0)
        return DT_OK;
    *slash = '\0';
    snprintf(out, PATH_MAX, "%s", resolved[0] ? resolved : "/");
    return DT_OK;
}
