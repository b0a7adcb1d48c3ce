/* checkpoint_verify.c - whether every byte of a checkpoint is right. */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "checkpoint_internal.h"

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

static dt_status verify_file(const dt_checkpoint *c, dt_checkpoint_file which, void *block)
{
    const char *name = dt_checkpoint_file_name[which];
    char path[PATH_MAX];
    dt_hash *h = NULL;
    uint64_t bytes = 0;
    dt_status st = DT_OK;

    DT_TRY(dt_path_join(path, c->path, name));
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return dt_fail(DT_IO, "checkpoint %s: %s: %s", c->path, name, dt_open_error());
    DT_GO(st, dt_hash_open(&h), out);
    if (!hash_file(fd, h, block, &bytes)) {
        st = dt_fail(DT_IO, "checkpoint %s: reading %s, byte %llu: %s", c->path, name,
                     (unsigned long long)bytes, strerror(errno));
        goto out;
    }
    st = dt_manifest_compare(&c->manifest, c->path, which, (dt_written){bytes, dt_hash_digest(h)});

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

/* A folder under another checkpoint's name, or a link of such a name, would be taken for newer or
 * older than it is. */
static dt_status verify_name(const char *folder, int64_t run_step)
{
    const char *slash = strrchr(folder, '/');
    dt_checkpoint_name called, name;
    const bool linked =
        dt_checkpoint_name_parse(slash ? slash + 1 : folder, &called) && called.step != run_step;

    if (linked || (dt_checkpoint_name_of(folder, &name) && name.step != run_step))
        return dt_fail(DT_FORMAT,
                       "checkpoint %s: state.json has run_step %lld, the "
                       "folder's name another: it was renamed, or is a link to another",
                       folder, (long long)run_step);
    return DT_OK;
}

dt_status dt_checkpoint_bytes(const dt_checkpoint *c)
{
    void *block = NULL;
    dt_status st = DT_OK;

    DT_TRY(dt_calloc(&block, BLOCK, 1, "reading a checkpoint"));
    for (int i = 0; i < DT_CHECKPOINT_FILES && st == DT_OK; i++)
        if (i != DT_CHECKPOINT_STATE) /* of which c holds what was compared */
            st = verify_file(c, (dt_checkpoint_file)i, block);
    free(block);
    return st;
}

dt_status dt_checkpoint_check(const dt_checkpoint *c)
{
    DT_TRY(dt_checkpoint_bytes(c));
    DT_TRY(verify_name(c->path, c->state.at.run_step));
    DT_TRY(verify_tensors(c->path, DT_CHECKPOINT_MODEL));
    return verify_tensors(c->path, DT_CHECKPOINT_MOMENTUM);
}

dt_status dt_checkpoint_verify(const char *path)
{
    dt_checkpoint *c = NULL;

    DT_TRY(dt_checkpoint_open(&c, path));
    const dt_status st = dt_checkpoint_check(c);
    dt_checkpoint_close(c);
    return st;
}
