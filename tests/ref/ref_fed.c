/* ref_fed.c - sums of batch norms that convolutions call while rows are in their caches: each row
 * is in one block, and the bits are those of a batch norm that calls its sums itself. */
#include "model/kernels/tiles/tiles.h"
#include "net.h"
#include "wave.h"

enum { CLASSES = 10 };
#ifdef __SANITIZE_ADDRESS__
enum { WIDTH_DIVISOR = 8 }; /* they are slow */
#else
enum { WIDTH_DIVISOR = 2 };
#endif

/* ---- Blocks ---------------------------------------------------------------------- */

static void assert_each_row_once(const dt_rows *r)
{
    const size_t rows = (size_t)(r->images * r->lines * r->width);
    char *seen = NULL;

    assert_ok(dt_calloc(&seen, rows, 1, "rows"));
    for (int64_t b = 0; b < dt_rows_blocks(r); b++) {
        const dt_rows_block x = dt_rows_at(r, b);
        assert_true(dt_rows_in(&x) > 0);
        for (int64_t run = 0; run < x.folds * x.images; run++)
            for (int64_t k = 0; k < x.pixels; k++) {
                const int64_t row =
                    x.first + run / x.images * x.fold + run % x.images * x.image + k;
                assert_in_range(row, 0, rows - 1);
                assert_int_equal(seen[row]++, 0);
            }
    }
    for (size_t i = 0; i < rows; i++)
        assert_int_equal(seen[i], 1);
    free(seen);
}

TEST(each_row_is_in_one_block)
{
    static const int64_t images[] = {1, 2, 5, 8, 16, 31, 33, 70}, side[] = {1, 2, 7, 13, 14, 40};
    static const int kernel[][3] = {{1, 1, 0}, {1, 2, 0}, {3, 1, 1}, {3, 2, 1}, {7, 2, 3}};

    for (size_t n = 0; n < DT_COUNT_OF(images); n++)
        for (size_t s = 0; s < DT_COUNT_OF(side); s++)
            for (size_t k = 0; k < DT_COUNT_OF(kernel); k++) {
                const int *a = kernel[k];
                const int64_t out = (side[s] + 2 * a[2] - a[0]) / a[1] + 1;
                const dt_conv c = {.n = images[n],
                                   .ih = side[s],
                                   .iw = side[s],
                                   .ic = 64,
                                   .oh = out,
                                   .ow = out,
                                   .oc = 64,
                                   .kernel = {a[0], a[0]},
                                   .stride = {a[1], a[1]},
                                   .pad = {a[2], a[2], a[2], a[2]},
                                   .type = DT_F32,
                                   .out_type = DT_F32,
                                   .threads = 1};
                const dt_rows forward = dt_kernel_rows(&c, DT_PASS_FORWARD);
                const dt_rows data = dt_kernel_rows(&c, DT_PASS_DATA);
                assert_int_equal(forward.images * forward.lines * forward.width, c.n * c.oh * c.ow);
                assert_int_equal(data.images * data.lines * data.width, c.n * c.ih * c.iw);
                assert_each_row_once(&forward);
                assert_each_row_once(&data);
            }
}

/* ---- Bits ------------------------------------------------------------------------ */

typedef struct fed_case {
    const char *net, *stem;
    int image_size, divisor, threads;
    int64_t batch;
    bool staged;
} fed_case;

static void unfeed(dt_plan *p)
{
    for (int i = 0; i < p->steps; i++) {
        memset(p->step[i].feeds, -1, sizeof p->step[i].feeds);
        memset(p->step[i].fed_by, -1, sizeof p->step[i].fed_by);
    }
}

/* Steps that a convolution feeds; or those whose rows it does not store itself. */
static int count_fed(const dt_plan *p, dt_way way, bool staged)
{
    int fed = 0;

    for (int i = 0; i < p->steps; i++) {
        const int from = p->step[i].fed_by[way];
        const dt_pass pass = way == DT_FORWARD ? DT_PASS_FORWARD : DT_PASS_DATA;
        fed += from >= 0 && (!staged || p->step[from].tiles[pass]->stage > 0);
    }
    return fed;
}

