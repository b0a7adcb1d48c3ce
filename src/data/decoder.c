/* decoder.c - both ends of the socket: a process that decodes images, and its caller. */
#include "decoder.h"
#include "data.h"
#include "picture.h"
#include "pixels.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The argument by which main knows that it is to decode. */
static const char decoder_word[] = "(decode images)";
static const char decoder_greeting[8] = "images1";

typedef struct decoder_request {
    uint64_t count;
    int32_t width, height;
} decoder_request;
typedef struct decoder_answer {
    int32_t ok;
    char reason[124];
} decoder_answer;

/* ---- The process ------------------------------------------------------------------- */

/* Read or write all of it, by system calls alone; false: the other end is gone. */
static bool decoder_pass(bool out, void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        uint8_t *at = (uint8_t *)data + done;
        const ssize_t n = out ? write(0, at, bytes - done) : read(0, at, bytes - done);
        if (n <= 0 && !(n < 0 && errno == EINTR))
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

void dt_decoder_confine(void)
{
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
#if !DT_SANITIZED
    static const int limit[] = {RLIMIT_NOFILE, RLIMIT_NPROC, RLIMIT_FSIZE, RLIMIT_CORE, RLIMIT_AS};
    volatile char stack[256 << 10]; /* it cannot grow any more once RLIMIT_AS is 0 */

    for (size_t i = 0; i < sizeof stack; i += 4096)
        stack[i] = 0;
    close(1);
    close(2);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    for (size_t i = 0; i < DT_COUNT_OF(limit); i++)
        setrlimit((__rlimit_resource_t)limit[i], &(struct rlimit){0, 0});
    /* A kernel without seccomp leaves the limits alone. */
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0);
#endif
}

static bool decoder_serve_one(void)
{
    decoder_request ask;
    decoder_answer answer = {0};
    const uint8_t *to = NULL;
    const char *reason = "no memory for the file";
    uint8_t *file = NULL;

    if (!decoder_pass(false, &ask, sizeof ask) || !(file = dt_pixels_file(ask.count)) ||
        !decoder_pass(false, file, ask.count))
        return false;
    to = dt_pixels_decode(ask.count, ask.width, ask.height, &reason);
    answer.ok = to != NULL;
    for (size_t i = 0; !to && reason[i] && i + 1 < sizeof answer.reason; i++)
        answer.reason[i] = reason[i];
    return decoder_pass(true, &answer, sizeof answer) &&
           (!to ||
            decoder_pass(true, (void *)(uintptr_t)to, 3 * (size_t)ask.width * (size_t)ask.height));
}

bool dt_decoder_asked(int argc, char **argv)
{
    return argc == 2 && strcmp(argv[1], decoder_word) == 0;
}

