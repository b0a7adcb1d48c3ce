/* lib_ddp.c - gradients of the library's DistributedDataParallel against the recursive definition
 * of their sum, made here by each rank alone; rounds that lack some; hooks; optimiser; samplers. */
#include "library.h"

enum { TENSORS = 6, LEAVES = 11, STEPS = 4, MOST = 20000 };
static const size_t sizes[TENSORS] = {10, 3000, 1, 0, 733, MOST};
static const char *const names[TENSORS] = {"w1", "b1", "w2", "none", NULL, "w3"};
static float gradient[TENSORS][MOST];
static dtd_tensor list[TENSORS];

static void list_gradients(void)
{
    for (int t = 0; t < TENSORS; t++)
        list[t] = (dtd_tensor){gradient[t], sizes[t], DTD_F32, names[t]};
}

/* ---- What gradients are, and the definition of their sum ----------------------------------- */

typedef struct ddp_case {
    dtd_ddp_opts o;
    dtd_hook hook;
    double threshold;
} ddp_case;

/* Multiples of 2^-5 below 2^18: a few of them add up without rounding; more, or rounded to bf16, do
 * not, so orders show. With 2 bits below 2. */
static float value(const ddp_case *k, int step, int leaf, int part, int t, size_t i)
{
    uint64_t x =
        ((((uint64_t)step * 64 + (uint64_t)leaf) * 64 + (uint64_t)part) * 8 + (uint64_t)t) * MOST +
        i;
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
    x ^= x >> 33;
    const int64_t bits = (int64_t)(x % (1u << 24)) - (1 << 23);
    return k->hook == DTD_HOOK_2BIT ? (float)(bits % 128) * 0x1p-6f : (float)bits * 0x1p-5f;
}

static bool unused(int step, int leaf, int part, int t)
{
    return (step + leaf + part + t) % 5 == 0;
}

