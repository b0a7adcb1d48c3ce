/* onednn.c - convolution passes in float32 by oneDNN: below AVX-512, and as a reference for tiles.
 * (Its bf16 weight gradients are wrong where a tap meets padding alone: 2.6.3, 3x3, stride 2, on a
 * map of 1x1.)
 *
 * Activations are plain nhwc, so no operation has to know oneDNN's layouts; weights lie
 * as oneDNN likes best and are packed by its reorder. Primitives and memory objects are
 * made once, in open; a run only sets data handles and executes, in scratch that the
 * caller gives. (oneDNN itself makes a few small allocations in each execute.)
 *
 * Bits. oneDNN decides by the number of threads how it blocks a pass, and so in which
 * order it adds: every weight gradient, its gemm kernels and, in versions 2 and 3 alike,
 * some shapes of its brgemm kernels (28x28x64 under 7x7 differs on 8 threads) would give
 * other bits on other numbers of threads. So each pass runs as one-thread primitives on
 * parts of the batch whose bounds follow from the shape (parts.h); threads take whole
 * parts. */
#include "onednn_desc.h"
#include "parts.h"

#include <limits.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

/* Places in an operand list. */
enum { AT_X, AT_W, AT_Y, AT_SCRATCH, AT_BIAS, AT_COUNT };
static const int onednn_arg[DT_PASS_COUNT][AT_COUNT] = {
    [DT_PASS_FORWARD] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD,
                         DNNL_ARG_BIAS},
    [DT_PASS_DATA] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST, DNNL_ARG_SCRATCHPAD},
    [DT_PASS_WEIGHTS] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST,
                         DNNL_ARG_SCRATCHPAD},
};
static const int onednn_reorder_arg[] = {DNNL_ARG_FROM, DNNL_ARG_TO, DNNL_ARG_SCRATCHPAD};

/* Forward and data gradient have nothing to add up over parts: there may be more. */
enum { ONEDNN_PARTS = 16 };

typedef struct onednn_primitive {  /* a primitive and its operands */
    dnnl_primitive_t primitive;    /* owned */
    dnnl_exec_arg_t arg[AT_COUNT]; /* memory objects owned, data set before each run */
    int args;
    size_t scratch_bytes;
} onednn_primitive;

typedef struct onednn_conv {
    dt_conv conv;
    dt_pass pass;
    onednn_library library; /* owned; its attributes: the user gives scratch */
    dnnl_stream_t stream;
    onednn_primitive part[ONEDNN_PARTS]; /* of the batch, on one thread each */
    int parts;
    int workers;                 /* threads that take parts */
    onednn_primitive reorder;    /* master weights to packed, or the sum of the parts to dw */
    void *reorder_scratch;       /* owned; pack is not given any */
    dnnl_primitive_desc_t first; /* of part 0, owned; keeps `weights` */
    onednn_const_md weights;     /* as oneDNN wants them packed, or writes dw */
    size_t weight_bytes;         /* of them, padding included */
    size_t scratch_bytes;        /* per worker */
} onednn_conv;

/* ---- Primitives ------------------------------------------------------------------ */

static void onednn_primitive_release(onednn_primitive *p)
{
    for (int i = 0; i < p->args; i++)
        dnnl_memory_destroy(p->arg[i].memory);
    dnnl_primitive_destroy(p->primitive);
}

static dt_status onednn_primitive_init(onednn_primitive *p, dnnl_primitive_desc_t pd,
                                       dnnl_engine_t engine, const int *arg, int args)
{
    for (int i = 0; i < args; i++) {
        onednn_const_md md = dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, arg[i]);
        p->arg[i].arg = arg[i];
        p->args = i + 1;
        if (arg[i] == DNNL_ARG_SCRATCHPAD)
            p->scratch_bytes = dnnl_memory_desc_get_size(md);
        DT_TRY(onednn_check(dnnl_memory_create(&p->arg[i].memory, md, engine, DNNL_MEMORY_NONE),
                            "memory object"));
    }
    return onednn_check(dnnl_primitive_create(&p->primitive, pd), "primitive");
}

/* oneDNN's memory objects take no const, whether they are read or written. */
static void *onednn_data(const void *p, size_t bytes)
{
    return (void *)((uintptr_t)p + bytes);
}

