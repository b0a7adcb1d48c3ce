/* layers.c - milliseconds of each layer and pass of a network, by two kernel rows in turn.
 *
 *     ninja -C build/release layers && build/release/layers NET [PASSES [ROW ROW [ROUNDS]]]
 *
 * NET: r224, r32, r32c, vgg; PASSES: letters of FDW. x is half zeros, as behind a ReLU. The best
 * of ROUNDS runs counts, A B A B; sums weigh each layer by how often the network has it. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "model/kernels/kernel.h"
#include "model/kernels/tiles/way.h"

typedef struct layer {
    const char *net;
    int times, n, size, ic, oc, kernel, stride, pad;
} layer;

static const layer layers[] = {
    {"r224", 1, 32, 224, 3, 64, 7, 2, 3},     {"r224", 1, 32, 56, 64, 64, 1, 1, 0},
    {"r224", 3, 32, 56, 64, 64, 3, 1, 1},     {"r224", 4, 32, 56, 64, 256, 1, 1, 0},
    {"r224", 2, 32, 56, 256, 64, 1, 1, 0},    {"r224", 1, 32, 56, 256, 128, 1, 1, 0},
    {"r224", 1, 32, 56, 128, 128, 3, 2, 1},   {"r224", 4, 32, 28, 128, 512, 1, 1, 0},
    {"r224", 1, 32, 56, 256, 512, 1, 2, 0},   {"r224", 3, 32, 28, 512, 128, 1, 1, 0},
    {"r224", 3, 32, 28, 128, 128, 3, 1, 1},   {"r224", 1, 32, 28, 512, 256, 1, 1, 0},
    {"r224", 1, 32, 28, 256, 256, 3, 2, 1},   {"r224", 6, 32, 14, 256, 1024, 1, 1, 0},
    {"r224", 1, 32, 28, 512, 1024, 1, 2, 0},  {"r224", 5, 32, 14, 1024, 256, 1, 1, 0},
    {"r224", 5, 32, 14, 256, 256, 3, 1, 1},   {"r224", 1, 32, 14, 1024, 512, 1, 1, 0},
    {"r224", 1, 32, 14, 512, 512, 3, 2, 1},   {"r224", 3, 32, 7, 512, 2048, 1, 1, 0},
    {"r224", 1, 32, 14, 1024, 2048, 1, 2, 0}, {"r224", 2, 32, 7, 2048, 512, 1, 1, 0},
    {"r224", 2, 32, 7, 512, 512, 3, 1, 1},    {"r224", 1, 32, 1, 2048, 10, 1, 1, 0},
    {"r32", 1, 128, 32, 3, 64, 7, 2, 3},      {"r32", 1, 128, 8, 64, 64, 1, 1, 0},
    {"r32", 3, 128, 8, 64, 64, 3, 1, 1},      {"r32", 4, 128, 8, 64, 256, 1, 1, 0},
    {"r32", 2, 128, 8, 256, 64, 1, 1, 0},     {"r32", 1, 128, 8, 256, 128, 1, 1, 0},
    {"r32", 1, 128, 8, 128, 128, 3, 2, 1},    {"r32", 4, 128, 4, 128, 512, 1, 1, 0},
    {"r32", 1, 128, 8, 256, 512, 1, 2, 0},    {"r32", 3, 128, 4, 512, 128, 1, 1, 0},
    {"r32", 3, 128, 4, 128, 128, 3, 1, 1},    {"r32", 1, 128, 4, 512, 256, 1, 1, 0},
    {"r32", 1, 128, 4, 256, 256, 3, 2, 1},    {"r32", 6, 128, 2, 256, 1024, 1, 1, 0},
    {"r32", 1, 128, 4, 512, 1024, 1, 2, 0},   {"r32", 5, 128, 2, 1024, 256, 1, 1, 0},
    {"r32", 5, 128, 2, 256, 256, 3, 1, 1},    {"r32", 1, 128, 2, 1024, 512, 1, 1, 0},
    {"r32", 1, 128, 2, 512, 512, 3, 2, 1},    {"r32", 3, 128, 1, 512, 2048, 1, 1, 0},
    {"r32", 1, 128, 2, 1024, 2048, 1, 2, 0},  {"r32", 2, 128, 1, 2048, 512, 1, 1, 0},
    {"r32", 2, 128, 1, 512, 512, 3, 1, 1},    {"r32", 1, 128, 1, 2048, 10, 1, 1, 0},
    {"r32c", 1, 128, 32, 3, 64, 3, 1, 1},     {"r32c", 1, 128, 32, 64, 64, 1, 1, 0},
    {"r32c", 3, 128, 32, 64, 64, 3, 1, 1},    {"r32c", 4, 128, 32, 64, 256, 1, 1, 0},
    {"r32c", 2, 128, 32, 256, 64, 1, 1, 0},   {"r32c", 1, 128, 32, 256, 128, 1, 1, 0},
    {"r32c", 1, 128, 32, 128, 128, 3, 2, 1},  {"r32c", 4, 128, 16, 128, 512, 1, 1, 0},
    {"r32c", 1, 128, 32, 256, 512, 1, 2, 0},  {"r32c", 3, 128, 16, 512, 128, 1, 1, 0},
    {"r32c", 3, 128, 16, 128, 128, 3, 1, 1},  {"r32c", 1, 128, 16, 512, 256, 1, 1, 0},
    {"r32c", 1, 128, 16, 256, 256, 3, 2, 1},  {"r32c", 6, 128, 8, 256, 1024, 1, 1, 0},
    {"r32c", 1, 128, 16, 512, 1024, 1, 2, 0}, {"r32c", 5, 128, 8, 1024, 256, 1, 1, 0},
    {"r32c", 5, 128, 8, 256, 256, 3, 1, 1},   {"r32c", 1, 128, 8, 1024, 512, 1, 1, 0},
    {"r32c", 1, 128, 8, 512, 512, 3, 2, 1},   {"r32c", 3, 128, 4, 512, 2048, 1, 1, 0},
    {"r32c", 1, 128, 8, 1024, 2048, 1, 2, 0}, {"r32c", 2, 128, 4, 2048, 512, 1, 1, 0},
    {"r32c", 2, 128, 4, 512, 512, 3, 1, 1},   {"r32c", 1, 128, 1, 2048, 10, 1, 1, 0},
    {"vgg", 1, 128, 32, 3, 64, 3, 1, 1},      {"vgg", 1, 128, 16, 64, 128, 3, 1, 1},
    {"vgg", 1, 128, 8, 128, 256, 3, 1, 1},    {"vgg", 1, 128, 8, 256, 256, 3, 1, 1},
    {"vgg", 1, 128, 4, 256, 512, 3, 1, 1},    {"vgg", 1, 128, 4, 512, 512, 3, 1, 1},
    {"vgg", 2, 128, 2, 512, 512, 3, 1, 1},    {"vgg", 1, 128, 1, 512, 10, 1, 1, 0},
};

typedef struct subject { /* a row with one layer open */
    const dt_kernel *row;
    void *state, *packed, *scratch;
    double best;
} subject;

