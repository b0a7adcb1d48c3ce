/* relay.c - mpirun's standard error, handed on, and listened to.
 *
 * mpirun of Open MPI 5.0.7 that has lost a host's daemon says so, ends the ranks, and then itself
 * with exit code 0, as if the run were complete. */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "meet.h"

/* Of prte's and orte's help-errmgr-base.txt, node-died. Its first letter does not come again: where
 * the text goes on otherwise, the search begins anew. */
static const char lost[] = "lost communication with a remote daemon";

static void listen_to(dt_relay *r, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes && !r->lost_host; i++) {
        r->matched = text[i] == lost[r->matched] ? r->matched + 1 : text[i] == lost[0];
        r->lost_host = lost[r->matched] == '\0';
    }
}

/* To an output that nobody reads any more nothing is written. */
static void hand_on(const char *text, size_t bytes)
{
    for (ssize_t n = 0; bytes > 0; text += n, bytes -= (size_t)n) {
        n = write(STDERR_FILENO, text, bytes);
        if (n < 0 && errno != EINTR)
            return;
        n = DT_MAX(n, 0);
    }
}

/* POSIX: a pipe that can be written to takes as many bytes without waiting. */
bool dt_relay_pass(dt_relay *r)
{
    enum { AT_ONCE = 4096, WAIT_MS = 100 };
    char text[AT_ONCE];
    struct pollfd to = {.fd = STDERR_FILENO, .events = POLLOUT};
    struct pollfd from = {.fd = r->from, .events = POLLIN};

    if (r->from < 0 || poll(&from, 1, 0) <= 0)
        return false;
    if (poll(&to, 1, WAIT_MS) <= 0)
        return true; /* full; signals and other hosts are not to wait for who reads */
    const ssize_t n = read(r->from, text, sizeof text);
    if (n > 0) {
        listen_to(r, text, (size_t)n);
        hand_on(text, (size_t)n);
    } else if (n == 0 || errno != EINTR) {
        close(r->from);
        r->from = -1;
    }
    return r->from >= 0;
}