static float to_bf16(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float added(const ddp_case *k, int step, int leaf, int t, size_t i)
{
    float sum = 0;

    for (int part = 0; part < k->o.accumulate; part++)
        if (!unused(step, leaf, part, t))
            sum += value(k, step, leaf, part, t, i);
    return sum;
}

/* What is sent of a leaf, and what remains: exact for these values and a threshold like them. */
static float leaf_of(const ddp_case *k, int step, int leaf, int t, size_t i, float *left)
{
    const float threshold = (float)k->threshold;
    float sent = 0;

    *left = 0;
    if (k->hook != DTD_HOOK_2BIT) {
        const float x = added(k, step, leaf, t, i);
        return k->hook == DTD_HOOK_BF16 ? to_bf16(x) : x;
    }
    for (int s = 0; s <= step; s++) {
        *left += added(k, s, leaf, t, i);
        sent = *left >= threshold ? threshold : *left <= -threshold ? -threshold : 0;
        *left -= sent;
    }
    return sent;
}

static float tree(const ddp_case *k, int step, int a, int b, int t, size_t i)
{
    float left;
    int half = 1;

    if (b - a == 1)
        return leaf_of(k, step, a, t, i, &left);
    while (2 * half < b - a)
        half *= 2;
    return tree(k, step, a, a + half, t, i) + tree(k, step, a + half, b, t, i);
}

/* Of the last numbers of large tensors, too, but not of all: the definition is slow. */
static void check(const ddp_case *k, int step)
{
    for (int t = 0; t < TENSORS; t++)
        for (size_t i = 0; i<sizes[t]; i += i> 500 && i + 500 < sizes[t] ? 37 : 1) {
            float want = tree(k, step, 0, k->o.leaves, t, i);
            if (!k->o.sum)
                want /= (float)k->o.leaves;
            if (memcmp(&want, &gradient[t][i], sizeof want) != 0)
                fail_msg("step %d, hook %d, tensor %d, number %zu: %a, not %a", step, k->hook, t, i,
                         (double)gradient[t][i], (double)want);
        }
}

/* ---- Steps ------------------------------------------------------------------------- */

/* A round, in an order of the rank's own; `but` is left out (TENSORS: none). What is unused holds
 * garbage, and what is ready may be overwritten. */
static void round_of(dtd_ddp *d, const ddp_case *k, int step, int leaf, int part, int but)
{
    for (int n = 0; n < TENSORS; n++) {
        const int t = (TENSORS - 1 - n + leaf * (dtd_rank(NULL) % 3)) % TENSORS;
        for (size_t i = 0; i < sizes[t]; i++)
            gradient[t][i] = value(k, step, leaf, part, t, i);
        if (t == but)
            continue;
        assert_dtd(unused(step, leaf, part, t) ? dtd_ddp_unused(d, (size_t)t)
                                       : dtd_ddp_ready(d, (size_t)t));
        for (size_t i = 0; i < sizes[t]; i++)
            gradient[t][i] = NAN;
    }
}

static void rounds_of(dtd_ddp *d, const ddp_case *k, int step, int but)
{
    const int rank = dtd_rank(NULL), n = dtd_size(NULL), end = (rank + 1) * k->o.leaves / n;

    for (int leaf = rank * k->o.leaves / n; leaf < end; leaf++)
        for (int part = 0; part < k->o.accumulate; part++)
            round_of(d, k, step, leaf, part,
                     leaf == end - 1 && part == k->o.accumulate - 1 ? but : TENSORS);
}

static dtd_ddp *ddp_of(const ddp_case *k)
{
    dtd_ddp *d = NULL;

    assert_dtd(dtd_ddp_new(&d, list, TENSORS, &k->o, NULL));
    if (k->hook != DTD_HOOK_NONE)
        assert_dtd(dtd_ddp_hook(d, k->hook, k->threshold));
    return d;
}

static const ddp_case plain = {.o = {.size = sizeof(dtd_ddp_opts),
                                     .bucket_mb = 0.004,
                                     .first_bucket_mb = 0.001,
                                     .leaves = LEAVES,
                                     .accumulate = 1}};

TEST(sums_are_the_tree)
{
    for (int c = 0; c < 12; c++) {
        ddp_case k = plain;
        k.hook = (dtd_hook)(c % 3);
        k.threshold = k.hook == DTD_HOOK_2BIT ? 0.75 : 0;
        k.o.accumulate = 1 + c % 2 * 2;
        k.o.sum = c / 3 % 2;
        k.o.leaves = c / 6 ? dtd_size(NULL) : LEAVES;
        k.o.bucket_mb = c / 6 ? 25 : k.o.bucket_mb;
        k.o.threads = 1 + c / 6;
        dtd_ddp *d = ddp_of(&k);
        for (int step = 0; step < STEPS; step++) {
            rounds_of(d, &k, step, TENSORS);
            assert_dtd(dtd_ddp_wait(d));
            check(&k, step);
        }
        dtd_ddp_free(d);
    }
}

/* More than the record tells apart: the sanitizer would see what is past it. */
TEST(buckets_may_be_many)
{
    enum { MANY = 5000 };
    static float x[MANY][16];
    static dtd_tensor many[MANY];
    const dtd_ddp_opts o = {.size = sizeof o, .bucket_mb = 1e-6, .first_bucket_mb = 1e-6};
    dtd_ddp *d = NULL;

    for (int i = 0; i < MANY; i++)
        many[i] = (dtd_tensor){x[i], 16, DTD_F32, "x"};
    assert_dtd(dtd_ddp_new(&d, many, MANY, &o, NULL));
    for (size_t i = MANY; i-- > 0;) {
        x[i][0] = (float)i;
        assert_dtd(dtd_ddp_ready(d, i));
    }
    assert_dtd(dtd_ddp_wait(d));
    assert_true(x[MANY - 1][0] == MANY - 1);
    dtd_ddp_free(d);
}

/* What was sent in all steps and what is left make all gradients, exactly. */
TEST(nothing_is_lost_in_2_bits)
{
    ddp_case k = plain;
    double sent[MOST] = {0};
    float left = 0;

    k.hook = DTD_HOOK_2BIT;
    k.threshold = 0.75;
    k.o.sum = 1;
    dtd_ddp *d = ddp_of(&k);
    for (int step = 0; step < STEPS; step++) {
        rounds_of(d, &k, step, TENSORS);
        assert_dtd(dtd_ddp_wait(d));
        for (size_t i = 0; i < sizes[4]; i++)
            sent[i] += (double)gradient[4][i];
    }
    dtd_ddp_free(d);
    for (size_t i = 0; i < sizes[4]; i++) {
        double all = 0;
        for (int leaf = 0; leaf < LEAVES; leaf++) {
            for (int step = 0; step < STEPS; step++)
                all += (double)added(&k, step, leaf, 4, i);
            leaf_of(&k, STEPS - 1, leaf, 4, i, &left);
            sent[i] += (double)left;
        }
        assert_true(sent[i] == all);
    }
}

/* ---- Misuse ------------------------------------------------------------------------ */

TEST(lacking_gradients_are_named)
{
    const int last = dtd_size(NULL) - 1;
    ddp_case k = plain;

    k.o.accumulate = 2;
    dtd_ddp *d = ddp_of(&k);
    for (int step = 0; step < 3; step++) { /* the last rank lacks one in step 1 */
        rounds_of(d, &k, step, step == 1 && dtd_rank(NULL) == last ? 1 : TENSORS);
        if (step == 1)
            assert_code(dtd_ddp_wait(d), DTD_USAGE, "'b1' (1)");
        else
            assert_dtd(dtd_ddp_wait(d));
        if (step != 1)
            check(&k, step);
    }
    assert_code(dtd_ddp_wait(d), DTD_USAGE,
                "'w1' (0), 'b1' (1), 'w2' (2), 'none' (3), (4), 'w3' (5)");
    assert_code(dtd_ddp_ready(d, TENSORS), DTD_USAGE, "no gradient 6");
    assert_dtd(dtd_ddp_ready(d, 2));
    assert_code(dtd_ddp_ready(d, 2), DTD_USAGE, "twice");
    assert_code(dtd_ddp_hook(d, DTD_HOOK_BF16, 0), DTD_USAGE, "after the first");
    dtd_ddp_free(d);
}

TEST(differences_are_named)
{
    dtd_ddp *d = NULL;
    ddp_case k = plain;

    list[4].type = DTD_F64;
    assert_code(dtd_ddp_new(&d, list, TENSORS, &k.o, NULL), DTD_UNSUPPORTED, "gradient 4");
    list_gradients();
    k.o.leaves = dtd_size(NULL) - 1;
    if (k.o.leaves > 0)
        assert_code(dtd_ddp_new(&d, list, TENSORS, &k.o, NULL), DTD_USAGE, "leaves");
    k.o = plain.o;
    k.o.size = 3;
    assert_code(dtd_ddp_new(&d, list, TENSORS, &k.o, NULL), DTD_USAGE, "size");
    assert_code(dtd_ddp_new(&d, list, 0, NULL, NULL), DTD_USAGE, "no gradients");
    assert_code(dtd_ddp_wait(NULL), DTD_USAGE, "NULL");
    if (dtd_size(NULL) > 1) {
        list[1].count -= dtd_rank(NULL) == 1;
        assert_code(dtd_ddp_new(&d, list, TENSORS, &plain.o, NULL), DTD_MISMATCH, "tensor 1");
        list_gradients();
        k.o = plain.o;
        k.o.leaves += dtd_rank(NULL) == 1;
        assert_code(dtd_ddp_new(&d, list, TENSORS, &k.o, NULL), DTD_MISMATCH, "leaves");
        assert_dtd(dtd_ddp_new(&d, list, TENSORS, NULL, NULL));
        assert_code(dtd_ddp_hook(d, DTD_HOOK_2BIT, 1 + dtd_rank(NULL)), DTD_MISMATCH, "threshold");
        dtd_ddp_free(d);
        d = ddp_of(&plain);
        rounds_of(d, &plain, 0, TENSORS); /* then one rank has had its last step */
        assert_code(dtd_rank(NULL) == 1 ? dtd_barrier(NULL) : dtd_ddp_wait(d), DTD_MISMATCH,
                    "the call");
        dtd_ddp_free(d);
    }
}

/* ---- Optimiser, groups, samplers ------------------------------------------------------ */

static int stepped(void *state)
{
    ++*(int *)state;
    return *(int *)state == 2 ? 5 : 0;
}

TEST(the_optimiser_steps_with_the_sums)
{
    ddp_case k = plain;
    dtd_optimizer *o = NULL;
    int steps = 0;

    k.o.leaves = 2 * dtd_size(NULL);
    k.o.accumulate = 2;
    dtd_ddp *d = ddp_of(&k);
    assert_dtd(dtd_optimizer_new(&o, d, stepped, &steps));
    for (int step = 0; step < 2; step++) {
        for (int part = 0; part < 4; part++) {
            round_of(d, &k, step, 2 * dtd_rank(NULL) + part / 2, part % 2, TENSORS);
            assert_int_equal(dtd_optimizer_step(o), step == 1 && part == 3 ? 5 : 0);
            assert_int_equal(steps, step + (part == 3));
        }
        check(&k, step);
    }
    rounds_of(d, &k, 2, TENSORS);
    assert_dtd(dtd_optimizer_step(o));
    assert_int_equal(steps, 3);
    dtd_optimizer_free(o);
    dtd_ddp_free(d);
}

/* Every second rank; the others go on. */
TEST(groups_sum_alone)
{
    const int n = (dtd_size(NULL) + 1) / 2, rank = dtd_rank(NULL);
    float x[3] = {(float)rank, 1, 2};
    const dtd_tensor one = {x, 3, DTD_F32, "x"};
    dtd_group *g = NULL;
    dtd_ddp *d = NULL;
    int ranks[64];

    for (int i = 0; i < n; i++)
        ranks[i] = 2 * i;
    if (rank % 2)
        return;
    assert_dtd(dtd_group_new(&g, ranks, n, "even"));
    assert_dtd(
        dtd_ddp_new(&d, &one, 1, &(dtd_ddp_opts){.size = sizeof(dtd_ddp_opts), .sum = 1}, g));
    assert_dtd(dtd_ddp_ready(d, 0));
    assert_dtd(dtd_ddp_wait(d));
    assert_true(x[0] == (float)(n * (n - 1)) && x[1] == (float)n && x[2] == (float)(2 * n));
    dtd_ddp_free(d);
    dtd_group_free(g);
}

TEST(samplers)
{
    enum { N = 1000 };
    const int64_t total = INT64_MAX;
    int64_t first, count, sum = 0;
    uint32_t order[N];

    dtd_shard(N, NULL, &first, &count);
    assert_int_equal(first, N * dtd_rank(NULL) / dtd_size(NULL));
    assert_int_equal(first + count, N * (dtd_rank(NULL) + 1) / dtd_size(NULL));
    dtd_shard(total, NULL, &first, &count);
    assert_true(first >= 0 && count >= total / dtd_size(NULL));
    assert_true(first + count == total || dtd_rank(NULL) + 1 < dtd_size(NULL));
    for (uint32_t epoch = 0; epoch < 3; epoch++) {
        dt_permute(order, N, 7, DT_STREAM_PERMUTATION, epoch);
        for (int64_t i = 0; i < N; i++)
            assert_int_equal(dtd_permute(7, epoch, N, i), order[i]);
        sum += order[0];
    }
    assert_int_not_equal(sum, 3 * (int64_t)order[0]);
    assert_int_equal(dtd_permute(7, 0, N, N), -1);
    assert_true(dtd_scale_lr(0.5, NULL) == 0.5 * dtd_size(NULL));
}

int main(int argc, char **argv)
{
    library_open(&argc, &argv);
    list_gradients();
    return library_close(tests_run(NULL, NULL));
}
