/* lib_calls.c - libdtrain-dist by its header: groups, what ranks disagree on, calls that make no
 * sense on one rank, messages, exact sums however leaves are dealt; and no call allocates twice.
 * dtrain-dist-check compares the results of all types and operations. */
#include "library.h"

#include "allocations.h"

#ifdef __SANITIZE_ADDRESS__
enum { COUNTED = 0 }; /* the allocator is the sanitizers' */
#else
enum { COUNTED = 1 };
#endif
static int rank, world;

static bool refused; /* memory for buffers */
WRAP(void *, aligned_alloc, (size_t a, size_t n), (a, refused ? SIZE_MAX / 2 : n))

/* ---- What ranks disagree on ------------------------------------------------------------ */

/* Every rank gets the same code and text, which names both values, and nothing has moved. */
TEST(each_argument_is_compared)
{
    float x[64] = {0};
    size_t counts[64];
    const int odd = world - 1, mine = rank == odd;
    char who[32];

    if (world == 1)
        return;
    snprintf(who, sizeof who, "rank %d on ", odd);
    x[0] = (float)rank;
    assert_code(dtd_all_reduce(x, mine ? 3 : 4, DTD_F32, DTD_SUM, NULL), DTD_MISMATCH, who,
                "the count of dtd_all_reduce", "'4'", "'3'");
    assert_code(dtd_all_reduce(x, 4, mine ? DTD_I32 : DTD_F32, DTD_SUM, NULL), DTD_MISMATCH, who,
                "the type", "'fp32'", "'int32'");
    assert_code(dtd_all_reduce(x, 4, DTD_F32, mine ? DTD_MAX : DTD_MIN, NULL), DTD_MISMATCH, who,
                "the operation", "'min'", "'max'");
    assert_code(dtd_reduce(x, 4, DTD_F32, DTD_SUM, mine, NULL), DTD_MISMATCH, who, "root");
    assert_code(mine ? dtd_barrier(NULL) : dtd_all_reduce(x, 4, DTD_F32, DTD_SUM, NULL),
                DTD_MISMATCH, who, "the call", "'dtd_barrier'", "'dtd_all_reduce'");
    for (int r = 0; r < world; r++)
        counts[r] = mine && r == 1 ? 2 : 1;
    assert_code(dtd_all_gather(x + 1, x, counts, DTD_F32, NULL), DTD_MISMATCH, who, "counts[1]");
    const dtd_tensor list[] = {{x, 1, DTD_F32, mine ? "b" : "a"}, {x, 1, DTD_F32, "c"}};
    assert_code(dtd_broadcast(list, 2, 0, NULL), DTD_MISMATCH, who, "name of tensor 0", "'a'");
    assert_code(dtd_broadcast(list + 1, mine ? 0 : 1, 0, NULL), DTD_MISMATCH, who, "number of");
    assert_true(x[0] == (float)rank);
    assert_dtd(dtd_barrier(NULL));
    assert_string_equal(dtd_error(), "");
}

/* One rank's fault is every rank's failure, and the next call works. */
TEST(one_rank_fails_all)
{
    float x[4] = {1, 1, 1, 1};
    char who[32] = "";
    const bool mine = rank == world - 1;

    if (world > 1)
        snprintf(who, sizeof who, "rank %d on ", world - 1);
    assert_code(dtd_all_reduce(mine ? NULL : x, 4, DTD_F32, DTD_SUM, NULL), DTD_USAGE, who,
                "x of 4");
    assert_code(dtd_all_reduce(x, 4, (dtd_type)9, DTD_SUM, NULL), DTD_USAGE, "no type 9");
    assert_code(dtd_all_reduce(x, 4, DTD_F32, (dtd_op)9, NULL), DTD_USAGE, "no operation 9");
    assert_code(dtd_all_reduce(x, 4, DTD_I8, DTD_MEAN, NULL), DTD_UNSUPPORTED, "no mean");
    assert_code(dtd_reduce(x, 4, DTD_F32, DTD_SUM, world, NULL), DTD_USAGE, "root is");
    assert_dtd(dtd_all_reduce(NULL, 0, DTD_F32, DTD_SUM, NULL));
    assert_dtd(dtd_all_reduce(x, 4, DTD_F32, DTD_SUM, NULL));
    assert_true(x[3] == (float)world);
}

