/* comm.h - the communicator's inside and MPI's calling manners; private to src/dist. */
#ifndef DT_COMM_H
#define DT_COMM_H
#include "dist.h"

#include <mpi.h>

typedef struct dt_comm_kept dt_comm_kept;

struct dt_comm {
    /* Errors are returned; MPI_COMM_NULL where MPI was not started. `machine` holds the
     * ranks that share a machine, `team` those that are treated as a node of it. */
    MPI_Comm all, machine, team;
    bool started; /* MPI was started, so it must be finished */
    bool crowded; /* more ranks on this machine than cores: waiting must not spin */
    int rank, world, node_rank, node_ranks, nodes;
    int node;           /* index of mine */
    int *node_start;    /* [nodes + 1] first rank of each node; owned; NULL without MPI */
    int split;          /* nodes that this machine is treated as */
    int machine_cpus;   /* in the union of the machine's affinity masks, or the quota */
    char node_why[256]; /* see dt_node_mem_create */
    double waited_s;    /* see dt_comm_waited */
    dt_comm_kept *kept; /* records of collectives; NULL: none are kept; owned */
};

/* Record what MPI reports; `call` begins with the function's name. */
dt_status dt_comm_error(int code, const char *call) DT_MUST_CHECK;

#define DT_MPI(call)                                                                               \
    do {                                                                                           \
        const int code_ = (call);                                                                  \
        if (code_ != MPI_SUCCESS)                                                                  \
            return dt_comm_error(code_, #call);                                                    \
    } while (0)

/* The one way from a size to MPI's int. */
dt_status dt_comm_count(size_t n, int *count) DT_MUST_CHECK;

/* Called between two fruitless looks at a request. A rank that waits must leave its
 * core to a rank that computes; the first looks follow each other closely, because most
 * messages are short. */
void dt_comm_idle(const dt_comm *c, unsigned *looks);

/* Until all requests are complete. */
dt_status dt_comm_wait(const dt_comm *c, MPI_Request *request, int count) DT_MUST_CHECK;

/* Behind each collective, which began at that time; returns the seconds since. Local. */
double dt_comm_record_end(dt_comm *c, double began, const char *name, size_t bytes);

/* x[i] = the smallest over ranks. Collective. */
dt_status dt_comm_min_u64(dt_comm *c, uint64_t *x, size_t count) DT_MUST_CHECK;

/* Whether this rank holds a failure that the others do not know of: they wait
 * elsewhere, so nothing collective may be called any more, and main ends all ranks. */
bool dt_comm_alone(void);
#endif
