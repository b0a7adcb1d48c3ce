/* Whether every byte of a checkpoint is right. */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint_internal.h"
#include "finite.h"

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
