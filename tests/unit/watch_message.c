/* watch_message.c - what nodes tell each other arrives as it was, and nothing else is believed. */
#include "watch/channel.h"

#include "test.h"

enum { WORLD = 6, FIRST = 2, END = 5 }; /* of the ranks that the message is about */

static const uint8_t key[DT_CHANNEL_KEY] = {1, 2, 3}, other_key[DT_CHANNEL_KEY] = {1, 2, 4};
static const int64_t now = INT64_C(5000000000), then = INT64_C(90000000000);

static dt_table new_table(void **memory)
{
    assert_ok(dt_calloc(memory, dt_table_bytes(WORLD, 0) + 64, 1, "a table"));
    char *at = *memory;
    dt_table t =
        dt_table_of(at + dt_align((size_t)(uintptr_t)at, 64) - (size_t)(uintptr_t)at, WORLD);
    t.head->world = WORLD;
    return t;
}

static void fill(const dt_table *t)
{
    for (int r = 0; r < WORLD; r++) {
        dt_table_row *row = &t->row[r];
        dt_tell(row->place.step, 100 + r);
        dt_tell(row->place.phase, DT_AT_backward);
        dt_tell(row->place.layer, -1 + r);
        dt_tell(row->place.changed_ns, now - 10 * r);
        dt_tell(row->place.waits_ns, r == 3 ? now - 7 : 0);
        dt_tell(row->heard_ns, now - r);
        dt_tell(row->state, 'T');
    }
}

static bool read_as(const dt_table *t, const uint8_t *message, size_t bytes, const uint8_t *with,
                    int first, int end)
{
    int64_t sent[WORLD] = {0};
    return dt_message_read(message, bytes, with, t, first, end, sent, then);
}

static void assert_untouched(const dt_table *t)
{
    for (int r = 0; r < WORLD; r++)
        assert_int_equal(dt_seen(t->row[r].place.step), 0);
}

static void rows_arrive(void **state)
{
    (void)state;
    void *a, *b;
    uint8_t message[DT_MESSAGE_BYTES];
    int64_t sent[WORLD] = {0};
    const dt_table from = new_table(&a), to = new_table(&b);

    fill(&from);
    const size_t bytes = dt_message_write(&from, FIRST, END, 8, now, key, message);
    assert_true(dt_message_read(message, bytes, key, &to, 0, FIRST, sent, then));
    for (int r = 0; r < WORLD; r++) {
        const dt_table_row *row = &to.row[r];
        const bool told = r >= FIRST && r < END;
        assert_int_equal(dt_seen(row->place.step), told ? 100 + r : 0);
        if (!told)
            continue;
        assert_int_equal(dt_seen(row->place.layer), -1 + r);
        assert_int_equal(dt_seen(row->place.changed_ns), then - 10 * r);
        assert_int_equal(dt_seen(row->place.waits_ns), r == 3 ? then - 7 : 0);
        assert_int_equal(dt_seen(row->heard_ns), then - r);
        assert_int_equal(dt_seen(row->state), 'T');
        assert_int_equal(dt_seen(row->told_ns), then);
    }
    assert_false(dt_message_read(message, bytes, key, &to, 0, FIRST, sent, then)); /* again */
    const size_t older = dt_message_write(&from, FIRST, END, 7, now, key, message);
    assert_false(dt_message_read(message, older, key, &to, 0, FIRST, sent, then));
    const size_t newer = dt_message_write(&from, FIRST, END, 9, now, key, message);
    assert_true(dt_message_read(message, newer, key, &to, 0, FIRST, sent, then));
    free(a);
    free(b);
}

static void nothing_else_is_believed(void **state)
{
    (void)state;
    void *a, *b;
    uint8_t message[DT_MESSAGE_BYTES];
    const dt_table from = new_table(&a), to = new_table(&b);

    fill(&from);
    const size_t bytes = dt_message_write(&from, FIRST, END, 8, now, key, message);
    assert_false(read_as(&to, message, bytes, other_key, 0, FIRST));
    for (size_t n = 0; n < bytes; n++)
        assert_false(read_as(&to, message, n, key, 0, FIRST));
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        dt_flip_bit(message, (unsigned)bit);
        assert_false(read_as(&to, message, bytes, key, 0, FIRST));
        dt_flip_bit(message, (unsigned)bit);
    }
    /* ranks of the reader's own node, whoever says it */
    assert_false(read_as(&to, message, bytes, key, 0, FIRST + 1));
    assert_false(read_as(&to, message, bytes, key, END - 1, WORLD));
    assert_untouched(&to);
    /* more ranks than there are, with the right key */
    to.head->world = END - 1;
    assert_false(read_as(&to, message, bytes, key, 0, FIRST));
    to.head->world = WORLD;
    assert_untouched(&to);
    assert_true(read_as(&to, message, bytes, key, 0, FIRST));
    free(a);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_arrive),
                                       cmocka_unit_test(nothing_else_is_believed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
