/* sink.h - what a sink is, and what the sinks that print share; private to src/report. */
#ifndef DT_SINK_H
#define DT_SINK_H
#include "report.h"

/* Each function may be NULL: nothing to do. */
typedef struct dt_sink_row {
    const char *name;
    size_t bytes; /* of s->own, 0: none */
    dt_status (*open)(dt_sink *s);
    dt_status (*step)(dt_sink *s, const dt_step_record *r);
    dt_status (*epoch)(dt_sink *s, const dt_epoch_record *r);
    dt_status (*end)(dt_sink *s, const dt_end_record *r); /* the run's end, also by a failure */
    void (*close)(dt_sink *s);
} dt_sink_row;
#define X(name) extern const dt_sink_row dt_sink_##name;
DT_SINK_LIST(X)
#undef X

/* ---- print.c: for sinks that print to setup->out ------------------------------------------ */

/* Flush what was printed. A reader that has left, or a full disk, does not end a run: one
 * warning, and the sink is silent. Always DT_OK. */
dt_status dt_print_flush(dt_sink *s) DT_MUST_CHECK;
/* The hashes of a run that has ended well, in every style. */
void dt_print_hashes(const dt_sink *s, const dt_end_record *end);
/* x as NumPy prints a float32: the fewest digits that give the same number back. Returns out. */
enum { DT_FLOAT32_CHARS = 32 };
const char *dt_float32_text(double x, char out[DT_FLOAT32_CHARS]);

/* ---- sink_jsonl.c ------------------------------------------------------------------------- */

dt_status dt_jsonl_records(const dt_sink *s, int64_t *bytes, int *fd) DT_MUST_CHECK;
#endif
