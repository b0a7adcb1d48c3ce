/* model_whiten.c - airbench's first numbers: filters that make patches white, with bits that no CPU
 * decides, partial identities, and which numbers are trained. */
#include "net.h"

static const dt_net_spec airbench = {.net = "airbench", .classes = 10, .width_divisor = 1};

static double draw(uint32_t s, uint32_t i)
{
    uint32_t bits[4];
    dt_random(7, DT_STREAM_TEST, s, i, 0, bits);
    return 2 * (double)dt_uniform(bits[0]) - 1;
}

/* A mean of p p' with eigenvalues from 1e-3 to some ten; `turn` gives each another matrix. */
static void make_patches(double out[DT_PATCH][DT_PATCH], int turn)
{
    enum { SAMPLES = 40 };

    memset(out, 0, DT_PATCH * sizeof *out);
    for (uint32_t s = 0; s < SAMPLES; s++)
        for (uint32_t i = 0; i < DT_PATCH; i++)
            for (uint32_t k = 0; k < DT_PATCH; k++)
                out[i][k] += (1 + draw(s + 100 * (uint32_t)turn, i) / (1 << i / 2)) *
                             (1 + draw(s + 100 * (uint32_t)turn, k) / (1 << k / 2)) / SAMPLES;
}

typedef float filters[2 * DT_PATCH][DT_PATCH];
static void whiten(test_net *t, double patches[DT_PATCH][DT_PATCH], filters w)
{
    double spent[DT_PATCH][DT_PATCH];

    memcpy(spent, patches, sizeof spent);
    dt_model_whiten(t->model, spent);
    dt_param_to_file(&t->net->param[0], (float *)t->master.mem + t->net->param[0].offset, w[0]);
}

static void open_net(test_net *t)
{
    const dt_model_opts opts = {.precision = DT_F32, .threads = 1};

    test_net_create(t, &airbench, &opts);
    test_net_bind(t);
    test_net_init(t, 1, false);
}

/* W C W' is l / (l + 5e-4) on its diagonal, l the eigenvalues, and 0 elsewhere: float32 rounds each
 * filter by 2^-24 of its largest number, some 30, and the products add up to ten. */
TEST(patches_become_white)
{
    double patches[DT_PATCH][DT_PATCH];
    filters w;
    test_net t;

    open_net(&t);
    for (int turn = 0; turn < 20; turn++) {
        double before = HUGE_VAL;
        make_patches(patches, turn);
        whiten(&t, patches, w);
        for (int a = 0; a < DT_PATCH; a++) {
            double norm = 0; /* 1 / (l + 5e-4) */
            int largest = 0;
            for (int i = 0; i < DT_PATCH; i++) {
                norm += (double)w[a][i] * (double)w[a][i];
                largest = fabsf(w[a][i]) > fabsf(w[a][largest]) ? i : largest;
                assert_true(w[DT_PATCH + a][i] == -w[a][i]);
            }
            for (int b = 0; b < DT_PATCH; b++) {
                double sum = 0;
                for (int i = 0; i < DT_PATCH; i++)
                    for (int k = 0; k < DT_PATCH; k++)
                        sum += (double)w[a][i] * patches[i][k] * (double)w[b][k];
                assert_true(fabs(sum - (a == b ? 1 - 5e-4 * norm : 0)) < 1e-4);
            }
            assert_true(w[a][largest] > 0 && 1 / norm <= before); /* sign and order */
            before = 1 / norm;
        }
    }
    test_net_close(&t);
}

/* Recorded on an x86-64 with AVX2: the bits of every CPU. Ones of zeros, and equal eigenvalues. */
TEST(filters_have_one_hash)
{
    double patches[DT_PATCH][DT_PATCH] = {{0}};
    char text[DT_DIGEST_CHARS];
    filters w;
    test_net t;

    open_net(&t);
    for (int i = 0; i < DT_PATCH; i++)
        patches[i][i] = i < 3 ? 0 : 4;
    whiten(&t, patches, w);
    for (int i = 0; i < DT_PATCH; i++)
        for (int k = 0; k < DT_PATCH; k++)
            assert_true(w[i][k] ==
                        (k != (i + 3) % DT_PATCH ? 0 : (float)(1 / sqrt(patches[k][k] + 5e-4))));
    make_patches(patches, 7);
    whiten(&t, patches, w);
    dt_digest_text(dt_hash_bytes(w, sizeof w), text);
    assert_string_equal(text, "c78556acb2e915370aeb329d8b911666");
    test_net_close(&t);
}

/* torch.nn.init.dirac_(w[:w.size(1)]), and what trains. */
TEST(first_numbers_are_the_programs)
{
    test_net t;
    float *file = malloc(600000 * sizeof *file);
    size_t still = 0;

    open_net(&t);
    assert_true(file && t.net->whitens);
    for (size_t i = 0; i < t.net->params; i++) {
        const dt_param *p = &t.net->param[i];
        const size_t ins = (size_t)p->dim[1], outs = (size_t)p->dim[0];
        assert_int_equal(p->frozen, p->kind == DT_GAMMA || i == 0);
        assert_int_equal(p->epochs, i == 1 ? 3 : 0); /* whiten.bias */
        still += p->frozen ? p->count : 0;
        dt_param_to_file(p, (float *)t.master.mem + p->offset, file);
        for (size_t e = 0; i > 0 && p->rank == 4 && e < p->count; e++) {
            const size_t o = e / (ins * 9), in = e / 9 % ins;
            if (o < DT_MIN(ins, outs))
                assert_true(file[e] == (in == o && e % 9 == 4 ? 1 : 0));
            else
                assert_true(file[e] * file[e] * 9 * (float)ins <= 1);
        }
        for (size_t e = 0; p->rank == 1 && e < p->count; e++)
            assert_true(file[e] == (p->kind == DT_GAMMA ? 1 : 0));
    }
    assert_int_equal(still, 1440);
    free(file);
    test_net_close(&t);
}