/* ---- Groups and messages ----------------------------------------------------------------- */

/* Even ranks in reverse order, odd ones as they are; both sum at once. */
TEST(groups_have_their_own_ranks)
{
    int ranks[64], count = 0, place = -1;
    dtd_group *g = NULL;
    double sum = rank, want = 0;

    for (int i = 0; i < world; i++) {
        const int r = rank % 2 == 0 ? world - 1 - i : i;
        if (r % 2 != rank % 2)
            continue;
        place = r == rank ? count : place;
        ranks[count++] = r;
        want += r;
    }
    assert_dtd(dtd_group_new(&g, ranks, count, rank % 2 ? "odd" : "even"));
    assert_int_equal(dtd_rank(g), place);
    assert_int_equal(dtd_size(g), count);
    assert_dtd(dtd_all_reduce(&sum, 1, DTD_F64, DTD_SUM, g));
    assert_true(sum == want);
    sum = rank;
    const dtd_tensor t = {&sum, 1, DTD_F64, NULL};
    assert_dtd(dtd_broadcast(&t, 1, count - 1, g));
    assert_true(sum == ranks[count - 1]);
    assert_code(dtd_broadcast(&t, 1, count, g), DTD_USAGE, rank % 2 ? "'odd'" : "'even'");
    dtd_group_free(g);
    dtd_group_free(NULL);
    if (world > 1) {
        const int both[] = {0, world - 1}, turned[] = {world - 1, 0};
        if (rank == 0 || rank == world - 1)
            assert_code(dtd_group_new(&g, rank ? both : turned, 2, "both"), DTD_MISMATCH,
                        "disagree on the group", rank ? "'both': 0" : " 0, rank ");
    }
    assert_code(dtd_group_new(&g, (const int[]){rank, rank}, 2, "twice"), DTD_USAGE, "each once");
    assert_code(dtd_group_new(&g, (const int[]){world}, 1, "none"), DTD_USAGE, "ranks are 0 to");
}

/* A list, or a name, that makes no sense on one rank fails the call on all that it lists, and
 * leaves no message to the next one. */
TEST(no_rank_waits_for_a_wrong_list)
{
    static char long_name[129];
    static const struct {
        int list[4];
        const char *name, *text;
    } wrong[] = {
        {{0, 1, 99}, "g", "is 99: ranks"}, {{0, 1, -1}, "g", "is -1: ranks"},
        {{0, 1, 1}, "g", "each once"},  {{0, 1, INT_MAX}, "g", "2147483647"},
        {{0, 1, 0}, "g", "each once"},  {{1, 0, 1}, "g", "each once"},
        {{0, 1}, NULL, "the name"}, {{0, 1}, long_name, "the name"},
    };
    char who[32];
    dtd_group *g = NULL;

    memset(long_name, 'x', 128);
    for (size_t i = 0; i < 2 * DT_COUNT_OF(wrong) && world > 1 && rank < 2; i++) {
        const int other = (int)(i % 2), count = strcmp(wrong[i / 2].text, "the name") ? 3 : 2;
        const int both[] = {0, 1};
        snprintf(who, sizeof who, "rank %d: ", other);
        if (rank == other)
            assert_code(dtd_group_new(&g, wrong[i / 2].list, count, wrong[i / 2].name), DTD_USAGE,
                        wrong[i / 2].text);
        else
            assert_code(dtd_group_new(&g, both, 2, "g"), DTD_USAGE, who, wrong[i / 2].text);
        assert_dtd(dtd_group_new(&g, both, 2, "g"));
        assert_dtd(dtd_barrier(g));
        dtd_group_free(g);
    }
    assert_code(dtd_group_new(&g, NULL, 2, "g"), DTD_USAGE, "ranks of 1 numbers is NULL");
    assert_code(dtd_group_new(&g, &rank, 0, "g"), DTD_USAGE, "not in ranks");
    assert_code(dtd_group_new(&g, &rank, INT_MIN, "g"), DTD_USAGE, "not in ranks");
}

