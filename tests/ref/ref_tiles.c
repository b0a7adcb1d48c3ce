/* ref_tiles.c - bits of whole passes by tile products: one hash for each shape and pass and class
 * of bits, on any way of the class and any number of threads. What the numbers should be is
 * ref_conv.c's matter; here it is that they never change unnoticed. */
#include "test.h"
#include "tile_ways.h"

/* n, size, ic, oc, kernel, stride, padding (top and left; bottom and right one less where odd) */
static const struct shape {
    int n, size, ic, oc, kernel, stride, pad;
    bool bias;
    uint64_t amx[DT_PASS_COUNT], dot[DT_PASS_COUNT]; /* low halves of the hashes */
} shapes[] = {
    {1,
     7,
     3,
     20,
     3,
     1,
     1,
     true,
     {0x2e022c084a2a3165, 0xfc559b5fe4fc1047, 0x261881a10711ccb6},
     {0x2e022c084a2a3165, 0xfc559b5fe4fc1047, 0x9527d2798c358826}},
    {2,
     9,
     3,
     32,
     7,
     2,
     3,
     false,
     {0xa7a7e16cd86e3fa0, 0x229b0d80639d39c4, 0xdc7afdcd7f95db1d},
     {0xa7a7e16cd86e3fa0, 0x7fdd822dc098abfe, 0xa12916f30402cbd4}},
    {15,
     4,
     32,
     32,
     3,
     1,
     1,
     false,
     {0x42fb3152724c79a4, 0xf078886d40437c79, 0x2bffa230ed51bbd1},
     {0x0b495aa9a514e964, 0xf078886d40437c79, 0x7f4ffbd4496f6a4c}},
    {16,
     5,
     40,
     33,
     3,
     2,
     1,
     true,
     {0x63d4f8b4a8eb12d0, 0x4942651bd991e7a6, 0xf32ae1d65295d13c},
     {0x0b3015196fe50c58, 0x4942651bd991e7a6, 0x9e9d4c6fd6f24675}},
    {17,
     3,
     64,
     32,
     1,
     1,
     0,
     false,
     {0xafa58683276e5487, 0xc1006eda170656e4, 0xd3cf2d93018eec77},
     {0xafa58683276e5487, 0xc1006eda170656e4, 0x9abb5a611af4bd36}},
    {31,
     4,
     32,
     70,
     1,
     2,
     0,
     false,
     {0x098b22bc07b72087, 0xa37d706f2afd0453, 0xca31562bd40d54f4},
     {0x098b22bc07b72087, 0xa37d706f2afd0453, 0x4981f2a699c2025f}},
    {32,
     2,
     64,
     64,
     3,
     1,
     1,
     false,
     {0x1388840a832e8f78, 0xdbe198ebbc31ca30, 0xd19b35b62e887ee5},
     {0x8c7ee0b33ca02fa0, 0xdbe198ebbc31ca30, 0xd3be74d7c8e92cd6}},
    {33,
     1,
     96,
     10,
     1,
     1,
     0,
     true,
     {0x3ef0c38e7e401441, 0x00a4d9922d634ad3, 0x99608e60ea3f6d0e},
     {0xa32c0bb30f91b92a, 0x00a4d9922d634ad3, 0x03e8d00eaea940e2}},
    {33,
     1,
     64,
     32,
     3,
     1,
     1,
     false,
     {0x7767119c4fcb4be7, 0x01a6daf41620181d, 0x4b7a60bb3515fe83},
     {0x7767119c4fcb4be7, 0x01a6daf41620181d, 0x3cf5f183eedbdc7b}},
    {4,
     24,
     8,
     16,
     3,
     1,
     1,
     false,
     {0xdad8d0d8d456a1c3, 0xf02d8bdc0f05c37d, 0x88d7e077cca9bccf},
     {0x1c13337e0bbe1d8b, 0xf02d8bdc0f05c37d, 0x99b3dfaea9736076}},
    {65,
     3,
     33,
     31,
     2,
     2,
     1,
     true,
     {0xaacfb071e8036b63, 0x67330e7215baa2d6, 0xac6b0725ee219695},
     {0x85db1e0b3e8c0090, 0x82716cb5d3a40411, 0xddfd227f394939c4}},
};

static void *room(size_t bytes)
{
    void *p = aligned_alloc(64, dt_align(bytes + 1, 64));
    assert_non_null(p);
    memset(p, 0xff, dt_align(bytes + 1, 64));
    return p;
}

