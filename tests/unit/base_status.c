/* base_status.c - exit codes, the record of the first cause, and the log's lines. */
#include "base/base.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void codes_are_the_documented_ones(void **state)
{
    (void)state;
    static const struct {
        dt_status status;
        int code;
    } documented[] = {
        {DT_OK, 0},         {DT_USAGE, 64},    {DT_FORMAT, 65},     {DT_NOINPUT, 66},
        {DT_BUG, 70},       {DT_SHAPE, 70},    {DT_BACKEND, 70},    {DT_DECLINED, 70},
        {DT_NOMEM, 71},     {DT_COMM, 71},     {DT_CANTCREATE, 73}, {DT_IO, 74},
        {DT_PREEMPTED, 75}, {DT_MISMATCH, 76}, {DT_CONFIG, 78},     {DT_UNSUPPORTED, 78},
        {DT_NUMERIC, 79},   {DT_CORRUPT, 80},  {DT_STALLED, 77},
    };
    enum { ROWS = sizeof documented / sizeof documented[0] };
    assert_int_equal(ROWS, DT_STATUS_COUNT);
    for (size_t i = 0; i < ROWS; i++) {
        assert_int_equal(dt_status_exit_code(documented[i].status), documented[i].code);
        assert_true(strlen(dt_status_text(documented[i].status)) > 3);
    }
    assert_string_equal(dt_status_text(DT_NUMERIC),
                        "a loss or a number of the model is not finite");
    assert_int_equal(dt_status_exit_code(DT_STATUS_COUNT), 70);
    assert_int_equal(dt_status_exit_code((dt_status)-1), 70);
}

static void first_cause_is_kept(void **state)
{
    (void)state;
    dt_fail_clear();
    assert_string_equal(dt_fail_text(), "");
    assert_int_equal(dt_fail(DT_IO, "cannot read '%s' at %d", "a.bin", 17), DT_IO);
    assert_int_equal(dt_fail(DT_NOMEM, "later"), DT_NOMEM);
    assert_string_equal(dt_fail_text(), "cannot read 'a.bin' at 17");
    dt_fail_clear();
    assert_int_equal(dt_fail(DT_CONFIG, "second"), DT_CONFIG);
    assert_string_equal(dt_fail_text(), "second");
    dt_fail_clear();
}

static void a_place_stands_before_the_cause(void **state)
{
    (void)state;
    static char room[9000];

    dt_fail_clear();
    assert_int_equal(dt_fail(DT_USAGE, "'%s' is no name", "a b"), DT_USAGE);
    assert_int_equal(dt_fail_place(DT_CONFIG, "%s:%d: ", "ho\nsts", 3), DT_CONFIG);
    assert_string_equal(dt_fail_text(), "ho?sts:3: 'a b' is no name");
    assert_int_equal(dt_fail(DT_NOMEM, "later"), DT_NOMEM);
    assert_string_equal(dt_fail_text(), "ho?sts:3: 'a b' is no name");
    memset(room, 'x', sizeof room - 1);
    assert_int_equal(dt_fail_place(DT_CONFIG, "%s", room), DT_CONFIG);
    assert_int_equal(strlen(dt_fail_text()), 8191);
    dt_fail_clear();
}

static void only_our_faults_name_the_source(void **state)
{
    (void)state;
    static const dt_status ours[] = {DT_BUG, DT_BACKEND};
    for (size_t i = 0; i < 2; i++) {
        dt_fail_clear();
        assert_int_equal(dt_fail_at("/a/b/op.c", 12, ours[i], "refused"), ours[i]);
        assert_string_equal(dt_fail_text(), "refused (op.c:12)");
    }
    dt_fail_clear();
    assert_int_equal(dt_fail_at("op.c", 12, DT_FORMAT, "refused"), DT_FORMAT);
    assert_string_equal(dt_fail_text(), "refused");
    dt_fail_clear();
}

static void text_is_bounded_and_harmless(void **state)
{
    (void)state;
    enum { LONG = 100000 };
    char *text = malloc(LONG + 1);
    assert_non_null(text);
    memset(text, 'x', LONG);
    text[LONG] = '\0';
    dt_fail_clear();
    assert_int_equal(dt_fail(DT_BUG, "begin %s", text), DT_BUG);
    assert_memory_equal(dt_fail_text(), "begin xxx", 9);
    assert_in_range(strlen(dt_fail_text()), 4096, LONG - 1);
    free(text);
    dt_fail_clear();
    assert_int_equal(dt_fail(DT_FORMAT, "name '%s'", "\033[2Jx\ty\x7f\nz\r\xc3\xa9"), DT_FORMAT);
    assert_string_equal(dt_fail_text(), "name '?[2Jx?y??z?\xc3\xa9'");
    dt_fail_clear();
    assert_int_equal(dt_fail(DT_IO, "%s", ""), DT_IO);
    assert_string_equal(dt_fail_text(), "input/output error");
    dt_fail_clear();
}

