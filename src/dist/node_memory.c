/* node_memory.c - one block of memory per node.
 *
 * A memfd of the node's first rank, which the others open through /proc. It has no name, so
 * nothing of it outlives the ranks, however they end, and lies in no file system whose room
 * could be too little, as /dev/shm's is in containers. Its pages are reserved before they
 * are used: where they cannot be had, posix_fallocate says so, and no store ever meets a
 * missing page (SIGBUS). */
#include "comm.h"

#include <sys/mman.h>

static dt_status node_failed(const dt_slab *m, const char *step, int error)
{
    return dt_fail(DT_NOMEM,
                   "%.1f MB of memory cannot be shared by a node's ranks (%s: %s); raise its limit "
                   "of memory, start them in one container, or (dtrain alone) set "
                   "DT_SPLIT_NODES=N, which treats the N ranks of a node as N nodes",
                   (double)m->bytes * 1e-6, step, strerror(error));
}

static dt_status node_create(const dt_slab *m, dt_lent *s, int *fd)
{
    const uint64_t available = dt_memory_available();

    if (available > 0 && m->bytes > available) /* to reserve it would end other processes, too */
        return node_failed(m, "creating it", ENOMEM);
    *fd = memfd_create("dtrain", MFD_CLOEXEC);
    if (*fd < 0 || ftruncate(*fd, (off_t)m->bytes) != 0)
        return node_failed(m, "creating it", errno);
    const int error = dt_lend(*fd, s);
    return error ? node_failed(m, "creating it", error) : DT_OK;
}

/* Every rank reserves and touches a share of the pages, which puts them near ranks of all
 * sockets. */
static dt_status node_reserve(const dt_comm *c, dt_slab *m, int fd)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = m->bytes / page;
    const size_t ranks = (size_t)c->node_ranks, rank = (size_t)c->node_rank;
    const size_t from = pages * rank / ranks * page, to = pages * (rank + 1) / ranks * page;
    int error = 0;

    do
        error = to > from ? posix_fallocate(fd, (off_t)from, (off_t)(to - from)) : 0;
    while (error == EINTR);
    if (error)
        return node_failed(m, "reserving it", error);
    void *map = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return node_failed(m, "mapping it", errno);
    m->mem = m->map = map;
    m->map_bytes = m->bytes;
    memset((char *)map + from, 0, to - from);
    return DT_OK;
}

/* Collective over the node; the outcome is this rank's. The first rank's fd is to stay open until
 * all ranks have been here. */
static dt_status node_share(dt_slab *m, dt_comm *c, int *fd)
{
    dt_lent s = {.fd = -1};
    MPI_Request request;
    const dt_status st = c->node_rank == 0 ? node_create(m, &s, fd) : DT_OK;

    DT_MPI(MPI_Ibcast(&s, sizeof s, MPI_BYTE, 0, c->own->team, &request));
    DT_TRY(dt_comm_wait(c, &request, 1));
    if (s.fd < 0) /* the first rank knows why */
        return st;
    const int error = c->node_rank != 0 ? dt_borrow(&s, fd) : 0;
    return error ? node_failed(m, "finding it in /proc", error) : node_reserve(c, m, *fd);
}

dt_status dt_node_slab_create(dt_slab *s, dt_comm *c, size_t bytes, const char *what)
{
    const size_t pages = dt_align(DT_MAX(bytes, 1), (size_t)sysconf(_SC_PAGESIZE));
    int fd = -1;

    *s = (dt_slab){.bytes = pages};
    const dt_status st = dt_comm_agree(c, c->node_ranks > 1 ? node_share(s, c, &fd)
                                                            : dt_slab_create(s, bytes, what));
    if (fd >= 0)
        close(fd);
    if (st != DT_OK)
        dt_slab_destroy(s);
    return st;
}
