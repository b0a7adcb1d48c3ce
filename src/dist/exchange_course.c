/* exchange_course.c - the four methods of the CS744 course. Two are blocking, after backward, and
 * exact, because rank 0 sums in the order of the tree. In the other two MPI chooses the order of
 * addition, so bits belong to np. */
#include "exchange_row.h"

/* ---- Stars around rank 0 ----------------------------------------------------------- */

/* Rank 0 gathers a tensor's partial sums there, in the order of the operands of x->fold. */
static size_t star_extra(const dt_exchange *x, int rank)
{
    const int received = x->fold.operands - dt_exchange_partials(x, 0);
    const size_t most = (size_t)DT_MAX(received, x->comm->world - 1); /* the sum to each, too */
    size_t longest = 0;

    for (size_t i = 0; i < x->tensors; i++)
        longest = DT_MAX(longest, x->tensor[i].count);
    return rank == 0 ? most * longest : 0;
}

/* x->sum = the sum of these and of its own partial sums. */
static void star_sum(dt_exchange *x, dt_span tensor)
{
    void *sum = x->sum + tensor.first;

    for (int i = 0; i < x->fold.operands; i++)
        x->operand[i] = (dt_operand){.at = i < x->partials ? dt_exchange_slot(x, i) + tensor.first
                                                           : x->extra + (size_t)(i - x->partials) *
                                                                            tensor.count};
    dt_fold_run(&x->fold, &dt_fold_f32, x->operand, &sum, tensor.count, x->scratch, 1);
}

/* ---- The first: per tensor, gather to rank 0, sum, scatter --------------------------- */

/* x->state: floats and displacements for MPI, [2][world] */
static dt_status gather_open(dt_exchange *x)
{
    int *count = NULL, most = 0; /* floats, which MPI takes as int */

    DT_TRY(dt_calloc(&count, 2 * (size_t)x->comm->world, sizeof *count, "the exchange"));
    x->state = count;
    return dt_comm_count(star_extra(x, 0), &most);
}

/* The partial sums of all ranks but 0, in their order. */
static dt_status gather_partials(dt_exchange *x, dt_span tensor)
{
    const int rank = x->comm->rank, floats = (int)tensor.count;
    const int some = x->partials > 0; /* one element of nothing is a message, which none receives */
    int *count = x->state, *displace = count + x->comm->world;
    MPI_Datatype mine; /* this rank's, which lie in slots */
    MPI_Request request;

    for (int r = 1; r < x->comm->world; r++) {
        count[r] = dt_exchange_partials(x, r) * floats;
        displace[r] = (x->fold.start[r] - x->fold.start[1]) * floats;
        if (rank == 0 || rank == r)
            dt_exchange_count(x, (size_t)count[r] * sizeof(float), rank == r, rank == 0);
    }
    DT_MPI(MPI_Type_create_hvector(x->partials, floats, (MPI_Aint)(x->floats * sizeof(float)),
                                   MPI_FLOAT, &mine));
    DT_MPI(MPI_Type_commit(&mine));
    DT_MPI(MPI_Igatherv(rank == 0 ? MPI_IN_PLACE : x->memory + tensor.first, some, mine, x->extra,
                        count, displace, MPI_FLOAT, 0, x->mpi, &request));
    DT_TRY(dt_comm_wait(x->comm, &request, 1));
    DT_MPI(MPI_Type_free(&mine));
    return DT_OK;
}

/* The course's scatter hands out one copy of the sum per rank; so does this. */
static dt_status gather_scatter(dt_exchange *x, dt_span tensor)
{
    const int rank = x->comm->rank, floats = (int)tensor.count;
    int *count = x->state, *displace = count + x->comm->world;
    float *sum = x->sum + tensor.first;
    MPI_Request request;

    for (int r = 1; r < x->comm->world; r++) {
        count[r] = floats;
        displace[r] = (r - 1) * floats;
        if (rank == 0)
            memcpy(x->extra + displace[r], sum, tensor.count * sizeof *sum);
        if (rank == 0 || rank == r)
            dt_exchange_count(x, tensor.count * sizeof(float), rank == 0, rank == r);
    }
    count[0] = 0;
    DT_MPI(MPI_Iscatterv(x->extra, count, displace, MPI_FLOAT, rank == 0 ? MPI_IN_PLACE : sum,
                         rank == 0 ? 0 : floats, MPI_FLOAT, 0, x->mpi, &request));
    return dt_comm_wait(x->comm, &request, 1);
}

