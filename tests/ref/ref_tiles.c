/* ref_tiles.c - bits of whole passes by tile products: one hash for each shape and class of
 * bits, on any backend of the class and any number of threads. What the numbers should be is the
 * matter of ref_conv.c; here it is that they never change unnoticed. */
#include "conv.h"
#include "model/kernels/tiles/tiles.h"
#include "tile_backends.h"

enum { AMX, DOT, FMA, CLASSES };

/* n, size, ic, oc, kernel, stride, padding (top and left; bottom and right one less where odd) */
static const struct shape {
    int n, size, ic, oc, kernel, stride, pad, bias;
    uint64_t hash[CLASSES]; /* of the three passes */
} shapes[] = {
    {1, 7, 3, 20, 3, 1, 1, 1, {0xdceecb5a754b01da, 0x0f0f376be302812a, 0x39d3337b5c6b7b62}},
    {2, 9, 3, 32, 7, 2, 3, 0, {0xaf3b4d6d0bb17843, 0xd8df1afc276a522a, 0x8ea44298edbc3d0b}},
    {15, 4, 32, 32, 3, 1, 1, 0, {0x76ccecd00ad46a5a, 0x37b0800f2beb1539, 0x11b698325bcb0514}},
    {16, 5, 40, 33, 3, 2, 1, 1, {0x609b8a33474cca7a, 0x894f486b12496b6d, 0xd3b418dcbc909466}},
    {17, 3, 64, 32, 1, 1, 0, 0, {0x0c364dd5cf20278c, 0x234219c77e4b7f7f, 0x2174a56a8f823637}},
    {31, 4, 32, 70, 1, 2, 0, 0, {0xd579409e8d1a09c2, 0xe9b1a7130264aec7, 0x5868dce8d3939ba2}},
    {32, 2, 64, 64, 3, 1, 1, 0, {0x4ee543ba65e423b7, 0xfcefe50f05c30712, 0xdefd04549aac35c2}},
    {33, 1, 96, 10, 1, 1, 0, 1, {0x67b9a5ff4273fa6a, 0x7e1d0b001493cbcf, 0xeb71146c2193892b}},
    {33, 1, 64, 32, 3, 1, 1, 0, {0x351c660db898e9f1, 0xc9087622c70421a9, 0x30205db5bd20e85d}},
    {4, 24, 8, 16, 3, 1, 1, 0, {0xd1922489e4e7a9b9, 0x395feff91d03ce56, 0x75cfeb4cd731c0c0}},
    {65, 3, 33, 31, 2, 2, 1, 1, {0x2b92652ad5d7fa18, 0x2229b4d4a7529bd5, 0xf328b2e60b9d90c9}},
};

/* Hash of what the passes write, the bias gradient included. */
static uint64_t shape_hash(const struct shape *s, dt_dtype type, int threads)
{
    const int odd = s->size % 2 && s->size > 1 && s->pad, rest = s->pad - odd;
    dt_conv c = conv_square(s->n, s->size, s->ic, s->oc, s->kernel, s->stride, s->pad, type);
    uint64_t all = 0;
    conv_problem p;

    c.pad[2] = c.pad[3] = rest;
    c.bias = s->bias;
    c.out_type = s->oc == 10 ? DT_F32 : type;
    conv_open(&p, c);
    for (int pass = 0; pass < DT_PASS_COUNT; pass++) {
        dt_hash h;
        conv_run r;
        conv_execute(&r, &p, (dt_pass)pass, s->n, threads);
        dt_hash_init(&h);
        dt_hash_update(&h, r.at[CONV_RESULT].data, r.bytes);
        dt_hash_update(&h, r.at[CONV_DBIAS].data, (size_t)s->oc * sizeof(float));
        all = (all ^ dt_hash_digest(&h).low) * 0x100000001b3u; /* as FNV-1a mixes bytes */
        conv_unmap(r.at, CONV_MADE);
    }
    conv_unmap(p.at, CONV_DRAWN);
    return all;
}

static void test_backend(void **state)
{
    static const int counts[] = {1, 2, 3, 24, 8, 128}; /* of threads */
    const dt_tile_backend *backend = *state;
    const int class = backend->type == DT_F32                 ? FMA
                      : strncmp(backend->name, "dot", 3) == 0 ? DOT
                                                              : AMX;
    bool same = true;

    if (!tile_backend_runs(backend))
        skip();
    dt_tile_use(backend);
    for (size_t i = 0; i < DT_COUNT_OF(shapes); i++)
        for (size_t k = dt_tiles_sharing.wait < 0 ? 4 : 0; k < DT_COUNT_OF(counts); k++) {
            const uint64_t got = shape_hash(&shapes[i], backend->type, counts[k]);
            if (got != shapes[i].hash[class])
                print_error("%s, shape %zu, %d threads: 0x%016llx\n", backend->name, i, counts[k],
                            (unsigned long long)got);
            same &= got == shapes[i].hash[class];
        }
    dt_tile_use(NULL);
    assert_true(same);
}

/* Where threads pack for each other, line by line or all lines at once. */
static void test_sharing(void **state)
{
    const struct dt_tiles_sharing usual = dt_tiles_sharing;

    for (int all = 0; all < 2; all++) {
        dt_tiles_sharing = (struct dt_tiles_sharing){-1e9, all ? (size_t)1 << 30 : 0};
        test_backend(state);
    }
    dt_tiles_sharing = usual;
}

int main(void)
{
    enum { ALL = TILE_BACKENDS + FLOAT_BACKENDS };
    struct CMUnitTest tests[ALL + 2];

    for (int i = 0; i < ALL; i++) {
        const dt_tile_backend *b =
            i < TILE_BACKENDS ? tile_backends[i] : float_backends[i - TILE_BACKENDS];
        tests[i] = (struct CMUnitTest){b->name, test_backend, NULL, NULL, (void *)(uintptr_t)b};
    }
    void *const bf16 = tests[0].initial_state, *const fp32 = tests[ALL - 1].initial_state;
    tests[ALL] = (struct CMUnitTest){"sharing", test_sharing, NULL, NULL, bf16};
    tests[ALL + 1] = (struct CMUnitTest){"float32 sharing", test_sharing, NULL, NULL, fp32};
    return _cmocka_run_group_tests("backends", tests, ALL + 2, NULL, NULL);
}