/* Of a step's loss, moments and gradients. */
static dt_digest digest_step(const fed_case *c, dt_dtype type, bool fed)
{
    const dt_net_spec spec = {.net = c->net,
                              .variant = "torchvision",
                              .stem = c->stem,
                              .image_size = c->image_size,
                              .classes = CLASSES,
                              .width_divisor = c->divisor};
    const dt_model_opts opts = {.precision = type, .threads = c->threads};
    const size_t pixels = (size_t)(c->batch * c->image_size * c->image_size) * 3;
    float *images = NULL;
    test_net n;
    wave w;
    dt_hash h;

    test_net_create(&n, &spec, &opts);
    wave_plan(&w, n.model, &c->batch, 1);
    for (int way = 0; way < DT_WAYS; way++) {
        const bool feeds = way == DT_FORWARD || strcmp(c->net, "resnet50") == 0;
        assert_int_equal(count_fed(w.plan[0], (dt_way)way, false) > 0, feeds);
        assert_int_equal(count_fed(w.plan[0], (dt_way)way, true) > 0, c->staged);
    }
    if (!fed)
        unfeed(w.plan[0]);
    test_net_bind(&n);
    test_net_init(&n, 3, false);
    dt_model_pack(n.model, 0, 1);
    wave_bind(&w);
    assert_ok(dt_calloc(&images, pixels, sizeof *images, "images"));
    dt_fill_normal(images, pixels, 1.0, 5, DT_STREAM_TEST, 7);
    test_round(w.exec[0]->input, images, pixels, type);
    free(images);
    for (int64_t i = 0; i < c->batch; i++)
        w.exec[0]->labels[i] = (int32_t)(i * 7 % CLASSES);
    const double loss = wave_step_with(&w, NULL, (double)c->batch);
    assert_true(isfinite(loss));
    dt_hash_init(&h);
    dt_hash_update(&h, &loss, sizeof loss);
    dt_hash_update(&h, w.moments[0], n.net->norm_channels * sizeof(dt_moment));
    dt_hash_update(&h, w.grad[0].mem, n.net->slab_floats * sizeof(float));
    wave_close(&w);
    test_net_close(&n);
    return dt_hash_digest(&h);
}

static bool quick_bf16(void)
{
    const dt_tile_backend *b = dt_tile_current(DT_BF16);
    return b && b->isa > DT_ISA_PORTABLE;
}

static void check(const fed_case *c, dt_dtype type)
{
    fed_case other = *c;
    const dt_digest fed = digest_step(c, type, true), own = digest_step(c, type, false);

    assert_true(fed.low == own.low && fed.high == own.high);
    for (other.threads = 2; other.threads <= c->threads; other.threads += 2) {
        const dt_digest more = digest_step(&other, type, true);
        assert_true(fed.low == more.low && fed.high == more.high);
    }
}

TEST(a_convolution_that_calls_the_sums_changes_no_bit)
{
    static const fed_case cases[] = {
        {"resnet50", "imagenet", 48, 16, 4, 3, false},  {"resnet50", "cifar", 20, 16, 6, 9, false},
        {"resnet50", "imagenet", 64, 32, 2, 33, false}, {"resnet9", "cifar", 32, 16, 4, 5, false},
        {"vgg11", "imagenet", 32, 16, 2, 17, false},
    };

    for (size_t i = 0; i < DT_COUNT_OF(cases); i++) {
        check(&cases[i], DT_F32);
        if (quick_bf16())
            check(&cases[i], DT_BF16);
    }
}

/* Rows are taken before they are stored; under sanitizers, of one block of channels alone. */
TEST(rows_that_are_stored_past_the_caches_change_no_bit)
{
    enum { BATCH = 10 * WIDTH_DIVISOR };

    check(&(fed_case){"resnet50", "cifar", 32, WIDTH_DIVISOR, 2, BATCH, true}, DT_F32);
    if (quick_bf16())
        check(&(fed_case){"resnet50", "cifar", 32, WIDTH_DIVISOR, 2, 2 * BATCH, true}, DT_BF16);
}
