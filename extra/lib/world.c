/* world.c - all ranks: how the library begins and ends, and groups of them. */
#include "lib.h"

#include "compress/compress.h"
#include "dist/comm.h"
#include "watch/watch.h"

/* The library's one state: what NULL means as a group, and its watch. */
static dtd_group *all;
static dt_watch *watch;

static const dt_comm *comm_of(const dtd_group *g)
{
    return g ? g->comm : all ? all->comm : NULL;
}

dt_status dtd_enter(dtd_call call, dtd_group **g)
{
    dtd_call_begin(call);
    if (g && !*g)
        *g = all;
    return all ? DT_OK : dt_fail(DT_USAGE, "%s before dtd_init", dtd_call_name[call]);
}

static void group_destroy(dtd_group *g)
{
    if (!g)
        return;
    dt_allreduce_release(&g->combine);
    dt_comm_close(g->comm);
    DT_FREE(g->post.message, g);
}

/* *g takes c, which was made with that outcome; on failure c is closed. */
static dt_status group_make(dtd_group **g, dt_comm *c, dt_status st, const char *name)
{
    if (st == DT_OK)
        st = dt_calloc(g, 1, sizeof **g, "a group of ranks");
    if (st != DT_OK) {
        dt_comm_close(c);
        return st;
    }
    (*g)->comm = (*g)->post.comm = (*g)->combine.comm = c;
    snprintf((*g)->name, sizeof (*g)->name, "%s", name);
    return DT_OK;
}

/* ---- MPI --------------------------------------------------------------------------- */

/* Its state in this process, which may have started it itself. */
typedef enum state { BEFORE_MPI, IN_MPI, AFTER_MPI } state;

static state mpi_now(void)
{
    int began = 0, ended = 0;

    if (MPI_Initialized(&began) != MPI_SUCCESS || MPI_Finalized(&ended) != MPI_SUCCESS || !began)
        return BEFORE_MPI;
    return ended ? AFTER_MPI : IN_MPI;
}

/* *c = a world of the ranks of *mpi_comm, in its order; NULL: of MPI_COMM_WORLD. MPI runs, and
 * dt_comm_close does not finish it. A failure is this rank's alone. */
static dt_status comm_adopt(dt_comm **c, const void *mpi_comm)
{
    const MPI_Comm from = mpi_comm ? *(const MPI_Comm *)mpi_comm : MPI_COMM_WORLD;

    if (from == MPI_COMM_NULL)
        return dt_fail(DT_USAGE, "the communicator is MPI_COMM_NULL");
    DT_TRY(dt_comm_create(c));
    DT_MPI(MPI_Comm_dup(from, &(*c)->own->all));
    return dt_comm_learn(*c);
}

/* c = a world of these ranks, in this order: they alone call it. Messages on it and on other
 * groups never meet. */
static dt_status comm_take(dt_comm *c, const int *ranks, int count)
{
    const MPI_Comm from = all->comm->own->all;
    MPI_Group whole, some;

    dt_comm_quiet(c);
    if (from == MPI_COMM_NULL)
        return dt_comm_learn(c);
    DT_MPI(MPI_Comm_group(from, &whole));
    DT_MPI(MPI_Group_incl(whole, count, ranks, &some));
    DT_MPI(MPI_Comm_create_group(from, some, DT_TAG_GROUP, &c->own->all));
    DT_MPI(MPI_Group_free(&some));
    DT_MPI(MPI_Group_free(&whole));
    return dt_comm_learn(c);
}

/* ---- Beginning and end ------------------------------------------------------------- */

static const char *call_name(const void *plan, int call)
{
    (void)plan;
    return dtd_call_name[call];
}

/* Rank 0's variable counts. Where ranks of a machine cannot share memory there is no watch. */
static dt_status watch_open(dt_comm *c)
{
    dt_watch_opts o = {
        .name = call_name, .names = DTD_CALLS, .library = "DTD_STALL_SECONDS", .abort_s = 300};
    const char *text = getenv(o.library), *end = "";
    dt_status st = DT_OK;

    if (text && text[0] && c->rank == 0 &&
        (!dt_real_parse(text, &end, &o.abort_s) || *end || o.abort_s < 0))
        st = dt_fail(DT_USAGE, "%s=%s is no number of seconds (0: never)", o.library, text);
    DT_TRY(dt_comm_agree(c, st));
    DT_TRY(dt_comm_bcast(c, &o.abort_s, sizeof o.abort_s, 0));
    if (c->world > 1 && o.abort_s > 0 && dt_watch_open(&watch, c, &o) != DT_OK)
        dt_fail_clear();
    return DT_OK;
}

/* adopt: the ranks of *mpi_comm. */
static dt_status begin(bool adopt, const void *mpi_comm, int *argc, char ***argv)
{
    const state mpi = mpi_now();
    dt_comm *c = NULL;

    dt_extra_compress();
    dtd_call_begin(DTD_IN_init);
    if (all)
        return dt_fail(DT_USAGE, "dtd_init was called already");
    if (mpi == AFTER_MPI)
        return dt_fail(DT_USAGE, "MPI is finished in this process, and cannot start again");
    if (adopt && (!mpi_comm || mpi != IN_MPI))
        return dt_fail(DT_USAGE, "dtd_init_mpi before MPI_Init, which dtd_init does, or of NULL");
    dt_status st =
        mpi == IN_MPI ? comm_adopt(&c, mpi_comm) : dt_comm_open(&c, dt_comm_launched(), argc, argv);
    if (st == DT_OK)
        dt_comm_quiet(c);
    if (st == DT_OK && mpi != IN_MPI)
        st = dt_comm_check_asked(c);
    DT_TRY(group_make(&all, c, st, "all ranks"));
    st = watch_open(c);
    if (st != DT_OK) {
        group_destroy(all);
        all = NULL;
    }
    return st;
}

