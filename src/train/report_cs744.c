/* report_cs744.c - the lines of the CS744 assignment
 * (kkyyhh96/CS744_PyTorch_Distributed_Tutorial, part1.py): the loss every 20 iterations,
 * counted from 0, after iteration 10 the average time since iteration 0, and the test set. (The
 * script divides those ten iterations by 9; here they are ten.) Other groups report the time
 * over 40 iterations without the first: that line follows. */
#include "report.h"

enum { EVERY = 20 };
static const struct {
    int64_t last; /* of iterations 1 to `last` of the first epoch */
    const char *text;
} windows[] = {
    {10, "average time: "},
    {39, "average time over 40 iterations without the first: "},
};

static void cs744_step(dt_report *r, const dt_step_record *s)
{
    const int64_t iteration = s->step - 1;
    char loss[DT_FLOAT32_CHARS];

    if (iteration % EVERY == 0)
        fprintf(r->setup.out, "%lld loss:  %s\n", (long long)iteration,
                dt_float32_text(s->loss, loss));
    if (s->epoch != 1 || iteration == 0)
        return;
    r->seconds += s->seconds;
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

const dt_report_row dt_report_row_cs744 = {
    .name = "cs744",
    .step = cs744_step,
    .epoch = cs744_epoch,
};
