/* hybrid_parallel_net.c - HybridParallelNet of MindSpore's Ascend tutorial: a weight of 512 x 128
 * of which each rank keeps and trains only its columns. The program calls all_reduce itself.
 *
 *     cc hybrid_parallel_net.c -o hybrid $(pkg-config --cflags --libs dtrain-dist)
 *     mpirun -np 2 ./hybrid
 *
 *   there                                               here
 *   Parameter(weight, layerwise_parallel=True)          weight: this rank's columns, never sent
 *   x = self.fc(x, self.weight)                         product()
 *   x = self.reduce(x, -1)                              tree() over this rank's columns
 *   x = self.allreduce(x)                               dtd_all_reduce(x, ..., DTD_SUM, NULL)
 *
 * 1, 2, 4 or 8 ranks print the same losses: columns are added as a binary tree, of which the
 * ranks' columns are subtrees, and all_reduce is the tree above them. */
#include <dtrain/dist.h>
#include <stdio.h>
#include <stdlib.h>

enum { IN = 512, OUT = 128, BATCH = 32, STEPS = 10 };
static float weight[IN][OUT]; /* columns [0, mine) are used: 512 x 64 on two ranks */
static float input[BATCH][IN], target[BATCH], product[OUT], y[BATCH];

static void must(int code)
{
    if (code != DTD_OK) {
        fprintf(stderr, "rank %d: %s\n", dtd_rank(NULL), dtd_error());
        exit(code);
    }
}

/* A random number in [-1, 1) that belongs to key. */
static float noise(uint64_t key)
{
    key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9U;
    key = (key ^ (key >> 27)) * 0x94d049bb133111ebU;
    return (float)((double)((key ^ (key >> 31)) >> 40) / (1 << 23) - 1);
}

/* The sum of x [count], count a power of two. */
static float tree(const float *x, int64_t count)
{
    return count == 1 ? x[0] : tree(x, count / 2) + tree(x + count / 2, count / 2);
}

/* y = the net's output, whole on all ranks. */
static void forward(int64_t mine)
{
    for (int b = 0; b < BATCH; b++) {
        for (int64_t c = 0; c < mine; c++) {
            product[c] = 0;
            for (int i = 0; i < IN; i++)
                product[c] += input[b][i] * weight[i][c];
        }
        y[b] = tree(product, mine);
    }
    must(dtd_all_reduce(y, BATCH, DTD_F32, DTD_SUM, NULL));
}

/* Every column's gradient is made of y alone: nothing is sent for the weight. */
static void backward(int64_t mine)
{
    for (int b = 0; b < BATCH; b++) {
        const float error = 2 * (y[b] - target[b]) / BATCH;
        for (int i = 0; i < IN; i++)
            for (int64_t c = 0; c < mine; c++)
                weight[i][c] -= 1e-5F * error * input[b][i];
    }
}

int main(int argc, char **argv)
{
    must(dtd_init(&argc, &argv));
    int64_t first, mine;
    dtd_shard(OUT, NULL, &first, &mine);
    if (OUT % dtd_size(NULL) != 0 || (mine & (mine - 1)) != 0) {
        fprintf(stderr, "the number of ranks must be a power of two, at most %d\n", OUT);
        return DTD_USAGE;
    }
    for (int i = 0; i < IN; i++) /* a weight's start belongs to its place in the whole */
        for (int64_t c = 0; c < mine; c++)
            weight[i][c] = 0.01F * noise((uint64_t)(i * OUT + first + c + 1));
    for (int b = 0; b < BATCH; b++) {
        target[b] = noise((uint64_t)(b + 1) << 32);
        for (int i = 0; i < IN; i++)
            input[b][i] = noise((uint64_t)(b + 1) << 32 | (uint64_t)(i + 1));
    }
    for (int step = 0; step < STEPS; step++) {
        float loss[BATCH];
        forward(mine);
        for (int b = 0; b < BATCH; b++)
            loss[b] = (y[b] - target[b]) * (y[b] - target[b]);
        backward(mine);
        if (dtd_rank(NULL) == 0)
            printf("step %d loss %.9g\n", step, (double)(tree(loss, BATCH) / BATCH));
    }
    return dtd_finalize();
}