/* No count is too large to be refused, and none that fits is. */
TEST(counts_do_not_wrap)
{
    static float x[64];
    dtd_tensor list[40];
    size_t counts[64] = {0};
    dtd_sum *s = NULL;
    dtd_ddp *d = NULL;

    for (int bits = 40; bits < 64; bits++) {
        for (int i = 0; i < 40; i++)
            list[i] = (dtd_tensor){x, (size_t)1 << bits, DTD_F32, "big"};
        list[5].count = 16;
        for (int n = 2; n <= 40 && COUNTED; n += 19) { /* sanitizers end at such requests */
            const int sum = dtd_sum_new(&s, 1, list, (size_t)n, NULL);
            const int ddp = dtd_ddp_new(&d, list, (size_t)n, NULL, NULL);
            assert_true((sum == DTD_USAGE || sum == DTD_NOMEM) && !s);
            assert_true((ddp == DTD_USAGE || ddp == DTD_NOMEM) && !d);
        }
    }
    counts[0] = counts[world - 1] = SIZE_MAX / sizeof *x;
    assert_code(dtd_all_gather(x, x, counts, DTD_I8, NULL), DTD_USAGE, "numbers");
    assert_code(dtd_reduce_scatter(x, x, counts, DTD_I8, DTD_SUM, NULL), DTD_USAGE, "numbers");
    assert_code(dtd_broadcast(list, SIZE_MAX, 0, NULL), DTD_USAGE, "the list of");
    assert_code(dtd_sum_new(&s, 1, list, SIZE_MAX, NULL), DTD_USAGE, "the list of");
    assert_code(dtd_ddp_new(&d, list, SIZE_MAX, NULL, NULL), DTD_USAGE, "the list of");
    assert_code(dtd_all_reduce(x, SIZE_MAX, DTD_F64, DTD_SUM, NULL), DTD_USAGE, "numbers");
}

/* Leaves and rounds are counted in int. */
TEST(leaves_do_not_wrap)
{
    static float x[16];
    static const int wrong[][2] = {{INT_MAX, 0},     {INT_MAX, INT_MAX}, {1 << 30, 1},
                                   {1 << 22, 65536}, {1024, INT_MAX},    {INT_MIN, 1},
                                   {64, INT_MIN}};
    const dtd_ddp_opts threads = {.size = sizeof threads, .threads = INT_MAX};
    const dtd_tensor t = {x, 16, DTD_F32, "w"};
    dtd_ddp *d = NULL;
    dtd_sum *s = NULL;

    for (size_t i = 0; i < DT_COUNT_OF(wrong); i++) {
        const dtd_ddp_opts o = {
            .size = sizeof o, .leaves = wrong[i][0], .accumulate = wrong[i][1]};
        assert_code(dtd_ddp_new(&d, &t, 1, &o, NULL), DTD_USAGE, "leaves");
        assert_null(d);
    }
    assert_code(dtd_ddp_new(&d, &t, 1, &threads, NULL), DTD_USAGE, "threads");
    assert_code(dtd_sum_new(&s, INT_MAX, &t, 1, NULL), DTD_USAGE, "leaves");
    assert_code(dtd_sum_new(&s, -1, &t, 1, NULL), DTD_USAGE, "leaves");
}