static float *numbers(size_t count, uint32_t tensor)
{
    float *f = room(count * sizeof *f);
    dt_fill_uniform(f, count, -1, 1, 1, DT_STREAM_TEST, tensor);
    return f;
}

static dt_bf16 *rounded(size_t count, uint32_t tensor)
{
    float *f = numbers(count, tensor);
    dt_bf16 *to = room(count * sizeof *to);
    for (size_t i = 0; i < count; i++)
        to[i] = dt_f32_to_bf16(f[i]);
    free(f);
    return to;
}

/* Hash of what the pass writes, the bias gradient included. */
static uint64_t pass_hash(const struct shape *s, dt_pass pass, int threads)
{
    const int odd = s->size % 2 && s->size > 1 && s->pad, rest = s->pad - odd;
    const int out = (s->size + s->pad + rest - s->kernel) / s->stride + 1;
    const dt_conv c = {.n = s->n,
                       .ih = s->size,
                       .iw = s->size,
                       .ic = s->ic,
                       .oh = out,
                       .ow = out,
                       .oc = s->oc,
                       .kernel = {s->kernel, s->kernel},
                       .stride = {s->stride, s->stride},
                       .pad = {s->pad, s->pad, rest, rest},
                       .bias = s->bias,
                       .type = DT_BF16,
                       .out_type = s->oc == 10 ? DT_F32 : DT_BF16,
                       .threads = threads};
    const size_t xs = (size_t)(c.n * c.ih * c.iw * c.ic), ys = (size_t)(c.n * out * out * c.oc);
    const size_t ws = (size_t)(s->kernel * s->kernel * s->ic * s->oc);
    const size_t bytes = pass == DT_PASS_FORWARD ? ys * dt_dtype_bytes(c.out_type)
                         : pass == DT_PASS_DATA  ? xs * sizeof(dt_bf16)
                                                 : ws * sizeof(float);
    const size_t biases = (size_t)c.oc * sizeof(float);
    dt_kernel_info info;
    void *state = NULL;

    assert_ok(dt_kernel_tiles.open(&state, &c, pass, &info));
    dt_bf16 *x = rounded(xs, 1), *dy = rounded(ys, 2);
    float *w = numbers(ws, 3), *bias = numbers((size_t)c.oc, 4);
    char *packed = room(info.packed_bytes), *scratch = room(info.scratch_bytes);
    char *got = room(bytes + biases);
    if (info.packed_bytes)
        dt_kernel_tiles.pack(state, w, packed);
    const dt_conv_args a = {.x = x,
                            .dy = dy,
                            .y = got,
                            .dx = got,
                            .dw = (float *)(void *)got,
                            .packed = packed,
                            .bias = bias,
                            .dbias = (float *)(void *)(got + bytes),
                            .scratch = scratch};
    assert_ok(dt_kernel_tiles.run(state, &a));
    const dt_digest d = dt_hash_bytes(got, bytes + biases);
    dt_kernel_tiles.close(state);
    void *const all[] = {x, dy, w, bias, packed, scratch, got};
    for (size_t i = 0; i < DT_COUNT_OF(all); i++)
        free(all[i]);
    return d.low;
}

static void check_way(const dt_tile_way *way, bool dot)
{
    bool same = true;

    dt_tile_use(way);
    for (size_t i = 0; i < DT_COUNT_OF(shapes); i++)
        for (int pass = 0; pass < DT_PASS_COUNT; pass++) {
            const uint64_t want = (dot ? shapes[i].dot : shapes[i].amx)[pass];
            const uint64_t got = pass_hash(&shapes[i], (dt_pass)pass, 1);
            if (got != want)
                print_error("%s, shape %zu, pass %d: 0x%016llx\n", way->name, i, pass,
                            (unsigned long long)got);
            same &= got == want;
            for (int threads = 2; threads <= 4; threads++)
                assert_int_equal(pass_hash(&shapes[i], (dt_pass)pass, threads), got);
        }
    dt_tile_use(NULL);
    assert_true(same);
}

static void test_way(void **state)
{
    const dt_tile_way *way = *state;

    if (dt_isa_current() < way->isa)
        test_skip("bf16: way %s: this CPU has %s", way->name, dt_isa_name(dt_isa_current()));
    check_way(way, strcmp(way->name, "dot") == 0);
}

int main(void)
{
    struct CMUnitTest tests[TILE_WAYS];

    for (size_t i = 0; i < TILE_WAYS; i++)
        tests[i] = (struct CMUnitTest){tile_ways[i]->name, test_way, NULL, NULL,
                                       (void *)(uintptr_t)tile_ways[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
