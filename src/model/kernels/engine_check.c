/* engine_check.c - an engine is trusted once it has shown each product that a pass asks of it, on
 * random numbers, beside dtrain's own. The pass is gone through with a backend that only looks at
 * what it is asked to multiply. */
#include "../model.h"
#include "tiles/tiles.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { SEEN = 4096, PATIENCE_S = 10 };

typedef struct shape {
    size_t row, step, place;
    int steps, rows;
    bool fresh, there;
} shape;

/* Process state. */
static struct {
    bool off, counts; /* counts: the timer is made */
    shape seen[SEEN]; /* by hash */
    size_t count;
    timer_t timer;
    char place[160]; /* layer and pass that ask */
    dt_status st;    /* of the first shape that failed */
} check;

void dt_engine_checks(bool on)
{
    check.off = !on;
}

/* ---- One shape ------------------------------------------------------------------------------- */

/* In a thread of its own. */
static void check_late(union sigval unused)
{
    (void)unused;
    dt_log_error("engine %s: %s: a product has not returned for %d s; --engine own needs no "
                 "library",
                 dt_engine_text(), check.place, PATIENCE_S);
    _exit(dt_status_exit_code(DT_STALLED));
}

/* Without a timer nothing is missed but the message. */
static void check_clock(int seconds)
{
    struct sigevent late = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = check_late};
    const struct itimerspec left = {.it_value.tv_sec = seconds};

    if (!check.counts)
        check.counts = timer_create(CLOCK_MONOTONIC, &late, &check.timer) == 0;
    if (check.counts)
        (void)timer_settime(check.timer, 0, &left, NULL);
}

static void multiply(const dt_tile_backend *w, const shape *s, const void *a, const float *b,
                     float *sums)
{
    const dt_tile_run run = {a, b, s->row, s->step, s->place, s->steps};

    w->begin();
    w->multiply(sums, &run, 1, s->rows, s->fresh, NULL);
    w->end();
}

/* a: zeros, into which the left operand is laid out. */
static dt_status compare(const shape *s, char *a, float *b, float *sums)
{
    const int inner = s->steps * DT_TILE, numbers = inner * DT_TILE;
    float *own = sums + DT_TILE_AREA, *size = own + DT_TILE_AREA;

    dt_fill_uniform(b, (size_t)numbers, -1, 1, 1, DT_STREAM_TEST, 0);
    for (int i = 0; i < s->rows * inner; i++)
        memcpy(a + (size_t)(i / inner) * s->row + (size_t)(i % inner / DT_TILE) * s->step +
                   (size_t)(i % DT_TILE) * s->place,
               &b[i], sizeof *b);
    dt_fill_uniform(b, (size_t)numbers + DT_TILE_AREA, -1, 1, 1, DT_STREAM_TEST, 1);
    memcpy(own, b + numbers, DT_TILE_AREA * sizeof *own);
    memcpy(sums, own, DT_TILE_AREA * sizeof *sums);
    multiply(dt_tile_own(), s, a, b, own);
    check_clock(PATIENCE_S);
    multiply(dt_tile_current(DT_F32), s, a, b, sums);
    check_clock(0);
    for (int i = 0; i < s->rows * inner; i++) {
        uint32_t *u = (uint32_t *)(void *)(a + (size_t)(i / inner) * s->row +
                                           (size_t)(i % inner / DT_TILE) * s->step +
                                           (size_t)(i % DT_TILE) * s->place);
        *u &= 0x7fffffff;
    }
    for (int i = 0; i < numbers; i++)
        b[i] = fabsf(b[i]);
    for (int i = 0; i < DT_TILE_AREA; i++)
        size[i] = fabsf(b[numbers + i]);
    multiply(dt_tile_own(), s, a, b, size);
    /* Each is at most n roundings away, n 2^-24 of the sum of sizes. */
    for (int i = 0; i < s->rows * DT_TILE; i++)
        if (!(fabsf(sums[i] - own[i]) <= (float)(inner + 2) * 0x1p-22f * size[i]))
            return dt_fail(DT_CORRUPT,
                           "engine %s: %s: a product of %d rows and %d places%s%s is wrong: row "
                           "%d, column %d is %.9g, not %.9g; --engine own needs no library",
                           dt_engine_text(), check.place, s->rows, inner,
                           s->place > sizeof(float) ? ", turned" : "",
                           s->fresh ? "" : ", added to sums", i / DT_TILE, i % DT_TILE,
                           (double)sums[i], (double)own[i]);
    return DT_OK;
}

