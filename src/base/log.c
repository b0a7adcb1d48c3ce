/* log.c - the one sink of the log: whole lines to stderr. */
#include "base.h"
#include <stdarg.h>
#include <time.h>

/* The log sink, one of the two pieces of process state that the style allows. Written by
 * dt_log_init and dt_log_into, when no other thread reads it, but for own. */
static struct {
    int rank, world;
    bool no_notes;
    char host[DT_HOST_CHARS];
    _Atomic int own; /* this rank's file; -1: none, or it could not be written */
} sink = {.rank = 0, .world = 1, .host = "localhost", .own = -1};

enum { LINE_CHARS = 8192 + 256 };

/* In one call, so that lines of several ranks that share a terminal stay whole. */
static void stderr_write(const char *line)
{
    char text[LINE_CHARS];
    const int n = snprintf(text, sizeof text - 1, "%s", line), used = DT_MIN(n, LINE_CHARS - 2);

    text[used] = '\n';
    (void)!write(STDERR_FILENO, text, (size_t)used + 1);
}

/* With the time of day, whole, in one call. */
static void own_write(const char *line)
{
    char text[LINE_CHARS + 256], when[32];
    struct timespec now;
    struct tm day;

    if (sink.own < 0)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &day));
    const int n = snprintf(text, sizeof text, "%s.%03dZ rank %d on %s: %s\n", when,
                           (int)(now.tv_nsec / 1000000), sink.rank, sink.host, line);
    if (dt_append(sink.own, text, (size_t)DT_MIN(n, (int)sizeof text - 1)))
        return;
    snprintf(text, sizeof text,
             "dtrain: warning: rank %d on %s cannot write to its file of --log-dir: %s; it "
             "ends here",
             sink.rank, sink.host, strerror(errno));
    sink.own = -1; /* left open: another thread may be writing */
    stderr_write(text);
}

void dt_log_init(int rank, int world)
{
    sink.rank = rank;
    sink.world = world;
    dt_host_name(sink.host);
}

void dt_log_notes(bool shown)
{
    sink.no_notes = !shown;
}

/* As jansson has it. */
int dt_utf8_bytes(const char *text, uint32_t *code)
{
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    const unsigned char *c = (const unsigned char *)text;
    const int more = c[0] >= 0xf0 ? 3 : c[0] >= 0xe0 ? 2 : c[0] >= 0xc0 ? 1 : 0;

    *code = more ? c[0] & (0x3fu >> more) : c[0];
    for (int i = 1; i <= more; i++) {
        if ((c[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (c[i] & 0x3fu);
    }
    if (c[0] >= 0xf8 || (more == 0 && c[0] >= 0x80) || *code < least[more] || *code > 0x10ffff)
        return 0;
    return (*code & ~UINT32_C(0x7ff)) == 0xd800 ? 0 : more + 1; /* half of a pair of UTF-16 */
}

/* Names out of a hostile file must neither steer the terminal that shows them nor pass for a
 * message of their own: no control characters, 0x80 to 0x9f included. */
void dt_log_shown(char *text)
{
    uint32_t code;

    for (char *c = text; *c;) {
        const int bytes = dt_utf8_bytes(c, &code), step = DT_MAX(bytes, 1);
        if (bytes == 0 || code < 0x20 || (code >= 0x7f && code <= 0x9f))
            memset(c, '?', (size_t)step);
        c += step;
    }
}

const char *dt_shown(const char *text, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s", text);
    dt_log_shown(out);
    return out;
}

void dt_log_write(dt_log_kind kind, const char *fmt, ...)
{
    static const char *const prefixes[] = {[DT_LOG_NOTE] = "",
                                           [DT_LOG_WARN] = "dtrain: warning: ",
                                           [DT_LOG_COMMON] = "dtrain: ",
                                           [DT_LOG_OWN] = ""};
    char line[LINE_CHARS], alone[128] = "dtrain: ";
    const bool shown = kind == DT_LOG_ERROR || (sink.rank == 0 && kind < DT_LOG_OWN &&
                                                (kind != DT_LOG_NOTE || !sink.no_notes));
    va_list args;

    if (!shown && sink.own < 0)
        return;
    if (sink.world > 1)
        snprintf(alone, sizeof alone, "rank %d on %s: ", sink.rank, sink.host);
    const int head =
        snprintf(line, sizeof line, "%s", kind == DT_LOG_ERROR ? alone : prefixes[kind]);
    va_start(args, fmt);
    vsnprintf(line + head, sizeof line - (size_t)head, fmt, args);
    va_end(args);
    dt_log_shown(line + head);
    own_write(line);
    if (shown)
        stderr_write(line);
}

void dt_log_line(const char *line)
{
    own_write(line);
    stderr_write(line);
}

dt_status dt_log_into(const char *folder)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof path, "%s/rank-%05d.log", folder, sink.rank) >= PATH_MAX)
        return dt_fail(DT_CANTCREATE, "--log-dir %.200s...: the path is too long", folder);
    DT_TRY(dt_parents_make(path));
    sink.own = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (sink.own < 0)
        return dt_fail(DT_CANTCREATE, "%s: %s; name another --log-dir", path, dt_open_error());
    dt_append_mend(sink.own);
    dt_log_own("begins: process %lld", (long long)getpid());
    return DT_OK;
}