TEST(messages_meet_in_order)
{
    enum { N = 50000 };
    static int32_t out[3][N], in[3][N];
    dtd_request *r[6];

    if (world == 1) {
        assert_code(dtd_isend(&r[0], out, 1, DTD_I32, 0, NULL), DTD_USAGE, "to itself");
        return;
    }
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < N; i++)
            out[k][i] = rank * 1000 + k + i;
    const int to = (rank + 1) % world, from = (rank + world - 1) % world;
    for (int k = 0; k < 3; k++)
        assert_dtd(dtd_isend(&r[k], out[k], k == 1 ? 1 : N, DTD_I32, to, NULL));
    assert_dtd(dtd_barrier(NULL)); /* a collective between does not disturb them */
    for (int k = 0; k < 3; k++)
        assert_dtd(dtd_irecv(&r[3 + k], in[k], k == 1 ? 1 : N, DTD_I32, from, NULL));
    for (int k = 5; k >= 0; k--)
        assert_dtd(dtd_wait(r[k]));
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < (k == 1 ? 1 : N); i++)
            assert_int_equal(in[k][i], from * 1000 + k + i);
    for (int more = 1; more < 4; more += 2) { /* one of another length is found */
        assert_dtd(dtd_isend(&r[0], out, 2, DTD_I32, to, NULL));
        assert_dtd(dtd_irecv(&r[1], in, (size_t)more, DTD_I32, from, NULL));
        assert_code(dtd_wait(r[1]), DTD_MISMATCH, "sent");
        assert_dtd(dtd_wait(r[0]));
    }
}

/* ---- Exact sums --------------------------------------------------------------------------- */

enum { LEAVES = 22, COUNT = 40009 };

static float leaf_number(int leaf, size_t i)
{
    uint32_t bits[4];
    dt_random(7, DT_STREAM_TEST, 0, i, (uint32_t)leaf, bits);
    return ldexpf(dt_uniform(bits[0]) - 0.5f, (int)(bits[1] % 12));
}

/* docs/numerics.md section 3 */
static float definition(int a, int b, size_t i)
{
    int half = 1;

    if (b - a == 1)
        return dt_bf16_to_f32(dt_f32_to_bf16(leaf_number(a, i)));
    while (2 * half < b - a)
        half *= 2;
    return definition(a, a + half, i) + definition(a + half, b, i);
}

/* By deal: neighbours, in turn, in turn and the last first, all on the last rank. */
static bool has_leaf(int deal, int leaf)
{
    return deal == 0  ? leaf >= rank * LEAVES / world && leaf < (rank + 1) * LEAVES / world
           : deal < 3 ? leaf % world == rank
                      : rank == world - 1;
}

TEST(sums_do_not_depend_on_ranks)
{
    static dt_bf16 leaf[COUNT], sum[COUNT], want[COUNT];
    static float other[5], other_sum[5];
    static const dt_f16 ones[3] = {0x3c00, 0x3c00, 0x3c00};
    static dt_f16 counted[3];
    const dtd_tensor shape[] = {
        {NULL, 5, DTD_F32, "b"}, {NULL, 3, DTD_F16, "odd"}, {NULL, COUNT, DTD_BF16, "w"}};
    dtd_sum *s = NULL;

    for (size_t i = 0; i < COUNT; i++)
        want[i] = dt_f32_to_bf16(definition(0, LEAVES, i));
    assert_dtd(dtd_sum_new(&s, LEAVES, shape, 3, NULL));
    for (int deal = 0; deal < 4; deal++) {
        for (int k = 0; k < LEAVES; k++) {
            const int l = deal == 2 ? LEAVES - 1 - k : k;
            if (!has_leaf(deal, l))
                continue;
            for (size_t i = 0; i < COUNT; i++)
                leaf[i] = dt_f32_to_bf16(leaf_number(l, i));
            other[4] = (float)l;
            assert_dtd(dtd_sum_leaf(s, l, (const void *const[]){other, ones, leaf}));
        }
        const long before = calls;
        assert_dtd(dtd_sum_finish(s, (void *const[]){other_sum, counted, sum}));
        assert_memory_equal(sum, want, sizeof sum);
        assert_true(other_sum[4] == LEAVES * (LEAVES - 1) / 2);
        assert_int_equal(counted[2], 0x4d80);           /* 22 */
        assert_true(deal == 0 || calls - before <= 60); /* messages have grown, at most */
    }
    dtd_sum_free(s);
}

