/* onednn.c - the convolutions of a network by dtrain's kernels and by oneDNN's own (onednn.h). */
#include "onednn.h"

#include <getopt.h>
#include <omp.h>
#include <stdio.h>
#include <time.h>

static const char usage[] =
    "usage: bench/onednn [--net NAME] [--variant NAME] [--stem NAME] [--batch N] [--image-size N]\n"
    "                    [--precision fp32|bf16] [--threads N] [--turns N]\n"
    "Each convolution of a network (vgg11, 32 images) by dtrain's kernels and by oneDNN's, which\n"
    "has the layouts that it likes best, in turn; a linear layer is a 1x1 convolution of one "
    "pixel.\n"
    "The medians of N turns (9), and of oneDNN's time / ours in a turn.\n";

enum { MOST_TURNS = 999 };
static int turns = 9;
static bool alone; /* one thread, whose processor time other work does not stretch */

static double seconds_now(void)
{
    struct timespec t;

    if (!alone || clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) != 0)
        return dt_seconds();
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static double median(double *of)
{
    qsort(of, (size_t)turns, sizeof *of, ascending);
    return of[turns / 2];
}

/* Filled as oneDNN's are: a number costs as much as any other. */
static dt_status room(dt_slab *s, int64_t numbers, size_t each)
{
    DT_TRY(dt_slab_create(s, (size_t)numbers * each + 64, "a convolution"));
    memset(s->mem, ONEDNN_ANY_NUMBER, (size_t)numbers * each);
    return DT_OK;
}

typedef struct ours {
    dt_tiles *tiles;
    dt_slab x, w, y, bias, packed, scratch;
} ours;

static dt_status ours_open(ours *o, const dt_conv *c, dt_pass pass)
{
    const size_t type = dt_dtype_bytes(c->type);
    dt_kernel_info info;

    DT_TRY(dt_kernel_open(&o->tiles, c, pass, NULL, &info));
    DT_TRY(room(&o->x, c->n * c->ih * c->iw * c->ic, type));
    DT_TRY(room(&o->w, c->kernel[0] * c->kernel[1] * c->ic * c->oc, sizeof(float)));
    DT_TRY(room(&o->y, c->n * c->oh * c->ow * c->oc, dt_dtype_bytes(DT_F32)));
    DT_TRY(room(&o->bias, c->oc, sizeof(float)));
    DT_TRY(room(&o->packed, (int64_t)info.packed_bytes, 1));
    DT_TRY(room(&o->scratch, (int64_t)info.scratch_bytes, 1));
    if (info.packed_bytes)
        dt_kernel_pack(o->tiles, o->w.mem, o->packed.mem, 0, info.packed_bytes);
    return DT_OK;
}

static void ours_run(const ours *o)
{
    const dt_conv_args a = {.x = o->x.mem,
                            .dy = o->y.mem,
                            .y = o->y.mem,
                            .dx = o->x.mem,
                            .packed = o->packed.mem,
                            .bias = o->bias.mem,
                            .dw = o->w.mem,
                            .dbias = o->bias.mem,
                            .scratch = o->scratch.mem};
    dt_kernel_run(o->tiles, &a);
}

static void ours_close(ours *o)
{
    dt_slab *all[] = {&o->x, &o->w, &o->y, &o->bias, &o->packed, &o->scratch};

    for (size_t i = 0; i < DT_COUNT_OF(all); i++)
        dt_slab_destroy(all[i]);
    dt_kernel_close(o->tiles);
}

static const char *const pass_name[] = {"forward", "data", "weights"};

/* total[0] += seconds of ours, total[1] += oneDNN's. */
static dt_status time_pass(const char *layer, const dt_conv *c, dt_pass pass, double *total)
{
    double seconds[2][MOST_TURNS], ratio[MOST_TURNS];
    onednn_pass theirs = {.operands = 0};
    ours own = {.tiles = NULL};
    dt_status st;

    DT_GO(st, ours_open(&own, c, pass), out);
    DT_GO(st, onednn_open(&theirs, c, pass), out);
    for (int i = -1; i < turns; i++) { /* the first one warms up */
        const int at = i < 0 ? 0 : i;
        const double start = seconds_now();
        ours_run(&own);
        const double middle = seconds_now();
        DT_GO(st, onednn_run(&theirs), out);
        seconds[1][at] = seconds_now() - middle;
        seconds[0][at] = middle - start;
        ratio[at] = seconds[1][at] / seconds[0][at];
    }
    const double mine = median(seconds[0]), other = median(seconds[1]);
    printf("%-24s %4dx%-4d %4d -> %-4d %dx%d /%d  %-8s %9.3f %9.3f %6.2f\n", layer, (int)c->ih,
           (int)c->iw, (int)c->ic, (int)c->oc, c->kernel[0], c->kernel[1], c->stride[0],
           pass_name[pass], 1e3 * mine, 1e3 * other, median(ratio));
    total[0] += mine;
    total[1] += other;
out:
    onednn_close(&theirs);
    ours_close(&own);
    return st;
}

