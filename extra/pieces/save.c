/* save.c - checkpoints of which every rank writes a portion: numbers that it has in memory.
 * Rank 0 makes the folder, and gives it its name once all have written. */
#include "pieces.h"
#include "train/session.h"

enum { WRITTEN = DT_CHECKPOINT_FILES * sizeof(dt_written) };

/* A file that is there for this moment alone: no host has it from an earlier run. */
static dt_status make_mark(const dt_session *s, char mark[PATH_MAX])
{
    snprintf(mark, PATH_MAX, "%s/.seen-%lld-%d", s->folder.path, (long long)(1e6 * dt_time()),
             (int)getpid());
    const int fd = open(mark, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        return dt_fail(DT_CANTCREATE, "cannot create '%s': %s", mark, strerror(errno));
    close(fd);
    return DT_OK;
}

static dt_status check(const dt_session *s, dt_run *r)
{
    char mark[PATH_MAX] = "";
    dt_status st = DT_OK;

    if (r->comm->world > DT_MAX_PORTIONS)
        return dt_fail(DT_CONFIG, "--save-shards: %d ranks, at most %d", r->comm->world,
                       DT_MAX_PORTIONS);
    DT_TRY(dt_comm_agree(r->comm, s->leads ? make_mark(s, mark) : DT_OK));
    DT_TRY(dt_comm_bcast(r->comm, mark, sizeof mark, 0));
    if (!dt_path_exists(mark))
        st = dt_fail(DT_CANTCREATE,
                     "%s of rank 0's run folder is not seen here: --save-shards needs a disk that "
                     "all hosts share; give an --out there, or leave it out",
                     mark);
    st = dt_comm_agree(r->comm, st);
    if (s->leads)
        unlink(mark);
    return st;
}

/* This rank's numbers, where they are. */
static void take_portion(const dt_run *r, dt_snapshot *s, dt_portion portion[DT_CHECKPOINT_FILES])
{
    const bool averages = r->average.net != NULL;
    const dt_domain *home = &r->domain[DT_SLAB_HOME], *cut = &r->domain[DT_SLAB_CUT];

    s->model = averages ? r->average : r->weights;
    s->trained = averages ? r->weights : r->average;
    s->momentum = home->momentum.mem;
    s->rank = r->comm->rank;
    s->portions = r->comm->world;
    const float *const homes[DT_CHECKPOINT_FILES] = {[DT_CHECKPOINT_MODEL] = s->model.master,
                                                     [DT_CHECKPOINT_MOMENTUM] = s->momentum,
                                                     [DT_CHECKPOINT_TRAINED] = s->trained.master};
    const float *const cuts[DT_CHECKPOINT_FILES] = {
        [DT_CHECKPOINT_MODEL] = averages ? cut->average.mem : cut->master.mem,
        [DT_CHECKPOINT_MOMENTUM] = cut->momentum.mem,
        [DT_CHECKPOINT_TRAINED] = cut->master.mem};
    for (dt_checkpoint_file i = 0; i < DT_CHECKPOINT_FILES; i++) {
        portion[i] = (dt_portion){s->rank, s->portions, r->model, r->grid.parts, homes[i], cuts[i]};
        s->portion[i] = &portion[i];
    }
}

static dt_status save(dt_session *s, dt_run *r, const dt_position *at, dt_save_how how)
{
    char folder[PATH_MAX] = "";
    dt_written mine[DT_CHECKPOINT_FILES], *all = NULL;
    dt_portion portion[DT_CHECKPOINT_FILES];
    dt_snapshot snapshot;
    dt_saving *w = NULL;

    dt_status st = dt_session_snapshot(s, r, at, how, &snapshot);
    take_portion(r, &snapshot, portion);
    if (st == DT_OK && s->leads)
        st = dt_calloc(&all, (size_t)r->comm->world, WRITTEN, "a list of files");
    if (st == DT_OK && s->leads)
        st = dt_saving_begin(&w, &s->folder, at->run_step, r->comm->world);
    DT_GO(st, dt_comm_agree(r->comm, st), out);
    if (s->leads)
        snprintf(folder, sizeof folder, "%s", dt_saving_path(w));
    DT_GO(st, dt_comm_bcast(r->comm, folder, sizeof folder, 0), out);
    DT_GO(st, dt_comm_agree(r->comm, dt_saving_write(folder, &snapshot, mine)), out);
    DT_GO(st, dt_comm_gather(r->comm, mine, all, WRITTEN), out);
    if (s->leads) {
        st = dt_saving_end(w, all);
        w = NULL;
        s->keep.unproved = !snapshot.proved;
        if (st == DT_OK)
            st = dt_checkpoint_prune(&s->folder, at->run_step, &s->keep);
    }
    st = dt_comm_agree(r->comm, st);

out:
    dt_saving_abandon(w);
    free(all);
    /* an outcome of all ranks, which was printed if it is a failure */
    if (st == DT_OK || st == DT_NUMERIC || strcmp(r->o.on_save_error, "stop") == 0)
        return st;
    if (s->leads)
        dt_warn("saving a checkpoint failed; training goes on (--on-save-error continue)");
    return DT_OK;
}

void dt_extra_pieces(void)
{
    static const struct dt_pieces files = {dt_pieces_join, dt_pieces_open, dt_portion_put};
    static const struct dt_session_pieces saves = {check, save};

    dt_pieces = &files;
    dt_session_pieces = &saves;
}
