/* convert.h - models in other forms, and files and lines that other programs read; the public
 * header of extra/convert. Everything is Local. */
#ifndef DT_CONVERT_H
#define DT_CONVERT_H
#include "cli/cli.h"

void dt_extra_convert(void);

const char *dt_name_elsewhere(const char *name); /* dt_option_elsewhere */

void dt_tutorial_styles(void); /* adds them */
/* x as NumPy prints a float32: the fewest digits that give the same number back. Returns out. */
enum { DT_FLOAT32_CHARS = 32 };
const char *dt_float32_text(double x, char out[DT_FLOAT32_CHARS]);

/* A run's metrics.jsonl, and its file of events in a folder; zeroed, except the two paths. */
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
