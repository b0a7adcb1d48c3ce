/* ref_bounds.c - no kernel row reads or writes outside of what it was given: every operand ends at
 * a page that nobody may touch, on each instruction set that this CPU has. A library that writes
 * behind its scratch changes what another thread is adding up: other bits, now and then. */
#include "test.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model/kernels/kernel.h"

static const dt_kernel *const rows[] = {
#define X(name) &dt_kernel_##name,
    DT_KERNEL_LIST(X)
#undef X
};
enum { ROWS = sizeof rows / sizeof *rows, PAGE = 4096, TRIALS = 60 };

/* ---- Fenced memory --------------------------------------------------------------- */

typedef struct fenced {
    char *map, *data; /* owned; data ends, rounded up to 64 bytes as in an arena, at the fence */
    size_t mapped;
} fenced;

static fenced fenced_make(size_t bytes)
{
    const size_t all = dt_align(bytes + 1, 64), pages = dt_align(all, PAGE);
    fenced f = {.mapped = pages + PAGE};

    f.map = mmap(NULL, f.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (f.map == MAP_FAILED || mprotect(f.map + pages, PAGE, PROT_NONE) != 0)
        abort();
    f.data = f.map + pages - all;
    return f;
}

static fenced fenced_numbers(size_t count, dt_dtype type, uint32_t seed)
{
    const fenced f = fenced_make(count * dt_dtype_bytes(type));
    float *number = malloc((count + 1) * sizeof *number);

    if (!number)
        abort();
    dt_fill_uniform(number, count, -1, 1, seed, DT_STREAM_TEST, 0);
    for (size_t i = 0; i < count && type == DT_BF16; i++)
        ((dt_bf16 *)f.data)[i] = dt_f32_to_bf16(number[i]);
    if (type == DT_F32)
        memcpy(f.data, number, count * sizeof *number);
    free(number);
    return f;
}

/* ---- One pass -------------------------------------------------------------------- */

enum { X, DY, RESULT, SCRATCH, PACKED, MASTER, BIAS, DBIAS, OPERANDS };

/* On one thread, so that the scratch's end is the end of a thread's scratch. */
static dt_status run_pass(const dt_kernel *k, const dt_conv *c, dt_pass pass, char *impl)
{
    const size_t x = (size_t)(c->n * c->ih * c->iw * c->ic);
    const size_t y = (size_t)(c->n * c->oh * c->ow * c->oc), oc = (size_t)c->oc;
    const size_t w = (size_t)(c->kernel[0] * c->kernel[1] * c->ic * c->oc);
    const size_t result = pass == DT_PASS_WEIGHTS ? w : pass == DT_PASS_DATA ? x : y;
    dt_kernel_info info;
    void *state = NULL;
    dt_status st;

    DT_TRY(k->open(&state, c, pass, &info));
    memcpy(impl, info.impl, sizeof info.impl);
    fenced f[OPERANDS] = {
        [X] = fenced_numbers(x, c->type, 1),
        [DY] = fenced_numbers(y, c->type, 2),
        [RESULT] = fenced_make(result *
                               (pass == DT_PASS_WEIGHTS ? sizeof(float) : dt_dtype_bytes(c->type))),
        [SCRATCH] = fenced_make(info.scratch_bytes),
        [PACKED] = fenced_make(info.packed_bytes),
        [MASTER] = fenced_numbers(w, DT_F32, 3),
        [BIAS] = fenced_numbers(oc, DT_F32, 4),
        [DBIAS] = fenced_make(oc * sizeof(float)),
    };
    if (info.packed_bytes > 0)
        k->pack(state, (float *)f[MASTER].data, f[PACKED].data);
    st = k->run(state, &(dt_conv_args){
                           .x = f[X].data,
                           .dy = f[DY].data,
                           .y = f[RESULT].data,
                           .dx = f[RESULT].data,
                           .packed = info.packed_bytes ? f[PACKED].data : NULL,
                           .master = info.packed_bytes ? NULL : (float *)f[MASTER].data,
                           .bias = (float *)f[BIAS].data,
                           .dw = (float *)f[RESULT].data,
                           .dbias = (float *)f[DBIAS].data,
                           .scratch = f[SCRATCH].data,
                       });
    k->close(state);
    for (int i = 0; i < OPERANDS; i++)
        munmap(f[i].map, f[i].mapped);
    return st;
}

/* ---- Shapes ---------------------------------------------------------------------- */

/* Height, width, ic, oc, strides of 1x1 windows: seen to make oneDNN 2.6.3 write behind its
 * scratch, under AVX2, AVX-512 and AVX512_BF16. */
static const int known[][6] = {
    {38, 38, 3, 17, 2, 2},
    {40, 40, 7, 13, 2, 2},
    {38, 28, 8, 16, 1, 2},
    {8, 38, 9, 1, 2, 2},
};
enum { KNOWN = sizeof known / sizeof *known };

static int any_of(const int *of, int count, float unit)
{
    return of[(int)(unit * (float)count)];
}

static dt_conv random_shape(uint32_t seed)
{
    static const int channels[] = {1, 2, 3, 4, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 64};
    static const int kernels[] = {1, 1, 2, 3, 3, 5, 7};
    float u[7];
    dt_fill_uniform(u, 7, 0, 1, seed, DT_STREAM_TEST, 1);
    const int kernel = any_of(kernels, 7, u[4]), pad = (kernel - 1) / 2;
    return (dt_conv){.n = 1 + (int)(12 * u[0]),
                     .ih = kernel + (int)(32 * u[1]),
                     .iw = kernel + (int)(32 * u[6]),
                     .ic = any_of(channels, 16, u[2]),
                     .oc = any_of(channels, 16, u[3]),
                     .kernel = {kernel, kernel},
                     .stride = {1 + (u[5] > 0.5F), 1 + (u[5] > 0.3F)},
                     .pad = {pad, pad, pad, pad}};
}

static dt_conv shape(int trial, dt_dtype type)
{
    dt_conv c = random_shape((uint32_t)trial);

    if (trial < KNOWN) {
        const int *q = known[trial];
        c = (dt_conv){.n = 11,
                      .ih = q[0],
                      .iw = q[1],
                      .ic = q[2],
                      .oc = q[3],
                      .kernel = {1, 1},
                      .stride = {q[4], q[5]}};
    }
    c.oh = (c.ih + c.pad[0] + c.pad[2] - c.kernel[0]) / c.stride[0] + 1;
    c.ow = (c.iw + c.pad[1] + c.pad[3] - c.kernel[1]) / c.stride[1] + 1;
    c.bias = trial % 2;
    c.type = c.out_type = type;
    c.threads = 1;
    return c;
}

/* ---- All of them, in a child of its own ------------------------------------------ */

typedef struct now { /* what the child is at, in memory that its parent sees */
    dt_conv c;
    dt_pass pass;
    const char *row;
    char impl[64]; /* of the pass before, until this one's kernel is open */
    int passes;
} now;

static void run_trials(dt_isa isa, now *at)
{
    dt_isa_limit(isa);
    for (int trial = 0; trial < 2 * TRIALS; trial++)
        for (int r = 0; r < ROWS; r++)
            for (int pass = 0; pass < DT_PASS_COUNT; pass++) {
                at->c = shape(trial / 2, trial % 2 ? DT_BF16 : DT_F32);
                at->pass = (dt_pass)pass;
                at->row = rows[r]->name;
                if (!rows[r]->supports(&at->c, at->pass))
                    continue;
                if (run_pass(rows[r], &at->c, at->pass, at->impl) != DT_OK)
                    _exit(2);
                at->passes++;
            }
    _exit(0);
}

static void check_isa(dt_isa isa)
{
    now *at = mmap(NULL, sizeof *at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 0;

    assert_true(at != MAP_FAILED);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        run_trials(isa, at);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0)
        fail_msg("%s: %s (%s), pass %d, %s, n %d, %dx%dx%d -> %dx%dx%d, kernel %dx%d, stride "
                 "%dx%d, bias %d: wait status %#x",
                 dt_isa_name(isa), at->row, at->impl, (int)at->pass, dt_dtype_name(at->c.type),
                 (int)at->c.n, (int)at->c.ih, (int)at->c.iw, (int)at->c.ic, (int)at->c.oh,
                 (int)at->c.ow, (int)at->c.oc, at->c.kernel[0], at->c.kernel[1], at->c.stride[0],
                 at->c.stride[1], at->c.bias, (unsigned)status);
    print_message("%s: %d passes\n", dt_isa_name(isa), at->passes);
    assert_true(at->passes >= TRIALS);
    munmap(at, sizeof *at);
}

static void test_bounds(void **state)
{
    (void)state;
    for (int isa = 0; isa <= (int)dt_isa_current(); isa++)
        check_isa((dt_isa)isa);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bounds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
