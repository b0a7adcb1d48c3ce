/* metrics.h - the records of a run, and metrics.jsonl; private to src/train.
 *
 * One JSON object a line, each written whole by one call, so that a reader may follow
 * the file while the run goes on:
 *   {"kind":"step","epoch":1,"step":1,"loss":..,"lr":..,"images_per_s":..}
 *   {"kind":"epoch","epoch":1,"train_loss":..,"test_loss":..,"test_accuracy":..,
 *    "seconds":..}
 *   {"kind":"end","weights_hash":"..","state_hash":"..","steps":..}
 * Epochs and steps count from 1, steps over the whole run. Numbers have 9 significant
 * digits (a float32 comes back exactly); NaN and infinities, which JSON lacks, are
 * null. Everything is Local; rank 0 alone writes. */
#ifndef DT_METRICS_H
#define DT_METRICS_H
#include "train.h"

typedef struct dt_step_record {
    int64_t epoch, step; /* from 1; the step within its epoch */
    int64_t run_step;    /* from 1, within the run */
    double loss, lr;     /* of the global batch */
    int64_t images;      /* of this step */
    double seconds;      /* wall time of this step */
} dt_step_record;

typedef struct dt_epoch_record {
    int64_t epoch;     /* from 1 */
    double train_loss; /* mean over the epoch's images */
    double test_loss;  /* mean over the test images */
    int64_t correct, test_images;
    int64_t images; /* trained on in this epoch */
    double seconds; /* wall time of training, without the test */
} dt_epoch_record;

typedef struct dt_end_record {
    bool ok; /* false: the run ends with an error; the rest may be zero */
    int64_t steps;
    double seconds;
    char weights_hash[DT_DIGEST_CHARS], state_hash[DT_DIGEST_CHARS];
    const char *folder; /* borrowed */
} dt_end_record;

typedef struct dt_metrics {
    int fd;
    const char *path; /* borrowed; NULL: closed */
} dt_metrics;

/* path is borrowed and must outlive m. DT_CANTCREATE. */
dt_status dt_metrics_open(dt_metrics *m, const char *path) DT_MUST_CHECK;
/* Whether a run can go on behind the first *bytes of the file, which a checkpoint has recorded;
 * changes no file. Where there is none, a warning, and *bytes becomes 0: the records are lost,
 * but not the run. DT_FORMAT: it is shorter, or no line ends there; DT_CANTCREATE, DT_IO. */
dt_status dt_metrics_check(const char *path, int64_t *bytes) DT_MUST_CHECK;
/* dt_metrics_open for a run that goes on: what dt_metrics_check has found good is cut to
 * `bytes`. DT_CANTCREATE, DT_IO. */
dt_status dt_metrics_resume(dt_metrics *m, const char *path, int64_t bytes) DT_MUST_CHECK;
/* The file's length, for a checkpoint; m->fd is what to sync. DT_IO. */
dt_status dt_metrics_bytes(const dt_metrics *m, int64_t *bytes) DT_MUST_CHECK;
void dt_metrics_close(dt_metrics *m); /* a zeroed m is allowed */
/* Append one line, without taking memory; of a line that does not fit on the disk nothing
 * stays. DT_IO: the disk is full, and the like. */
dt_status dt_metrics_step(dt_metrics *m, const dt_step_record *r) DT_MUST_CHECK;
dt_status dt_metrics_epoch(dt_metrics *m, const dt_epoch_record *r) DT_MUST_CHECK;
dt_status dt_metrics_end(dt_metrics *m, const dt_end_record *r) DT_MUST_CHECK;

static inline double dt_images_per_s(int64_t images, double seconds)
{
    return seconds > 0 ? (double)images / seconds : 0;
}
static inline double dt_test_accuracy(const dt_epoch_record *r) /* NaN without a test */
{
    return (double)r->correct / (double)r->test_images;
}

#endif
