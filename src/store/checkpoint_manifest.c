/* checkpoint_manifest.c - MANIFEST: written last, read first. */
#include "checkpoint_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

static const char heading[] = "dtrain checkpoint ";
enum { VERSION = 1 };

size_t dt_manifest_text(const dt_manifest *m, char out[DT_MANIFEST_CHARS])
{
    char hash[DT_DIGEST_CHARS];
    size_t used = (size_t)snprintf(out, DT_MANIFEST_CHARS, "%s%d\n", heading, VERSION);

    for (size_t i = 0; i < DT_CHECKPOINT_FILES; i++) { /* at most 80 characters each */
        dt_digest_text(m->file[i].digest, hash);
        used += (size_t)snprintf(out + used, DT_MANIFEST_CHARS - used, "%s %20" PRIu64 " %s\n",
                                 hash, m->file[i].bytes, dt_checkpoint_file_name[i]);
    }
    dt_digest_text(dt_hash_bytes(out, used), hash);
    return used + (size_t)snprintf(out + used, DT_MANIFEST_CHARS - used, "%s MANIFEST\n", hash);
}

/* Whether the last line has the hash of all before it. */
static bool is_hashed(const char *text, size_t length)
{
    enum { LAST = DT_DIGEST_CHARS - 1 + sizeof " MANIFEST\n" - 1 };
    char hash[DT_DIGEST_CHARS];

    if (length < LAST)
        return false;
    const size_t before = length - LAST;
    dt_digest_text(dt_hash_bytes(text, before), hash);
    return strncmp(text + before, hash, sizeof hash - 1) == 0;
}

/* A later version says so itself, in its first line. */
static dt_status check_version(const char *folder, const char *text, size_t length)
{
    int version = 0;

    if (strncmp(text, heading, sizeof heading - 1) == 0 &&
        sscanf(text + sizeof heading - 1, "%9d", &version) == 1 && version > VERSION)
        return dt_fail(is_hashed(text, length) ? DT_UNSUPPORTED : DT_FORMAT,
                       "checkpoint %s: MANIFEST has format %d, this program reads %d: "
                       "take the program that wrote it",
                       folder, version, VERSION);
    return dt_fail(DT_FORMAT, "checkpoint %s: MANIFEST is damaged, or the save did not end",
                   folder);
}

/* One line's numbers; that the line has nothing else shows when it is rendered again. */
static const char *parse_line(const char *at, dt_written *w)
{
    int used = 0;

    if (sscanf(at, "%16" SCNx64 "%16" SCNx64 " %20" SCNu64 " %*[a-z.]%n", &w->digest.high,
               &w->digest.low, &w->bytes, &used) != 3 ||
        used == 0)
        return NULL;
    return at + used;
}

dt_status dt_manifest_read(const char *folder, dt_manifest *m)
{
    char text[DT_MANIFEST_CHARS], again[DT_MANIFEST_CHARS];
    size_t length = 0;

    *m = (dt_manifest){0};
    DT_TRY(dt_checkpoint_file_read(folder, "MANIFEST", text, sizeof text, &length));
    const char *at = strchr(text, '\n');
    for (size_t i = 0; i < DT_CHECKPOINT_FILES && at; i++)
        at = parse_line(at + 1, &m->file[i]);
    if (!at || dt_manifest_text(m, again) != length || memcmp(text, again, length) != 0)
        return check_version(folder, text, length);
    return DT_OK;
}

dt_status dt_manifest_sizes(const char *folder, dt_manifest *m)
{
    char path[PATH_MAX];
    struct stat info;

    DT_TRY(dt_manifest_read(folder, m));
    for (size_t i = 0; i < DT_CHECKPOINT_FILES; i++) {
        const char *name = dt_checkpoint_file_name[i];
        DT_TRY(dt_path_join(path, folder, name));
        if (lstat(path, &info) != 0)
            return dt_fail(dt_checkpoint_blame(), "checkpoint %s: %s: %s", folder, name,
                           strerror(errno));
        if (!S_ISREG(info.st_mode))
            return dt_fail(DT_FORMAT, "checkpoint %s: %s is no regular file", folder, name);
        if ((uint64_t)info.st_size != m->file[i].bytes)
            return dt_fail(DT_FORMAT, "checkpoint %s: %s has %lld bytes, MANIFEST says %llu: torn",
                           folder, name, (long long)info.st_size,
                           (unsigned long long)m->file[i].bytes);
    }
    return DT_OK;
}

dt_status dt_manifest_compare(const dt_manifest *m, const char *folder, dt_checkpoint_file which,
                              dt_written read)
{
    char has[DT_DIGEST_CHARS], wants[DT_DIGEST_CHARS];

    dt_digest_text(read.digest, has);
    dt_digest_text(m->file[which].digest, wants);
    if (read.bytes == m->file[which].bytes && strcmp(has, wants) == 0)
        return DT_OK;
    return dt_fail(DT_FORMAT,
                   "checkpoint %s: %s is damaged: its %llu bytes have the hash %s, "
                   "MANIFEST says %s",
                   folder, dt_checkpoint_file_name[which], (unsigned long long)read.bytes, has,
                   wants);
}
