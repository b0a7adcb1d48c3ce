/* sink_auto.c - a line per interval and a line per epoch; on a terminal that has a width, a bar
 * instead of the lines per interval. It has tqdm's look: layout, rates and refresh follow tqdm.std
 * (format_meter, EMA). */
#include "sink.h"

#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <sys/ioctl.h>

static const double refresh_s = 0.1, smoothing = 0.3; /* tqdm's mininterval and smoothing */
enum { PART_CHARS = 256 };

typedef struct progress {
    bool terminal, unicode; /* the locale's characters are UTF-8 */
    bool drawn;             /* the cursor stands behind a bar */
    /* This epoch's steps so far, of this process: */
    double seconds;
    int64_t images;
    /* The same when the last line or bar was printed, and running means per refresh: */
    double shown_seconds, smooth_steps, smooth_seconds;
    int64_t shown_images, shown_step;
} progress;

/* Columns of the terminal that f is; 0: it is none, or has no width, as those that mpirun gives
 * its ranks. */
static int64_t columns_of(FILE *f)
{
    struct winsize size;
    return ioctl(fileno(f), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* Steps of an epoch (from 1); --max-steps may cut the last one. */
static int64_t epoch_steps(const dt_sink *s, int64_t epoch)
{
    const int64_t left = s->setup->total_steps - (epoch - 1) * s->setup->steps_per_epoch;
    return DT_MIN(left, s->setup->steps_per_epoch);
}

/* The character set by the environment, without setting the process's locale. */
static dt_status auto_open(dt_sink *s)
{
    progress *p = s->own;
    const locale_t here = newlocale(LC_CTYPE_MASK, "", NULL);

    p->terminal = columns_of(s->setup->out) > 0;
    if (here) {
        p->unicode = strcmp(nl_langinfo_l(CODESET, here), "UTF-8") == 0;
        freelocale(here);
    }
    return DT_OK;
}

/* ---- The bar ------------------------------------------------------------------------------- */

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
    progress *b = s->own;
    FILE *out = s->setup->out;
    const int64_t total = epoch_steps(s, r->epoch);
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
    const int64_t columns = DT_MAX(columns_of(out), 1), room = columns - n_left - n_right;
    const int64_t cells = DT_MAX(room, 1), rest = DT_MAX(columns - n_left - cells, 0);

    fprintf(out, "\r%.*s", (int)columns, left);
    if (columns >= n_left + cells)
        bar_cells(out, set, fraction, cells);
    fprintf(out, "%.*s\033[K", (int)rest, right); /* and erase what is left of a longer line */
    b->drawn = true;
}

/* The rate is a quotient of two exponential means, as tqdm's, so that the slow first steps are
 * forgotten; for the finished bar it is the plain mean. */
static bool bar_step(dt_sink *s, const dt_step_record *r)
{
    progress *b = s->own;
    const bool last = r->step == epoch_steps(s, r->epoch);
    const double since = b->seconds - b->shown_seconds;

    if (since < refresh_s && !last)
        return false;
    b->smooth_steps += smoothing * ((double)(r->step - b->shown_step) - b->smooth_steps);
    b->smooth_seconds += smoothing * (since - b->smooth_seconds);
    bar_draw(s, r, last ? (double)r->step / b->seconds : b->smooth_steps / b->smooth_seconds);
    if (last)
        fputc('\n', s->setup->out);
    b->drawn = !last;
    return true;
}

/* ---- Lines --------------------------------------------------------------------------------- */

/* The first step shows that the run lives, then one line per interval. */
static bool line_step(const dt_sink *s, const dt_step_record *r)
{
    const progress *l = s->own;
    const double since = l->seconds - l->shown_seconds;

    if (r->run_step > 1 && since < s->setup->log_every)
        return false;
    fprintf(s->setup->out, "epoch %lld/%lld step %lld/%lld: loss %.4f, lr %.6g, %.1f images/s\n",
            (long long)r->epoch, (long long)s->setup->epochs, (long long)r->step,
            (long long)epoch_steps(s, r->epoch), r->loss, r->lr,
            dt_images_per_s(l->images - l->shown_images, since));
    return true;
}

/* An interval of lines may begin in the epoch before. */
static dt_status auto_step(dt_sink *s, const dt_step_record *r)
{
    progress *p = s->own;

    if (r->step == 1)
        *p = (progress){.terminal = p->terminal,
                        .unicode = p->unicode,
                        .shown_seconds = p->terminal ? 0 : p->shown_seconds - p->seconds,
                        .shown_images = p->shown_images - p->images};
    p->seconds += r->seconds;
    p->images += r->images;
    if (!(p->terminal ? bar_step(s, r) : line_step(s, r)))
        return DT_OK;
    p->shown_seconds = p->seconds;
    p->shown_images = p->images;
    p->shown_step = r->step;
    return dt_print_flush(s);
}

static dt_status auto_epoch(dt_sink *s, const dt_epoch_record *e)
{
    const progress *p = s->own;
    FILE *out = s->setup->out;

    fprintf(out, "epoch %lld/%lld: train loss %.4f, test loss %.4f, test accuracy %.2f %%, %.1f s",
            (long long)e->epoch, (long long)s->setup->epochs, e->train_loss, e->test_loss,
            100 * dt_test_accuracy(e), e->seconds);
    if (p->images > 0) /* a resumed run may have made a part of the epoch, or no step at all */
        fprintf(out, ", %.1f images/s", dt_images_per_s(p->images, e->seconds));
    fprintf(out, "\n");
    return dt_print_flush(s);
}

/* A message that follows begins on its own line. */
static dt_status auto_end(dt_sink *s, const dt_end_record *end)
{
    const progress *p = s->own;

    if (p->drawn)
        fputc('\n', s->setup->out);
    dt_print_hashes(s, end);
    if (end->ok)
        fprintf(s->setup->out, "%lld steps in %.1f s; the run is in %s\n", (long long)end->steps,
                end->seconds, end->folder);
    return dt_print_flush(s);
}

const dt_sink_row dt_sink_auto = {
    .name = "auto",
    .bytes = sizeof(progress),
    .open = auto_open,
    .step = auto_step,
    .epoch = auto_epoch,
    .end = auto_end,
};