static dt_status gather_tensor(dt_exchange *x, dt_span tensor)
{
    DT_TRY(gather_partials(x, tensor));
    if (x->comm->rank == 0)
        star_sum(x, tensor);
    return gather_scatter(x, tensor);
}

const dt_exchange_row dt_exchange_row_gather = {
    .name = "gather",
    .exact = true,
    .extra = star_extra,
    .open = gather_open,
    .tensor = gather_tensor,
};

/* ---- The second: per tensor, a star of isend and irecv with waits --------------------- */

static dt_status p2p_tensor(dt_exchange *x, dt_span tensor)
{
    const bool hub = x->comm->rank == 0;
    const int first = hub ? 1 : x->comm->rank, end = hub ? x->comm->world : first + 1;
    float *sum = x->sum + tensor.first;
    MPI_Request *r = x->request;
    int n = 0;

    for (int of = first; of < end; of++)
        for (int part = 0; part < dt_exchange_partials(x, of); part++, n++) {
            float *partial = hub ? x->extra + (size_t)n * tensor.count
                                 : dt_exchange_slot(x, part) + tensor.first;
            DT_TRY(dt_exchange_message(x, !hub, partial, tensor.count, DT_LEAF_PLAIN, hub ? of : 0,
                                       part, &r[n]));
        }
    DT_TRY(dt_comm_wait(x->comm, r, n));
    if (hub)
        star_sum(x, tensor);
    for (int of = first; of < end; of++)
        DT_TRY(dt_exchange_message(x, hub, sum, tensor.count, DT_LEAF_PLAIN, hub ? of : 0, 0,
                                   &r[of - first]));
    return dt_comm_wait(x->comm, r, end - first);
}

const dt_exchange_row dt_exchange_row_p2p = {
    .name = "p2p",
    .exact = true,
    .extra = star_extra,
    .tensor = p2p_tensor,
};

/* ---- The third: an MPI_Allreduce per tensor, after backward ---------------------------- */

/* Start MPI's allreduce of this rank's partial sums of the span into x->sum, which is beside them:
 * in place Open MPI 4.1 would take a binomial tree, whose root carries log2(world)
 * as much. MPI does not say what it moves: counted is the least, 2 (world - 1) / world of the span
 * each way. */
static dt_status reduce_start(dt_exchange *x, dt_span span, MPI_Request *r)
{
    const size_t world = (size_t)x->comm->world, bytes = span.count * sizeof(float);
    float *own = dt_exchange_slot(x, 0) + span.first;
    int count = 0;

    DT_TRY(dt_comm_count(span.count, &count));
    for (int part = 1; part < x->partials; part++) /* left to right */
        dt_fold_f32.add(own, own, dt_exchange_slot(x, part) + span.first, span.count);
    DT_MPI(MPI_Iallreduce(own, x->sum + span.first, count, MPI_FLOAT, MPI_SUM, x->mpi, r));
    dt_exchange_count(x, 2 * (world - 1) * bytes / world, 1, 1);
    return DT_OK;
}

static dt_status allreduce_tensor(dt_exchange *x, dt_span tensor)
{
    DT_TRY(reduce_start(x, tensor, x->request));
    return dt_comm_wait(x->comm, x->request, 1);
}

const dt_exchange_row dt_exchange_row_allreduce = {
    .name = "allreduce",
    .beside = true,
    .tensor = allreduce_tensor,
};

/* ---- The fourth, as DistributedDataParallel does it: an allreduce per bucket ------------- */

/* As backward completes it; all are awaited after the last. */
static dt_status buckets_start(dt_exchange *x, size_t b)
{
    return reduce_start(x, x->bucket[b], &x->request[b]);
}

static dt_status buckets_advance(dt_exchange *x, size_t b, bool *done)
{
    int complete = 0;

    DT_MPI(MPI_Test(&x->request[b], &complete, MPI_STATUS_IGNORE));
    *done = complete != 0;
    return DT_OK;
}

const dt_exchange_row dt_exchange_row_buckets = {
    .name = "buckets",
    .beside = true,
    .start = buckets_start,
    .advance = buckets_advance,
};
