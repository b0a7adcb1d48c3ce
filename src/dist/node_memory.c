/* node_memory.c - one block of memory per node, or private ones where room is short.
 *
 * Open MPI places a window's segment in a file. When the directory is full, the call
 * fails on one rank and hangs the others, so the room is asked for first. */
#include "comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>

struct dt_node_mem {
    MPI_Win window; /* MPI_WIN_NULL: private */
    dt_slab slab;   /* private memory */
};

enum { NODE_ALIGN = 64 }; /* windows begin anywhere (offset 264 was seen) */

/* Open MPI's windows (osc/sm) lie where the user set it, or by default. Asked once: MPI_T
 * opens every component of the library, which takes tens of milliseconds. */
static void node_directory(dt_comm *c)
{
    MPI_T_cvar_handle handle;
    int threads = 0, index = 0, count = 0;

    if (c->node_directory[0])
        return;
    snprintf(c->node_directory, sizeof c->node_directory, "/dev/shm");
    if (MPI_T_init_thread(MPI_THREAD_FUNNELED, &threads) != MPI_SUCCESS)
        return;
    if (MPI_T_cvar_get_index("osc_sm_backing_directory", &index) == MPI_SUCCESS &&
        MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) == MPI_SUCCESS) {
        if (count > 0 && count < DT_PATH_CHARS)
            MPI_T_cvar_read(handle, c->node_directory);
        MPI_T_cvar_handle_free(&handle);
    }
    MPI_T_finalize();
}

dt_status dt_node_mem_room(dt_comm *c, uint64_t *room)
{
    struct statvfs fs;

    *room = UINT64_MAX;
    if (c->world == 1)
        return DT_OK;
    node_directory(c);
    if (c->node_rank == 0 && c->node_ranks > 1)
        *room = statvfs(c->node_directory, &fs) == 0
                    ? (uint64_t)fs.f_bavail * fs.f_frsize / (uint64_t)c->split
                    : 0;
    return dt_comm_min_u64(c, room, 1);
}

/* Whether all nodes have the room; rank 0 says so if not. Collective. */
static dt_status node_has_room(dt_comm *c, size_t bytes, const char *what, bool *room)
{
    uint64_t left = 0;

    DT_TRY(dt_node_mem_room(c, &left));
    *room = left >= bytes + DT_NODE_MEM_OVERHEAD;
    if (!*room)
        dt_note("%s: %.1f MB do not fit into %s with %.1f MB free, so every rank keeps "
                "its own copy; to share one, enlarge it (docker run --shm-size) or "
                "name another local directory with mpirun --mca "
                "osc_sm_backing_directory DIR",
                what, (double)bytes * 1e-6, c->node_directory, (double)left * 1e-6);
    return DT_OK;
}

/* The node's first rank holds all of the segment. Its pages are taken at once, so that
 * the room which was asked for stays ours; every rank takes a share of them, which puts
 * them near ranks of all sockets. */
static dt_status node_share(dt_node_mem *m, dt_comm *c, size_t bytes, void **memory)
{
    const size_t ranks = (size_t)c->node_ranks, rank = (size_t)c->node_rank;
    const size_t from = bytes / ranks * rank,
                 to = rank + 1 == ranks ? bytes : bytes / ranks * (rank + 1);
    void *own = NULL, *base = NULL;
    MPI_Aint size = 0;
    int unit = 0;

    DT_MPI(MPI_Win_allocate_shared(rank == 0 ? (MPI_Aint)(bytes + NODE_ALIGN) : 0, 1,
                                   MPI_INFO_NULL, c->team, &own, &m->window));
    DT_MPI(MPI_Win_shared_query(m->window, 0, &size, &unit, &base));
    /* Mappings begin at pages, so every rank skips the same number of bytes. */
    *memory = (char *)base + (NODE_ALIGN - (uintptr_t)base % NODE_ALIGN) % NODE_ALIGN;
    memset((char *)*memory + from, 0, to - from);
    return DT_OK;
}

dt_status dt_node_mem_create(dt_node_mem **m, dt_comm *c, size_t bytes,
                             const char *what, void **memory, bool *shared)
{
    dt_node_mem *made = NULL;
    void *block = NULL;
    bool room = true;
    dt_status st;

    DT_TRY(dt_comm_agree(c, dt_calloc(&made, 1, sizeof *made, what)));
    made->window = MPI_WIN_NULL;
    DT_GO(st, node_has_room(c, bytes, what, &room), out);
    if (room && c->node_ranks > 1) {
        st = node_share(made, c, bytes, &block);
    } else {
        st = dt_slab_create(&made->slab, bytes, what);
        block = made->slab.mem;
    }
    st = dt_comm_agree(c, st);
    if (st != DT_OK) { /* some ranks may have a window and some not: nobody frees it */
        made->window = MPI_WIN_NULL;
        goto out;
    }
    *m = made;
    *memory = block;
    *shared = room;

out:
    if (st != DT_OK)
        dt_node_mem_destroy(made);
    return st;
}

void dt_node_mem_destroy(dt_node_mem *m)
{
    if (!m)
        return;
    if (m->window != MPI_WIN_NULL && !dt_comm_alone() &&
        MPI_Win_free(&m->window) != MPI_SUCCESS)
        dt_log_error("MPI cannot free the memory that the node's ranks share");
    dt_slab_destroy(&m->slab);
    free(m);
}
