/* move.c - calls that move numbers and compute nothing. */
#include "lib.h"

/* No rank leaves the comparison before all have come. */
int dtd_barrier(dtd_group *g)
{
    DTD_TRY(dtd_enter(DTD_IN_barrier, &g));
    return dtd_leave(dtd_compare(g, DT_OK, NULL));
}

int dtd_broadcast(const dtd_tensor *list, size_t count, int root, dtd_group *g)
{
    enum { MOST = 1 << 30 }; /* bytes at once: MPI counts in int */
    const dtd_arg arg = {"root", root, NULL};
    int64_t piece = 0;

    DTD_TRY(dtd_enter(DTD_IN_broadcast, &g));
    dt_status st = dtd_check_rank(g, "root", root);
    if (st == DT_OK)
        st = dtd_check_list(list, count, true);
    DTD_TRY(dtd_compare(g, st, &(dtd_args){&arg, 1, list, count, NULL}));
    for (size_t i = 0; i < count; i++) {
        const size_t bytes = list[i].count * dtd_size_of(list[i].type);
        for (size_t at = 0; at < bytes; at += MOST) {
            dt_activity_slice(piece++);
            DTD_TRY(
                dt_comm_bcast(g->comm, (char *)list[i].data + at, DT_MIN(bytes - at, MOST), root));
        }
    }
    return dtd_leave(DT_OK);
}

/* ---- Each rank's part ---------------------------------------------------------------- */

/* A call that moves a part for each rank. */
typedef struct parts {
    dtd_call call;
    char *all, *mine;
    const size_t *counts;
    dtd_type type;
    int root;      /* the rank that has `all`; -1: all ranks */
    bool outwards; /* from `all` to `mine` */
} parts;

static dt_status parts_check(const parts *p, const dtd_group *g)
{
    size_t total = 0;

    if (p->root != -1)
        DT_TRY(dtd_check_rank(g, "root", p->root));
    DT_TRY(dtd_check_type(p->type));
    DT_TRY(dtd_check_counts(p->counts, g, &total));
    DT_TRY(dtd_check_data(p->mine, p->counts[g->comm->rank], "mine"));
    return p->root == -1 || p->root == g->comm->rank ? dtd_check_data(p->all, total, "all") : DT_OK;
}

static int parts_run(const parts *p, dtd_group *g)
{
    const dtd_arg arg[] = {{"the type", 0, dtd_type_name(p->type)}, {"root", p->root, NULL}};
    const size_t each = dtd_size_of(p->type);
    char *at = p->all;

    DTD_TRY(dtd_enter(p->call, &g));
    DTD_TRY(
        dtd_compare(g, parts_check(p, g), &(dtd_args){.arg = arg, .args = 2, .counts = p->counts}));
    const int rank = g->comm->rank;
    const bool has_all = p->root == -1 || p->root == rank;
    for (int r = 0; r < g->comm->world; r++) {
        const size_t bytes = p->counts[r] * each, own = p->counts[rank] * each;
        const bool other_has_all = p->root == -1 || p->root == r;
        if (r == rank && has_all && bytes > 0)
            memmove(p->outwards ? p->mine : at, p->outwards ? at : p->mine, bytes);
        if (r != rank && has_all)
            DTD_TRY(dt_post_message(&g->post, DTD_LANE_PARTS, p->outwards, at, bytes, r));
        if (r != rank && other_has_all)
            DTD_TRY(dt_post_message(&g->post, DTD_LANE_PARTS, !p->outwards, p->mine, own, r));
        at += has_all ? bytes : 0;
    }
    return dtd_leave(dt_post_wait(&g->post));
}

/* The callers' arrays are written only where the call says so. */
static void *plain(const void *x)
{
    return (void *)(uintptr_t)x;
}

int dtd_all_gather(void *all, const void *mine, const size_t *counts, dtd_type type, dtd_group *g)
{
    return parts_run(&(parts){DTD_IN_all_gather, all, plain(mine), counts, type, -1, false}, g);
}

int dtd_gather(void *all, const void *mine, const size_t *counts, dtd_type type, int root,
               dtd_group *g)
{
    return parts_run(&(parts){DTD_IN_gather, all, plain(mine), counts, type, root, false}, g);
}

int dtd_scatter(void *mine, const void *all, const size_t *counts, dtd_type type, int root,
                dtd_group *g)
{
    return parts_run(&(parts){DTD_IN_scatter, plain(all), mine, counts, type, root, true}, g);
}

/* ---- Messages ------------------------------------------------------------------------ */

struct dtd_request { /* one message */
    dt_post post;
};

static int message(dtd_call call, dtd_request **r, const void *x, size_t count, dtd_type type,
                   int peer, dtd_group *g)
{
    const size_t bytes = count * dtd_size_of(type);
    dtd_request *made = NULL;

    DTD_TRY(dtd_enter(call, &g));
    if (r)
        *r = NULL;
    DTD_TRY(dtd_check_data(r, 1, "r"));
    DTD_TRY(dtd_check_type(type));
    DTD_TRY(dtd_check_data(x, count, "x"));
    DTD_TRY(dtd_check_rank(g, "the other rank", peer));
    if (count == 0)
        return dtd_leave(dt_fail(DT_USAGE, "a message of no numbers"));
    if (peer == g->comm->rank)
        return dtd_leave(dt_fail(DT_USAGE, "rank %d: a message to itself", peer));
    DTD_TRY(dt_calloc(&made, 1, sizeof *made, "messages"));
    made->post.comm = g->comm;
    const dt_status st =
        dt_post_message(&made->post, DTD_LANE_USER, call == DTD_IN_isend, x, bytes, peer);
    if (st == DT_OK)
        *r = made;
    else
        DT_FREE(made->post.message, made);
    return dtd_leave(st);
}

int dtd_isend(dtd_request **r, const void *x, size_t count, dtd_type type, int to, dtd_group *g)
{
    return message(DTD_IN_isend, r, x, count, type, to, g);
}

int dtd_irecv(dtd_request **r, void *x, size_t count, dtd_type type, int from, dtd_group *g)
{
    return message(DTD_IN_irecv, r, x, count, type, from, g);
}

int dtd_wait(dtd_request *r)
{
    DTD_TRY(dtd_enter(DTD_IN_wait, NULL));
    DTD_TRY(dtd_check_data(r, 1, "r"));
    const dt_status st = dt_post_wait(&r->post);
    DT_FREE(r->post.message, r);
    return dtd_leave(st);
}
