/* style.c - the log style `auto`. */
#include "report.h"

#include <sys/ioctl.h>

/* Columns of the terminal that f is; 0: it is none, or has no width, as those that mpirun gives
 * its ranks. */
static int columns_of(FILE *f)
{
    struct winsize size;
    return ioctl(fileno(f), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

void dt_report_hashes(dt_report *r, const dt_end_record *end)
{
    if (end->ok)
        fprintf(r->setup.out, "weights hash %s\nstate hash   %s\n", end->weights_hash,
                end->state_hash);
}

/* A line per interval and per epoch; on a terminal the former is a bar. */
enum { EVERY_S = 10, LINE_CHARS = 256 };

/* The line of a bar stands in place of the one before, until the bar ends. */
static void show(dt_report *r, int columns, const char *line, bool ends)
{
    /* Erase what is left of a longer line; cut what is too long for the terminal. */
    if (columns > 0)
        fprintf(r->setup.out, "\r%.*s\033[K%s", columns, line, ends ? "\n" : "");
    else
        fprintf(r->setup.out, "%s\n", line);
    r->drawn = columns > 0 && !ends;
}

static void bar_text(const dt_report *r, const dt_step_record *s, int64_t steps, double rate,
                     char line[LINE_CHARS])
{
    enum { CELLS = 20 };
    static const char full[] = "####################";
    const double left = (double)((steps - s->step) * s->images) / rate;

    snprintf(line, LINE_CHARS, "epoch %lld/%lld [%-*.*s] %lld/%lld: loss %.4f, %.1f images/s",
             (long long)s->epoch, (long long)r->setup.epochs, CELLS, (int)(CELLS * s->step / steps),
             full, (long long)s->step, (long long)steps, s->loss, rate);
    const size_t used = strlen(line);
    if (isfinite(left))
        snprintf(line + used, LINE_CHARS - used, ", %.0f s left", left);
}

/* The first step shows that the run lives, then one line per interval, which may begin in the epoch
 * before. --max-steps may cut the last epoch. */
static void auto_step(dt_report *r, const dt_step_record *s)
{
    const int64_t left = r->setup.total_steps - (s->epoch - 1) * r->setup.steps_per_epoch;
    const int64_t steps = DT_MIN(left, r->setup.steps_per_epoch);
    const int columns = columns_of(r->setup.out);
    const bool shows = s->run_step == 1 || (columns > 0 && s->step == steps);
    char line[LINE_CHARS];

    r->epoch_images = s->images + (s->step > 1 ? r->epoch_images : 0);
    r->seconds += s->seconds;
    r->images += s->images;
    if (r->seconds < (columns > 0 ? 0.1 : EVERY_S) && !shows)
        return;
    const double rate = dt_images_per_s(r->images, r->seconds);
    if (columns > 0)
        bar_text(r, s, steps, rate, line);
    else
        snprintf(line, sizeof line,
                 "epoch %lld/%lld step %lld/%lld: loss %.4f, lr %.6g, %.1f images/s",
                 (long long)s->epoch, (long long)r->setup.epochs, (long long)s->step,
                 (long long)steps, s->loss, s->lr, rate);
    show(r, columns, line, s->step == steps);
    r->seconds = 0;
    r->images = 0;
}

/* A bar, which is erased at the end, or a line per interval. */
static void auto_test(dt_report *r, int64_t done, int64_t images, double seconds)
{
    const int columns = columns_of(r->setup.out);
    const double left = seconds * (double)(images - done) / (double)done;
    char line[LINE_CHARS];

    if (seconds < r->test_shown) /* of the test before */
        r->test_shown = 0;
    if (columns > 0 && r->drawn && done == images)
        fprintf(r->setup.out, "\r\033[K");
    r->drawn = r->drawn && done < images;
    if (done == images || seconds - r->test_shown < (columns > 0 ? 0.1 : EVERY_S))
        return;
    r->test_shown = seconds;
    snprintf(line, sizeof line, "test %lld/%lld: %.1f images/s, %.0f s left", (long long)done,
             (long long)images, dt_images_per_s(done, seconds), left);
    show(r, columns, line, false);
}

static void auto_epoch(dt_report *r, const dt_epoch_record *e)
{
    FILE *out = r->setup.out;

    fprintf(out, "epoch %lld/%lld: train loss %.4f, test loss %.4f, test accuracy %.2f %%, %.1f s",
            (long long)e->epoch, (long long)r->setup.epochs, e->train_loss, e->test.loss,
            100 * e->test.accuracy, e->seconds);
    if (r->epoch_images > 0) /* a resumed run may have made a part of the epoch, or no step */
        fprintf(out, ", %.1f images/s", dt_images_per_s(r->epoch_images, e->seconds));
    fprintf(out, "\n");
}

/* A message that follows begins on its own line. */
static void auto_end(dt_report *r, const dt_end_record *end)
{
    if (r->drawn)
        fputc('\n', r->setup.out);
    dt_report_hashes(r, end);
    if (end->ok && end->predicted_s > 0 && end->step_s > 0)
        fprintf(r->setup.out, "a step took %.3g s; predicted %.3g, data-parallel %.3g\n",
                end->step_s, end->predicted_s, end->whole_s);
    for (int i = 0; i < DT_ACCOUNTS && end->ok; i++)
        fprintf(r->setup.out, "%s%s %.1f s%s", i ? ", " : "time: ", dt_account[i].value,
                end->account[i], i + 1 < DT_ACCOUNTS ? "" : "\n");
    if (end->ok)
        fprintf(r->setup.out, "%lld steps in %.1f s; the run is in %s\n", (long long)end->made,
                end->seconds, DT_SHOWN(end->folder));
}

static const dt_style auto_style = {"auto", auto_step, auto_epoch, auto_test, auto_end};
const dt_style *dt_styles[DT_STYLES] = {&auto_style};
