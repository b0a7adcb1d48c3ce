/* watch_message.c - what nodes tell each other arrives as it was, and nothing else is believed. */
#include "watch/monitor.h"

#include "flip_bit.h"
#include "test.h"

enum { WORLD = 6, FIRST = 2, END = 5 }; /* of the node that the message is about */

static const int64_t now = INT64_C(5000000000), then = INT64_C(90000000000);

/* A rank of the node [first, end), as far as messages need one. */
static dt_watch *new_watch(int first, int end)
{
    dt_watch *w = NULL;

    assert_ok(dt_calloc(&w, 1, sizeof *w, "a watch"));
    *w = (dt_watch){.world = WORLD, .node_first = first, .node_end = end};
    w->board = aligned_alloc(64, sizeof *w->board + WORLD * sizeof *w->board->row);
    assert_non_null(w->board);
    memset(w->board, 0, sizeof *w->board + WORLD * sizeof *w->board->row);
    assert_ok(dt_calloc(&w->sent, WORLD, sizeof *w->sent, "a watch"));
    assert_ok(dt_calloc(&w->who, WORLD, sizeof *w->who, "a watch"));
    w->who->key[0] = 1;
    return w;
}

static dt_watch *new_sender(void)
{
    dt_watch *w = new_watch(FIRST, END);

    for (int r = 0; r < WORLD; r++) {
        dt_row *row = &w->board->row[r];
        dt_tell(row->place.step, 100 + r);
        dt_tell(row->place.phase, DT_AT_backward);
        dt_tell(row->place.layer, -1 + r);
        dt_tell(row->place.changed_ns, now - 10 * r);
        dt_tell(row->place.waits_ns, r == 3 ? now - 7 : 0);
        dt_tell(row->heard_ns, now - r);
        dt_tell(row->state, 'T');
    }
    return w;
}

static void free_watch(dt_watch *w)
{
    free(w->board);
    free(w->sent);
    free(w->who);
    free(w);
}

TEST(rows_arrive)
{
    int64_t message[DT_MESSAGE_WORDS];
    dt_watch *from = new_sender(), *to = new_watch(0, FIRST);

    const size_t bytes = dt_message_write(from, FIRST, now, message);
    assert_int_equal(dt_message_read(to, message, bytes, then), FIRST);
    for (int r = 0; r < WORLD; r++) {
        const dt_row *row = &to->board->row[r];
        const bool told = r >= FIRST && r < END;
        assert_int_equal(dt_seen(row->place.step), told ? 100 + r : 0);
        assert_int_equal(dt_seen(row->place.layer), told ? -1 + r : 0);
        assert_int_equal(dt_seen(row->place.changed_ns), told ? then - 10 * r : 0);
        assert_int_equal(dt_seen(row->place.waits_ns), r == 3 ? then - 7 : 0);
        assert_int_equal(dt_seen(row->heard_ns), told ? then - r : 0);
        assert_int_equal(dt_seen(row->state), told ? 'T' : 0);
        assert_int_equal(dt_seen(row->told_ns), told ? then : 0);
    }
    static const struct {
        int64_t sent;
        int first;
    } row[] = {{now, -1}, {now - 1, -1}, {now + 1, FIRST}}; /* again, older, newer */
    for (size_t i = 0; i < DT_COUNT_OF(row); i++)
        assert_int_equal(
            dt_message_read(to, message, dt_message_write(from, FIRST, row[i].sent, message), then),
            row[i].first);
    free_watch(from);
    free_watch(to);
}

TEST(nothing_else_is_believed)
{
    int64_t message[DT_MESSAGE_WORDS];
    dt_watch *from = new_sender(), *to = new_watch(0, FIRST);
    const size_t bytes = dt_message_write(from, FIRST, now, message);

    for (size_t n = 0; n < bytes; n++)
        assert_int_equal(dt_message_read(to, message, n, then), -1);
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        flip_bit(message, (unsigned)bit);
        assert_int_equal(dt_message_read(to, message, bytes, then), -1);
        flip_bit(message, (unsigned)bit);
    }
    /* of ranks of the reader's own node; with another key */
    static const struct {
        int first, end;
        uint8_t key;
    } row[] = {{0, FIRST + 1, 1}, {FIRST, END, 1}, {0, FIRST, 2}};
    for (size_t i = 0; i < DT_COUNT_OF(row); i++) {
        to->node_first = row[i].first;
        to->node_end = row[i].end;
        to->who->key[0] = row[i].key;
        assert_int_equal(dt_message_read(to, message, bytes, then), -1);
    }
    for (int r = 0; r < WORLD; r++)
        assert_int_equal(dt_seen(to->board->row[r].place.step), 0);
    free_watch(from);
    free_watch(to);
}
