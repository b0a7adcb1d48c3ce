/* ref_tiles.c - bits of whole passes by tile products: one hash for each shape and pass and class
 * of bits, on any way of the class and any number of threads. What the numbers should be is
 * ref_conv.c's matter; here it is that they never change unnoticed. */
#include "test.h"
#include "tile_ways.h"

/* n, size, ic, oc, kernel, stride, padding (top and left; bottom and right one less where odd) */
static const struct shape {
    int n, size, ic, oc, kernel, stride, pad;
    bool bias;
    /* low halves of the hashes: bf16 by the two classes, float32 */
    uint64_t amx[DT_PASS_COUNT], dot[DT_PASS_COUNT], fma[DT_PASS_COUNT];
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
     {0x2e022c084a2a3165, 0xfc559b5fe4fc1047, 0x9527d2798c358826},
     {0x43aa7b18b5942152, 0x81959d99d8820d42, 0x82fb4cd4361bb8ea}},
    {2,
     9,
     3,
     32,
     7,
     2,
     3,
     false,
     {0xa7a7e16cd86e3fa0, 0x229b0d80639d39c4, 0xdc7afdcd7f95db1d},
     {0xa7a7e16cd86e3fa0, 0x7fdd822dc098abfe, 0xa12916f30402cbd4},
     {0x0952cd7b3d6003f9, 0x92f3b4e9b640f2cd, 0xd019b11e1722daeb}},
    {15,
     4,
     32,
     32,
     3,
     1,
     1,
     false,
     {0x42fb3152724c79a4, 0xf078886d40437c79, 0x2bffa230ed51bbd1},
     {0x0b495aa9a514e964, 0xf078886d40437c79, 0x7f4ffbd4496f6a4c},
     {0x57f7a09e7cc96033, 0x4dc2a0ea789b0eab, 0x287fff943be2fffa}},
    {16,
     5,
     40,
     33,
     3,
     2,
     1,
     true,
     {0x63d4f8b4a8eb12d0, 0x4942651bd991e7a6, 0xf32ae1d65295d13c},
     {0x0b3015196fe50c58, 0x4942651bd991e7a6, 0x9e9d4c6fd6f24675},
     {0xd5a3238154798766, 0xfe4dcbe2b5b7a2e0, 0xf7b929127a349574}},
    {17,
     3,
     64,
     32,
     1,
     1,
     0,
     false,
     {0xafa58683276e5487, 0xc1006eda170656e4, 0xd3cf2d93018eec77},
     {0xafa58683276e5487, 0xc1006eda170656e4, 0x9abb5a611af4bd36},
     {0x5017faae7cdaf7cc, 0xd1fb41d47702709b, 0x1b0bffe5e4433760}},
    {31,
     4,
     32,
     70,
     1,
     2,
     0,
     false,
     {0x098b22bc07b72087, 0xa37d706f2afd0453, 0xca31562bd40d54f4},
     {0x098b22bc07b72087, 0xa37d706f2afd0453, 0x4981f2a699c2025f},
     {0x70e80bf96275434d, 0xc252c02184fa45c8, 0x4259234415d93e7b}},
    {32,
     2,
     64,
     64,
     3,
     1,
     1,
     false,
     {0x1388840a832e8f78, 0xdbe198ebbc31ca30, 0xd19b35b62e887ee5},
     {0x8c7ee0b33ca02fa0, 0xdbe198ebbc31ca30, 0xd3be74d7c8e92cd6},
     {0x6a8a25106e87769c, 0x710b6500396b0d5a, 0x9a515608b35088bc}},
    {33,
     1,
     96,
     10,
     1,
     1,
     0,
     true,
     {0x3ef0c38e7e401441, 0x00a4d9922d634ad3, 0x99608e60ea3f6d0e},
     {0xa32c0bb30f91b92a, 0x00a4d9922d634ad3, 0x03e8d00eaea940e2},
     {0x41ee71c986f8062c, 0xa85bd9723720f75d, 0x87031aaf9949da52}},
    {33,
     1,
     64,
     32,
     3,
     1,
     1,
     false,
     {0x7767119c4fcb4be7, 0x01a6daf41620181d, 0x4b7a60bb3515fe83},
     {0x7767119c4fcb4be7, 0x01a6daf41620181d, 0x3cf5f183eedbdc7b},
     {0xb22218dc19aa919e, 0xeb4c2882d3ee617b, 0x964daf9a43330e1c}},
    {4,
     24,
     8,
     16,
     3,
     1,
     1,
     false,
     {0xdad8d0d8d456a1c3, 0xf02d8bdc0f05c37d, 0x88d7e077cca9bccf},
     {0x1c13337e0bbe1d8b, 0xf02d8bdc0f05c37d, 0x99b3dfaea9736076},
     {0x691738f2a2aea42d, 0xb50bf52ec95b89ea, 0x367f00f51fb55187}},
    {65,
     3,
     33,
     31,
     2,
     2,
     1,
     true,
     {0xaacfb071e8036b63, 0x67330e7215baa2d6, 0xac6b0725ee219695},
     {0x85db1e0b3e8c0090, 0x82716cb5d3a40411, 0xddfd227f394939c4},
     {0xbad1e0106ce121b9, 0xed43d397646262b1, 0xd50c393334a4e70d}},
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

