/* status.c - exit codes, texts of statuses, and the record of the first cause. */
#include "base.h"
#include <stdarg.h>

static const struct {
    int exit_code;
    const char *text;
} status_rows[DT_STATUS_COUNT] = {
#define X(name, code, text) {code, text},
    DT_STATUS_LIST(X)
#undef X
};

/* Room for two of the longest paths the system allows to be named and a remedy. */
enum { FAIL_CHARS = 8192 };
static _Thread_local char fail_record[FAIL_CHARS];

int dt_status_exit_code(dt_status s)
{
    return status_rows[s].exit_code;
}

const char *dt_status_text(dt_status s)
{
    return status_rows[s].text;
}

dt_status dt_fail_at(const char *file, int line, dt_status code, const char *fmt, ...)
{
    if (fail_record[0] != '\0')
        return code;

    va_list args;
    va_start(args, fmt);
    vsnprintf(fail_record, sizeof fail_record, fmt, args);
    va_end(args);
    dt_log_shown(fail_record);

    /* A place in the source helps only where the source is at fault. */
    if (code == DT_BUG) {
        const char *slash = strrchr(file, '/');
        const size_t used = strlen(fail_record);
        snprintf(fail_record + used, sizeof fail_record - used, " (%s:%d)",
                 slash ? slash + 1 : file, line);
    }
    return code;
}

dt_status dt_fail_place(dt_status code, const char *fmt, ...)
{
    char why[FAIL_CHARS];
    va_list args;

    memcpy(why, fail_record, sizeof why);
    va_start(args, fmt);
    vsnprintf(fail_record, sizeof fail_record, fmt, args);
    va_end(args);
    const size_t used = strlen(fail_record);
    snprintf(fail_record + used, sizeof fail_record - used, "%s", why);
    dt_log_shown(fail_record);
    return code;
}

const char *dt_fail_text(void)
{
    return fail_record;
}

void dt_fail_clear(void)
{
    fail_record[0] = '\0';
}