/* A folder reached by its descriptor is shown under its name, to the end of the room. */
static void an_alias_is_shown(void **state)
{
    char text[20] = "at /fd/7: /fd/71", small[12] = "/fd/7/abcde";

    (void)state;
    dt_fail_clear();
    dt_log_alias("/fd/7", "runs/a");
    assert_int_equal(dt_fail(DT_IO, "no %s/x, /fd/71, %s", "/fd/7", "/fd/7"), DT_IO);
    assert_string_equal(dt_fail_text(), "no runs/a/x, /fd/71, runs/a");
    dt_fail_clear();
    dt_log_shown(text, sizeof text);
    assert_string_equal(text, "at runs/a: /fd/71");
    dt_log_shown(small, sizeof small);
    assert_string_equal(small, "runs/a/abcd");
    dt_log_shown(small, 3); /* a name that does not fit */
    assert_string_equal(small, "runs/a/abcd");
    dt_log_alias(NULL, NULL);
    assert_int_equal(dt_fail(DT_IO, "/fd/7"), DT_IO);
    assert_string_equal(dt_fail_text(), "/fd/7");
    dt_fail_clear();
}

/* Control characters, those above 0x7f as well, as characters and as bytes; all else stays. */
static void nothing_steers_a_terminal(void **state)
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

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s", row[i].text);
        dt_log_shown(text, sizeof text);
        assert_string_equal(text, row[i].shown);
    }
}

static void *fail_elsewhere(void *seen)
{
    snprintf(seen, 32, "%s", dt_fail_text());
    return dt_fail(DT_IO, "of the other thread") == DT_IO ? seen : NULL;
}

static void record_belongs_to_the_thread(void **state)
{
    (void)state;
    char seen[32] = "unset";
    pthread_t thread;
    void *answer = NULL;
    dt_fail_clear();
    assert_int_equal(dt_fail(DT_IO, "mine"), DT_IO);
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, seen), 0);
    assert_int_equal(pthread_join(thread, &answer), 0);
    assert_ptr_equal(answer, seen);
    assert_string_equal(seen, "");
    assert_string_equal(dt_fail_text(), "mine");
    dt_fail_clear();
}

static dt_status step(dt_status answer, int *calls)
{
    ++*calls;
    return answer;
}

static dt_status two_tries(dt_status first, int *calls)
{
    DT_TRY(step(first, calls));
    DT_TRY(step(DT_OK, calls));
    return DT_OK;
}

static dt_status two_gos(dt_status first, int *calls)
{
    dt_status st = DT_OK;
    DT_GO(st, step(first, calls), out);
    DT_GO(st, step(DT_OK, calls), out);
out:
    *calls += 10;
    return st;
}

static void failures_propagate(void **state)
{
    (void)state;
    int calls = 0;
    assert_int_equal(two_tries(DT_SHAPE, &calls), DT_SHAPE);
    assert_int_equal(calls, 1);
    assert_int_equal(two_tries(DT_OK, &calls), DT_OK);
    assert_int_equal(calls, 3);
    assert_int_equal(two_gos(DT_COMM, &calls), DT_COMM);
    assert_int_equal(calls, 14);
    assert_int_equal(two_gos(DT_OK, &calls), DT_OK);
    assert_int_equal(calls, 26);
}

static void speak(int rank, int world)
{
    dt_log_init(rank, world);
    dt_note("note %d", 1);
    dt_warn("warning %d", 2);
    dt_log_error("error %d%s", 3, "\nof\033 one line");
}

/* What stderr receives while `rank` of `world` speaks. */
static void listen_to(int rank, int world, char *heard, size_t size)
{
    FILE *sink = tmpfile();
    const int kept = dup(STDERR_FILENO);
    assert_non_null(sink);
    assert_true(kept >= 0);
    assert_true(dup2(fileno(sink), STDERR_FILENO) >= 0);
    speak(rank, world);
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    close(kept);
    rewind(sink);
    heard[fread(heard, 1, size - 1, sink)] = '\0';
    fclose(sink);
}

static void log_speaks_once(void **state)
{
    (void)state;
    char heard[4096], expected[512], host[64];
    assert_int_equal(gethostname(host, sizeof host), 0);

    listen_to(0, 1, heard, sizeof heard);
    assert_string_equal(heard,
                        "note 1\ndtrain: warning: warning 2\ndtrain: error 3?of? one line\n");
    listen_to(0, 8, heard, sizeof heard);
    snprintf(expected, sizeof expected,
             "note 1\ndtrain: warning: warning 2\nrank 0 on %s: error 3?of? one line\n", host);
    assert_string_equal(heard, expected);
    listen_to(5, 8, heard, sizeof heard);
    snprintf(expected, sizeof expected, "rank 5 on %s: error 3?of? one line\n", host);
    assert_string_equal(heard, expected);
    dt_log_init(0, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_the_documented_ones),
        cmocka_unit_test(first_cause_is_kept),
        cmocka_unit_test(a_place_stands_before_the_cause),
        cmocka_unit_test(only_our_faults_name_the_source),
        cmocka_unit_test(text_is_bounded_and_harmless),
        cmocka_unit_test(an_alias_is_shown),
        cmocka_unit_test(nothing_steers_a_terminal),
        cmocka_unit_test(record_belongs_to_the_thread),
        cmocka_unit_test(failures_propagate),
        cmocka_unit_test(log_speaks_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
