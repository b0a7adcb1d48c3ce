/* sink_bar.c - a progress bar in tqdm's look, and a line per epoch. Layout, rates and refresh
 * follow tqdm.std (format_meter, EMA). */
#include "sink.h"

#include <langinfo.h>
#include <locale.h>
#include <math.h>

static const double refresh_s = 0.1, smoothing = 0.3; /* tqdm's mininterval and smoothing */
enum { PART_CHARS = 256 };

typedef struct bar {
    bool unicode; /* the locale's characters are UTF-8 */
    bool drawn;   /* the cursor stands behind it */
    /* This epoch's steps so far, of this process: */
    double seconds;
    int64_t images;
    /* The epoch as last drawn, and running means per refresh: */
    double shown_seconds, smooth_steps, smooth_seconds;
    int64_t shown_step;
} bar;

/* By the environment, without setting the process's locale. */
static dt_status bar_open(dt_sink *s)
{
    bar *b = s->own;
    const locale_t here = newlocale(LC_CTYPE_MASK, "", NULL);

    if (here) {
        b->unicode = strcmp(nl_langinfo_l(CODESET, here), "UTF-8") == 0;
        freelocale(here);
    }
    return DT_OK;
}

/* Symbols of a cell from empty to full. */
static const char *const cells_unicode[] = {" ",        u8"\u258f", u8"\u258e",
                                            u8"\u258d", u8"\u258c", u8"\u258b",
                                            u8"\u258a", u8"\u2589", u8"\u2588"};
static const char *const cells_ascii[] = {" ", "1", "2", "3", "4", "5", "6", "7", "8", "9", "#"};

typedef struct bar_charset {
    const char *const *cell;
    int64_t full; /* index of the full cell */
} bar_charset;

static void bar_cells(FILE *out, bar_charset set, double fraction, int64_t width)
{
    const int64_t filled = (int64_t)(fraction * (double)(width * set.full));
    for (int64_t i = 0; i < width; i++) {
        const int64_t part = filled - i * set.full;
        fputs(set.cell[part < 0 ? 0 : part > set.full ? set.full : part], out);
    }
}

/* "1:02:03" or "02:03"; "?" for what is not known. */
static const char *clock_text(double seconds, char out[32])
{
    if (!isfinite(seconds) || seconds > 1e12)
        return "?";
    const long long t = (long long)seconds;
    if (t >= 3600)
        snprintf(out, 32, "%lld:%02lld:%02lld", t / 3600, t / 60 % 60, t % 60);
    else
        snprintf(out, 32, "%02lld:%02lld", t / 60, t % 60);
    return out;
}

static const char *rate_text(double rate, char out[32])
{
    if (!(rate > 0) || !isfinite(rate))
        return "?it/s";
    if (rate < 1)
        snprintf(out, 32, "%5.2fs/it", 1 / rate);
    else
        snprintf(out, 32, "%5.2fit/s", rate);
    return out;
}

/* rate: steps per second. At least one cell; what is too long for the terminal is cut. */
static void bar_draw(dt_sink *s, const dt_step_record *r, double rate)
{
    bar *b = s->own;
    FILE *out = s->setup->out;
    const int64_t total = dt_print_epoch_steps(s, r->epoch);
    const double fraction = (double)r->step / (double)total;
    const bar_charset set =
        b->unicode ? (bar_charset){cells_unicode, 8} : (bar_charset){cells_ascii, 10};
    char left[PART_CHARS], right[PART_CHARS], x[32], y[32], z[32];

    const int n_left = snprintf(left, sizeof left, "epoch %lld/%lld: %3.0f%%|", (long long)r->epoch,
                                (long long)s->setup->epochs, 100 * fraction);
    const int n_right =
        snprintf(right, sizeof right, "| %lld/%lld [%s<%s, %s, loss=%.4f, %.0f img/s]",
                 (long long)r->step, (long long)total, clock_text(b->seconds, x),
                 clock_text((double)(total - r->step) / rate, y), rate_text(rate, z), r->loss,
                 rate * (double)b->images / (double)r->step);
    const int64_t columns = DT_MAX(dt_print_columns(out), 1), room = columns - n_left - n_right;
    const int64_t cells = DT_MAX(room, 1), rest = DT_MAX(columns - n_left - cells, 0);

    fprintf(out, "\r%.*s", (int)columns, left);
    if (columns >= n_left + cells)
        bar_cells(out, set, fraction, cells);
    fprintf(out, "%.*s\033[K", (int)rest, right); /* and erase what is left of a longer line */
    b->drawn = true;
}

/* The rate is a quotient of two exponential means, as tqdm's, so that the slow first
 * steps are forgotten; for the finished bar it is the plain mean. */
static dt_status bar_step(dt_sink *s, const dt_step_record *r)
{
    bar *b = s->own;
    const bool last = r->step == dt_print_epoch_steps(s, r->epoch);

    if (r->step == 1)
        *b = (bar){.unicode = b->unicode};
    b->seconds += r->seconds;
    b->images += r->images;
    const double since = b->seconds - b->shown_seconds;
    if (since < refresh_s && !last)
        return DT_OK;
    b->smooth_steps += smoothing * ((double)(r->step - b->shown_step) - b->smooth_steps);
    b->smooth_seconds += smoothing * (since - b->smooth_seconds);
    b->shown_seconds = b->seconds;
    b->shown_step = r->step;
    bar_draw(s, r, last ? (double)r->step / b->seconds : b->smooth_steps / b->smooth_seconds);
    if (last)
        fputc('\n', s->setup->out);
    b->drawn = !last;
    return dt_print_flush(s);
}

static dt_status bar_epoch(dt_sink *s, const dt_epoch_record *e)
{
    const bar *b = s->own;

    dt_print_epoch(s, e, b->images);
    return dt_print_flush(s);
}

/* A message that follows begins on its own line. */
static dt_status bar_end(dt_sink *s, const dt_end_record *end)
{
    const bar *b = s->own;

    if (b->drawn)
        fputc('\n', s->setup->out);
    return dt_print_end(s, end);
}

const dt_sink_row dt_sink_bar = {
    .name = "bar",
    .bytes = sizeof(bar),
    .open = bar_open,
    .step = bar_step,
    .epoch = bar_epoch,
    .end = bar_end,
};