static void must(dt_status st)
{
    if (st != DT_OK) {
        fprintf(stderr, "layers: %s\n", dt_fail_text());
        exit(1);
    }
}

static void *room(size_t bytes)
{
    dt_slab slab; /* on huge pages, as in a run; not given back */
    must(dt_slab_create(&slab, bytes + 4096, "a layer"));
    memset(slab.mem, 0, bytes);
    return slab.mem;
}

static void fill(dt_bf16 *to, size_t count, bool half_zeros)
{
    uint32_t u = 12345;
    for (size_t i = 0; i < count; i++) {
        u = u * 1664525u + 1013904223u;
        const float f = (float)(int32_t)u * 0x1p-31f;
        to[i] = half_zeros && f < 0 ? 0 : dt_f32_to_bf16(f);
    }
}

/* One thread's own time: what others do on the machine counts less. */
static double seconds(int threads)
{
    struct timespec t;
    clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The same buffers serve all layers, so that none is faulted in while it is timed. */
static struct {
    dt_bf16 *x, *y;
    float *w, *dw;
} data;
enum { ACTIVATIONS = 64 << 20, WEIGHTS = 8 << 20, SCRATCH = 128 << 20 };

static void measure(const dt_conv *c, dt_pass pass, subject s[2], int rounds)
{
    const dt_conv_args base = {.x = data.x, .dy = data.y, .y = data.y, .dx = data.x, .dw = data.dw};

    for (int i = 0; i < 2; i++) {
        dt_kernel_info info;
        must(s[i].row->open(&s[i].state, c, pass, &info));
        if (info.scratch_bytes > SCRATCH)
            s[i].scratch = room(info.scratch_bytes);
        if (info.packed_bytes)
            s[i].row->pack(s[i].state, data.w, s[i].packed);
        s[i].best = 1e9;
    }
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < 2; i++) {
            dt_conv_args a = base;
            a.packed = s[i].packed, a.scratch = s[i].scratch;
            const double t = seconds(c->threads);
            must(s[i].row->run(s[i].state, &a));
            const double taken = seconds(c->threads) - t;
            s[i].best = DT_MIN(s[i].best, taken);
        }
    for (int i = 0; i < 2; i++)
        s[i].row->close(s[i].state);
}

static const dt_kernel *row_named(const char *name)
{
    static const dt_kernel *const rows[] = {
#define X(row) &dt_kernel_##row,
        DT_KERNEL_LIST(X)
#undef X
    };
    for (size_t i = 0; i < DT_COUNT_OF(rows); i++)
        if (strcmp(rows[i]->name, name) == 0)
            return rows[i];
    fprintf(stderr, "layers: no row %s\n", name);
    exit(64);
}

