/* tf_adapter.c - the calls of CANN's adapter for TensorFlow, with the numbers of its guide: [1.0]
 * on 8 ranks has the sum 8.0 and the mean 1.0.
 *
 *     cc tf_adapter.c -o adapter $(pkg-config --cflags --libs dtrain-dist)
 *     mpirun -np 8 ./adapter */
#include <dtrain/dist.h>
#include <stdio.h>
#include <stdlib.h>

static void must(int code)
{
    if (code != DTD_OK) {
        fprintf(stderr, "rank %d: %s\n", dtd_rank(NULL), dtd_error());
        exit(code);
    }
}

/* all_reduce(values, reduction=..., group=...) of one value */
static double reduced(double value, dtd_op op, dtd_group *group)
{
    must(dtd_all_reduce(&value, 1, DTD_F64, op, group));
    return value;
}

int main(int argc, char **argv)
{
    must(dtd_init(&argc, &argv));
    const int rank = dtd_rank(NULL), size = dtd_size(NULL);

    /* npu_dist.broadcast(values, root_rank=0): a list that the program chooses */
    float weights[3] = {(float)rank, (float)rank + 1, (float)rank + 2};
    int64_t step = 100 + rank;
    const dtd_tensor values[] = {{weights, 3, DTD_F32, "weights"}, {&step, 1, DTD_I64, "step"}};
    must(dtd_broadcast(values, 2, 0, NULL));
    if (rank == size - 1)
        printf("broadcast: weights %.1f %.1f %.1f, step %d\n", (double)weights[0],
               (double)weights[1], (double)weights[2], (int)step);
    must(dtd_barrier(NULL)); /* so that the lines come in this order */

    const double sum = reduced(1.0, DTD_SUM, NULL), mean = reduced(1.0, DTD_MEAN, NULL);
    const double most = reduced(rank, DTD_MAX, NULL), least = reduced(rank, DTD_MIN, NULL);
    const double product = reduced(rank + 1, DTD_PROD, NULL);

    /* A group: every second rank. Only its ranks make it, and call with it. */
    dtd_group *even = NULL;
    double evens = 0;
    if (rank % 2 == 0) {
        int *ranks = malloc((size_t)size * sizeof *ranks), count = 0;
        if (ranks == NULL)
            return DTD_NOMEM;
        for (int r = 0; r < size; r += 2)
            ranks[count++] = r;
        must(dtd_group_new(&even, ranks, count, "even"));
        evens = reduced(1.0, DTD_SUM, even);
        free(ranks);
    }

    /* shard_and_rebatch_dataset(dataset, global_bs=64): this rank's part of each batch */
    int64_t first, count;
    dtd_shard(64, NULL, &first, &count);
    if (rank == 0) {
        printf("ranks %d, on this host %d\n", size, dtd_local_size());
        printf("sum %.1f, mean %.1f, max %.1f, min %.1f, prod %.1f\n", sum, mean, most, least,
               product);
        printf("sum in the group of every second rank: %.1f\n", evens);
        printf("batch of 64: %d from %d; learning rate 0.1 x ranks: %.1f\n", (int)count, (int)first,
               dtd_scale_lr(0.1, NULL));
    }
    dtd_group_free(even);
    return dtd_finalize();
}
