/* watch_judge.c - who is late and who waits, case by case. */
#include "watch/monitor.h"

#include "test.h"

/* A rank as text: c computes, w waits, d does not run, D neither and has waited; then for how many
 * seconds, and behind '+' how many were allowed. */
static const struct {
    const char *what, *ranks;
    int kind, rank, late, waits;
} row[] = {
    {"all go on", "c0 c9", DT_WATCH_FINE, 0, 0, 0},
    {"one computes, the other waits briefly", "c5 w5", DT_WATCH_FINE, 0, 0, 0},
    {"one stands still, the others wait", "w12 c11 w9", DT_WATCH_LATE, 1, 1, 2},
    {"a step as long as the last one", "c11+8 w11", DT_WATCH_FINE, 0, 0, 0},
    {"one that waits for a rank that goes on", "w60 c1", DT_WATCH_FINE, 0, 0, 0},
    {"one that waits for a moment, as in every step", "w1 d30", DT_WATCH_FINE, 0, 0, 0},
    {"stopped while it waited", "w12 D12", DT_WATCH_LATE, 1, 1, 1},
    {"of a host that may yet be heard of", "w12 d12+3", DT_WATCH_FINE, 0, 0, 0},
    {"the one that is late for longest", "c11 c14 w8 d13", DT_WATCH_LATE, 1, 3, 1},
    {"all wait", "w14 w15", DT_WATCH_ALL_WAIT, 1, 2, 2},
    {"all wait, one of them not for long", "w15 w12", DT_WATCH_FINE, 0, 0, 0},
    {"all wait no longer than for the last step", "w15+5 w15+5", DT_WATCH_FINE, 0, 0, 0},
    {"all compute for long, and none waits", "c20 c20", DT_WATCH_FINE, 0, 0, 0},
    {"a rank alone", "c20", DT_WATCH_LATE, 0, 1, 0},
};
_Static_assert(DT_WATCH_HEARD_S == 3, "as the table has it");

static int read_ranks(dt_watch_view *view, const char *text)
{
    char kind;
    int n = 0, used = 0;

    for (; sscanf(text, " %c%lf%n", &kind, &view[n].still_s, &used) == 2; n++) {
        text += used;
        view[n].runs = strchr("cw", kind) != NULL;
        view[n].waits = strchr("wD", kind) != NULL;
        view[n].allowed_s = 0;
        if (sscanf(text, "+%lf%n", &view[n].allowed_s, &used) == 1)
            text += used;
    }
    return n;
}

TEST(test_verdicts)
{
    const double warn = 10;

    for (size_t i = 0; i < DT_COUNT_OF(row); i++) {
        dt_watch_view view[4];
        const dt_watch_verdict v = dt_watch_judge(view, read_ranks(view, row[i].ranks), warn);
        if ((int)v.kind != row[i].kind || v.rank != row[i].rank || v.ranks != row[i].late ||
            (row[i].kind && (v.waits != row[i].waits || v.still_s != view[v.rank].still_s)))
            fail_msg("%s: kind %d, rank %d, %d ranks, %d wait", row[i].what, (int)v.kind, v.rank,
                     v.ranks, v.waits);
    }
}
