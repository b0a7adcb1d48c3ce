/* base_status.c - exit codes, the record of the first cause, and the log's lines. */
#include "test.h"

#include "capture.h"

TEST(codes_are_the_documented_ones)
{
    static const struct {
        dt_status status;
        int code;
    } documented[] = {
        {DT_OK, 0},        {DT_USAGE, 64},      {DT_FORMAT, 65},      {DT_NOINPUT, 66},
        {DT_BUG, 70},      {DT_SHAPE, 70},      {DT_DECLINED, 70},    {DT_NOMEM, 71},
        {DT_COMM, 71},     {DT_CANTCREATE, 73}, {DT_IO, 74},          {DT_PREEMPTED, 75},
        {DT_MISMATCH, 76}, {DT_CONFIG, 78},     {DT_UNSUPPORTED, 78}, {DT_NUMERIC, 79},
        {DT_CORRUPT, 80},  {DT_STALLED, 77},
    };
    enum { ROWS = DT_COUNT_OF(documented) };
    assert_int_equal(ROWS, DT_STATUS_COUNT);
    for (size_t i = 0; i < ROWS; i++) {
        assert_int_equal(dt_status_exit_code(documented[i].status), documented[i].code);
        assert_true(strlen(dt_status_text(documented[i].status)) > 3);
    }
    assert_string_equal(dt_status_text(DT_NUMERIC),
                        "a loss or a number of the model is not finite");
}

TEST(first_cause_is_kept)
{
    dt_fail_clear();
    assert_string_equal(dt_fail_text(), "");
    assert_int_equal(dt_fail(DT_IO, "cannot read '%s' at %d", "a.bin", 17), DT_IO);
    assert_int_equal(dt_fail(DT_NOMEM, "later"), DT_NOMEM);
    assert_string_equal(dt_fail_text(), "cannot read 'a.bin' at 17");
    assert_int_equal(dt_fail_place(DT_CONFIG, "%s:%d: ", "ho\nsts", 3), DT_CONFIG);
    assert_string_equal(dt_fail_text(), "ho?sts:3: cannot read 'a.bin' at 17");
    dt_fail_clear();
    assert_fails(dt_fail(DT_CONFIG, "second"), DT_CONFIG, "second");
}

/* Only our faults name the source. */
TEST(text_is_bounded_and_harmless)
{
    static const struct {
        dt_status status;
        const char *text, *record;
    } rows[] = {
        {DT_BUG, "refused", "refused (op.c:12)"},
        {DT_FORMAT, "refused", "refused"},
        {DT_FORMAT, "'\033[2Jx\ty\x7f\nz\r\xc3\xa9'", "'?[2Jx?y??z?\xc3\xa9'"},
    };
    static char large[100000];

    for (size_t i = 0; i < DT_COUNT_OF(rows); i++) {
        dt_fail_clear();
        assert_int_equal(dt_fail_at("/a/b/op.c", 12, rows[i].status, "%s", rows[i].text),
                         rows[i].status);
        assert_string_equal(dt_fail_text(), rows[i].record);
    }
    memset(large, 'x', sizeof large - 1);
    dt_fail_clear();
    assert_int_equal(dt_fail(DT_BUG, "begin %s", large), DT_BUG);
    assert_memory_equal(dt_fail_text(), "begin xxx", 9);
    assert_in_range(strlen(dt_fail_text()), 4096, sizeof large - 2);
    assert_int_equal(dt_fail_place(DT_CONFIG, "%s", large), DT_CONFIG);
    assert_int_equal(strlen(dt_fail_text()), 8191);
    dt_fail_clear();
}

/* Control characters, those above 0x7f as well, as characters and as bytes; all else stays. */
TEST(nothing_steers_a_terminal)
{
    static const struct {
        const char *text, *shown;
    } row[] = {
        {"a\033[31m\tb\177", "a?[31m?b?"},
        {"\xc2\x9b"
         "31m \xc2\x80 \xc2\x9f",
         "??31m ?? ??"},
        {"\x9b"
         "31m \x80",
         "?31m ?"},
        {"\xc2\xa0 \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80",
         "\xc2\xa0 \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\xe2\x82", "??"}, /* cut */
        {"\xc3\x9b, \xe2\x9b\x9b", "\xc3\x9b, \xe2\x9b\x9b"},
    };

    for (size_t i = 0; i < DT_COUNT_OF(row); i++) {
        char text[64];
        snprintf(text, sizeof text, "%s", row[i].text);
        dt_log_shown(text);
        assert_string_equal(text, row[i].shown);
    }
}

TEST(log_speaks_once)
{
    static const struct {
        int rank, world;
        bool rest, names;
    } rows[] = {{0, 1, true, false}, {0, 8, true, true}, {5, 8, false, true}};
    char expected[512], host[64], who[128] = "";

    assert_int_equal(gethostname(host, sizeof host), 0);
    for (size_t i = 0; i < DT_COUNT_OF(rows); i++) {
        capture c;
        capture_begin(&c);
        dt_log_init(rows[i].rank, rows[i].world);
        dt_note("note %d", 1);
        dt_warn("warning %d", 2);
        dt_log_error("error %d%s", 3, "\nof\033 one line");
        capture_end(&c);
        snprintf(who, sizeof who, "rank %d on %s", rows[i].rank, host);
        snprintf(expected, sizeof expected, "%s%s: error 3?of? one line\n",
                 rows[i].rest ? "note 1\ndtrain: warning: warning 2\n" : "",
                 rows[i].names ? who : "dtrain");
        assert_string_equal(c.text, expected);
    }
    dt_log_init(0, 1);
}