int dt_decoder_serve(void)
{
    char greeting[sizeof decoder_greeting];

    memcpy(greeting, decoder_greeting, sizeof greeting);
    prctl(PR_SET_NAME, "dtrain-images", 0, 0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (dt_pixels_open() != DT_OK)
        return dt_status_exit_code(DT_NOMEM);
    dt_decoder_confine();
    if (decoder_pass(true, greeting, sizeof greeting))
        while (decoder_serve_one())
            ;
    syscall(SYS_exit, 0); /* all that the strict mode allows */
    return 0;
}

/* ---- Its caller --------------------------------------------------------------------- */

typedef enum decoder_end { DECODER_PASSED, DECODER_LOST, DECODER_LATE } decoder_end;

/* Send or receive all of it before the clock shows `until`. */
static decoder_end decoder_talk(const dt_decoder *d, bool out, const void *data, size_t bytes,
                                double until)
{
    for (size_t done = 0; done < bytes;) {
        uint8_t *at = (uint8_t *)(uintptr_t)data + done;
        const ssize_t n = out ? send(d->fd, at, bytes - done, MSG_NOSIGNAL | MSG_DONTWAIT)
                              : recv(d->fd, at, bytes - done, MSG_DONTWAIT);
        if (n > 0) {
            done += (size_t)n;
            continue;
        }
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            return DECODER_LOST;
        const double left = until - dt_seconds();
        struct pollfd p = {.fd = d->fd, .events = out ? POLLOUT : POLLIN};
        if (left <= 0)
            return DECODER_LATE;
        if (poll(&p, 1, (int)(1000 * left) + 1) < 0 && errno != EINTR)
            return DECODER_LOST;
    }
    return DECODER_PASSED;
}

/* Wait for the end of the process, and say how it ended; one that is late is killed. */
static const char *decoder_obituary(dt_decoder *d, decoder_end end, char *text, size_t size)
{
    int status = 0;

    if (end == DECODER_LATE)
        kill(d->pid, SIGKILL);
    while (waitpid(d->pid, &status, 0) < 0 && errno == EINTR)
        ;
    d->pid = 0;
    if (end == DECODER_LATE)
        snprintf(text, size, "the decoder was not done after %d s", d->seconds);
    else if (WIFSIGNALED(status))
        snprintf(text, size, "the decoder ended by signal %d, %s", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(text, size, "the decoder ended with code %d", WEXITSTATUS(status));
    return text;
}

/* In front of its environment: no threads, because seccomp binds only the calling one, and a mark
 * by which a decoder knows that it is one. */
static dt_status decoder_environment(char ***out)
{
    static char *const own[] = {(char *)(uintptr_t) "DTRAIN_DECODER_PROCESS=1",
                                (char *)(uintptr_t) "OPENBLAS_NUM_THREADS=1",
                                (char *)(uintptr_t) "OMP_NUM_THREADS=1"};
    enum { OWN = DT_COUNT_OF(own) };
    size_t n = 0;

    while (environ[n])
        n++;
    DT_TRY(dt_calloc(out, OWN + n + 1, sizeof **out, "the decoder's environment"));
    memcpy(*out, own, sizeof own);
    memcpy(*out + OWN, environ, n * sizeof **out);
    return DT_OK;
}

/* Start this program with the socket as standard input, and no other file open but standard output
 * and error. Signals that a terminal or mpirun sends to all processes are blocked: the caller obeys
 * them. */
static int decoder_spawn(dt_decoder *d, int socket, char **environment)
{
    static const int fault[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    char *argv[] = {(char *)(uintptr_t) "dtrain", (char *)(uintptr_t)decoder_word, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t about;
    sigset_t blocked;

    sigfillset(&blocked);
    for (size_t i = 0; i < DT_COUNT_OF(fault); i++)
        sigdelset(&blocked, fault[i]);
    posix_spawnattr_init(&about);
    posix_spawnattr_setsigmask(&about, &blocked);
    posix_spawnattr_setflags(&about, POSIX_SPAWN_SETSIGMASK);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, socket, 0);
    posix_spawn_file_actions_addclosefrom_np(&files, 3);
    const int error = posix_spawn(&d->pid, "/proc/self/exe", &files, &about, argv, environment);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&about);
    return error;
}

dt_status dt_decoder_start(dt_decoder *d)
{
    char greeting[sizeof decoder_greeting] = "", why[80];
    char **environment = NULL;
    int pair[2] = {-1, -1};
    dt_status st = DT_OK;

    *d = (dt_decoder){.fd = -1, .seconds = 60};
    if (getenv("DTRAIN_DECODER_PROCESS"))
        return dt_fail(DT_BUG, "a decoder of images is asked to start another one: this "
                               "program's main does not begin with dt_decoder_asked");
    DT_TRY(decoder_environment(&environment));
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        st = dt_fail(DT_NOMEM, "no socket for the image decoder: %s", strerror(errno));
        goto out;
    }
    d->fd = pair[0];
    const int error = decoder_spawn(d, pair[1], environment);
    close(pair[1]);
    if (error) {
        d->pid = 0;
        st = dt_fail(error == EAGAIN || error == ENOMEM ? DT_NOMEM : DT_UNSUPPORTED,
                     "the process that decodes images cannot be started from "
                     "/proc/self/exe: %s",
                     strerror(error));
        goto out;
    }
    const decoder_end end =
        decoder_talk(d, false, greeting, sizeof greeting, dt_seconds() + d->seconds);
    if (end != DECODER_PASSED)
        st = dt_fail(DT_UNSUPPORTED, "the process that decodes images did not start: %s",
                     decoder_obituary(d, end, why, sizeof why));
out:
    free(environment);
    return st;
}

void dt_decoder_stop(dt_decoder *d)
{
    if (d->pid > 0) {
        kill(d->pid, SIGKILL);
        while (waitpid(d->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (d->fd >= 0)
        close(d->fd);
    *d = (dt_decoder){.fd = -1};
}

static dt_status decoder_refuses(const char *path, char *reason)
{
    for (char *c = reason; *c; c++)
        *c = *c < 0x20 || *c > 0x7e ? '?' : *c;
    return dt_fail(DT_FORMAT, "image '%s' cannot be decoded (%s): replace or remove it", path,
                   reason[0] ? reason : "no reason given");
}

dt_status dt_decoder_run(dt_decoder *d, const char *path, const uint8_t *bytes, size_t count,
                         int width, int height, uint8_t *pixels)
{
    const decoder_request ask = {count, width, height};
    const double until = dt_seconds() + d->seconds;
    decoder_answer answer = {0};
    char why[80];
    decoder_end end;

    if (d->pid == 0)
        return dt_fail(DT_BUG, "the process that decodes images has ended");
    end = decoder_talk(d, true, &ask, sizeof ask, until);
    if (end == DECODER_PASSED)
        end = decoder_talk(d, true, bytes, count, until);
    if (end == DECODER_PASSED)
        end = decoder_talk(d, false, &answer, sizeof answer, until);
    if (end == DECODER_PASSED && answer.ok)
        end = decoder_talk(d, false, pixels, 3 * (size_t)width * (size_t)height, until);
    if (end != DECODER_PASSED) {
        decoder_obituary(d, end, why, sizeof why);
        return decoder_refuses(path, why);
    }
    answer.reason[sizeof answer.reason - 1] = '\0';
    return answer.ok ? DT_OK : decoder_refuses(path, answer.reason);
}
