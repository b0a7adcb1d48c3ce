/* decoder.c - both ends of the socket: a process that decodes images, and its caller. */
#include "decoder.h"

#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

extern char **environ;

/* The argument by which the program knows that it is to decode. */
static char decoder_word[] = "(decode images)";

/* The socket carries a byte when the process is ready; then, for each image, a request and the
 * file there, and back an answer and, without a reason, the pixels. */
typedef struct decoder_request {
    uint64_t count;
    int32_t width, height;
} decoder_request;
enum { DECODER_REASON = 128 }; /* bytes of an answer; "": decoded */

/* Read or write all of it; false: the other end is gone, or, with EAGAIN, too slow. The process has
 * its end as 0, and may call nothing but read and write. */
static bool decoder_pass(int fd, bool out, const void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        uint8_t *at = (uint8_t *)(uintptr_t)data + done;
        const size_t left = bytes - done;
        const ssize_t n = !out      ? read(fd, at, left)
                          : fd == 0 ? write(fd, at, left)
                                    : send(fd, at, left, MSG_NOSIGNAL);
        if (n <= 0 && !(n < 0 && errno == EINTR))
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* ---- The process ------------------------------------------------------------------- */

void dt_decoder_confine(void)
{
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
#if !DT_SANITIZED
    static struct sock_filter calls[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    static const int limit[] = {RLIMIT_NOFILE, RLIMIT_NPROC, RLIMIT_FSIZE, RLIMIT_CORE, RLIMIT_AS};
    volatile char stack[256 << 10]; /* it cannot grow any more once RLIMIT_AS is 0 */

    for (size_t i = 0; i < sizeof stack; i += 4096)
        stack[i] = 0;
    close(1);
    close(2);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    for (size_t i = 0; i < DT_COUNT_OF(limit); i++)
        setrlimit((__rlimit_resource_t)limit[i], &(struct rlimit){0, 0});
    /* No strict mode, which the filter of a container forbids. The numbers in 32-bit x86 are
     * restart_syscall, exit and umask. A kernel without seccomp leaves the limits alone. */
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &(struct sock_fprog){DT_COUNT_OF(calls), calls});
#endif
}

static bool decoder_serve_one(void)
{
    decoder_request ask;
    char answer[DECODER_REASON] = "";
    const char *reason = NULL;
    uint8_t *file = NULL;

    if (!decoder_pass(0, false, &ask, sizeof ask) || !(file = dt_pixels_file(ask.count)) ||
        !decoder_pass(0, false, file, ask.count))
        return false;
    const uint8_t *to = dt_pixels_decode(ask.count, ask.width, ask.height, &reason);
    for (size_t i = 0; !to && reason[i] && i + 1 < sizeof answer; i++)
        answer[i] = reason[i];
    return decoder_pass(0, true, answer, sizeof answer) &&
           (!to || decoder_pass(0, true, to, 3 * (size_t)ask.width * (size_t)ask.height));
}

/* The caller's files that a library opened without O_CLOEXEC. */
static void decoder_forget_files(void)
{
    DIR *open = opendir("/proc/self/fd");

    for (const struct dirent *e; open && (e = readdir(open));) {
        const int fd = (int)strtol(e->d_name, NULL, 10);
        if (fd > STDERR_FILENO && fd != dirfd(open))
            close(fd);
    }
    if (open)
        closedir(open);
}

int dt_decoder_serve(int argc, char **argv)
{
    if (argc != 2 || strcmp(argv[1], decoder_word) != 0)
        return -1;
    decoder_forget_files();
    prctl(PR_SET_NAME, "dtrain-images", 0, 0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (dt_pixels_open() != DT_OK)
        return dt_status_exit_code(DT_NOMEM);
    dt_decoder_confine();
    if (decoder_pass(0, true, "", 1))
        while (decoder_serve_one())
            ;
    syscall(SYS_exit, 0); /* exit_group is forbidden */
    return 0;
}

/* ---- Its caller --------------------------------------------------------------------- */

/* Start this program with the socket as standard input. Signals that a terminal or mpirun sends to
 * all processes are blocked: the caller obeys them. */
static int decoder_spawn(dt_decoder *d, int socket)
{
    static const int fault[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    char name[] = "dtrain", *argv[] = {name, decoder_word, NULL};
    posix_spawn_file_actions_t files;
    sigset_t blocked, own;

    sigfillset(&blocked);
    for (size_t i = 0; i < DT_COUNT_OF(fault); i++)
        sigdelset(&blocked, fault[i]);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, socket, 0);
    pthread_sigmask(SIG_SETMASK, &blocked, &own); /* it inherits them */
    const int error = posix_spawn(&d->pid, "/proc/self/exe", &files, NULL, argv, environ);
    pthread_sigmask(SIG_SETMASK, &own, NULL);
    posix_spawn_file_actions_destroy(&files);
    if (error)
        d->pid = 0;
    return error;
}

dt_status dt_decoder_start(dt_decoder *d)
{
    int pair[2] = {-1, -1};
    char ready = 0;

    *d = (dt_decoder){.fd = -1, .seconds = 60};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return dt_fail(DT_NOMEM, "no socket for the image decoder: %s", strerror(errno));
    d->fd = pair[0];
    const int error = decoder_spawn(d, pair[1]);
    close(pair[1]);
    if (error || !decoder_pass(d->fd, false, &ready, 1))
        return dt_fail(DT_UNSUPPORTED,
                       "the process that decodes images does not start from /proc/self/exe, or "
                       "lacks memory: %s",
                       error ? strerror(error) : "it has ended");
    return DT_OK;
}

/* Its status; one that has ended by itself keeps the one that it had. */
static int decoder_end(dt_decoder *d)
{
    int status = 0;

    kill(d->pid, SIGKILL);
    (void)TEMP_FAILURE_RETRY(waitpid(d->pid, &status, 0));
    d->pid = 0;
    return status;
}

void dt_decoder_stop(dt_decoder *d)
{
    if (d->pid > 0)
        decoder_end(d);
    close(d->fd);
    *d = (dt_decoder){.fd = -1};
}

/* Say how the process ended; one that is late is killed. */
static void decoder_obituary(dt_decoder *d, char *text, size_t size)
{
    const bool late = errno == EAGAIN;
    const int status = decoder_end(d);

    if (late)
        snprintf(text, size, "the decoder was not done after %d s", d->seconds);
    else if (WIFSIGNALED(status))
        snprintf(text, size, "the decoder ended by signal %d, %s", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(text, size, "the decoder ended with code %d", WEXITSTATUS(status));
}

dt_status dt_decoder_run(dt_decoder *d, const char *path, const uint8_t *bytes, size_t count,
                         int width, int height, uint8_t *pixels)
{
    const decoder_request ask = {count, width, height};
    const struct timeval most = {.tv_sec = d->seconds};
    char answer[DECODER_REASON] = "";

    if (d->pid == 0)
        return dt_fail(DT_BUG, "the process that decodes images has ended");
    errno = 0; /* an end of the socket leaves it alone */
    setsockopt(d->fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    setsockopt(d->fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
    if (!decoder_pass(d->fd, true, &ask, sizeof ask) || !decoder_pass(d->fd, true, bytes, count) ||
        !decoder_pass(d->fd, false, answer, sizeof answer) ||
        (!answer[0] && !decoder_pass(d->fd, false, pixels, 3 * (size_t)width * (size_t)height)))
        decoder_obituary(d, answer, sizeof answer);
    if (!answer[0])
        return DT_OK;
    return dt_fail(DT_FORMAT, "image '%s' cannot be decoded (%.*s): replace or remove it", path,
                   (int)sizeof answer, answer);
}
