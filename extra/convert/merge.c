/* merge.c - dtrain merge: what is in pieces as one file, or in other pieces. */
#include "convert.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static dt_status merge(const dt_safetensors *f, const dt_options *o)
{
    char shown[PATH_MAX], name[DT_PORTION_NAME];

    if (o->shards == 0) {
        DT_TRY(dt_out_new(o->out));
        return dt_safetensors_copy(f, &DT_TARGET(o->out), 0, 0);
    }
    if (mkdir(o->out, 0777) != 0)
        return dt_fail(DT_CANTCREATE, "cannot make folder '%s': %s; choose another --out", o->out,
                       strerror(errno));
    for (int k = 0; k < (int)o->shards; k++) {
        DT_TRY(dt_path_join(shown, o->out, dt_portion_name(k, name)));
        DT_TRY(dt_safetensors_copy(f, &DT_TARGET(shown), k, (int)o->shards));
    }
    return DT_OK;
}

dt_status dt_merge(const dt_options *o, const char *const *path, size_t count)
{
    char newest[PATH_MAX], shown[PATH_MAX];
    dt_file_bytes *file = NULL;
    dt_safetensors *f = NULL;

    if (count == 1 && o->shards == 0)
        return dt_average(o, path, count);
    if (o->shards > DT_MAX_PORTIONS)
        return dt_fail(DT_CONFIG, "--shards %lld: at most %d files make a model",
                       (long long)o->shards, DT_MAX_PORTIONS);
    dt_status st = dt_calloc(&file, count, sizeof *file, "files to merge");
    for (size_t i = 0; i < count && st == DT_OK; i++)
        snprintf(file[i].path, sizeof file[i].path, "%s", path[i]);
    if (st == DT_OK && count == 1)
        st = dt_newest_model(path[0], newest);
    if (st == DT_OK)
        st = count == 1 ? dt_model_open(&f, newest, shown)
                        : dt_safetensors_join(&f, path[0], file, count);
    if (st == DT_OK)
        st = merge(f, o);
    dt_safetensors_close(f);
    free(file);
    return st;
}
