/* convert.h - models in other forms, and files that other programs read; the public header of
 * extra/convert. Everything is Local. */
#ifndef DT_CONVERT_H
#define DT_CONVERT_H
#include "cli/cli.h"

void dt_extra_convert(void);

/* ---- Commands ------------------------------------------------------------------------ */

/* Whether --out may be written: a new file, or one without a byte, as mktemp makes it: no model is
 * ever replaced. DT_USAGE: it is missing; DT_CANTCREATE. */
dt_status dt_out_new(const char *out) DT_MUST_CHECK;
/* The file --out of what is in pieces in the files path[0] to path[count - 1], in float32; of one
 * checkpoint or run as dt_average. With --shards N the folder --out of N files, each with its rows
 * of every tensor. DT_FORMAT as dt_safetensors_join. */
dt_status dt_merge(const dt_options *o, const char *const *path, size_t count) DT_MUST_CHECK;
/* The arithmetic mean of the weights and running statistics of model files, checkpoints or
 * the newest states of runs, path[0] to path[count - 1], to the file --out in the naming
 * --names and the format --to; how other programs load it is printed. Summed in float64 in the
 * order given and rounded once; the mean of one file has its numbers. num_batches_tracked is the
 * last one's. DT_FORMAT: another network or normalisation than the first; DT_USAGE: a format that
 * is not written. */
dt_status dt_average(const dt_options *o, const char *const *path, size_t count) DT_MUST_CHECK;

/* ---- Records for TensorBoard ---------------------------------------------------------- */

/* A run's metrics.jsonl, and its file of events in a folder; zeroed but for the two paths. */
typedef struct dt_events {
    char metrics[PATH_MAX], folder[PATH_MAX]; /* what is read; where it goes, which is made */
    char file[PATH_MAX];                      /* the path of that in it; "": none so far */
    size_t read;                              /* bytes of metrics.jsonl that are in it */
    dt_digest digest;                         /* of these */
    int64_t step;                             /* the last of these */
    uint64_t size;                            /* of the file */
} dt_events;
/* Append what whole lines there are beyond these; lines that are no JSON objects are left out. The
 * first time, when lines that were read are no longer there, as after a resume, and when another
 * process has written the file, a new file replaces those of earlier calls and processes, which
 * stay, empty, for those who have them open. It appears whole. DT_NOINPUT: there is no
 * metrics.jsonl; DT_CANTCREATE; DT_IO; DT_NOMEM. */
dt_status dt_events_update(dt_events *e) DT_MUST_CHECK;

#endif
