/* style.h - what a log style prints; private to src/report. */
#ifndef DT_STYLE_H
#define DT_STYLE_H
#include "report.h"

/* Each function prints to setup.out. */
typedef struct dt_style {
    const char *name;
    void (*step)(dt_report *r, const dt_step_record *s);
    void (*epoch)(dt_report *r, const dt_epoch_record *e);                    /* NULL: nothing */
    void (*test)(dt_report *r, int64_t done, int64_t images, double seconds); /* NULL: nothing */
    void (*end)(dt_report *r, const dt_end_record *end);
} dt_style;
/* NULL: no style has that name. */
const dt_style *dt_style_find(const char *name);

/* x as NumPy prints a float32: the fewest digits that give the same number back. Returns out. */
enum { DT_FLOAT32_CHARS = 32 };
const char *dt_float32_text(double x, char out[DT_FLOAT32_CHARS]);
#endif
