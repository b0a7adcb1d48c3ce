/* watch_judge.c - who is late and who waits, case by case. */
#include "watch/watch.h"

#include "test.h"

#define RUNS .runs = true
#define MAX_RANKS 4

static const struct {
    const char *what;
    dt_watch_view view[MAX_RANKS];
    int count, kind, rank, ranks, waits;
} row[] = {
    {"all go on", {{RUNS}, {RUNS, .still_s = 9}}, 2, DT_WATCH_FINE, 0, 0, 0},
    {"one computes, the other waits briefly",
     {{RUNS, .still_s = 5}, {RUNS, .waits = true, .still_s = 5}},
     2,
     DT_WATCH_FINE,
     0,
     0,
     0},
    {"one stands still, the others wait",
     {{RUNS, .waits = true, .still_s = 12},
      {RUNS, .still_s = 11},
      {RUNS, .waits = true, .still_s = 9}},
     3,
     DT_WATCH_LATE,
     1,
     1,
     2},
    {"a step as long as the last one",
     {{RUNS, .still_s = 11, .allowed_s = 8}, {RUNS, .waits = true, .still_s = 11}},
     2,
     DT_WATCH_FINE,
     0,
     0,
     0},
    {"one that waits for a rank that goes on",
     {{RUNS, .waits = true, .still_s = 60}, {RUNS, .still_s = 1}},
     2,
     DT_WATCH_FINE,
     0,
     0,
     0},
    {"one that waits for a moment, as in every step",
     {{RUNS, .waits = true, .still_s = 1}, {.still_s = 30}},
     2,
     DT_WATCH_FINE,
     0,
     0,
     0},
    {"stopped while it waited",
     {{RUNS, .waits = true, .still_s = 12}, {.waits = true, .still_s = 12}},
     2,
     DT_WATCH_LATE,
     1,
     1,
     1},
    {"of a host that may yet be heard of",
     {{RUNS, .waits = true, .still_s = 12}, {.still_s = 12, .allowed_s = DT_WATCH_HEARD_S}},
     2,
     DT_WATCH_FINE,
     0,
     0,
     0},
    {"the one that is late for longest",
     {{RUNS, .still_s = 11},
      {RUNS, .still_s = 14},
      {RUNS, .waits = true, .still_s = 8},
      {.still_s = 13}},
     4,
     DT_WATCH_LATE,
     1,
     3,
     1},
    {"all wait",
     {{RUNS, .waits = true, .still_s = 14}, {RUNS, .waits = true, .still_s = 15}},
     2,
     DT_WATCH_ALL_WAIT,
     1,
     2,
     2},
    {"all wait, one of them not for long",
     {{RUNS, .waits = true, .still_s = 15}, {RUNS, .waits = true, .still_s = 12}},
     2,
     DT_WATCH_FINE,
     0,
     0,
     0},
    {"all wait no longer than for the last step",
     {{RUNS, .waits = true, .still_s = 15, .allowed_s = 5},
      {RUNS, .waits = true, .still_s = 15, .allowed_s = 5}},
     2,
     DT_WATCH_FINE,
     0,
     0,
     0},
    {"all compute for long, and nobody waits",
     {{RUNS, .still_s = 20}, {RUNS, .still_s = 20}},
     2,
     DT_WATCH_FINE,
     0,
     0,
     0},
    {"a rank alone", {{RUNS, .still_s = 20}}, 1, DT_WATCH_LATE, 0, 1, 0},
};

static void test_verdicts(void **state)
{
    const double warn = 10;

    (void)state;
    for (size_t i = 0; i < DT_COUNT_OF(row); i++) {
        const dt_watch_verdict v = dt_watch_judge(row[i].view, row[i].count, warn);
        if ((int)v.kind != row[i].kind || v.rank != row[i].rank || v.ranks != row[i].ranks ||
            (row[i].kind && (v.waits != row[i].waits || v.still_s != row[i].view[v.rank].still_s)))
            fail_msg("%s: kind %d, rank %d, %d ranks, %d wait", row[i].what, (int)v.kind, v.rank,
                     v.ranks, v.waits);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_verdicts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
