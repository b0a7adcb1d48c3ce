/* kept.c - texts made while options are read, which must live as long as the options. */
#include "cli.h"
#include <stdarg.h>
#include <stdlib.h>

struct dt_kept {
    dt_kept *next;
    char text[];
};

dt_status dt_kept_text(dt_kept **list, const char **text, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    const int length = vsnprintf(NULL, 0, fmt, args);
    dt_kept *kept = length < 0 ? NULL : malloc(sizeof *kept + (size_t)length + 1);

    if (kept) {
        vsnprintf(kept->text, (size_t)length + 1, fmt, again);
        kept->next = *list;
        *list = kept;
        *text = kept->text;
    }
    va_end(again);
    va_end(args);
    return kept ? DT_OK : dt_fail(DT_NOMEM, "no memory for the text of an option");
}

void dt_kept_release(dt_kept **list)
{
    while (*list) {
        dt_kept *next = (*list)->next;
        free(*list);
        *list = next;
    }
}