static void no_multiply(float *sums, const dt_tile_run *run, int runs, int rows, bool fresh,
                        const dt_tile_out *out)
{
    (void)out, (void)sums, (void)run, (void)runs, (void)rows, (void)fresh;
}
static void no_gather(const dt_tile_rows *g, int count, dt_bf16 *to)
{
    (void)g, (void)count, (void)to;
}
static void no_transpose(const dt_bf16 *block, dt_bf16 *to)
{
    (void)block, (void)to;
}
static void no_pairs(const dt_bf16 *from, size_t row, size_t ahead, dt_bf16 *to)
{
    (void)ahead;
    (void)from, (void)row, (void)to;
}
int main(int argc, char **argv)
{
    const char *net = argc > 1 ? argv[1] : "vgg", *passes = argc > 2 ? argv[2] : "FDW";
    const int rounds = argc > 5 ? atoi(argv[5]) : 5;
    const char *only = getenv("ONLY"), *threads = getenv("THREADS");
    subject s[2] = {{.row = row_named(argc > 3 ? argv[3] : "tiles")},
                    {.row = row_named(argc > 4 ? argv[4] : "onednn")}};
    double sum[2] = {0};

    if (getenv("WAY") && strcmp(getenv("WAY"), "avx512") == 0)
        dt_tile_use(&dt_tile_way_avx512);
    static dt_tile_way less;
    const char *skip = getenv("SKIP");
    if (skip) {
        less = *dt_tile_current();
        if (strchr(skip, 'm'))
            less.multiply = no_multiply;
        if (strchr(skip, 'g'))
            less.gather = no_gather;
        if (strchr(skip, 't'))
            less.transpose = no_transpose;
        if (strchr(skip, 'p'))
            less.pairs = no_pairs;
        dt_tile_use(&less);
    }
    data.x = room((size_t)ACTIVATIONS * sizeof *data.x);
    data.y = room((size_t)ACTIVATIONS * sizeof *data.y);
    data.w = room((size_t)WEIGHTS * sizeof *data.w);
    data.dw = room((size_t)WEIGHTS * sizeof *data.dw);
    fill(data.x, ACTIVATIONS, true);
    fill(data.y, ACTIVATIONS, false);
    for (int i = 0; i < WEIGHTS; i++)
        data.w[i] = (float)(i % 1000 - 500) * 1e-3f;
    for (int i = 0; i < 2; i++)
        s[i].packed = room((size_t)WEIGHTS * 4), s[i].scratch = room(SCRATCH);
    printf("best of %d, ms (GFLOP/s): %s and %s\n", rounds, s[0].row->name, s[1].row->name);
    for (; *passes; passes++) {
        const dt_pass pass = *passes == 'F'   ? DT_PASS_FORWARD
                             : *passes == 'D' ? DT_PASS_DATA
                                              : DT_PASS_WEIGHTS;
        double all[2] = {0};
        for (size_t i = 0; i < DT_COUNT_OF(layers); i++) {
            const layer *l = &layers[i];
            const int out = (l->size + 2 * l->pad - l->kernel) / l->stride + 1;
            char name[64];
            const dt_conv c = {.n = l->n,
                               .ih = l->size,
                               .iw = l->size,
                               .ic = l->ic,
                               .oh = out,
                               .ow = out,
                               .oc = l->oc,
                               .kernel = {l->kernel, l->kernel},
                               .stride = {l->stride, l->stride},
                               .pad = {l->pad, l->pad, l->pad, l->pad},
                               .type = DT_BF16,
                               .out_type = DT_BF16,
                               .threads = threads ? atoi(threads) : 1};
            snprintf(name, sizeof name, "%dx%d/%d %d->%d@%d", l->kernel, l->kernel, l->stride,
                     l->ic, l->oc, l->size);
            if (strcmp(l->net, net) != 0 || (pass == DT_PASS_DATA && l->ic == 3) ||
                (only && !strstr(name, only)))
                continue;
            measure(&c, pass, s, rounds);
            const double flop =
                2e-9 * (double)(c.n * out * out) * l->kernel * l->kernel * l->ic * l->oc;
            printf("%c %-22s x%d %8.3f (%4.0f) %8.3f (%4.0f)  ratio %.2f\n", *passes, name,
                   l->times, s[0].best * 1e3, flop / s[0].best, s[1].best * 1e3, flop / s[1].best,
                   s[1].best / s[0].best);
            fflush(stdout);
            for (int k = 0; k < 2; k++)
                all[k] += s[k].best * l->times * 1e3;
        }
        printf("%c sum %.1f %.1f ms, ratio %.2f\n", *passes, all[0], all[1], all[1] / all[0]);
        for (int k = 0; k < 2; k++)
            sum[k] += all[k];
    }
    printf("all %.1f %.1f ms, ratio %.2f\n", sum[0], sum[1], sum[1] / sum[0]);
    return 0;
}
