/* failing.c - makes one call below RECORD_ROOT fail.
 *
 * FAIL=CALL:N:ERROR: the N-th CALL (from 1; the names of shim.h) returns ERROR, for
 * example ENOSPC, or does half of its work where ERROR is SHORT, or is not reached where it is
 * KILL. FAIL_STICKY=1: so do all
 * that follow. FAIL_LOG: a file that gets one line when the fault fires. */
#include "shim.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEADLY = 1 << 20 }; /* no errno */

static struct {
    int call;
    long n;
    int verdict;
    bool sticky;
    long seen;
    int log;
} fail = {.call = -1, .log = -1};

static const struct {
    const char *name;
    int verdict;
} fail_errors[] = {{"EIO", EIO},       {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT},   {"EROFS", EROFS},
                   {"EACCES", EACCES}, {"EMFILE", EMFILE}, {"EFBIG", EFBIG},     {"ENOMEM", ENOMEM},
                   {"EINTR", EINTR},   {"EINVAL", EINVAL}, {"SHORT", SHIM_HALF}, {"KILL", DEADLY}};

static const char *const fail_names[] = {
#define X(name, text) text,
    SHIM_CALL_LIST(X)
#undef X
};

static void refuse(const char *text)
{
    fprintf(stderr, "failing: FAIL=%s: want CALL:N:ERROR\n", text);
    exit(98);
}

void shim_start(void)
{
    const char *text = getenv("FAIL"), *log = getenv("FAIL_LOG");
    char call[32], error[32];

    if (!text)
        return;
    if (sscanf(text, "%31[^:]:%ld:%31s", call, &fail.n, error) != 3)
        refuse(text);
    for (size_t i = 0; i < sizeof fail_names / sizeof *fail_names; i++)
        if (strcmp(fail_names[i], call) == 0)
            fail.call = (int)i;
    for (size_t i = 0; i < sizeof fail_errors / sizeof *fail_errors; i++)
        if (strcmp(fail_errors[i].name, error) == 0)
            fail.verdict = fail_errors[i].verdict;
    if (fail.call < 0 || fail.verdict == 0)
        refuse(text);
    fail.sticky = getenv("FAIL_STICKY") != NULL;
    fail.log = log ? shim_open_log(log) : -1;
}

int shim_before(const shim_op *op)
{
    char line[64];

    if ((int)op->call != fail.call)
        return SHIM_PERFORM;
    fail.seen++;
    if (fail.seen != fail.n && !(fail.sticky && fail.seen > fail.n))
        return SHIM_PERFORM;
    if (fail.log >= 0) {
        const int n = snprintf(line, sizeof line, "%s %ld\n", fail_names[fail.call], fail.seen);
        shim_append(fail.log, line, (size_t)n);
    }
    if (fail.verdict == DEADLY)
        raise(SIGKILL);
    return fail.verdict;
}

void shim_after(const shim_op *op)
{
    (void)op;
}

void shim_stdout(const void *data, size_t size)
{
    (void)data;
    (void)size;
}
