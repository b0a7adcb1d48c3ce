/* report.h - the records of a run, printed and in metrics.jsonl; the public header of
 * src/report.
 *
 * A run makes a record of every step, every epoch and its end. A log style (style.c) prints it, and
 * it becomes a line of metrics.jsonl. Rank 0 alone reports. Everything is Local, takes no memory,
 * and reads no clock: times are those of the records. */
#ifndef DT_REPORT_H
#define DT_REPORT_H
#include "base/base.h"

typedef struct dt_step_record {
    int64_t epoch, step; /* from 1; the step within its epoch */
    int64_t run_step;    /* from 1, within the run */
    double loss, lr;     /* of the global batch */
    double first_loss;   /* of shard 0 */
    double own_loss;     /* of this rank's shards; loss where these are all, or none */
    int64_t images;      /* of this step */
    double seconds;      /* wall time of this step */
    double time;         /* when it ended, in seconds since 1970 */
} dt_step_record;

typedef struct dt_test_result {
    bool stop; /* a rank was asked to stop: the test ended early, and below is nothing */
    double loss, accuracy; /* means over the images; NaN without */
    int64_t correct, images;
    int64_t viewed; /* correct with the logits of each image's views added: --tta */
    /* Until the next test: [classes] images and correct ones; [classes][classes] images of a class
     * (row) by the network's answer, NULL without --confusion. */
    int64_t *class_images, *class_correct, *confusion;
} dt_test_result;

typedef struct dt_epoch_record {
    int64_t epoch;     /* from 1 */
    double train_loss; /* mean over the epoch's images */
    dt_test_result test;
    bool held_out;  /* its images are training images kept out */
    int classes;    /* of the test; 0: not known, and it has no numbers by class */
    double seconds; /* wall time of training, without the test */
    double time;    /* when the test ended, in seconds since 1970 */
} dt_epoch_record;

/* Where the wall time of a rank went. */
#define DT_ACCOUNT_LIST(X)                                                                         \
    X(compute, "compute")                                                                          \
    X(exchange, "exposed exchange")                                                                \
    X(waiting, "waiting for others")                                                               \
    X(data, "data")                                                                                \
    X(saving, "saving")                                                                            \
    X(rest, "rest")
#define X(name, text) DT_ACCOUNT_##name,
enum { DT_ACCOUNT_LIST(X) DT_ACCOUNTS };
#undef X
extern const dt_field dt_account[DT_ACCOUNTS]; /* each one's name, and in words */

typedef struct dt_end_record {
    bool ok; /* false: the run ends with an error; the rest may be zero */
    int64_t steps;
    int64_t made; /* of them since the run was started or resumed, in `seconds` */
    double seconds;
    double step_s;               /* of those after the first few */
    double predicted_s, whole_s; /* of a step as --strategy auto chose, and with nothing cut; 0: no
                                  * choice was made */
    char weights_hash[DT_DIGEST_CHARS], state_hash[DT_DIGEST_CHARS];
    const char *folder;          /* borrowed */
    double account[DT_ACCOUNTS]; /* seconds of rank 0 since it began to train */
    double wall;                 /* the same by the clock */
} dt_end_record;

static inline double dt_images_per_s(int64_t images, double seconds)
{
    return seconds > 0 ? (double)images / seconds : 0;
}

typedef struct dt_report_setup {
    FILE *out; /* where a style prints; borrowed */
    bool own;  /* that is this rank's alone, as a device's log there: mindspore prints own_loss */
    int64_t epochs, steps_per_epoch, total_steps;
    int folder;       /* descriptor of the run folder, borrowed */
    const char *path; /* its name, for messages; borrowed; NULL: there is none, nor metrics.jsonl */
    bool reads;       /* it need not be writable: to be checked alone */
    int64_t keep_bytes; /* of metrics.jsonl: what the checkpoint that is resumed has recorded */
} dt_report_setup;

/* What a log style prints, to setup.out; NULL: nothing. */
struct dt_report;
typedef struct dt_style {
    const char *name;
    void (*step)(struct dt_report *r, const dt_step_record *s);
    void (*epoch)(struct dt_report *r, const dt_epoch_record *e);
    void (*test)(struct dt_report *r, int64_t done, int64_t images, double seconds);
    void (*end)(struct dt_report *r, const dt_end_record *end);
} dt_style;
/* `auto`, and behind it an extra's; NULL: no more. */
enum { DT_STYLES = 3 };
extern const dt_style *dt_styles[DT_STYLES];

enum { DT_LINE_CHARS = 12 * 1000 + 512 }; /* an epoch with 1,000 classes */
typedef struct dt_report {
    dt_report_setup setup;
    const dt_style *style; /* NULL: nothing is printed, or not any more */
    bool drawn;            /* the cursor stands after a bar */
    double test_shown;     /* seconds of the test when its bar or line was last shown */
    /* Of this process' steps: since something was last printed, and in this epoch. */
    double seconds;
    int64_t images, epoch_images;
    int metrics; /* descriptor of metrics.jsonl where setup.path is set; owned */
    /* The last line; up to ,"seconds" it is the same in every run of the recipe. */
    char line[DT_LINE_CHARS];
    size_t used;
    int64_t lost; /* its lines since the last that was written */
} dt_report;

/* Check, without a change, that a line of metrics.jsonl in the folder ends at byte keep_bytes. A
 * missing file is right: a new one will begin. DT_FORMAT: no line ends there; DT_CANTCREATE: it is
 * a link or no file, is hard-linked elsewhere, or cannot be written; DT_IO. */
dt_status dt_report_check(const dt_report_setup *setup) DT_MUST_CHECK;
/* Cut metrics.jsonl to keep_bytes, to append to it. An unknown style prints nothing. Errors as
 * dt_report_check; then there is nothing to close. */
dt_status dt_report_open(dt_report *r, const char *style,
                         const dt_report_setup *setup) DT_MUST_CHECK;
/* DT_IO: a line of metrics.jsonl could not be written; nothing stays of it. Only the first lost
 * line fails: the others are counted, and a warning reports them when a line is written again.
 * Standard output that cannot be written is a warning, and the end of printing. */
dt_status dt_report_step(dt_report *r, const dt_step_record *s) DT_MUST_CHECK;
dt_status dt_report_epoch(dt_report *r, const dt_epoch_record *e) DT_MUST_CHECK;
/* A record that is not printed: a JSON object of at most DT_LINE_CHARS - 2. DT_IO as above. */
dt_status dt_report_line(dt_report *r, const char *object) DT_MUST_CHECK;
/* How many of a test's images have been tested, and for how long. */
void dt_report_test(dt_report *r, int64_t done, int64_t images, double seconds);
/* After success, and after a failure of the run (end->ok is false). */
dt_status dt_report_end(dt_report *r, const dt_end_record *end) DT_MUST_CHECK;
/* The length of metrics.jsonl, for a checkpoint, and the descriptor to sync first. DT_IO. */
dt_status dt_report_records(const dt_report *r, int64_t *bytes, int *fd) DT_MUST_CHECK;
void dt_report_close(dt_report *r);                            /* a zeroed r is allowed */
void dt_report_hashes(dt_report *r, const dt_end_record *end); /* for a style's end */

#endif