static dt_status check_shape(const shape *s)
{
    const size_t left = (DT_TILE - 1) * (s->row + s->place) +
                        (size_t)(s->steps - 1) * s->step + sizeof(float);
    const size_t at = dt_align(left, 64), blocks = (size_t)s->steps + 4;
    char *room = NULL;

    DT_TRY(dt_calloc(&room, at + blocks * DT_TILE_AREA * sizeof(float) + 64, 1,
                     "an engine's check"));
    char *a = room + (64 - (uintptr_t)room % 64); /* as packed operands lie */
    float *b = (float *)(void *)(a + at);
    const dt_status st = compare(s, a, b, b + (s->steps + 1) * DT_TILE_AREA);
    free(room);
    return st;
}

/* ---- All that a pass asks for ---------------------------------------------------------------- */

static bool seen(const shape *s)
{
    const size_t key = s->row * 31 + s->step * 7 + s->place + (size_t)s->steps * 1009 +
                       (size_t)s->rows * 97 + s->fresh;
    size_t i = key % SEEN;

    for (; check.seen[i].there; i = (i + 1) % SEEN)
        if (memcmp(&check.seen[i], s, sizeof *s) == 0)
            return true;
    if (++check.count < SEEN) /* beyond, each is tried each time */
        check.seen[i] = *s;
    return false;
}

static void look_multiply(float *sums, const dt_tile_run *run, int runs, int rows, bool fresh,
                          const dt_tile_out *out)
{
    (void)sums, (void)out;
    for (; runs > 0 && check.st == DT_OK; runs--, run++, fresh = false) {
        shape s;
        memset(&s, 0, sizeof s); /* its padding, too, is compared */
        s.row = run->row, s.step = run->step, s.place = run->place;
        s.steps = run->steps, s.rows = rows, s.fresh = fresh, s.there = true;
        if (!seen(&s))
            check.st = check_shape(&s);
    }
}

static void look_gather(const dt_tile_rows *g, int count, void *to)
{
    (void)g, (void)count, (void)to;
}

static void look_window(const dt_tile_window *w, int count, void *to)
{
    (void)w, (void)count, (void)to;
}

static void look_left(const void *block, void *to)
{
    (void)block, (void)to;
}

static void look_right(const void *from, size_t row, size_t ahead, void *to)
{
    (void)from, (void)row, (void)ahead, (void)to;
}

dt_status dt_engine_check(const dt_tiles *t, const char *layer)
{
    static const char *const pass[] = {"forward", "data gradient", "weight gradient"};
    dt_tile_backend looks = *t->backend;
    dt_tiles asks = *t;
    char *scratch = NULL;

    if (check.off || !dt_engine_text() || t->conv.type != DT_F32)
        return DT_OK;
    looks.multiply = look_multiply, looks.gather = look_gather, looks.window = look_window;
    looks.turn_left = look_left, looks.turn_right = look_right;
    asks.backend = &looks;
    snprintf(check.place, sizeof check.place, "%s, %s", layer, pass[t->pass]);
    DT_TRY(dt_calloc(&scratch, t->scratch + 1, 1, "an engine's check"));
    const dt_conv_args a = {.x = scratch, .dy = scratch, .packed = scratch, .dx = scratch,
                            .y = scratch};
    check.st = DT_OK;
    for (int i = 0; i < t->units; i++)
        if (t->pass != DT_PASS_WEIGHTS)
            dt_tiles_forward(&asks, i, &a, scratch);
        else if (!t->team)
            dt_tiles_weights(&asks, i, &a, (float *)(void *)scratch, scratch);
        else
            for (int r = 0; r < dt_tiles_weights_rounds(t); r++)
                dt_tiles_weights_round(&asks, r, i, &a, (float *)(void *)scratch, scratch, scratch);
    free(scratch);
    return check.st;
}

/* ---- How much faster ------------------------------------------------------------------------- */

static double product_seconds(float *of)
{
    const dt_tile_backend *w = dt_tile_current(DT_F32);
    const dt_tile_run run = {of, of, DT_TILE * sizeof *of, DT_TILE_AREA, sizeof *of, 1};
    double best = INFINITY;

    for (int i = 0; i < 16; i++) {
        const double start = dt_seconds();
        w->begin();
        w->multiply(of + DT_TILE_AREA, &run, 1, DT_TILE, true, NULL);
        w->end();
        best = fmin(best, dt_seconds() - start);
    }
    return best;
}

double dt_engine_gain(const char *name)
{
    _Alignas(64) float of[2 * DT_TILE_AREA];

    if (dt_tile_current(DT_F32) != &dt_tile_backend_fma_plain)
        return 0;
    dt_fill_uniform(of, DT_TILE_AREA, -1, 1, 1, DT_STREAM_TEST, 0);
    const double own = product_seconds(of);
    const double gain = dt_engine_use(name) == DT_OK ? own / product_seconds(of) : 0;
    dt_fail_clear();
    return dt_engine_use("own") == DT_OK ? gain : 0;
}
