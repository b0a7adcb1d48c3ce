/* report_mindspore.c - the lines of the MindSpore Ascend tutorial's log (LossMonitor's, and the
 * launch script's last word), for parsers that know it. */
#include "report.h"

static void mindspore_step(dt_report *r, const dt_step_record *s)
{
    char loss[DT_FLOAT32_CHARS];
    fprintf(r->setup.out, "epoch: %lld step: %lld, loss is %s\n", (long long)s->epoch,
            (long long)s->step, dt_float32_text(s->loss, loss));
}

static void mindspore_finish(dt_report *r, const dt_end_record *end)
{
    fprintf(r->setup.out, "training %s\n", end->ok ? "success" : "failed");
}

const dt_report_row dt_report_row_mindspore = {
    .name = "mindspore",
    .step = mindspore_step,
    .finish = mindspore_finish,
};
