/* report.c - the table of styles, and what they share. */
#include "report.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <unistd.h>

static const dt_report_row *const report_rows[] = {
#define X(name) &dt_report_row_##name,
    DT_REPORT_LIST(X)
#undef X
};

/* By the environment, without setting the process's locale. */
static bool locale_is_utf8(void)
{
    bool utf8 = false;
    const locale_t here = newlocale(LC_CTYPE_MASK, "", NULL);

    if (here) {
        utf8 = strcmp(nl_langinfo_l(CODESET, here), "UTF-8") == 0;
        freelocale(here);
    }
    return utf8;
}

#define OUTPUT_CHARS 64 /* of a terminal's path, and more than enough */

/* Where the standard output of a process goes, "" where that cannot be seen. */
static void output_of(pid_t pid, char target[OUTPUT_CHARS])
{
    char link[64];

    snprintf(link, sizeof link, "/proc/%ld/fd/1", (long)pid);
    const ssize_t n = readlink(link, target, OUTPUT_CHARS - 1);
    target[n > 0 ? n : 0] = '\0';
}

/* 0 where there is none. */
static pid_t parent_of(pid_t pid)
{
    char path[64];
    long parent = 0;

    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    FILE *f = fopen(path, "re");
    for (char line[256]; f && parent == 0 && fgets(line, sizeof line, f);)
        if (sscanf(line, "PPid: %ld", &parent) != 1)
            parent = 0;
    if (f)
        fclose(f);
    return (pid_t)parent;
}

/* mpirun gives its ranks a terminal of their own, whatever it writes to itself: under it, what
 * counts is its standard output, where ours ends up. Programs that a rank was started by, such as
 * timeout(1), have the rank's. */
static bool ends_at_terminal(FILE *out)
{
    char own[OUTPUT_CHARS], target[OUTPUT_CHARS];

    if (isatty(fileno(out)) != 1)
        return false;
    if (!getenv("OMPI_COMM_WORLD_RANK"))
        return true;
    output_of(getpid(), own);
    pid_t pid = getpid();
    do {
        pid = parent_of(pid);
        output_of(pid, target);
    } while (pid > 1 && strcmp(own, target) == 0);
    return strncmp(target, "/dev/pts/", 9) == 0 || strncmp(target, "/dev/tty", 8) == 0;
}

dt_status dt_report_open(dt_report *r, const dt_report_setup *setup)
{
    for (size_t i = 0; i < DT_COUNT_OF(report_rows); i++)
        if (strcmp(report_rows[i]->name, setup->style) == 0) {
            *r = (dt_report){.row = report_rows[i],
                             .setup = *setup,
                             .terminal = ends_at_terminal(setup->out),
                             .unicode = locale_is_utf8()};
            return DT_OK;
        }
    return dt_fail(DT_CONFIG, "--log-style: unknown style '%s'; there are:%s", setup->style,
                   DT_REPORT_LIST(DT_WORD));
}

/* What was printed goes out. A reader that has left, or a full disk, does not end a run. */
static void flush(dt_report *r)
{
    if (fflush(r->setup.out) == 0 && !ferror(r->setup.out))
        return;
    dt_warn("standard output cannot be written (%s): the run goes on without it; its progress is "
            "in metrics.jsonl",
            strerror(errno));
    __fpurge(r->setup.out); /* what lies there would be tried again, and fail, at the end */
    clearerr(r->setup.out);
    r->row = NULL;
}

void dt_report_start(dt_report *r)
{
    if (r->row && r->row->start)
        r->row->start(r);
    if (r->row)
        flush(r);
}

void dt_report_step(dt_report *r, const dt_step_record *s)
{
    if (r->row && r->row->step) {
        r->row->step(r, s);
        flush(r);
    }
}

void dt_report_epoch(dt_report *r, const dt_epoch_record *e)
{
    if (r->row && r->row->epoch) {
        r->row->epoch(r, e);
        flush(r);
    }
}

void dt_report_finish(dt_report *r, const dt_end_record *end)
{
    if (!r->row)
        return;
    if (r->bar) /* a message that follows begins on its own line */
        fputc('\n', r->setup.out);
    r->bar = false;
    if (end->ok)
        fprintf(r->setup.out, "weights hash %s\nstate hash   %s\n", end->weights_hash,
                end->state_hash);
    if (r->row->finish)
        r->row->finish(r, end);
    flush(r);
}

int64_t dt_report_epoch_steps(const dt_report *r, int64_t epoch)
{
    const int64_t left = r->setup.total_steps - (epoch - 1) * r->setup.steps_per_epoch;
    return left < r->setup.steps_per_epoch ? left : r->setup.steps_per_epoch;
}

const char *dt_float32_text(double x, char out[DT_FLOAT32_CHARS])
{
    const float f = (float)x;
    int digits = 1;

    if (!isfinite(f)) {
        snprintf(out, DT_FLOAT32_CHARS, "%s", isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return out;
    }
    for (; digits <= 9; digits++) { /* 9 digits always give a float32 back */
        snprintf(out, DT_FLOAT32_CHARS, "%.*e", digits - 1, (double)f);
        if (strtof(out, NULL) == f)
            break;
    }
    const int exponent = (int)strtol(strchr(out, 'e') + 1, NULL, 10);
    if (exponent < -4 || exponent >= 16) /* NumPy's bounds: 1e-05 and 1e+16 */
        return out;
    const int decimals = digits - 1 - exponent;
    snprintf(out, DT_FLOAT32_CHARS, "%.*f", decimals > 1 ? decimals : 1, (double)f);
    return out;
}
