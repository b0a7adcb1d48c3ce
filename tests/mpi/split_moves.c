/* split_moves.c - random tables of rectangles against a naive copy, several times over, with
 * several keys under way at once. */
#include "ranks.h"

#include "split/split.h"

enum { KEYS = 5, RECTS = 40, AREA = 1 << 14, ROUNDS = 4 };

/* Every rank has a source and a target; those of all ranks are simulated here. */
typedef struct areas {
    unsigned char *source, *target, *want; /* [world][AREA] */
} areas;

static uint32_t drawn(uint32_t table, uint32_t i, uint32_t what, uint32_t below)
{
    uint32_t bits[4];

    dt_random(7, DT_STREAM_TEST, table, i, what, bits);
    return bits[0] % below;
}

/* Targets of rectangle i lie in strip i of the target's area, so that none overlap. */
static dt_rect rect_of(const areas *a, uint32_t table, uint32_t i)
{
    const uint32_t world = (uint32_t)comm->world, strip = AREA / RECTS;
    dt_rect r = {.key = (int)drawn(table, i, 0, KEYS),
                 .from = (int)drawn(table, i, 1, world),
                 .to = (int)drawn(table, i, 2, world),
                 .rows = drawn(table, i, 3, 6),
                 .bytes = drawn(table, i, 4, 50)};

    r.from_stride = r.bytes + drawn(table, i, 5, 30);
    r.to_stride = r.bytes + drawn(table, i, 6, 15);
    r.source = a->source + r.from * AREA + drawn(table, i, 7, AREA - 6 * 80);
    r.target = a->target + r.to * AREA + i * strip;
    return r;
}

static void naive(const areas *a, const dt_rect *r)
{
    const unsigned char *from = r->source;

    for (size_t row = 0; row < r->rows; row++)
        memcpy(a->want + ((unsigned char *)r->target - a->target) + row * r->to_stride,
               from + row * r->from_stride, r->bytes);
}

static void areas_draw(const areas *a, uint32_t round)
{
    const size_t all = (size_t)comm->world * AREA;

    memset(a->target, 0xee, all);
    memset(a->want, 0xee, all);
    for (size_t i = 0; i < all; i++)
        a->source[i] = (unsigned char)(i * 31 + i / 251 + round * 7);
}

static void table_runs(uint32_t table)
{
    const size_t all = (size_t)comm->world * AREA;
    areas a = {malloc(all), malloc(all), malloc(all)};
    dt_moves *m = NULL;
    uint64_t sent = 0;
    dt_activity place = {.step = 0};

    dt_activity_use(&place);
    assert_ok(dt_moves_create(&m, comm, KEYS));
    for (uint32_t i = 0; i < RECTS; i++) {
        dt_rect r = rect_of(&a, table, i);
        sent += r.from == comm->rank && r.to != r.from ? ROUNDS * r.rows * r.bytes : 0;
        if (r.from != comm->rank)
            r.source = NULL;
        if (r.to != comm->rank)
            r.target = NULL;
        assert_ok(dt_moves_add(m, &r));
    }
    assert_ok(dt_moves_seal(m));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        areas_draw(&a, round);
        for (uint32_t i = 0; i < RECTS; i++) {
            const dt_rect r = rect_of(&a, table, i);
            naive(&a, &r);
        }
        for (int key = 0; key < KEYS; key++)
            assert_ok(dt_moves_start(m, key));
        for (int key = KEYS; key-- > 0;) /* in any order */
            assert_ok(dt_moves_wait(m, key));
        assert_memory_equal(a.target + comm->rank * AREA, a.want + comm->rank * AREA, AREA);
        assert_ok(dt_comm_barrier(comm));
    }
    assert_int_equal(place.sent_bytes, sent);
    dt_activity_use(NULL);
    dt_moves_destroy(m);
    free(a.source);
    free(a.target);
    free(a.want);
}

TEST(copies_are_those_of_the_table)
{
    for (uint32_t table = 0; table < 12; table++)
        table_runs(table);
}

TEST(nothing_to_move)
{
    dt_moves *m = NULL;

    assert_ok(dt_moves_create(&m, comm, 2));
    assert_ok(dt_moves_seal(m));
    assert_ok(dt_moves_start(m, 1));
    assert_ok(dt_moves_wait(m, 1));
    dt_moves_destroy(m);
    dt_moves_destroy(NULL);
}

int main(int argc, char **argv)
{
    ranks_open(argc, argv);
    return ranks_close(tests_run(NULL, NULL));
}
