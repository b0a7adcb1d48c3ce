/* report_auto.c - the usual style: a progress bar in tqdm's look on a terminal, one line per
 * interval otherwise, and a line per epoch. Layout, rates and refresh follow tqdm.std
 * (format_meter, EMA). */
#include "report.h"

#include <limits.h>
#include <math.h>
#include <sys/ioctl.h>

/* ---- The bar --------------------------------------------------------------------- */

static const double refresh_s = 0.1, smoothing = 0.3; /* tqdm's mininterval and smoothing */
enum { PART_CHARS = 256 };

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

static int64_t terminal_columns(FILE *out)
{
    struct winsize size;
    return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* s is NULL before the first step. rate: steps per second, 0 when not known. */
static void bar_draw(dt_report *r, int64_t epoch, const dt_step_record *s, double rate)
{
    FILE *out = r->setup.out;
    const int64_t total = dt_report_epoch_steps(r, epoch), step = s ? s->step : 0;
    const double fraction = total > 0 ? (double)step / (double)total : 0;
    const bar_charset set =
        r->unicode ? (bar_charset){cells_unicode, 8} : (bar_charset){cells_ascii, 10};
    char left[PART_CHARS], right[PART_CHARS], postfix[64] = "", a[32], b[32], c[32];

    if (s)
        snprintf(postfix, sizeof postfix, ", loss=%.4f, %.0f img/s", s->loss,
                 rate * (double)r->images / (double)step);
    const int n_left = snprintf(left, sizeof left, "epoch %lld/%lld: %3.0f%%|", (long long)epoch,
                                (long long)r->setup.epochs, 100 * fraction);
    const int n_right =
        snprintf(right, sizeof right, "| %lld/%lld [%s<%s, %s%s]", (long long)step,
                 (long long)total, clock_text(r->seconds, a),
                 clock_text((double)(total - step) / rate, b), rate_text(rate, c), postfix);
    /* At least one cell; what is too long for the terminal is cut. */
    const int64_t known = terminal_columns(out), columns = known > 0 ? known : INT_MAX;
    const int64_t room = known > 0 ? known - n_left - n_right : 10;
    const int64_t cells = room > 1 ? room : 1, rest = columns - n_left - cells;

    fprintf(out, "\r%.*s", (int)columns, left);
    if (rest >= 0)
        bar_cells(out, set, fraction, cells);
    fprintf(out, "%.*s", (int)(rest > 0 ? rest : 0), right);
    fputs("\033[K", out); /* erase what is left of a longer line */
    r->bar = true;
}

/* The rate is a quotient of two exponential means, as tqdm's, so that the slow first
 * steps are forgotten; for the finished bar it is the plain mean. */
static void bar_step(dt_report *r, const dt_step_record *s)
{
    const bool last = s->step == dt_report_epoch_steps(r, s->epoch);
    const double since = r->seconds - r->shown_seconds;

    if (since < refresh_s && !last)
        return;
    r->smooth_steps += smoothing * ((double)(s->step - r->shown_step) - r->smooth_steps);
    r->smooth_seconds += smoothing * (since - r->smooth_seconds);
    r->shown_seconds = r->seconds;
    r->shown_step = s->step;
    bar_draw(r, s->epoch, s,
             last ? (double)s->step / r->seconds : r->smooth_steps / r->smooth_seconds);
    if (last) {
        fputc('\n', r->setup.out);
        r->bar = false;
    }
}

/* ---- Lines ----------------------------------------------------------------------- */

/* The first step shows that the run lives, then one line per interval. */
static void line_step(dt_report *r, const dt_step_record *s)
{
    r->line_seconds += s->seconds;
    r->line_images += s->images;
    if (s->run_step > 1 && r->line_seconds < r->setup.log_every)
        return;
    fprintf(r->setup.out, "epoch %lld/%lld step %lld/%lld: loss %.4f, lr %.6g, %.1f images/s\n",
            (long long)s->epoch, (long long)r->setup.epochs, (long long)s->step,
            (long long)dt_report_epoch_steps(r, s->epoch), s->loss, s->lr,
            dt_images_per_s(r->line_images, r->line_seconds));
    r->line_seconds = 0;
    r->line_images = 0;
}

/* ---- The style ------------------------------------------------------------------- */

static void auto_start(dt_report *r)
{
    if (r->terminal && r->setup.total_steps > 0)
        bar_draw(r, 1, NULL, 0);
}

static void auto_step(dt_report *r, const dt_step_record *s)
{
    if (s->step == 1) {
        r->seconds = r->shown_seconds = r->smooth_steps = r->smooth_seconds = 0;
        r->shown_step = r->images = 0;
    }
    r->seconds += s->seconds;
    r->images += s->images;
    if (r->terminal)
        bar_step(r, s);
    else
        line_step(r, s);
}

static void auto_epoch(dt_report *r, const dt_epoch_record *e)
{
    fprintf(r->setup.out,
            "epoch %lld/%lld: train loss %.4f, test loss %.4f, test accuracy %.2f %%, %.1f s",
            (long long)e->epoch, (long long)r->setup.epochs, e->train_loss, e->test_loss,
            100 * dt_test_accuracy(e), e->seconds);
    if (r->images > 0) /* of it, this start may have made a part, or no step at all */
        fprintf(r->setup.out, ", %.1f images/s", dt_images_per_s(r->images, e->seconds));
    fprintf(r->setup.out, "\n");
}

static void auto_finish(dt_report *r, const dt_end_record *end)
{
    if (end->ok)
        fprintf(r->setup.out, "%lld steps in %.1f s; the run is in %s\n", (long long)end->steps,
                end->seconds, end->folder);
}

const dt_report_row dt_report_row_auto = {
    .name = "auto",
    .start = auto_start,
    .step = auto_step,
    .epoch = auto_epoch,
    .finish = auto_finish,
};
