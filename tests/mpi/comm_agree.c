/* comm_agree.c - agreement: for every pattern of failing ranks the same status comes back
 * everywhere, the lowest rank's cause is printed once, and no record is left. */
#include "ranks.h"

#include "capture.h"

static const dt_status status_of[] = {DT_NOINPUT, DT_FORMAT, DT_NOMEM, DT_CONFIG};

static dt_status fail_as(int rank)
{
    return dt_fail(status_of[rank % 4], "cannot read 'file %d'", rank);
}

static void every_pattern(void **state)
{
    (void)state;
    const int world = dt_comm_world(comm), rank = dt_comm_rank(comm);
    capture c;

    for (int pattern = 0; pattern < 1 << world; pattern++) {
        char want[64];
        int lowest = 0;

        while (lowest < world && !(pattern >> lowest & 1))
            lowest++;
        capture_begin(&c);
        const dt_status mine = pattern >> rank & 1 ? fail_as(rank) : DT_OK;
        const dt_status got = dt_comm_agree(comm, mine);
        const int lines = capture_end(&c);

        assert_int_equal(got, pattern ? status_of[lowest % 4] : DT_OK);
        assert_string_equal(dt_fail_text(), "");
        assert_int_equal(lines, pattern && rank == 0 ? 1 : 0);
        if (lines == 1) {
            snprintf(want, sizeof want, ": cannot read 'file %d'\n", lowest);
            assert_non_null(strstr(c.text, want));
            snprintf(want, sizeof want, "dtrain: rank %d on ", lowest);
            if (world > 1)
                assert_ptr_equal(strstr(c.text, want), c.text);
        }
    }
}

static void alike_names_no_rank(void **state)
{
    (void)state;
    capture c;

    capture_begin(&c);
    const dt_status st = dt_comm_agree(comm, dt_fail(DT_NOINPUT, "no folder 'x'"));
    const int lines = capture_end(&c);
    assert_int_equal(st, DT_NOINPUT);
    assert_int_equal(lines, dt_comm_rank(comm) == 0);
    if (lines)
        assert_string_equal(c.text, "dtrain: no folder 'x'\n");
}

/* Callers pass an agreed failure through another agreement: it is not printed again. */
static void agreed_is_not_printed_again(void **state)
{
    (void)state;
    capture c;

    capture_begin(&c);
    dt_status st = dt_comm_rank(comm) == dt_comm_world(comm) - 1 ? fail_as(1) : DT_OK;
    st = dt_comm_agree(comm, dt_comm_agree(comm, st));
    const int lines = capture_end(&c);
    assert_int_equal(st, status_of[1]);
    assert_int_equal(lines, dt_comm_rank(comm) == 0);
}

/* A record that a fallback left behind must not become the cause of a later failure. */
static void success_clears_the_record(void **state)
{
    (void)state;
    const dt_status ignored = dt_fail(DT_IO, "the first way is closed");

    (void)ignored;
    assert_ok(dt_comm_agree(comm, DT_OK));
    assert_string_equal(dt_fail_text(), "");
}

static void same_values_agree(void **state)
{
    (void)state;
    capture c;
    const dt_field fields[] = {{"seed", "1"}, {"build", "abc"}, {"data", ""}};

    capture_begin(&c);
    const dt_status st = dt_comm_same(comm, fields, 3);
    assert_int_equal(capture_end(&c), 0);
    assert_int_equal(st, DT_OK);
}

/* Each rank in turn sees other data; in the last field its build differs too, which the
 * first difference hides. */
static void other_value_is_named(void **state)
{
    (void)state;
    const int world = dt_comm_world(comm), rank = dt_comm_rank(comm);
    capture c;

    for (int odd = 0; odd < world && world > 1; odd++) {
        const dt_field fields[] = {{"seed", "1"},
                                   {"data", rank == odd ? "other-set" : "one-set"},
                                   {"build", rank == odd ? "new" : "old"}};
        char part[64];

        capture_begin(&c);
        const dt_status st = dt_comm_same(comm, fields, 3);
        const int lines = capture_end(&c);
        assert_int_equal(st, DT_MISMATCH);
        assert_string_equal(dt_fail_text(), "");
        assert_int_equal(lines, rank == 0);
        if (rank > 0)
            continue;
        assert_non_null(strstr(c.text, "disagree on data: rank 0 on "));
        assert_non_null(strstr(c.text, odd ? "has 'one-set', " : "has 'other-set', "));
        snprintf(part, sizeof part, "rank %d on ", odd ? odd : 1);
        assert_non_null(strstr(c.text, part));
        assert_non_null(strstr(c.text, odd ? "has 'other-set';" : "has 'one-set';"));
        assert_null(strstr(c.text, "build"));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pattern),
        cmocka_unit_test(alike_names_no_rank),
        cmocka_unit_test(agreed_is_not_printed_again),
        cmocka_unit_test(success_clears_the_record),
        cmocka_unit_test(same_values_agree),
        cmocka_unit_test(other_value_is_named),
    };
    ranks_open(argc, argv);
    return ranks_close(cmocka_run_group_tests(tests, NULL, NULL));
}