int dtd_init(int *argc, char ***argv)
{
    return dtd_leave(begin(false, NULL, argc, argv));
}

int dtd_init_mpi(const void *mpi_comm)
{
    return dtd_leave(begin(true, mpi_comm, NULL, NULL));
}

/* A rank that comes late is still waited for, and watched. */
int dtd_finalize(void)
{
    DTD_TRY(dtd_enter(DTD_IN_finalize, NULL));
    const bool late = mpi_now() == AFTER_MPI && all->comm->own->all != MPI_COMM_NULL;
    const dt_status st = late ? dt_fail(DT_USAGE, "dtd_finalize after MPI_Finalize: call it before")
                              : dtd_compare(all, DT_OK, NULL);

    if (!late)
        DTD_TRY(st);
    all->comm->own->started &= !late;
    dt_watch_close(watch, 0);
    group_destroy(all); /* without MPI, since a failure is on record */
    watch = NULL;
    all = NULL;
    return dtd_leave(st);
}

/* ---- Groups ------------------------------------------------------------------------ */

int dtd_rank(const dtd_group *g)
{
    return comm_of(g) ? comm_of(g)->rank : -1;
}

int dtd_size(const dtd_group *g)
{
    return comm_of(g) ? comm_of(g)->world : -1;
}

int dtd_local_rank(void)
{
    return all ? all->comm->machine_rank : -1;
}

int dtd_local_size(void)
{
    return all ? all->comm->machine_ranks : -1;
}

/* Where a failure is on record, the communicator takes other ranks for lost. */
void dtd_group_free(dtd_group *g)
{
    dt_fail_clear();
    group_destroy(g);
}

/* Whether entry i is another rank that stands in the list for the first time. */
static bool is_other(const int *ranks, int i)
{
    bool other = ranks[i] >= 0 && ranks[i] < all->comm->world && ranks[i] != all->comm->rank;

    for (int k = 0; k < i && other; k++)
        other = ranks[k] != ranks[i];
    return other;
}

/* *here = whether this rank is in the list. */
static dt_status check_group(const int *ranks, int count, const char *name, bool *here)
{
    dt_status st = dtd_check_data(ranks, 1, "ranks");

    *here = false;
    for (int i = 0; i < count && ranks; i++) {
        const bool own = ranks[i] == all->comm->rank && !*here;
        if (st == DT_OK && !own && !is_other(ranks, i))
            st = dt_fail(DT_USAGE, "dtd_group_new: ranks[%d] is %d: ranks are 0 to %d, each once",
                         i, ranks[i], all->comm->world - 1);
        *here = *here || own;
    }
    if (st == DT_OK && !*here)
        return dt_fail(DT_USAGE, "dtd_group_new on rank %d, which is not in ranks",
                       all->comm->rank);
    if (st == DT_OK && (!name || strlen(name) >= sizeof all->name))
        return dt_fail(DT_USAGE, "dtd_group_new: the name is NULL, or has 128 characters or more");
    return st;
}

/* There is no communicator yet: each sends what it was called with to each, or why its own call
 * makes no sense, and all that list one another find what differs. */
static dt_status compare_ranks(const int *ranks, int count, const char *name, dt_status st)
{
    struct said {
        uint64_t key; /* 0: text is a failure */
        char text[248];
    } *said = NULL, *mine;
    dt_post *post = &all->post;
    const dt_status local = st;

    DT_TRY(dt_calloc(&said, (size_t)count + 1, sizeof *said, "a group of ranks"));
    mine = &said[count];
    if (local == DT_OK)
        mine->key = dt_hash_bytes(ranks, (size_t)count * sizeof *ranks).low ^
                    dt_hash_bytes(name, strlen(name)).high;
    size_t used = (size_t)snprintf(mine->text, sizeof mine->text, local == DT_OK ? "'%s':" : "%s",
                                   local == DT_OK ? name : dt_fail_text());
    for (int i = 0; i < count && used < sizeof mine->text - 12 && local == DT_OK; i++)
        used += (size_t)snprintf(mine->text + used, sizeof mine->text - used, " %d", ranks[i]);
    for (int i = 0; i < count; i++)
        for (int sends = 0; sends < 2 && is_other(ranks, i); sends++)
            DT_GO(st,
                  dt_post_message(post, DTD_LANE_GROUP, sends, sends ? mine : &said[i],
                                  sizeof *said, ranks[i]),
                  out);
    DT_GO(st, dt_post_wait(post), out);
    st = local;
    for (int i = 0; i < count && st == DT_OK; i++)
        if (is_other(ranks, i) && said[i].key == 0)
            st = dt_fail(DT_USAGE, "rank %d: %.247s", ranks[i], said[i].text);
        else if (is_other(ranks, i) && said[i].key != mine->key)
            st = dt_fail(DT_MISMATCH,
                         "ranks disagree on the group of dtd_group_new: rank %d has %s, "
                         "rank %d has %.247s",
                         all->comm->rank, mine->text, ranks[i], said[i].text);

out:
    free(said);
    return st;
}

int dtd_group_new(dtd_group **out, const int *ranks, int count, const char *name)
{
    dt_comm *c = NULL;
    bool here;

    DTD_TRY(dtd_enter(DTD_IN_group_new, NULL));
    if (!out)
        return dtd_leave(dt_fail(DT_USAGE, "dtd_group_new: g is NULL"));
    *out = NULL;
    dt_status st = check_group(ranks, count, name, &here);
    DTD_TRY(here ? compare_ranks(ranks, count, name, st) : st);
    dt_activity_waits();
    DTD_TRY(dt_comm_create(&c));
    return dtd_leave(group_make(out, c, comm_take(c, ranks, count), name));
}