static void *typed(size_t count, uint32_t tensor, dt_dtype type)
{
    float *f = numbers(count, tensor);
    if (type == DT_F32)
        return f;
    dt_bf16 *to = room(count * sizeof *to);
    for (size_t i = 0; i < count; i++)
        to[i] = dt_f32_to_bf16(f[i]);
    free(f);
    return to;
}

/* Hash of what the pass writes, the bias gradient included. */
static uint64_t pass_hash(const struct shape *s, dt_pass pass, dt_dtype type, int threads)
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
                       .type = type,
                       .out_type = s->oc == 10 ? DT_F32 : type,
                       .threads = threads};
    const size_t xs = (size_t)(c.n * c.ih * c.iw * c.ic), ys = (size_t)(c.n * out * out * c.oc);
    const size_t ws = (size_t)(s->kernel * s->kernel * s->ic * s->oc);
    const size_t bytes = pass == DT_PASS_FORWARD ? ys * dt_dtype_bytes(c.out_type)
                         : pass == DT_PASS_DATA  ? xs * dt_dtype_bytes(type)
                                                 : ws * sizeof(float);
    const size_t biases = (size_t)c.oc * sizeof(float);
    dt_kernel_info info;
    void *state = NULL;

    assert_ok(dt_kernel_tiles.open(&state, &c, pass, &info));
    void *x = typed(xs, 1, type), *dy = typed(ys, 2, type);
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

typedef struct bits_class {
    const dt_tile_way *way;
    dt_dtype type;
    size_t place; /* of its hashes in struct shape */
} bits_class;

static void test_way(void **state)
{
    const bits_class *class = *state;
    const dt_tile_way *way = class->way;
    bool same = true;

    if (dt_isa_current() < way->isa)
        test_skip("bf16: way %s: this CPU has %s", way->name, dt_isa_name(dt_isa_current()));
    dt_tile_use(way);
    for (size_t i = 0; i < DT_COUNT_OF(shapes); i++)
        for (int pass = 0; pass < DT_PASS_COUNT; pass++) {
            uint64_t want;
            memcpy(&want, (const char *)&shapes[i] + class->place + (size_t)pass * sizeof want,
                   sizeof want);
            const uint64_t got = pass_hash(&shapes[i], (dt_pass)pass, class->type, 1);
            if (got != want)
                print_error("%s, shape %zu, pass %d: 0x%016llx\n", way->name, i, pass,
                            (unsigned long long)got);
            same &= got == want;
            for (int threads = 2; threads <= 4; threads++)
                assert_int_equal(pass_hash(&shapes[i], (dt_pass)pass, class->type, threads), got);
        }
    dt_tile_use(NULL);
    assert_true(same);
}

int main(void)
{
    static bits_class classes[TILE_WAYS + 1];
    struct CMUnitTest tests[TILE_WAYS + 1];
    size_t count = 0;

    for (; count < TILE_WAYS; count++) {
        const bool dot = strcmp(tile_ways[count]->name, "dot") == 0;
        classes[count] =
            (bits_class){tile_ways[count], DT_BF16,
                         dot ? offsetof(struct shape, dot) : offsetof(struct shape, amx)};
    }
#if defined(__x86_64__)
    classes[count++] = (bits_class){&dt_tile_way_fma, DT_F32, offsetof(struct shape, fma)};
#endif
    for (size_t i = 0; i < count; i++)
        tests[i] = (struct CMUnitTest){classes[i].way->name, test_way, NULL, NULL, &classes[i]};
    return _cmocka_run_group_tests("ways", tests, count, NULL, NULL);
}
