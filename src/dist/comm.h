/* comm.h - what a communicator holds, and how MPI is called; private to src/dist and to
 * the extras that call it (tests/lint/layers.sh). */
#ifndef DT_COMM_H
#define DT_COMM_H
#include "dist.h"

#include <mpi.h>

enum { DT_COMM_LEFTS = 64 };
struct dt_comm_own {
    /* MPI_COMM_NULL if MPI was not started. `machine` holds the ranks of this machine, `team`
     * the ranks of it that are treated as one node. */
    MPI_Comm all, machine, team;
    bool started;     /* MPI was started, so it must be finished */
    bool crowded;     /* the machine has more ranks than cores: waiting must not spin */
    int *node_start;  /* [nodes + 1] first rank of each node; owned; NULL without MPI */
    int split;        /* how many nodes this machine counts as */
    int few;          /* for dt_fold_group: DT_FEW, but in tests */
    bool quiet;       /* see dt_comm_quiet */
    MPI_Comm left[DT_COMM_LEFTS]; /* [lefts] see dt_comm_leave */
    int lefts;
    bool torn;
    int machine_cpus; /* in the union of the machine's affinity masks, or the quota */
};

/* Tags of messages on `all`; lanes of messages take DT_TAG_LANES and those above. */
enum { DT_TAG_CLOCK, DT_TAG_GROUP, DT_TAG_REDUCE, DT_TAG_LANES };

/* *c = a communicator, whose own->all the caller sets. DT_NOMEM. Local. Then dt_comm_learn finds
 * out the rest; MPI_COMM_NULL: a world of one. Close it after a failure, too. Collective. */
dt_status dt_comm_create(dt_comm **c) DT_MUST_CHECK;
dt_status dt_comm_learn(dt_comm *c) DT_MUST_CHECK;

/* Fail with what MPI reports; `call` begins with the function's name. */
dt_status dt_comm_error(int code, const char *call) DT_MUST_CHECK;

#define DT_MPI(call)                                                                               \
    do {                                                                                           \
        const int code_ = (call);                                                                  \
        if (code_ != MPI_SUCCESS)                                                                  \
            return dt_comm_error(code_, #call);                                                    \
    } while (0)

/* *count = n. DT_UNSUPPORTED: MPI's int cannot hold it. */
dt_status dt_comm_count(size_t n, int *count) DT_MUST_CHECK;

/* Begin to send `at` to rank `other` of `on`, or to receive it. A count of 0: there is no message,
 * and *r is MPI_REQUEST_NULL. DT_UNSUPPORTED: as above. */
dt_status dt_comm_message(MPI_Comm on, bool sends, const void *at, size_t count, MPI_Datatype type,
                          int other, int tag, MPI_Request *r) DT_MUST_CHECK;

/* Called between two tests of a request that is not complete. A rank that waits must leave its
 * core to a rank that computes; the first tests follow each other closely, because most messages
 * are short. */
void dt_comm_idle(const dt_comm *c, unsigned *looks);

/* *done = whether all requests are complete; or wait until they are. */
dt_status dt_comm_test(MPI_Request *request, int count, bool *done) DT_MUST_CHECK;
dt_status dt_comm_wait(const dt_comm *c, MPI_Request *request, int count) DT_MUST_CHECK;

/* A closed exchange's communicator is kept until it is known whether a rank was in mid-step (torn):
 * messages under way would meet those of the next one to which MPI gives its number. */
void dt_comm_leave(dt_comm *c, MPI_Comm closed, bool torn);
void dt_comm_free_left(dt_comm *c, bool torn); /* torn: they are left to the process */

/* Whether this rank has a failure of which the others do not know: they wait elsewhere, so no
 * collective may be called any more, and main ends all ranks. */
bool dt_comm_alone(void);
#endif
