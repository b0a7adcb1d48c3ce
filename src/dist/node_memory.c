/* node_memory.c - one block of memory per node.
 *
 * A memfd of the node's first rank, which the others open through /proc. It has no name, so
 * nothing of it outlives the ranks, however they end, and lies in no file system whose room
 * could be too little, as /dev/shm's is in containers. Its pages are reserved before they
 * are used: where they cannot be had, posix_fallocate says so, and no store ever meets a
 * missing page (SIGBUS). */
#include "comm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct dt_node_mem {
    void *map; /* NULL: private, in slab, where the node has one rank */
    size_t bytes;
    dt_slab slab;
};

/* What can fail on a rank, with its errno: step << 16 | errno; 0 is success. */
static const char *const node_step[] = {"", "creating it", "finding it in /proc", "reserving it",
                                        "mapping it"};
enum { NODE_CREATE = 1, NODE_FIND, NODE_RESERVE, NODE_MAP };

static int64_t node_failed(int step, int error)
{
    return error ? (int64_t)step << 16 | error : 0;
}

static const char *node_why(dt_comm *c, size_t bytes, int64_t failed)
{
    snprintf(c->node_why, sizeof c->node_why,
             "%.1f MB of memory cannot be shared by a node's ranks (%s: %s)", (double)bytes * 1e-6,
             node_step[failed >> 16], strerror((int)(failed & 0xffff)));
    return c->node_why;
}

static int64_t node_create(dt_lent *s, size_t bytes, int *fd)
{
    *fd = memfd_create("dtrain", MFD_CLOEXEC);
    if (*fd < 0 || ftruncate(*fd, (off_t)bytes) != 0)
        return node_failed(NODE_CREATE, errno);
    return node_failed(NODE_CREATE, dt_lend(*fd, s));
}

/* Every rank reserves and touches a share of the pages, which puts them near ranks of all
 * sockets. */
static int64_t node_reserve(const dt_comm *c, dt_node_mem *m, int fd)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = m->bytes / page;
    const size_t ranks = (size_t)c->node_ranks, rank = (size_t)c->node_rank;
    const size_t from = pages * rank / ranks * page, to = pages * (rank + 1) / ranks * page;
    int error = 0;

    do
        error = to > from ? posix_fallocate(fd, (off_t)from, (off_t)(to - from)) : 0;
    while (error == EINTR);
    if (error)
        return node_failed(NODE_RESERVE, error);
    void *map = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return node_failed(NODE_MAP, errno);
    m->map = map;
    memset((char *)map + from, 0, to - from);
    return 0;
}

/* Collective over the node. *failed is this rank's. The first rank's fd is to stay open
 * until all ranks have been here. */
static dt_status node_share(dt_node_mem *m, dt_comm *c, int *fd, int64_t *failed)
{
    dt_lent s = {.fd = -1};
    MPI_Request request;

    *failed = c->node_rank == 0 ? node_create(&s, m->bytes, fd) : 0;
    if (c->node_ranks > 1) {
        DT_MPI(MPI_Ibcast(&s, sizeof s, MPI_BYTE, 0, c->team, &request));
        DT_TRY(dt_comm_wait(c, &request, 1));
    }
    if (s.fd >= 0 && c->node_rank != 0)
        *failed = node_failed(NODE_FIND, dt_borrow(&s, fd));
    if (s.fd >= 0 && *failed == 0)
        *failed = node_reserve(c, m, *fd);
    return DT_OK;
}

/* Errors are this rank's; *failed is the same on all. */
static dt_status node_fill(dt_node_mem *m, dt_comm *c, size_t bytes, const char *what,
                           int64_t *failed)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    dt_status st = DT_OK;
    int fd = -1;

    m->bytes = dt_align(bytes > 0 ? bytes : 1, page);
    if (c->node_ranks > 1)
        DT_TRY(node_share(m, c, &fd, failed));
    else
        st = dt_slab_create(&m->slab, bytes, what);
    st = dt_comm_agree(c, st);
    if (st == DT_OK)
        st = dt_comm_max_i64(c, failed, 1);
    if (fd >= 0)
        close(fd);
    return st;
}

dt_status dt_node_mem_create(dt_node_mem **m, dt_comm *c, size_t bytes, const char *what,
                             void **memory, const char **why)
{
    dt_node_mem *made = NULL;
    int64_t failed = 0;

    *memory = NULL;
    *why = NULL;
    DT_TRY(dt_comm_agree(c, dt_calloc(&made, 1, sizeof *made, what)));
    const dt_status st = node_fill(made, c, bytes, what, &failed);
    if (st != DT_OK || failed) {
        dt_node_mem_destroy(made);
        if (st == DT_OK)
            *why = node_why(c, bytes, failed);
        return st;
    }
    *m = made;
    *memory = made->map ? made->map : made->slab.mem;
    return DT_OK;
}

void dt_node_mem_destroy(dt_node_mem *m)
{
    if (!m)
        return;
    if (m->map && munmap(m->map, m->bytes) != 0)
        dt_log_error("cannot give back %zu bytes of shared memory: %s", m->bytes, strerror(errno));
    dt_slab_destroy(&m->slab);
    free(m);
}