static dnnl_status_t onednn_execute(const onednn_primitive *p, dnnl_stream_t stream,
                                    void *const data[])
{
    for (int i = 0; i < p->args; i++) {
        void *now = NULL;
        dnnl_status_t s = dnnl_memory_get_data_handle(p->arg[i].memory, &now);
        /* Setting writes zeros to a layout's padding, so it is not for nothing. */
        if (s == dnnl_success && now != data[i])
            s = dnnl_memory_set_data_handle(p->arg[i].memory, data[i]);
        if (s != dnnl_success)
            return s;
    }
    const dnnl_status_t s = dnnl_primitive_execute(p->primitive, stream, p->args, p->arg);
    return s != dnnl_success ? s : dnnl_stream_wait(stream);
}

/* ---- Open and close -------------------------------------------------------------- */

/* oneDNN obeys the first cap that it is given in a process, before its first use. A
 * later, lower dt_isa_limit reaches only our own choice (bf16 or not), so its refusal
 * is no error. */
static void onednn_limit_isa(void)
{
    static const dnnl_cpu_isa_t isa[DT_ISA_COUNT] = {
        [DT_ISA_PORTABLE] = dnnl_cpu_isa_sse41,
        [DT_ISA_AVX2] = dnnl_cpu_isa_avx2,
        [DT_ISA_AVX512] = dnnl_cpu_isa_avx512_core,
        [DT_ISA_AVX512_BF16] = dnnl_cpu_isa_avx512_core_bf16,
        [DT_ISA_AMX] = ONEDNN_ANY_ISA,
    };
    dnnl_set_max_cpu_isa(isa[dt_isa_current()]);
}

static void onednn_close(void *state)
{
    onednn_conv *o = state;

    if (!o)
        return;
    for (int i = 0; i < ONEDNN_PARTS; i++)
        onednn_primitive_release(&o->part[i]);
    onednn_primitive_release(&o->reorder);
    dnnl_primitive_desc_destroy(o->first); /* all of these take NULL */
    dnnl_primitive_attr_destroy(o->library.attr);
    dnnl_stream_destroy(o->stream);
    dnnl_engine_destroy(o->library.engine);
    free(o->reorder_scratch);
    free(o);
}

static dt_status onednn_open_reorder(onednn_conv *o)
{
    dnnl_primitive_desc_t pd = NULL;
    dt_status st;

    DT_TRY(
        onednn_reorder_create(&pd, &o->library, &o->conv, o->weights, o->pass != DT_PASS_WEIGHTS));
    st = onednn_primitive_init(&o->reorder, pd, o->library.engine, onednn_reorder_arg, 3);
    if (st == DT_OK)
        st = dt_calloc(&o->reorder_scratch, o->reorder.scratch_bytes + 64, 1, "packing weights");
    dnnl_primitive_desc_destroy(pd);
    return st;
}

/* The library packs whole tensors. */
static void onednn_pack(const void *state, const float *master, void *packed, size_t first,
                        size_t end)
{
    const onednn_conv *o = state;
    const int threads = omp_get_max_threads();
    void *const data[] = {onednn_data(master, 0), packed, o->reorder_scratch};

    (void)end;
    if (first > 0)
        return;

    omp_set_num_threads(1);
    /* The caller expects no failure. NaN bits make the next loss stop the run. */
    if (onednn_execute(&o->reorder, o->stream, data) != dnnl_success)
        memset(packed, 0xff, o->weight_bytes);
    omp_set_num_threads(threads);
}

/* A name for the layout: the hash of numbered weights as it has them. The library has descriptions
 * of it, which each version says in another way. */
static dt_status onednn_name_layout(const onednn_conv *o, dt_kernel_info *info)
{
    const size_t count = dt_conv_weights(&o->conv);
    float *number = NULL, *packed = NULL;
    char text[DT_DIGEST_CHARS];
    dt_status st;

    DT_GO(st, dt_calloc(&number, count, sizeof *number, "a layout of weights"), out);
    DT_GO(st, dt_calloc(&packed, o->weight_bytes, 1, "a layout of weights"), out);
    for (size_t i = 0; i < count; i++)
        number[i] = (float)i;
    onednn_pack(o, number, packed, 0, o->weight_bytes);
    dt_digest_text(dt_hash_bytes(packed, o->weight_bytes), text);
    snprintf(info->layout, sizeof info->layout, "onednn %s", text);
out:
    free(number);
    free(packed);
    return st;
}

/* What the first part's primitive decided holds for all parts. */
static dt_status onednn_open_weights(onednn_conv *o, dt_kernel_info *info)
{
    o->weights =
        dnnl_primitive_desc_query_md(o->first, dnnl_query_exec_arg_md, onednn_arg[o->pass][AT_W]);
    o->weight_bytes = dt_align(dnnl_memory_desc_get_size(o->weights), 64);
    snprintf(info->impl, sizeof info->impl, "%s", onednn_implementation(o->first));
    DT_TRY(onednn_open_reorder(o));
    return o->pass == DT_PASS_WEIGHTS ? DT_OK : onednn_name_layout(o, info);
}

