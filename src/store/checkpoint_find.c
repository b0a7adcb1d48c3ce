/* Reading: which checkpoint, whether every byte of it is right, and its numbers. */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint_internal.h"
#include "finite.h"

/* ---- Every byte ------------------------------------------------------------------------ */

enum { BLOCK = 1 << 20 };

/* False with errno. */
static bool hash_file(int fd, dt_hash *h, void *block, uint64_t *bytes)
{
    for (;;) {
        const ssize_t n = read(fd, block, BLOCK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        if (n == 0)
            return true;
        dt_hash_update(h, block, (size_t)n);
        *bytes += (uint64_t)n;
    }
}

static dt_status verify_file(const char *folder, const char *name,
                             const dt_written *want, void *block)
{
    char path[PATH_MAX], has[DT_DIGEST_CHARS], wants[DT_DIGEST_CHARS];
    dt_hash *h = NULL;
    uint64_t bytes = 0;
    dt_status st = DT_OK;

    DT_TRY(dt_path_join(path, folder, name));
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return dt_fail(DT_IO, "checkpoint %s: %s: %s", folder, name, strerror(errno));
    DT_GO(st, dt_hash_open(&h), out);
    if (!hash_file(fd, h, block, &bytes)) {
        st = dt_fail(DT_IO, "checkpoint %s: reading %s, byte %llu: %s", folder, name,
                     (unsigned long long)bytes, strerror(errno));
        goto out;
    }
    dt_digest_text(dt_hash_digest(h), has);
    dt_digest_text(want->digest, wants);
    if (bytes != want->bytes || strcmp(has, wants) != 0)
        st = dt_fail(DT_FORMAT,
                     "checkpoint %s: %s is damaged: its %llu bytes have the hash %s, "
                     "MANIFEST says %s",
                     folder, name, (unsigned long long)bytes, has, wants);

out:
    dt_hash_close(h);
    close(fd);
    return st;
}

static dt_status verify_tensors(const char *folder, dt_checkpoint_file which)
{
    char path[PATH_MAX];
    dt_safetensors *f = NULL;

    DT_TRY(dt_path_join(path, folder, dt_checkpoint_file_name[which]));
    DT_TRY(dt_safetensors_open(&f, path));
    const dt_status st = dt_finite_file(f, path);
    dt_safetensors_close(f);
    return st;
}

/* A folder under another checkpoint's name would be taken for newer or older than it is. */
static dt_status verify_name(const char *folder, int64_t run_step)
{
    dt_checkpoint_name name;

    if (dt_checkpoint_name_of(folder, &name) && name.step != run_step)
        return dt_fail(DT_FORMAT, "checkpoint %s: state.json has run_step %lld, the "
                                  "folder's name another: it was renamed",
                       folder, (long long)run_step);
    return DT_OK;
}

static dt_status verify_content(const char *path)
{
    dt_checkpoint_state state;
    dt_manifest m;
    void *block = NULL;
    dt_status st = DT_OK;

    DT_TRY(dt_manifest_sizes(path, &m));
    DT_TRY(dt_calloc(&block, BLOCK, 1, "reading a checkpoint"));
    for (size_t i = 0; i < DT_CHECKPOINT_FILES && st == DT_OK; i++)
        st = verify_file(path, dt_checkpoint_file_name[i], &m.file[i], block);
    free(block);
    DT_TRY(st);
    DT_TRY(dt_checkpoint_json_read(path, &state, NULL));
    DT_TRY(verify_name(path, state.at.run_step));
    DT_TRY(verify_tensors(path, DT_CHECKPOINT_MODEL));
    return verify_tensors(path, DT_CHECKPOINT_MOMENTUM);
}

dt_status dt_checkpoint_verify(const char *path)
{
    struct stat info;

    if (stat(path, &info) != 0)
        return dt_fail(errno == EIO ? DT_IO : DT_NOINPUT, "checkpoint %s: %s", path,
                       strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return dt_fail(DT_NOINPUT, "checkpoint %s is no folder", path);
    return verify_content(path);
}

/* ---- Which ------------------------------------------------------------------------------ */

static bool is_there(const char *folder, const char *name)
{
    char path[PATH_MAX];
    struct stat info;
    const int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n > 0 && (size_t)n < sizeof path && stat(path, &info) == 0;
}

/* A torn one may hold any of its files; its name alone is enough. */
static bool is_checkpoint(const char *path)
{
    dt_checkpoint_name name;

    if (is_there(path, "checkpoints"))
        return false;
    return is_there(path, "MANIFEST") || is_there(path, "state.json") ||
           dt_checkpoint_name_of(path, &name);
}

bool dt_checkpoint_holds(const char *folder)
{
    static const char below[] = "/checkpoints";
    const size_t length = sizeof below - 1;
    char path[PATH_MAX];
    dt_checkpoint_name name;

    if (is_there(folder, "MANIFEST") || dt_checkpoint_name_of(folder, &name))
        return true;
    if (!realpath(folder, path))
        return false;
    for (char *at = strstr(path, below); at; at = strstr(at + 1, below)) {
        if (at[length] != '/' && at[length] != '\0')
            continue;
        *at = '\0';
        const bool run = is_there(path, "options.yaml");
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

/* The newest of a list, oldest first, that is valid; *gone: one went meanwhile. */
static dt_status find_newest(const char *folder, const dt_checkpoint_name *list,
                             size_t count, char found[PATH_MAX], bool *gone)
{
    for (size_t i = count; i-- > 0;) {
        char path[PATH_MAX];
        DT_TRY(dt_path_join(path, folder, list[i].text));
        const dt_status st = dt_checkpoint_verify(path);
        if (st == DT_OK) {
            memcpy(found, path, sizeof path);
            return DT_OK;
        }
        if (st != DT_FORMAT && st != DT_IO && st != DT_NOINPUT)
            return st;
        if (dt_checkpoint_gone(path))
            *gone = true;
        else
            dt_warn("%s; skipped", dt_fail_text());
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
    char folder[PATH_MAX];

    found[0] = '\0';
    if (access(path, F_OK) != 0)
        return dt_fail(DT_NOINPUT, "%s: %s: name a run folder or a checkpoint", path,
                       strerror(errno));
    if (is_checkpoint(path)) {
        DT_TRY(dt_checkpoint_verify(path));
        if (strlen(path) >= PATH_MAX)
            return dt_fail(DT_NOINPUT, "%.200s...: the path is too long", path);
        snprintf(found, PATH_MAX, "%s", path);
        return DT_OK;
    }
    DT_TRY(dt_path_join(folder, path, is_there(path, "checkpoints") ? "checkpoints" : "."));
    return find_within(folder, -1, INT64_MAX, found);
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
    if (is_there(path, "checkpoints")) {
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

/* ---- Its numbers -------------------------------------------------------------------------- */

static dt_status load_numbers(const char *path, const dt_snapshot *into)
{
    const char *normalize = into->options ? into->options->normalize : NULL;
    const dt_weights momentum = {.net = into->model.net, .master = into->momentum};
    char file[PATH_MAX];

    DT_TRY(dt_path_join(file, path, dt_checkpoint_file_name[DT_CHECKPOINT_MODEL]));
    DT_TRY(dt_model_load(&into->model, file, normalize));
    DT_TRY(dt_path_join(file, path, dt_checkpoint_file_name[DT_CHECKPOINT_MOMENTUM]));
    return dt_model_load(&momentum, file, normalize);
}

dt_status dt_checkpoint_load(const char *path, const dt_snapshot *into, dt_progress *at)
{
    char saved[DT_DIGEST_CHARS], now[DT_DIGEST_CHARS];
    dt_checkpoint_state state;
    dt_digest d;

    DT_TRY(dt_checkpoint_verify(path));
    DT_TRY(dt_checkpoint_json_read(path, &state, NULL));
    DT_TRY(dt_checkpoint_text(path, "state_hash", saved, sizeof saved));
    DT_TRY(load_numbers(path, into));
    DT_TRY(dt_state_hash(&into->model, into->momentum, state.at.epoch, state.at.step, &d));
    dt_digest_text(d, now);
    if (strcmp(saved, now) != 0)
        return dt_fail(DT_FORMAT,
                       "checkpoint %s was saved with state_hash %s, what was read has "
                       "%s: damaged while it was read",
                       path, saved, now);
    *at = state.at;
    return DT_OK;
}
