/* sink_lines.c - a line per interval and a line per epoch. */
#include "sink.h"

typedef struct lines {
    double seconds; /* since the last line */
    int64_t images;
    int64_t epoch_images; /* of this process, in this epoch */
} lines;

/* The first step shows that the run lives, then one line per interval. */
static dt_status lines_step(dt_sink *s, const dt_step_record *r)
{
    lines *l = s->own;

    l->epoch_images = (r->step == 1 ? 0 : l->epoch_images) + r->images;
    l->seconds += r->seconds;
    l->images += r->images;
    if (r->run_step > 1 && l->seconds < s->setup->log_every)
        return DT_OK;
    fprintf(s->setup->out, "epoch %lld/%lld step %lld/%lld: loss %.4f, lr %.6g, %.1f images/s\n",
            (long long)r->epoch, (long long)s->setup->epochs, (long long)r->step,
            (long long)dt_print_epoch_steps(s, r->epoch), r->loss, r->lr,
            dt_images_per_s(l->images, l->seconds));
    l->seconds = 0;
    l->images = 0;
    return dt_print_flush(s);
}

static dt_status lines_epoch(dt_sink *s, const dt_epoch_record *e)
{
    const lines *l = s->own;

    dt_print_epoch(s, e, l->epoch_images);
    return dt_print_flush(s);
}

const dt_sink_row dt_sink_lines = {
    .name = "lines",
    .bytes = sizeof(lines),
    .step = lines_step,
    .epoch = lines_epoch,
    .end = dt_print_end,
};
