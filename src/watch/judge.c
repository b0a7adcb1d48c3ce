/* judge.c - who is late, and who only waits. */
#include "watch.h"

static bool is_late(const dt_watch_view *v, double warn_s)
{
    return !(v->runs && v->waits) && v->still_s > warn_s + v->allowed_s;
}

static bool waits_long(const dt_watch_view *v, double warn_s)
{
    return v->runs && v->waits && v->still_s > warn_s + v->allowed_s + DT_WATCH_HEARD_S;
}

static void add(dt_watch_verdict *w, int rank, double still_s)
{
    w->ranks++;
    if (still_s <= w->still_s)
        return;
    w->rank = rank;
    w->still_s = still_s;
}

dt_watch_verdict dt_watch_judge(const dt_watch_view *view, int count, double warn_s)
{
    dt_watch_verdict late = {.kind = DT_WATCH_LATE}, wait = {.kind = DT_WATCH_ALL_WAIT};
    double waits_s = 0;
    int waits = 0;

    for (int r = 0; r < count; r++) {
        waits += view[r].runs && view[r].waits && view[r].still_s > warn_s / 2;
        if (view[r].runs && view[r].waits)
            waits_s = DT_MAX(waits_s, view[r].still_s);
        if (is_late(&view[r], warn_s))
            add(&late, r, view[r].still_s);
        if (waits_long(&view[r], warn_s))
            add(&wait, r, view[r].still_s);
    }
    late.waits = wait.waits = waits;
    late.waits_s = wait.waits_s = waits_s;
    if (late.ranks > 0 && (waits > 0 || count == 1))
        return late;
    return wait.ranks == count ? wait : (dt_watch_verdict){.kind = DT_WATCH_FINE};
}
