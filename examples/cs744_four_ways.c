/* cs744_four_ways.c - one small model whose gradients are added up in the four ways of CS744,
 * assignment 2: gather and scatter, send and receive, all_reduce, and DDP.
 *
 *     cc cs744_four_ways.c -o ways $(pkg-config --cflags --libs dtrain-dist)
 *     mpirun -np 4 ./ways
 *
 * A step is 8 leaves, and all four ways add them as one binary tree over the leaves: they print the
 * same losses on 1, 2, 4 and 8 ranks. (On 3, 5, 6 and 7 all_reduce differs: its tree is one over
 * ranks, the same only where each rank has a whole subtree of leaves.) */
#include <dtrain/dist.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IN = 16, SAMPLES = 8, LEAVES = 8, STEPS = 8 };
enum { LOSS = IN, COUNT }; /* the loss travels behind the gradient */

static float weights[COUNT], sum[COUNT];
static float own[LEAVES][COUNT], all[LEAVES][COUNT]; /* gradients of this rank's leaves, of all */
static size_t each[LEAVES];                          /* numbers in each rank's own */
static int64_t first, mine;                          /* this rank's leaves */
static dtd_ddp *buckets;

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

/* The gradient of a linear model's squared error over one leaf's samples. */
static void backward(float *gradient, int step, int64_t leaf)
{
    memset(gradient, 0, COUNT * sizeof *gradient);
    for (int s = 0; s < SAMPLES; s++) {
        const uint64_t key = (uint64_t)((step * LEAVES + leaf) * SAMPLES + s + 1) * 1000;
        float x[IN], error = 0.1F * noise(key);
        for (int i = 0; i < IN; i++) {
            x[i] = noise(key + 1 + (uint64_t)i);
            error += (weights[i] - (float)(i % 3)) * x[i];
        }
        for (int i = 0; i < IN; i++)
            gradient[i] += error * x[i] / SAMPLES;
        gradient[LOSS] += error * error / SAMPLES;
    }
}

/* x[0] = the sum of x [count], as a binary tree. */
static void tree(float (*x)[COUNT], int64_t count)
{
    for (int64_t half = 1; half < count; half *= 2)
        for (int64_t i = 0; i + half < count; i += 2 * half)
            for (int j = 0; j < COUNT; j++)
                x[i][j] += x[i + half][j];
}

/* Part 2a: rank 0 gathers all gradients, adds them, and scatters copies of the sum. */
static void gather_scatter(void)
{
    size_t counts[LEAVES];
    must(dtd_gather(all, own, each, DTD_F32, 0, NULL));
    tree(all, LEAVES);
    for (int r = 0; r < dtd_size(NULL); r++) {
        memmove(all[r], all[0], sizeof all[r]);
        counts[r] = COUNT;
    }
    must(dtd_scatter(sum, all, counts, DTD_F32, 0, NULL));
}

/* Part 2a, extra: the same by messages. */
static void send_receive(void)
{
    dtd_request *requests[LEAVES];
    const int rank = dtd_rank(NULL), size = dtd_size(NULL);
    if (rank != 0) {
        must(dtd_isend(&requests[0], own, each[rank], DTD_F32, 0, NULL));
        must(dtd_wait(requests[0]));
        must(dtd_irecv(&requests[0], sum, COUNT, DTD_F32, 0, NULL));
        must(dtd_wait(requests[0]));
        return;
    }
    memcpy(all, own, each[0] * sizeof all[0][0]);
    for (int r = 1; r < size; r++)
        must(dtd_irecv(&requests[r], all[r * LEAVES / size], each[r], DTD_F32, r, NULL));
    for (int r = 1; r < size; r++)
        must(dtd_wait(requests[r]));
    tree(all, LEAVES);
    memcpy(sum, all[0], sizeof sum);
    for (int r = 1; r < size; r++)
        must(dtd_isend(&requests[r], sum, COUNT, DTD_F32, r, NULL));
    for (int r = 1; r < size; r++)
        must(dtd_wait(requests[r]));
}

/* Part 2b: a rank adds its own leaves, all_reduce adds over ranks. */
static void all_reduce(void)
{
    tree(own, mine);
    memcpy(sum, own[0], sizeof sum);
    must(dtd_all_reduce(sum, COUNT, DTD_F32, DTD_SUM, NULL));
}

/* Part 3: buckets, which would travel while backward goes on; ddp_toy_model.c shows that. */
static void ddp(void)
{
    for (int64_t l = 0; l < mine; l++) {
        memcpy(sum, own[l], sizeof sum);
        must(dtd_ddp_ready(buckets, 0));
    }
    must(dtd_ddp_wait(buckets));
}

int main(int argc, char **argv)
{
    static void (*const ways[])(void) = {gather_scatter, send_receive, all_reduce, ddp};
    static const char *const names[] = {"gather_scatter", "send_receive", "all_reduce", "ddp"};
    must(dtd_init(&argc, &argv));
    if (dtd_size(NULL) > LEAVES)
        return DTD_USAGE;
    const dtd_tensor gradient = {sum, COUNT, DTD_F32, "weights and loss"};
    const dtd_ddp_opts opts = {.size = sizeof opts, .sum = 1, .leaves = LEAVES};
    must(dtd_ddp_new(&buckets, &gradient, 1, &opts, NULL));
    dtd_shard(LEAVES, NULL, &first, &mine);
    for (int r = 0, size = dtd_size(NULL); r < size; r++)
        each[r] = COUNT * (size_t)((r + 1) * LEAVES / size - r * LEAVES / size);
    for (int w = 0; w < 4; w++) {
        memset(weights, 0, sizeof weights);
        for (int step = 0; step < STEPS; step++) {
            for (int64_t l = 0; l < mine; l++)
                backward(own[l], step, first + l);
            ways[w]();
            for (int i = 0; i < LOSS; i++)
                weights[i] -= 0.5F * sum[i] / LEAVES;
            if (dtd_rank(NULL) == 0)
                printf("%s step %d loss %.9g\n", names[w], step, (double)(sum[LOSS] / LEAVES));
        }
    }
    dtd_ddp_free(buckets);
    return dtd_finalize();
}