static dt_status time_plan(const dt_plan *p)
{
    double total[DT_PASS_COUNT + 1][2] = {{0, 0}}, *all = total[DT_PASS_COUNT];
    dt_conv c;

    printf("%-24s %-30s %-8s %9s %9s %6s\n", "layer", "image, channels, kernel, stride", "pass",
           "ours, ms", "oneDNN", "ratio");
    for (int i = 0; i < p->steps; i++)
        for (int pass = 0; onednn_conv_of(p, i, &c) && pass < DT_PASS_COUNT; pass++)
            if (pass != DT_PASS_DATA || p->step[i].wants_d_in[0])
                DT_TRY(time_pass(p->step[i].node->name, &c, (dt_pass)pass, total[pass]));
    for (int i = 0; i <= DT_PASS_COUNT; i++) {
        printf("%-56s%-8s %9.3f %9.3f %6.2f\n", "sum", i < DT_PASS_COUNT ? pass_name[i] : "all",
               1e3 * total[i][0], 1e3 * total[i][1], total[i][1] / total[i][0]);
        all[0] += i < DT_PASS_COUNT ? total[i][0] : 0;
        all[1] += i < DT_PASS_COUNT ? total[i][1] : 0;
    }
    return DT_OK;
}

static dt_status bench(const dt_net_spec *spec, const char *precision, int threads, int64_t batch)
{
    dt_model_opts opts = {.threads = threads, .parts = 1};
    dt_net *net = NULL;
    dt_model *model = NULL;
    dt_plan *plan = NULL;
    dt_status st;

    alone = threads == 1;
    omp_set_num_threads(threads);
    st = dt_precision_choose(precision, &opts.precision);
    if (st == DT_UNSUPPORTED) {
        dt_fail_clear();
        st = dt_fail(st, "--precision %s: dtrain has no instructions for it on this CPU (%s)",
                     precision, dt_isa_name(dt_isa_current()));
    }
    if (st != DT_OK)
        goto out;
    DT_GO(st, dt_net_create(&net, spec), out);
    DT_GO(st, dt_model_create(&model, net, &opts), out);
    DT_GO(st, dt_plan_create(&plan, model, batch, DT_TRAIN, false), out);
    const dnnl_version_t *v = dnnl_version();
    printf("%s at %d, %d images, %s, threads %d%s; oneDNN %d.%d.%d, medians of %d turns\n",
           spec->net, net->spec.image_size, (int)batch, dt_dtype_name(opts.precision), threads,
           alone ? " (its processor time)" : "", v->major, v->minor, v->patch, turns);
    st = time_plan(plan);
out:
    dt_plan_destroy(plan);
    dt_model_destroy(model);
    dt_net_destroy(net);
    return st;
}

int main(int argc, char **argv)
{
    enum { NET, VARIANT, STEM, PRECISION, NUMBERS, BATCH = NUMBERS, SIZE, THREADS, TURNS, HELP };
    static const struct option known[] = {
        {"net", 1, NULL, NET},         {"variant", 1, NULL, VARIANT},
        {"stem", 1, NULL, STEM},       {"precision", 1, NULL, PRECISION},
        {"batch", 1, NULL, BATCH},     {"image-size", 1, NULL, SIZE},
        {"threads", 1, NULL, THREADS}, {"turns", 1, NULL, TURNS},
        {"help", 0, NULL, HELP},       {NULL, 0, NULL, 0}};
    const char *word[NUMBERS] = {"vgg11", "mindspore", "imagenet", "fp32"};
    long number[HELP] = {[BATCH] = 32, [THREADS] = omp_get_max_threads(), [TURNS] = turns};
    int is;

    while ((is = getopt_long(argc, argv, "h", known, NULL)) >= 0 && is < HELP)
        if (is < NUMBERS)
            word[is] = optarg;
        else
            number[is] = strtol(optarg, NULL, 10);
    if (is >= 0 || optind < argc || number[BATCH] < 1 || number[THREADS] < 1 || number[TURNS] < 1 ||
        number[TURNS] > MOST_TURNS) {
        fputs(usage, is == HELP || is == 'h' ? stdout : stderr);
        return is == HELP || is == 'h' ? 0 : 64;
    }
    turns = (int)number[TURNS];
    const dt_net_spec spec = {word[NET], word[VARIANT], word[STEM], (int)number[SIZE], 10, 1};
    const dt_status st = bench(&spec, word[PRECISION], (int)number[THREADS], number[BATCH]);
    if (st != DT_OK)
        fprintf(stderr, "bench/onednn: %s\n", dt_fail_text());
    return st == DT_OK ? 0 : 1;
}
