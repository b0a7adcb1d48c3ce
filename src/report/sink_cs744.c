/* sink_cs744.c - the lines of the CS744 assignment
 * (kkyyhh96/CS744_PyTorch_Distributed_Tutorial, part1.py): the loss every 20 iterations,
 * counted from 0, after iteration 10 the average time since iteration 0, and the test set. (The
 * script divides those ten iterations by 9; here they are ten.) Other groups report the time
 * over 40 iterations without the first: that line follows. */
#include "sink.h"

enum { EVERY = 20 };
static const struct {
    int64_t last; /* of iterations 1 to `last` of the first epoch */
    const char *text;
} windows[] = {
    {10, "average time: "},
    {39, "average time over 40 iterations without the first: "},
};

static dt_status cs744_step(dt_sink *s, const dt_step_record *r)
{
    const int64_t iteration = r->step - 1;
    double *seconds = s->own; /* of the first epoch, without its first iteration */
    char loss[DT_FLOAT32_CHARS];

    if (iteration % EVERY == 0)
        fprintf(s->setup->out, "%lld loss:  %s\n", (long long)iteration,
                dt_float32_text(r->loss, loss));
    if (r->epoch == 1 && iteration > 0) {
        *seconds += r->seconds;
        for (size_t i = 0; i < DT_COUNT_OF(windows); i++)
            if (iteration == windows[i].last)
                fprintf(s->setup->out, "%s %.6f\n", windows[i].text, *seconds / (double)iteration);
    }
    return dt_print_flush(s);
}

static dt_status cs744_epoch(dt_sink *s, const dt_epoch_record *e)
{
    fprintf(s->setup->out, "Test set: Average loss: %.4f, Accuracy: %lld/%lld (%.0f%%)\n\n",
            e->test_loss, (long long)e->correct, (long long)e->test_images,
            100 * dt_test_accuracy(e));
    return dt_print_flush(s);
}

static dt_status cs744_end(dt_sink *s, const dt_end_record *end)
{
    dt_print_hashes(s, end);
    return dt_print_flush(s);
}

const dt_sink_row dt_sink_cs744 = {
    .name = "cs744",
    .bytes = sizeof(double),
    .step = cs744_step,
    .epoch = cs744_epoch,
    .end = cs744_end,
};
