/* checkpoint_folder.c - whether `checkpoints` still leads to a run's own: while the run is on,
 * somebody may put another folder in its place, or a link to another run's. */
#include "store.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "checkpoint_internal.h"

static bool read_manifest(const char *folder, const char *name, char out[DT_MANIFEST_CHARS])
{
    char path[PATH_MAX];
    const bool ok =
        dt_path_join(path, folder, name) == DT_OK &&
        dt_checkpoint_file_read(path, "MANIFEST", out, DT_MANIFEST_CHARS, NULL) == DT_OK;

    dt_fail_clear();
    return ok;
}

void dt_checkpoint_folder_note(dt_checkpoint_folder *f, const char *run)
{
    struct stat info;
    double age_s = 0;

    *f = (dt_checkpoint_folder){.there = false};
    if (dt_path_join(f->path, run, "checkpoints") != DT_OK || stat(f->path, &info) != 0)
        return;
    f->there = true;
    f->device = info.st_dev;
    f->inode = info.st_ino;
    if (dt_checkpoint_last(run, f->last, &age_s) != DT_OK ||
        !read_manifest(f->path, f->last, f->manifest))
        f->last[0] = '\0';
    dt_fail_clear();
}

dt_status dt_checkpoint_folder_check(const dt_checkpoint_folder *f)
{
    dt_checkpoint_name *list = NULL;
    char manifest[DT_MANIFEST_CHARS];
    struct stat info;
    size_t count = 0;

    if (stat(f->path, &info) != 0 ||
        (f->there && info.st_dev == f->device && info.st_ino == f->inode))
        return DT_OK;
    DT_TRY(dt_checkpoint_list(f->path, &list, &count));
    free(list);
    if (count == 0 || (f->last[0] && read_manifest(f->path, f->last, manifest) &&
                       strcmp(manifest, f->manifest) == 0))
        return DT_OK;
    return dt_fail(DT_CANTCREATE,
                   "%s leads to checkpoints that are not this run's: they are left alone, and none "
                   "is saved there; put this run's in their place",
                   f->path);
}
