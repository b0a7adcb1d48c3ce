/* closing.c - an exchange leaves nothing behind: no message without a receiver, and none that the
 * next exchange could take for its own. */
#include "ranks.h"

#include "gradients.h"

static int freed; /* calls of MPI_Comm_free */
int __real_MPI_Comm_free(void *c);
int __wrap_MPI_Comm_free(void *c);
int __wrap_MPI_Comm_free(void *c)
{
    freed++;
    return __real_MPI_Comm_free(c);
}

/* An exchange that is closed in mid-step has messages under way; no rank waits for them, and the
 * next exchange is not confused by them: MPI cannot use its communicator again, on no rank. */
TEST(closed_in_mid_step)
{
    static const char *const row[] = {"tree", "buckets", "gather", "shared"};
    const int world = comm->world, rank = comm->rank;

    for (int r = 0; r < 8; r++) {
        const exchange_case k = {.row = row[r / 2], .shards = world, .bucket_bytes = 4};
        const bool writes = r % 2 == 0 || rank == 0, sends = writes && world > 1 && r < 4;
        dt_exchange *x;
        trial t;

        trial_open(&t, k); /* frees those of before */
        if (writes) {
            float *leaf = leaf_take(t.x);
            write_leaves(&t, &leaf, rank, 1, 0, floats / 2);
        }
        x = t.x;
        t.x = NULL;
        freed = 0;
        assert_ok(dt_comm_barrier(comm));
        if (dt_exchange_close(x)) {
            assert_false(sends);
            assert_ok(dt_comm_barrier(comm)); /* no rank works in memory that is given back */
            trial_close(&t);
        } else {
            assert_true(sends);
            trial_keep(&t);
            assert_ok(dt_comm_barrier(comm));
        }
        assert_int_equal(freed, 0);
        trial_open(&t, k);
        assert_int_equal(freed, world > 1 && r >= 4);
        backward(&t);
        update(&t);
        t.checked = 0;
        check_weights(&t);
        trial_close(&t);
        assert_int_equal(freed, world > 1 && r >= 4);
    }
    assert_true(dt_exchange_close(NULL));
}

static int from_nothing; /* what a rank without partial sums gave to MPI_Igatherv, summed up */
int __real_MPI_Igatherv(const void *from, int count, void *type, void *to, const int *counts,
                        const int *at, void *to_type, int root, void *c, void *request);
int __wrap_MPI_Igatherv(const void *from, int count, void *type, void *to, const int *counts,
                        const int *at, void *to_type, int root, void *c, void *request);
int __wrap_MPI_Igatherv(const void *from, int count, void *type, void *to, const int *counts,
                        const int *at, void *to_type, int root, void *c, void *request)
{
    if (comm->rank != root && counts[comm->rank] == 0)
        from_nothing += count;
    return __real_MPI_Igatherv(from, count, type, to, counts, at, to_type, root, c, request);
}

/* Rank 0 expects nothing from it, and an element of an empty type would be a message, too. */
TEST(nothing_is_no_message)
{
    dt_activity place = {.slice = -1};

    dt_activity_use(&place);
    run_case((exchange_case){.row = "gather", .shards = (comm->world + 1) / 2}, "gather");
    dt_activity_use(NULL);
    assert_int_equal(from_nothing, 0);
    assert_int_equal(place.slice, comm->world > 1 ? TENSORS - 1 : -1); /* the watch sees progress */
}

int main(int argc, char **argv)
{
    lay_out();
    ranks_open(argc, argv);
    return ranks_close(tests_run(NULL, NULL));
}
