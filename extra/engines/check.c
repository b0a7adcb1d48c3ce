/* check.c - an engine is trusted once it has shown each product that a pass asks of it, on
 * random numbers, beside dtrain's own. The pass is gone through by a backend that packs nothing and
 * only looks at what it is to multiply. */
#include "engines.h"

#include <signal.h>
#include <time.h>

enum { SEEN = 4096, PATIENCE_S = 10 };

typedef struct shape {
    size_t row, step, place, steps, rows, fresh;
} shape;

static struct { /* process state */
    bool timed;
    shape seen[SEEN]; /* by hash; no rows: a free place */
    size_t count;
    timer_t timer;
    char place[160]; /* layer and pass that ask */
    dt_status st;    /* of the first product that failed */
} check;

/* A handler that prints: it has interrupted a product, which holds no lock of the log's. */
static void check_late(int number)
{
    (void)number;
    dt_log_error("engine %s: %s: a product has not returned for %d s; take --engine own",
                 dt_engine_text(), check.place, PATIENCE_S);
    _exit(dt_status_exit_code(DT_STALLED));
}

/* 0: no more. */
static void check_clock(int seconds)
{
    struct sigevent late = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGVTALRM};
    const struct itimerspec left = {.it_value.tv_sec = seconds};

    if (!check.timed)
        check.timed = timer_create(CLOCK_MONOTONIC, &late, &check.timer) == 0;
    if (check.timed && signal(SIGVTALRM, check_late) != SIG_ERR)
        (void)timer_settime(check.timer, 0, &left, NULL);
}

static void multiply(const dt_tile_backend *w, const shape *s, const void *a, const float *b,
                     float *sums)
{
    const dt_tile_run run = {a, b, s->row, s->step, s->place, (int)s->steps};

    dt_tile_begin(w);
    w->multiply(sums, &run, 1, (int)s->rows, s->fresh, NULL);
    dt_tile_end(w);
}

/* Positive numbers, so that a sum is its own scale: each product is at most n roundings away from
 * it. a: zeros, laid out as the shape says; behind b there is room for both products. */
static dt_status compare(const shape *s, char *a, float *b)
{
    const size_t inner = s->steps * DT_TILE, numbers = inner * DT_TILE;
    float *sums = b + numbers, *own = sums + DT_TILE_AREA;

    dt_fill_uniform(b, numbers, 0, 1, 1, DT_STREAM_TEST, 0);
    for (size_t i = 0; i < s->rows * inner; i++)
        memcpy(a + i / inner * s->row + i % inner / DT_TILE * s->step + i % DT_TILE * s->place,
               &b[i], sizeof *b);
    dt_fill_uniform(b, numbers + DT_TILE_AREA, 0, 1, 1, DT_STREAM_TEST, 1);
    memcpy(own, sums, DT_TILE_AREA * sizeof *own);
    multiply(dt_tile_own(), s, a, b, own);
    check_clock(PATIENCE_S);
    multiply(dt_tile_current(DT_F32), s, a, b, sums);
    check_clock(0);
    for (size_t i = 0; i < s->rows * DT_TILE; i++)
        if (!(fabsf(sums[i] - own[i]) <= (float)(inner + 1) * 0x1p-23f * own[i]))
            return dt_fail(DT_CORRUPT,
                           "engine %s: %s: a product of %zu rows and %zu places%s%s is wrong in "
                           "row %zu, column %zu: %.9g, not %.9g; take --engine own",
                           dt_engine_text(), check.place, s->rows, inner,
                           s->place > sizeof(float) ? ", turned" : "",
                           s->fresh ? "" : ", added to sums", i / DT_TILE, i % DT_TILE,
                           (double)sums[i], (double)own[i]);
    return DT_OK;
}

static dt_status check_shape(const shape *s)
{
    const size_t left = (DT_TILE - 1) * (s->row + s->place) + s->steps * s->step + DT_TILE;
    const size_t bytes = dt_align(left, 64), blocks = s->steps + 2;
    char *room = NULL;

    DT_TRY(dt_calloc(&room, bytes + blocks * DT_TILE_AREA * sizeof(float) + 64, 1, "a check"));
    char *a = room + (64 - (uintptr_t)room % 64); /* as packed operands lie */
    const dt_status st = compare(s, a, (float *)(void *)(a + bytes));
    free(room);
    return st;
}

/* ---- All that a pass asks for ---------------------------------------------------------------- */

static bool seen(const shape *s)
{
    size_t i = (s->row * 31 + s->step * 7 + s->place + s->steps * 1009 + s->rows * 97) % SEEN;

    for (; check.seen[i].rows; i = (i + 1) % SEEN)
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
        const shape s = {run->row, run->step, run->place, (size_t)run->steps, (size_t)rows, fresh};
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

dt_status dt_products_check(const dt_tiles *t, const char *layer)
{
    static const char *const pass[] = {"forward", "data gradient", "weight gradient"};
    dt_tile_backend looks = *t->backend;
    dt_tiles asks = *t;
    char *room = NULL;

    looks.multiply = look_multiply, looks.gather = look_gather, looks.window = look_window;
    looks.turn_left = look_left, looks.turn_right = look_right;
    asks.backend = &looks;
    snprintf(check.place, sizeof check.place, "%s, %s", layer, pass[t->pass]);
    DT_TRY(dt_calloc(&room, t->scratch + 1, 1, "a check"));
    const dt_conv_args a = {.x = room, .dy = room, .packed = room, .dx = room, .y = room};
    check.st = DT_OK;
    for (int i = 0; i < t->units; i++)
        if (t->pass != DT_PASS_WEIGHTS)
            dt_tiles_forward(&asks, i, &a, room);
        else
            for (int r = 0; r < (t->team ? dt_tiles_weights_rounds(t) : 1); r++)
                dt_tiles_weights(&asks, r, i, &a, NULL, room, room);
    free(room);
    return check.st;
}