static dt_status onednn_open_part(onednn_conv *o, int i, dt_kernel_info *info)
{
    const dt_conv *c = &o->conv;
    const int args = o->pass == DT_PASS_FORWARD && c->bias ? AT_COUNT : AT_BIAS;
    const int64_t n = dt_part_first(c->n, o->parts, i + 1) - dt_part_first(c->n, o->parts, i);
    onednn_primitive *part = &o->part[i];
    dnnl_primitive_desc_t pd = NULL;
    dt_status st;

    DT_TRY(onednn_conv_create(&pd, &o->library, c, o->pass, n, o->weights));
    st = onednn_primitive_init(part, pd, o->library.engine, onednn_arg[o->pass], args);
    if (part->scratch_bytes > o->scratch_bytes) /* parts differ by one image */
        o->scratch_bytes = dt_align(part->scratch_bytes, 64);
    if (i > 0) {
        dnnl_primitive_desc_destroy(pd);
        return st;
    }
    o->first = pd;
    return st == DT_OK ? onednn_open_weights(o, info) : st;
}

static dt_status onednn_open_library(onednn_conv *o)
{
    onednn_library *l = &o->library;

    onednn_limit_isa();
    DT_TRY(onednn_check(dnnl_engine_create(&l->engine, dnnl_cpu, 0), "engine"));
    DT_TRY(onednn_check(dnnl_stream_create(&o->stream, l->engine, dnnl_stream_default_flags),
                        "stream"));
    DT_TRY(onednn_check(dnnl_primitive_attr_create(&l->attr), "attributes"));
    return onednn_check(dnnl_primitive_attr_set_scratchpad_mode(l->attr, dnnl_scratchpad_mode_user),
                        "attributes");
}

static int onednn_parts(const dt_conv *c, dt_pass pass)
{
    return dt_part_count(c, pass == DT_PASS_WEIGHTS ? DT_MAX_PARTS : ONEDNN_PARTS);
}

static dt_status onednn_open(void **state, const dt_conv *c, dt_pass pass, dt_kernel_info *info)
{
    const bool weights = pass == DT_PASS_WEIGHTS;
    const int threads = omp_get_max_threads();
    onednn_conv *o = NULL;
    dt_status st;

    DT_TRY(dt_calloc(&o, 1, sizeof *o, "a oneDNN convolution"));
    *info = (dt_kernel_info){.scratch_bytes = 0};
    o->conv = *c;
    o->pass = pass;
    o->parts = onednn_parts(c, pass);
    o->workers = DT_MIN(c->threads, o->parts);
    omp_set_num_threads(1); /* a primitive is compiled for the number at its creation */
    DT_GO(st, onednn_open_library(o), out);
    for (int i = 0; i < o->parts; i++)
        DT_GO(st, onednn_open_part(o, i, info), out);
    info->scratch_bytes = o->scratch_bytes * (size_t)o->workers;
    if (weights)
        info->scratch_bytes +=
            o->weight_bytes * (size_t)o->parts + (c->bias ? dt_bias_scratch_bytes(c) : 0);
    else
        info->packed_bytes = o->weight_bytes;
    *state = o;
out:
    omp_set_num_threads(threads);
    if (st != DT_OK)
        onednn_close(o);
    return st;
}

/* ---- Run ------------------------------------------------------------------------- */

static int onednn_run_part(const onednn_conv *o, const dt_conv_args *a, int i, char *dw,
                           char *scratch)
{
    const dt_conv *c = &o->conv;
    const bool forward = o->pass == DT_PASS_FORWARD;
    const size_t first = (size_t)dt_part_first(c->n, o->parts, i);
    const size_t x = first * dt_conv_x_image(c) * dt_dtype_bytes(c->type);
    const size_t y = first * dt_conv_y_image(c) * dt_dtype_bytes(forward ? c->out_type : c->type);
    void *const data[AT_COUNT] = {
        [AT_X] = onednn_data(o->pass == DT_PASS_DATA ? a->dx : a->x, x),
        [AT_W] = o->pass == DT_PASS_WEIGHTS ? dw + (size_t)i * o->weight_bytes
                                            : onednn_data(a->packed, 0),
        [AT_Y] = onednn_data(forward ? a->y : a->dy, y),
        [AT_SCRATCH] = scratch,
        [AT_BIAS] = onednn_data(a->bias, 0),
    };
    return (int)onednn_execute(&o->part[i], o->stream, data);
}

