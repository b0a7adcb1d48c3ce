/* ddp_toy_model.c - the toy model of torch_npu's DDP guide: 10 to 10 to 5, and a layer that is
 * not used in every step.
 *
 *     cc ddp_toy_model.c -o toy $(pkg-config --cflags --libs dtrain-dist) && mpirun -np 4 ./toy
 *
 *   there                                               here
 *   dist.init_process_group("hccl", ...)                dtd_init(&argc, &argv)
 *   DDP(model, find_unused_parameters=True)             dtd_ddp_new; dtd_ddp_unused
 *   loss_fn(outputs, labels).backward()                 backward(); dtd_ddp_ready
 *   optimizer.step()                                    dtd_ddp_wait; sgd()
 *   dist.destroy_process_group()                        dtd_finalize()
 *
 * A step is 8 leaves of 20 samples, so all numbers of ranks up to 8 print the same losses. */
#include <dtrain/dist.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 20, IN = 10, MIDDLE = 10, OUT = 5, LEAVES = 8, STEPS = 40 };
enum { NET1_WEIGHT, NET1_BIAS, NET2_WEIGHT, NET2_BIAS, NET3_WEIGHT, LOSS, TENSORS };
static const size_t counts[TENSORS] = {MIDDLE * IN, MIDDLE, OUT *MIDDLE, OUT, OUT *IN, 1};
static const char *const names[TENSORS] = {"net1.weight", "net1.bias",   "net2.weight",
                                           "net2.bias",   "net3.weight", "loss"};
static float weights[TENSORS][MIDDLE * IN], gradient[TENSORS][MIDDLE * IN];

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

/* y [n] += w [n][m] x [m] */
static void multiply(float *y, const float *w, const float *x, int n, int m)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            y[i] += w[i * m + j] * x[j];
}

/* dw [n][m] += dy [n] x [m] */
static void multiply_back(float *dw, const float *dy, const float *x, int n, int m)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            dw[i * m + j] += dy[i] * x[j];
}

/* Adds one sample's gradient. net3 is a way around the hidden layer, if it is used. */
static void backward(uint64_t key, int net3)
{
    float x[IN], label[OUT], hidden[MIDDLE], back[MIDDLE] = {0}, y[OUT];
    for (int i = 0; i < IN; i++)
        x[i] = noise(100 * key + (uint64_t)i);
    for (int i = 0; i < OUT; i++)
        label[i] = noise(100 * key + 50 + (uint64_t)i);
    memcpy(hidden, weights[NET1_BIAS], sizeof hidden);
    multiply(hidden, weights[NET1_WEIGHT], x, MIDDLE, IN);
    for (int i = 0; i < MIDDLE; i++)
        hidden[i] = hidden[i] > 0 ? hidden[i] : 0;
    memcpy(y, weights[NET2_BIAS], sizeof y);
    multiply(y, weights[NET2_WEIGHT], hidden, OUT, MIDDLE);
    if (net3)
        multiply(y, weights[NET3_WEIGHT], x, OUT, IN);

    for (int i = 0; i < OUT; i++) { /* mean squared error, and its derivative */
        const float error = y[i] - label[i];
        gradient[LOSS][0] += error * error / (SAMPLES * OUT);
        y[i] = 2 * error / (SAMPLES * OUT);
        gradient[NET2_BIAS][i] += y[i];
        for (int j = 0; j < MIDDLE; j++)
            back[j] += hidden[j] > 0 ? y[i] * weights[NET2_WEIGHT][i * MIDDLE + j] : 0;
    }
    multiply_back(gradient[NET2_WEIGHT], y, hidden, OUT, MIDDLE);
    if (net3)
        multiply_back(gradient[NET3_WEIGHT], y, x, OUT, IN);
    multiply_back(gradient[NET1_WEIGHT], back, x, MIDDLE, IN);
    for (int j = 0; j < MIDDLE; j++)
        gradient[NET1_BIAS][j] += back[j];
}

/* One leaf of a step; every gradient is ready, or was not used. */
static void leaf(dtd_ddp *ddp, int step, int64_t l)
{
    const int net3 = step % 4 != 3 && l % 2 == 0; /* every fourth step no leaf uses it */
    memset(gradient, 0, sizeof gradient);
    for (int s = 0; s < SAMPLES; s++)
        backward((uint64_t)(l * SAMPLES + s + 1), net3);
    for (size_t i = TENSORS; i-- > 0;)
        must(i == NET3_WEIGHT && !net3 ? dtd_ddp_unused(ddp, i) : dtd_ddp_ready(ddp, i));
}

int main(int argc, char **argv)
{
    must(dtd_init(&argc, &argv));
    dtd_tensor model[TENSORS], gradients[TENSORS];
    for (size_t i = 0; i < TENSORS; i++) {
        model[i] = (dtd_tensor){weights[i], counts[i], DTD_F32, names[i]};
        gradients[i] = (dtd_tensor){gradient[i], counts[i], DTD_F32, names[i]};
        for (size_t j = 0; j < counts[i]; j++) /* rank 0's are all ranks', from the broadcast on */
            weights[i][j] = 0.3F * noise(1000 * i + j + 7 + (uint64_t)dtd_rank(NULL));
    }
    must(dtd_broadcast(model, TENSORS, 0, NULL));
    const dtd_ddp_opts opts = {.size = sizeof opts, .leaves = LEAVES};
    dtd_ddp *ddp;
    must(dtd_ddp_new(&ddp, gradients, TENSORS, &opts, NULL));
    int64_t first, mine;
    dtd_shard(LEAVES, NULL, &first, &mine);

    for (int step = 0; step < STEPS; step++) {
        for (int64_t l = first; l < first + mine; l++)
            leaf(ddp, step, l);
        must(dtd_ddp_wait(ddp));
        if (dtd_rank(NULL) == 0)
            printf("step %d loss %.9g\n", step, (double)gradient[LOSS][0]);
        for (size_t i = 0; i < LOSS; i++)
            for (size_t j = 0; j < counts[i]; j++)
                weights[i][j] -= 0.5F * gradient[i][j];
    }
    dtd_ddp_free(ddp);
    return dtd_finalize();
}