TEST(leaves_that_do_not_fit_are_named)
{
    const float one = 1;
    float sum = 0;
    const dtd_tensor shape = {NULL, 1, DTD_F32, NULL};
    dtd_sum *s = NULL;

    assert_code(dtd_sum_new(&s, 0, &shape, 1, NULL), DTD_USAGE, "0 leaves");
    assert_dtd(dtd_sum_new(&s, world + 1, &shape, 1, NULL));
    assert_dtd(dtd_sum_leaf(s, rank, (const void *const[]){&one}));
    assert_code(dtd_sum_leaf(s, rank, (const void *const[]){&one}), DTD_USAGE, "already");
    assert_code(dtd_sum_leaf(s, world + 1, (const void *const[]){&one}), DTD_USAGE, "is none of");
    assert_code(dtd_sum_finish(s, (void *const[]){&sum}), DTD_USAGE, "was given by 0 ranks");
    assert_dtd(dtd_sum_leaf(s, world, (const void *const[]){&one}));
    if (world > 1)
        assert_code(dtd_sum_finish(s, (void *const[]){&sum}), DTD_USAGE, "leaf 0 of");
    else
        assert_code(dtd_sum_finish(s, (void *const[]){&sum}), DTD_USAGE, "leaf 0 of 2");
    for (int i = 0; i <= world; i++) /* the rounds before are void */
        if (i % world == rank)
            assert_dtd(dtd_sum_leaf(s, i, (const void *const[]){&one}));
    assert_dtd(dtd_sum_finish(s, (void *const[]){&sum}));
    assert_true(sum == (float)world + 1);
    dtd_sum_free(s);
    dtd_sum_free(NULL);
}

/* ---- Memory -------------------------------------------------------------------------------- */

TEST(the_second_call_allocates_nothing)
{
    enum { N = 3000000 };
    static float x[N], part[N];
    size_t counts[64];

    for (int r = 0; r < world; r++)
        counts[r] = (size_t)(N / world - r);
    for (int round = 0; round < 3; round++) {
        const long before = calls;
        assert_dtd(dtd_all_reduce(x, N, DTD_F32, DTD_SUM, NULL));
        assert_dtd(dtd_all_reduce(x, 2 * N, DTD_F16, DTD_MAX, NULL));
        assert_dtd(dtd_reduce(x, N, DTD_F32, DTD_MEAN, world - 1, NULL));
        assert_dtd(dtd_reduce_scatter(part, x, counts, DTD_F32, DTD_SUM, NULL));
        assert_dtd(dtd_all_gather(x, part, counts, DTD_F32, NULL));
        assert_dtd(dtd_scatter(part, x, counts, DTD_F32, 0, NULL));
        assert_dtd(dtd_all_reduce(x, 3, DTD_F32, DTD_SUM, NULL));
        if (round > 0 && COUNTED)
            assert_int_equal(calls, before);
    }
}

/* One rank has none: all know, and the next call finds all as it was. */
TEST(memory_is_refused)
{
    enum { N = 100000 };
    static double x[N];
    int ranks[64];
    char who[32] = "";
    dtd_group *g = NULL;

    for (int r = 0; r < world; r++)
        ranks[r] = r;
    if (world > 1)
        snprintf(who, sizeof who, "rank %d on ", world - 1);
    assert_dtd(dtd_group_new(&g, ranks, world, "new"));
    refused = rank == world - 1;
    assert_code(dtd_all_reduce(x, N, DTD_F64, DTD_SUM, g), DTD_NOMEM, who, "no memory for");
    refused = false;
    x[N - 1] = 1;
    assert_dtd(dtd_all_reduce(x, N, DTD_F64, DTD_SUM, g));
    assert_true(x[N - 1] == world && x[0] == 0);
    dtd_group_free(g);
}

int main(int argc, char **argv)
{
    const bool early = dtd_barrier(NULL) != DTD_USAGE || dtd_rank(NULL) != -1;

    library_open(&argc, &argv);
    if (early || dtd_init(NULL, NULL) != DTD_USAGE) {
        fprintf(stderr, "what comes before dtd_init, or a second one, is not refused\n");
        return 1;
    }
    rank = dtd_rank(NULL);
    world = dtd_size(NULL);
    return library_close(tests_run(NULL, NULL));
}