/* The sum of the parts, left in the first, then in the slab's order. */
static dnnl_status_t onednn_run_sum(const onednn_conv *o, float *part, float *dw)
{
    const int64_t block = 1 << 12, floats = (int64_t)(o->weight_bytes / sizeof *part);
    void *const data[] = {part, dw, o->reorder_scratch};

#pragma omp parallel for num_threads(o->conv.threads) schedule(static) if (o->parts > 1)
    for (int64_t i = 0; i < (o->parts > 1 ? floats : 0); i += block)
        dt_part_sum(part + i, part + i, (size_t)floats, o->parts,
                    (size_t)DT_MIN(block, floats - i));
    return onednn_execute(&o->reorder, o->stream, data);
}

static dt_status onednn_run(void *state, const dt_conv_args *a)
{
    const onednn_conv *o = state;
    const dt_conv *c = &o->conv;
    const bool weights = o->pass == DT_PASS_WEIGHTS;
    const int threads = omp_get_max_threads();
    char *dw = a->scratch; /* of each part, weight gradient only */
    char *scratch = dw + (weights ? o->weight_bytes * (size_t)o->parts : 0);
    int worst = dnnl_success;

    omp_set_num_threads(1);
#pragma omp parallel for num_threads(o->workers) schedule(static) reduction(max : worst)
    for (int i = 0; i < o->parts; i++) {
        char *mine = scratch + (size_t)omp_get_thread_num() * o->scratch_bytes;
        const int s = onednn_run_part(o, a, i, dw, mine);
        worst = DT_MAX(s, worst);
    }
    if (weights && worst == dnnl_success)
        worst = (int)onednn_run_sum(o, a->scratch, a->dw);
    omp_set_num_threads(threads);
    if (weights && c->bias)
        dt_bias_gradient(c, a->dy, scratch + o->scratch_bytes * (size_t)o->workers, a->dbias);
    return onednn_check((dnnl_status_t)worst, "execute");
}

double dt_onednn_seconds(float *matrix, int side, int threads)
{
    const size_t all = (size_t)side * (size_t)side;
    const int before = omp_get_max_threads();

    omp_set_num_threads(1);
    const double start = dt_seconds();
#pragma omp parallel num_threads(threads)
    (void)dnnl_sgemm('N', 'N', side, side, side, 1.0f, matrix, side, matrix + all, side, 0.0f,
                     matrix + (size_t)(2 + omp_get_thread_num()) * all, side);
    const double seconds = dt_seconds() - start;
    omp_set_num_threads(before);
    return seconds;
}

/* The jit 1x1 weight gradients copy the pixels of a strided convolution next to each other
 * in scratch. rtus_prepare_space_info asks for room for ic channels a pixel, but
 * execute_backward_weights puts a block of pixels where it would begin with ic_block
 * channels (8 under AVX2, 16 under AVX-512) each: with fewer channels than that behind the
 * end, where another thread's scratch lies. (Read in 2.6.3 and 3.7.1, seen in 2.6.3.) Networks
 * have such layers only with --width-divisor above 16. */
static bool onednn_overruns(const dt_conv *c)
{
    enum { MOST_CHANNELS_OF_A_BLOCK = 16 };

    return c->kernel[0] == 1 && c->kernel[1] == 1 && (c->stride[0] > 1 || c->stride[1] > 1) &&
           c->ic < MOST_CHANNELS_OF_A_BLOCK;
}

/* Each tensor of a part has fewer elements than 2^31: oneDNN computes many sizes with int. */
static bool onednn_supports(const dt_conv *c, dt_pass pass)
{
    const int parts = onednn_parts(c, pass);
    const int64_t n = (c->n + parts - 1) / parts;
    const int64_t size[][4] = {{n, c->ih, c->iw, c->ic},
                               {n, c->oh, c->ow, c->oc},
                               {c->kernel[0], c->kernel[1], c->ic, c->oc}};

    return c->type == DT_F32 && c->out_type == DT_F32 &&
           !(pass == DT_PASS_WEIGHTS && onednn_overruns(c)) &&
           dt_conv_fits(size, DT_COUNT_OF(size), INT_MAX);
}

static void onednn_version(char *out, size_t size)
{
    const dnnl_version_t *v = dnnl_version();
    snprintf(out, size, "%d.%d.%d", v->major, v->minor, v->patch);
}

const dt_kernel dt_kernel_onednn = {
    .name = "onednn",
    .supports = onednn_supports,
    .open = onednn_open,
    .run = onednn_run,
    .pack = onednn_pack,
    .close = onednn_close,
    .library = "oneDNN",
    .version = onednn_version,
};
