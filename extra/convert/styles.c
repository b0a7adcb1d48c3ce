/* styles.c - two tutorials' log styles, for parsers that know them. */
#include "convert.h"
#include "report/report.h"
#include "train/observer.h"

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

/* LossMonitor's line, and below the launch script's last word. */
static void mindspore_step(dt_report *r, const dt_step_record *s)
{
    char loss[DT_FLOAT32_CHARS];

    fprintf(r->setup.out, "epoch: %lld step: %lld, loss is %s\n", (long long)s->epoch,
            (long long)s->step, dt_float32_text(r->setup.own ? s->own_loss : s->loss, loss));
}

static void mindspore_end(dt_report *r, const dt_end_record *end)
{
    dt_report_hashes(r, end);
    fprintf(r->setup.out, "training %s\n", end->ok ? "success" : "failed");
}

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
            e->test.loss, (long long)e->test.correct, (long long)e->test.images,
            100 * e->test.accuracy);
}

void dt_tutorial_styles(void)
{
    static const dt_style mindspore = {"mindspore", mindspore_step, .end = mindspore_end},
                          cs744 = {"cs744", cs744_step, cs744_epoch, .end = dt_report_hashes};
    static const dt_run_observer carries_out = {.options = " log_style"};

    dt_styles[1] = &mindspore;
    dt_styles[2] = &cs744;
    dt_observer_add(&carries_out);
}
