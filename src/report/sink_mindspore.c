/* sink_mindspore.c - the lines of the MindSpore Ascend tutorial's log (LossMonitor's, and the
 * launch script's last word), for parsers that know it. */
#include "sink.h"

static dt_status mindspore_step(dt_sink *s, const dt_step_record *r)
{
    char loss[DT_FLOAT32_CHARS];

    fprintf(s->setup->out, "epoch: %lld step: %lld, loss is %s\n", (long long)r->epoch,
            (long long)r->step, dt_float32_text(r->loss, loss));
    return dt_print_flush(s);
}

static dt_status mindspore_end(dt_sink *s, const dt_end_record *end)
{
    dt_print_hashes(s, end);
    fprintf(s->setup->out, "training %s\n", end->ok ? "success" : "failed");
    return dt_print_flush(s);
}

const dt_sink_row dt_sink_mindspore = {
    .name = "mindspore",
    .step = mindspore_step,
    .end = mindspore_end,
};
