/* conv.h - one pass of a convolution on random operands that end where a page
 * begins that may not be touched: a kernel that writes behind its scratch changes what another
 * thread is adding up, and so bits, now and then. */
#ifndef DT_TEST_CONV_H
#define DT_TEST_CONV_H
#include "model/kernels/kernel.h"
#include "numbers.h"

#include <sys/mman.h>

typedef struct conv_memory { /* ends, rounded up to 64 bytes as in an arena, at the fence */
    char *map, *data;        /* owned */
    size_t mapped;
} conv_memory;

enum { CONV_X, CONV_DY, CONV_MASTER, CONV_BIAS, CONV_DRAWN };
typedef struct conv_problem {
    dt_conv c;
    size_t size[CONV_DRAWN];    /* elements of the operands */
    conv_memory at[CONV_DRAWN]; /* from [-1, 1) */
    const dt_cut *some;         /* whose first the operands begin with; NULL: all channels */
} conv_problem;

enum { CONV_RESULT, CONV_DBIAS, CONV_SCRATCH, CONV_PACKED, CONV_MADE };
typedef struct conv_run {
    dt_pass pass;
    dt_kernel_info info;
    size_t count, bytes; /* of the result: y, dx or dw */
    conv_memory at[CONV_MADE];
} conv_run;

static inline conv_memory conv_room(size_t bytes)
{
    enum { PAGE = 4096 };
    const size_t all = dt_align(bytes + 1, 64), pages = dt_align(all, PAGE);
    conv_memory m = {.mapped = pages + PAGE};

    m.map = mmap(NULL, m.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(m.map != MAP_FAILED);
    assert_int_equal(mprotect(m.map + pages, PAGE, PROT_NONE), 0);
    m.data = m.map + pages - all;
    memset(m.data, 0xff, all); /* NaN: nothing may be read before it is written */
    return m;
}

static inline dt_dtype conv_type(const conv_problem *p, int operand)
{
    return operand <= CONV_DY ? p->c.type : DT_F32;
}

static inline void conv_draw(conv_problem *p, int operand)
{
    const size_t n = p->size[operand];
    float *number = malloc((n + 1) * sizeof *number);

    assert_non_null(number);
    dt_fill_uniform(number, n, -1, 1, 1, DT_STREAM_TEST, (uint32_t)operand + 1);
    p->at[operand] = conv_room(n * dt_dtype_bytes(conv_type(p, operand)));
    test_round(p->at[operand].data, number, n, conv_type(p, operand));
    free(number);
}

/* A square image and kernel, padded alike on all sides; the output size is conv_open's. */
static inline dt_conv conv_square(int64_t n, int64_t size, int64_t ic, int64_t oc, int kernel,
                                  int stride, int pad, dt_dtype type)
{
    return (dt_conv){.n = n,
                     .ih = size,
                     .iw = size,
                     .ic = ic,
                     .oc = oc,
                     .kernel = {kernel, kernel},
                     .stride = {stride, stride},
                     .pad = {pad, pad, pad, pad},
                     .type = type,
                     .out_type = type};
}

/* The operands of c, whose output size is filled in. */
static inline void conv_open(conv_problem *p, dt_conv c)
{
    c.oh = (c.ih + c.pad[0] + c.pad[2] - c.kernel[0]) / c.stride[0] + 1;
    c.ow = (c.iw + c.pad[1] + c.pad[3] - c.kernel[1]) / c.stride[1] + 1;
    *p = (conv_problem){.c = c,
                        .size = {(size_t)(c.n * c.ih * c.iw * c.ic),
                                 (size_t)(c.n * c.oh * c.ow * c.oc),
                                 (size_t)(c.kernel[0] * c.kernel[1] * c.ic * c.oc), (size_t)c.oc}};
    for (int i = 0; i < CONV_DRAWN; i++)
        conv_draw(p, i);
}

static inline void conv_unmap(conv_memory *at, int count)
{
    for (int i = 0; i < count; i++)
        munmap(at[i].map, at[i].mapped);
}

/* The pass over the first n images. It runs twice, because a step reuses what the one before left
 * behind. */
static inline void conv_execute(conv_run *r, const conv_problem *p, dt_pass pass, int64_t n,
                                int threads)
{
    dt_conv c = p->c;
    const size_t image = p->size[pass == DT_PASS_DATA ? CONV_X : CONV_DY] / (size_t)c.n;
    dt_tiles *t = NULL;

    c.n = n;
    c.threads = threads;
    *r = (conv_run){.pass = pass,
                    .count = pass == DT_PASS_WEIGHTS ? p->size[CONV_MASTER] : image * (size_t)n};
    r->bytes = r->count * dt_dtype_bytes((const dt_dtype[]){c.out_type, c.type, DT_F32}[pass]);
    assert_ok(dt_kernel_open(&t, &c, pass, p->some, &r->info));
    r->at[CONV_RESULT] = conv_room(r->bytes);
    r->at[CONV_DBIAS] = conv_room(p->size[CONV_BIAS] * sizeof(float));
    r->at[CONV_SCRATCH] = conv_room(r->info.scratch_bytes);
    r->at[CONV_PACKED] = conv_room(r->info.packed_bytes);
    if (r->info.packed_bytes)
        dt_kernel_pack(t, (float *)p->at[CONV_MASTER].data, r->at[CONV_PACKED].data, 0,
                       r->info.packed_bytes);
    const dt_conv_args a = {.x = p->at[CONV_X].data,
                            .dy = p->at[CONV_DY].data,
                            .y = r->at[CONV_RESULT].data,
                            .dx = r->at[CONV_RESULT].data,
                            .dw = (float *)r->at[CONV_RESULT].data,
                            .packed = r->at[CONV_PACKED].data,
                            .bias = (float *)p->at[CONV_BIAS].data,
                            .dbias = (float *)r->at[CONV_DBIAS].data,
                            .scratch = r->at[CONV_SCRATCH].data};
    dt_kernel_run(t, &a);
    dt_kernel_run(t, &a);
    dt_kernel_close(t);
}
#endif
