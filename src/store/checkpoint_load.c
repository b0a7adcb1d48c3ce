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

/* Whether the numbers, as they are read now, have the hash that was saved; *now: theirs. */
static dt_status load_hashed(const dt_checkpoint *c, const dt_snapshot *into, const char *saved,
                             char now[DT_DIGEST_CHARS], bool *same)
{
    const dt_progress *at = &c->state.at;
    dt_digest d;

    DT_TRY(load_numbers(c->path, into));
    DT_TRY(dt_state_hash(&into->model, into->momentum, at->epoch, at->step, &d));
    dt_digest_text(d, now);
    *same = strcmp(saved, now) == 0;
    return DT_OK;
}

/* After dt_checkpoint_check. Memory that goes wrong once does not cost a checkpoint. */
static dt_status load_checked(const dt_checkpoint *c, const dt_snapshot *into, dt_progress *at)
{
    char saved[DT_DIGEST_CHARS], now[DT_DIGEST_CHARS];
    bool same = false;

    DT_TRY(dt_checkpoint_text(c, "state_hash", saved, sizeof saved));
    DT_TRY(load_hashed(c, into, saved, now, &same));
    if (!same) {
        DT_TRY(load_hashed(c, into, saved, now, &same));
        if (same)
            dt_warn("checkpoint %s: what was first read had another state_hash; read again it is "
                    "right: this machine's memory may be bad",
                    c->path);
    }
    if (!same)
        return dt_fail(DT_FORMAT,
                       "checkpoint %s was saved with state_hash %s, its numbers have %s, read "
                       "twice: they are not those that the run had",
                       c->path, saved, now);
    *at = c->state.at;
    return DT_OK;
}

dt_status dt_checkpoint_load(const dt_checkpoint *c, const dt_snapshot *into, dt_progress *at)
{
    DT_TRY(dt_checkpoint_check(c));
    return load_checked(c, into, at);
}

/* The bytes first: what a hash does not vouch for is not worth reading. */
dt_status dt_checkpoint_try(const char *path, dt_progress *at, char hash[DT_DIGEST_CHARS])
{
    dt_model_read r = {.net = NULL};
    dt_checkpoint *c = NULL;
    dt_options o;
    dt_model_meta meta;
    dt_status st = DT_OK;

    DT_GO(st, dt_checkpoint_open(&c, path), out);
    DT_GO(st, dt_checkpoint_check(c), out);
    dt_options_init(&o);
    DT_GO(st, dt_options_read_model(&r, path, &o, &meta), out);
    const dt_snapshot into = {.model = r.state, .momentum = r.momentum};
    DT_GO(st, load_checked(c, &into, at), out);
    st = dt_checkpoint_text(c, "state_hash", hash, DT_DIGEST_CHARS);

out:
    dt_model_read_close(&r);
    dt_checkpoint_close(c);
    return st;
}
