/* aiacc_seven_steps.c - a program for one process becomes one for many, in AIACC's seven steps.
 *
 *     cc aiacc_seven_steps.c -o digits $(pkg-config --cflags --libs dtrain-dist)
 *     mpirun -np 4 ./digits [CHECKPOINT]
 *
 *   step  before                    after
 *   1     -                         dtd_init(&argc, &argv)
 *   2     device 0                  device dtd_local_rank()
 *   3     rate                      rate x leaves (or dtd_scale_lr, where ranks make the batch)
 *   4     all of a batch            dtd_shard: this rank's part of it
 *   5     backward(); sgd();        dtd_ddp_ready(gradient); dtd_optimizer_step(optimizer);
 *   6     -                         dtd_broadcast(weights, the optimizer's state, step)
 *   7     load, save                if (dtd_rank(NULL) == 0)
 *
 * A batch is 8 leaves of 8 images, so all numbers of ranks up to 8 print the same losses. */
#include <dtrain/dist.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAVES = 8, BATCH = 8, IMAGES = 2048, STEPS = 3 * IMAGES / (LEAVES * BATCH) };
enum { PIXELS = 36, HIDDEN = 32, CLASSES = 10 }; /* 5 x 7 pixels, and one of ink, the bias */

/* Weights, or their gradient; the loss travels with it. */
static struct net {
    float layer1[HIDDEN][PIXELS], layer2[CLASSES][HIDDEN], loss;
} gradient;
enum { COUNT = sizeof gradient / sizeof(float) };
static struct {
    struct net weights, momentum;
    int64_t step;
} saved;

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

/* Image i: a digit, whose lines are 5 bits of a letter, and noise. Returns which digit. */
static int draw(int64_t i, float *image)
{
    const char *font = "NQSUYQNDLDDDDNNQABDH__BDBAQNBFJR_BB_P^AAQNFHP^QQN_ABDHHHNQQNQQNNQQOABL";
    const int digit = (int)(i % CLASSES);
    for (int p = 0; p < PIXELS; p++) {
        const int ink = p == PIXELS - 1 || font[7 * digit + p / 5] >> (4 - p % 5) & 1;
        image[p] = (float)ink + noise((uint64_t)(i * PIXELS + p + 1));
    }
    return digit;
}

/* One leaf: 8 images forward and backward. A layer's gradient leaves as soon as it is final. */
static void backward(dtd_ddp *ddp, int64_t first)
{
    static float image[BATCH][PIXELS], hidden[BATCH][HIDDEN], error[BATCH][CLASSES];
    const struct net *w = &saved.weights;
    struct net *g = memset(&gradient, 0, sizeof gradient);
    for (int b = 0; b < BATCH; b++) {
        const int64_t at = first + b, epoch = at / IMAGES;
        const int digit = draw(dtd_permute(1, epoch, IMAGES, at % IMAGES), image[b]);
        for (int h = 0; h < HIDDEN; h++) {
            float sum = 0;
            for (int p = 0; p < PIXELS; p++)
                sum += w->layer1[h][p] * image[b][p];
            hidden[b][h] = sum > 0 ? sum : 0;
        }
        for (int c = 0; c < CLASSES; c++) {
            float sum = c == digit ? -1 : 0;
            for (int h = 0; h < HIDDEN; h++)
                sum += w->layer2[c][h] * hidden[b][h];
            g->loss += sum * sum / BATCH;
            error[b][c] = sum / BATCH;
            for (int h = 0; h < HIDDEN; h++)
                g->layer2[c][h] += error[b][c] * hidden[b][h];
        }
    }
    must(dtd_ddp_ready(ddp, 2));
    must(dtd_ddp_ready(ddp, 1));
    for (int b = 0; b < BATCH; b++)
        for (int h = 0; h < HIDDEN; h++) {
            float sum = 0;
            for (int c = 0; c < CLASSES && hidden[b][h] > 0; c++)
                sum += error[b][c] * w->layer2[c][h];
            for (int p = 0; p < PIXELS; p++)
                g->layer1[h][p] += sum * image[b][p];
        }
    must(dtd_ddp_ready(ddp, 0));
}

/* Momentum, as before: the gradient is now the mean over all leaves. */
static int sgd(void *rate)
{
    float *w = (float *)&saved.weights, *m = (float *)&saved.momentum, *g = (float *)&gradient;
    for (int i = 0; i < COUNT - 1; i++) {
        m[i] = 0.9F * m[i] + g[i];
        w[i] -= *(float *)rate * m[i];
    }
    return DTD_OK;
}

int main(int argc, char **argv)
{
    must(dtd_init(&argc, &argv)); /* step 1; step 2 is for those who have devices */
    const char *checkpoint = argc > 1 && dtd_rank(NULL) == 0 ? argv[1] : NULL; /* step 7 */
    float rate = 0.002F * LEAVES;                                              /* step 3 */
    int64_t leaf, leaves;
    dtd_shard(LEAVES, NULL, &leaf, &leaves); /* step 4 */
    const dtd_tensor gradients[] = {{gradient.layer1, HIDDEN * PIXELS, DTD_F32, "layer1"},
                                    {gradient.layer2, CLASSES * HIDDEN, DTD_F32, "layer2"},
                                    {&gradient.loss, 1, DTD_F32, "loss"}};
    const dtd_ddp_opts opts = {.size = sizeof opts, .leaves = LEAVES};
    dtd_ddp *ddp;
    dtd_optimizer *optimizer;
    must(dtd_ddp_new(&ddp, gradients, 3, &opts, NULL));
    must(dtd_optimizer_new(&optimizer, ddp, sgd, &rate)); /* step 5 */
    for (int i = 0; i < COUNT; i++)
        ((float *)&saved.weights)[i] = 0.2F * noise((uint64_t)(i + 1 + dtd_rank(NULL)));
    FILE *file = checkpoint != NULL ? fopen(checkpoint, "rb") : NULL;
    if (file != NULL && (fread(&saved, sizeof saved, 1, file) != 1 || fclose(file) != 0))
        return DTD_USAGE;
    const dtd_tensor state[] = {{&saved.weights, COUNT, DTD_F32, "weights"},
                                {&saved.momentum, COUNT, DTD_F32, "momentum"},
                                {&saved.step, 1, DTD_I64, "step"}};
    must(dtd_broadcast(state, 3, 0, NULL)); /* step 6 */

    for (; saved.step < STEPS; saved.step++) {
        for (int64_t l = leaf; l < leaf + leaves; l++) {
            backward(ddp, (saved.step * LEAVES + l) * BATCH);
            must(dtd_optimizer_step(optimizer));
        }
        if (saved.step % 8 == 0 && dtd_rank(NULL) == 0)
            printf("step %d loss %.9g\n", (int)saved.step, (double)gradient.loss);
    }
    file = checkpoint != NULL ? fopen(checkpoint, "wb") : NULL;
    if (file != NULL && (fwrite(&saved, sizeof saved, 1, file) != 1 || fclose(file) != 0))
        return DTD_USAGE;
    dtd_optimizer_free(optimizer);
    dtd_ddp_free(ddp);
    return dtd_finalize();
}
