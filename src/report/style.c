/* style.c - the log styles: our own lines, and those of two tutorials for parsers that know them.
 */
#include "style.h"

#include <math.h>
#include <stdlib.h>
#include <sys/ioctl.h>

enum { EVERY_S = 10 }; /* between lines of `auto` where there is no terminal */

/* Columns of the terminal that f is; 0: it is none, or has no width, as those that mpirun gives
 * its ranks. */
static int columns_of(FILE *f)
{
    struct winsize size;
    return ioctl(fileno(f), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

static void print_hashes(dt_report *r, const dt_end_record *end)
{
    if (end->ok)
        fprintf(r->setup.out, "weights hash %s\nstate hash   %s\n", end->weights_hash,
                end->state_hash);
}

/* ---- auto: a line per interval and per epoch; on a terminal the former is a bar -------------- */

static void print_bar(const dt_report *r, const dt_step_record *s, int64_t steps, double rate,
                      int columns)
{
    enum { CELLS = 20 };
    static const char full[] = "####################";
    const double left = (double)((steps - s->step) * s->images) / rate;
    char line[256];

    snprintf(line, sizeof line, "epoch %lld/%lld [%-*.*s] %lld/%lld: loss %.4f, %.1f images/s",
             (long long)s->epoch, (long long)r->setup.epochs, CELLS, (int)(CELLS * s->step / steps),
             full, (long long)s->step, (long long)steps, s->loss, rate);
    const size_t used = strlen(line);
    if (isfinite(left))
        snprintf(line + used, sizeof line - used, ", %.0f s left", left);
    /* Erase what is left of a longer line; cut what is too long for the terminal. */
    fprintf(r->setup.out, "\r%.*s\033[K%s", columns, line, s->step == steps ? "\n" : "");
}

/* The first step shows that the run lives, then one line per interval, which may begin in the epoch
 * before. --max-steps may cut the last epoch. */
static void auto_step(dt_report *r, const dt_step_record *s)
{
    const int64_t left = r->setup.total_steps - (s->epoch - 1) * r->setup.steps_per_epoch;
    const int64_t steps = DT_MIN(left, r->setup.steps_per_epoch);
    const int columns = columns_of(r->setup.out);
    const bool shows = s->run_step == 1 || (columns > 0 && s->step == steps);

    if (s->step == 1) {
        r->shown_seconds -= r->seconds;
        r->shown_images -= r->images;
        r->seconds = 0;
        r->images = 0;
    }
    r->seconds += s->seconds;
    r->images += s->images;
    const double since = r->seconds - r->shown_seconds;
    if (since < (columns > 0 ? 0.1 : EVERY_S) && !shows)
        return;
    const double rate = dt_images_per_s(r->images - r->shown_images, since);
    if (columns > 0)
        print_bar(r, s, steps, rate, columns);
    else
        fprintf(r->setup.out, "epoch %lld/%lld step %lld/%lld: loss %.4f, lr %.6g, %.1f images/s\n",
                (long long)s->epoch, (long long)r->setup.epochs, (long long)s->step,
                (long long)steps, s->loss, s->lr, rate);
    r->drawn = columns > 0 && s->step < steps;
    r->shown_seconds = r->seconds;
    r->shown_images = r->images;
}

/* A bar, which is erased at the end, or a line per interval. */
static void auto_test(dt_report *r, int64_t done, int64_t images, double seconds)
{
    const int columns = columns_of(r->setup.out);
    const double left = seconds * (double)(images - done) / (double)done;
    char line[128];

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
    r->drawn = columns > 0;
    if (columns > 0)
        fprintf(r->setup.out, "\r%.*s\033[K", columns, line);
    else
        fprintf(r->setup.out, "%s\n", line);
}

static void auto_epoch(dt_report *r, const dt_epoch_record *e)
{
    FILE *out = r->setup.out;

    fprintf(out, "epoch %lld/%lld: train loss %.4f, test loss %.4f, test accuracy %.2f %%, %.1f s",
            (long long)e->epoch, (long long)r->setup.epochs, e->train_loss, e->test_loss,
            100 * dt_test_accuracy(e), e->seconds);
    if (r->images > 0) /* a resumed run may have made a part of the epoch, or no step at all */
        fprintf(out, ", %.1f images/s", dt_images_per_s(r->images, e->seconds));
    fprintf(out, "\n");
}

/* A message that follows begins on its own line. */
static void auto_end(dt_report *r, const dt_end_record *end)
{
    if (r->drawn)
        fputc('\n', r->setup.out);
    print_hashes(r, end);
    if (end->ok && end->predicted_s > 0 && end->step_s > 0)
        fprintf(r->setup.out, "a step took %.3g s; predicted %.3g, data-parallel %.3g\n",
                end->step_s, end->predicted_s, end->whole_s);
    for (int i = 0; i < DT_ACCOUNTS && end->ok; i++)
        fprintf(r->setup.out, "%s%s %.1f s%s", i ? ", " : "time: ", dt_account[i].value,
                end->account[i], i + 1 < DT_ACCOUNTS ? "" : "\n");
    if (end->ok)
        fprintf(r->setup.out, "%lld steps in %.1f s; the run is in %s\n", (long long)end->steps,
                end->seconds, DT_SHOWN(end->folder));
}

/* ---- mindspore: the MindSpore Ascend tutorial's log ------------------------------------------ */

/* LossMonitor's line, and below the launch script's last word. */
static void mindspore_step(dt_report *r, const dt_step_record *s)
{
    char loss[DT_FLOAT32_CHARS];

    fprintf(r->setup.out, "epoch: %lld step: %lld, loss is %s\n", (long long)s->epoch,
            (long long)s->step, dt_float32_text(r->setup.own ? s->own_loss : s->loss, loss));
}

static void mindspore_end(dt_report *r, const dt_end_record *end)
{
    print_hashes(r, end);
    fprintf(r->setup.out, "training %s\n", end->ok ? "success" : "failed");
}

/* ---- cs744: the CS744 assignment ------------------------------------------------------------- */

/* kkyyhh96/CS744_PyTorch_Distributed_Tutorial, part1.py: the loss every 20 iterations, counted from
 * 0, after iteration 10 the average time since iteration 0, and the test set. (The script divides
 * those ten iterations by 9; here they are ten.) Other groups report the time over 40 iterations
 * without the first: that line follows. */
static void cs744_step(dt_report *r, const dt_step_record *s)
{
    enum { EVERY = 20 };
    static const struct {
        int64_t last; /* of iterations 1 to `last` of the first epoch */
        const char *text;
    } windows[] = {{10, "average time: "},
                   {39, "average time over 40 iterations without the first: "}};
    const int64_t iteration = s->step - 1;
    char loss[DT_FLOAT32_CHARS];

    if (iteration % EVERY == 0)
        fprintf(r->setup.out, "%lld loss:  %s\n", (long long)iteration,
                dt_float32_text(s->loss, loss));
    if (s->epoch > 1 || iteration == 0)
        return;
    r->seconds += s->seconds; /* of the first epoch, without its first iteration */
    for (size_t i = 0; i < DT_COUNT_OF(windows); i++)
        if (iteration == windows[i].last)
            fprintf(r->setup.out, "%s %.6f\n", windows[i].text, r->seconds / (double)iteration);
}

static void cs744_epoch(dt_report *r, const dt_epoch_record *e)
{
    fprintf(r->setup.out, "Test set: Average loss: %.4f, Accuracy: %lld/%lld (%.0f%%)\n\n",
            e->test_loss, (long long)e->correct, (long long)e->test_images,
            100 * dt_test_accuracy(e));
}

static const dt_style styles[] = {
    {"auto", auto_step, auto_epoch, auto_test, auto_end},
    {"mindspore", mindspore_step, NULL, NULL, mindspore_end},
    {"cs744", cs744_step, cs744_epoch, NULL, print_hashes},
};

const dt_style *dt_style_find(const char *name)
{
    for (size_t i = 0; i < DT_COUNT_OF(styles); i++)
        if (strcmp(styles[i].name, name) == 0)
            return &styles[i];
    return NULL;
}

const char *dt_float32_text(double x, char out[DT_FLOAT32_CHARS])
{
    const float f = (float)x;
    int digits = 1;

    if (!isfinite(f)) {
        snprintf(out, DT_FLOAT32_CHARS, "%s", isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return out;
    }
    for (; digits <= 9; digits++) { /* 9 digits always give a float32 back */
        snprintf(out, DT_FLOAT32_CHARS, "%.*e", digits - 1, (double)f);
        if (strtof(out, NULL) == f)
            break;
    }
    const int exponent = (int)strtol(strchr(out, 'e') + 1, NULL, 10);
    if (exponent < -4 || exponent >= 16) /* NumPy's bounds: 1e-05 and 1e+16 */
        return out;
    const int decimals = digits - 1 - exponent;
    snprintf(out, DT_FLOAT32_CHARS, "%.*f", decimals > 1 ? decimals : 1, (double)f);
    return out;
}
