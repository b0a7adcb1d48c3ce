/* checkpoint_load.c - a checkpoint's numbers. */
#include "store.h"

#include "checkpoint_internal.h"

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

dt_status dt_checkpoint_load(const dt_checkpoint *c, const dt_snapshot *into, dt_progress *at)
{
    char saved[DT_DIGEST_CHARS], now[DT_DIGEST_CHARS];
    const dt_progress *from = &c->state.at;
    dt_digest d;

    DT_TRY(dt_checkpoint_check(c));
    DT_TRY(dt_checkpoint_text(c, "state_hash", saved, sizeof saved));
    DT_TRY(load_numbers(c->path, into));
    DT_TRY(dt_state_hash(&into->model, into->momentum, from->epoch, from->step, &d));
    dt_digest_text(d, now);
    if (strcmp(saved, now) != 0)
        return dt_fail(DT_FORMAT,
                       "checkpoint %s was saved with state_hash %s, what was read has "
                       "%s: damaged while it was read",
                       c->path, saved, now);
    *at = *from;
    return DT_OK;
}
