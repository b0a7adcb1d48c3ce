/* serve.c - the first host of a run: it waits for the others, then stands between mpirun and
 * them. Where there are none to wait for, it still looks after mpirun. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "meet.h"

enum { END_S = 3 }; /* for the other hosts to hear that it is over */

typedef struct server_node {
    dt_wire wire; /* fd -1: it has not come, is gone, or is this host */
    int agent;    /* that waits for its daemon's end; -1: none */
    char name[INET_ADDRSTRLEN];
    uint32_t slots;
} server_node;

struct dt_server {
    dt_meeting meeting;
    server_node *node;   /* [nodes] */
    struct pollfd *poll; /* [nodes + 2]: the other hosts' from 1, something else's at both ends */
    int nodes, listens, agents, signals;
    char folder[32], path[64]; /* of the agents' socket */
    pid_t mpirun;
    dt_relay errors; /* mpirun's */
    dt_frame frame;
};

/* ---- All come -------------------------------------------------------------------------------- */

/* The host that has the address, -1: none. mpirun tells hosts apart by it. */
static int host_at(const dt_server *s, const char *address)
{
    for (int k = 0; k < s->nodes; k++)
        if ((k == 0 || s->node[k].wire.fd >= 0) && strcmp(s->node[k].name, address) == 0)
            return k;
    return -1;
}

/* Why a host that has the token is refused; "": it is not. */
static void judge(const dt_server *s, const dt_hello *h, const char *address, char *why,
                  size_t room)
{
    const int same = host_at(s, address);

    why[0] = '\0';
    if (h->nodes != (uint32_t)s->nodes)
        snprintf(why, room, "this run has %d hosts, not %u (--nnodes)", s->nodes, h->nodes);
    else if (h->node < 1 || h->node >= h->nodes)
        snprintf(why, room, "it is none of hosts 1 to %d (--node-rank)", s->nodes - 1);
    else if (h->slots < 1 || h->slots > DT_MOST_SLOTS)
        snprintf(why, room, "from 1 to %d ranks fit (--nproc-per-node)", (int)DT_MOST_SLOTS);
    else if (s->node[h->node].wire.fd >= 0)
        snprintf(why, room, "host %u is already there, from %s (--node-rank)", h->node,
                 s->node[h->node].name);
    else if (same >= 0)
        snprintf(why, room,
                 "host %d has its address, %s: start a host once, with all its ranks "
                 "(--nproc-per-node)",
                 same, address);
}

static void let_in(dt_server *s)
{
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    dt_hello hello;
    dt_wire wire;

    const int fd = accept4(s->listens, (struct sockaddr *)&from, &length, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    char name[INET_ADDRSTRLEN] = "?", why[160];
    inet_ntop(AF_INET, &from.sin_addr, name, sizeof name);
    if (!dt_wire_accept(&wire, fd, &s->meeting.token, &hello)) {
        dt_warn("a connection from %s %s", name,
                errno == ETIMEDOUT    ? "is silent: left"
                : errno == ECONNRESET ? "has been given up there"
                                      : "does not have the token: refused");
        close(fd);
        return;
    }
    judge(s, &hello, name, why, sizeof why);
    if (why[0]) {
        dt_warn("%s says that it is host %u of %u with %u ranks: refused: %s", name, hello.node,
                hello.nodes, hello.slots, why);
        (void)dt_wire_send(&wire, DT_FRAME_REFUSED, why, (uint32_t)strlen(why));
        close(fd);
        return;
    }
    server_node *n = &s->node[hello.node];
    n->wire = wire;
    n->slots = hello.slots;
    memcpy(n->name, name, sizeof n->name);
}

static int first_missing(const dt_server *s)
{
    int k = 1;

    while (k < s->nodes && s->node[k].wire.fd >= 0)
        k++;
    return k;
}

static void forget(server_node *n)
{
    close(n->wire.fd);
    n->wire.fd = -1;
}

/* Before the run begins a host sends nothing but a signal that was for it: it leaves by that. */
static void hear_early(dt_server *s, server_node *n)
{
    const bool told = dt_wire_receive(&n->wire, &s->frame) && s->frame.type == DT_FRAME_SIGNAL &&
                      s->frame.bytes == 1;
    const uint8_t code = (uint8_t)dt_status_exit_code(DT_PREEMPTED);

    if (told)
        (void)dt_wire_send(&n->wire, DT_FRAME_END, &code, 1);
    dt_warn("host %d, %s, has left before all had come: its place is free again",
            (int)(n - s->node), n->name);
    forget(n);
}

/* From the other hosts, from two more descriptors, at both ends of s->poll (-1: none), and behind
 * them from mpirun. */
static int wait_for_news(dt_server *s, int first, int last, int ms)
{
    s->poll[0] = (struct pollfd){.fd = first, .events = POLLIN};
    for (int k = 1; k < s->nodes; k++)
        s->poll[k] = (struct pollfd){.fd = s->node[k].wire.fd, .events = POLLIN};
    s->poll[s->nodes] = (struct pollfd){.fd = last, .events = POLLIN};
    s->poll[s->nodes + 1] = (struct pollfd){.fd = s->errors.from, .events = POLLIN};
    return poll(s->poll, (nfds_t)s->nodes + 2, ms);
}

static dt_status wait_for_all(dt_server *s)
{
    const double began = dt_seconds();

    while (first_missing(s) < s->nodes) {
        const double left = DT_WINDOW_S - (dt_seconds() - began);
        if (left <= 0)
            return dt_fail(
                DT_COMM,
                "host %d of %d (--node-rank %d) has not come to %s within %d s: start the "
                "same command there, with the same token",
                first_missing(s), s->nodes, first_missing(s), s->meeting.master, (int)DT_WINDOW_S);
        if (wait_for_news(s, s->listens, s->signals, (int)(left * 1000) + 1) <= 0)
            continue;
        DT_TRY(dt_meeting_stopped(s->signals));
        for (int k = 1; k < s->nodes; k++)
            if (s->poll[k].revents)
                hear_early(s, &s->node[k]);
        if (s->poll[0].revents)
            let_in(s);
    }
    return DT_OK;
}

static dt_status name_hosts(const dt_server *s, dt_hosts *h)
{
    *h = (dt_hosts){.host = NULL};
    for (int k = 0; k < s->nodes; k++)
        DT_TRY(dt_hosts_add(h, s->node[k].name, strlen(s->node[k].name), s->node[k].slots));
    return DT_OK;
}

static dt_status name_own(dt_server *s)
{
    struct sockaddr_in own;
    socklen_t length = sizeof own;

    s->node[0].slots = s->meeting.own.slots;
    if (getsockname(s->listens, (struct sockaddr *)&own, &length) != 0 ||
        !inet_ntop(AF_INET, &own.sin_addr, s->node[0].name, sizeof s->node[0].name))
        return dt_fail(DT_COMM, "--master %s: %s", s->meeting.master, strerror(errno));
    return DT_OK;
}

/* Until the other side has closed, or that time. A socket that is closed with bytes unread is
 * reset, and what it had still to send is lost: the end of the last frame, while its head is not
 * acknowledged (RFC 1122, 4.2.2.13 and 4.2.3.4). */
static void drain(dt_server *s, int fd, double until)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    while (dt_seconds() < until)
        if (poll(&p, 1, 100) > 0 && recv(fd, s->frame.payload, DT_WIRE_MOST, 0) <= 0)
            return;
}

static void end_all(dt_server *s, int code)
{
    const uint8_t end = (uint8_t)code;
    const double until = dt_seconds() + END_S;

    for (int k = 1; k < s->nodes; k++)
        if (s->node[k].wire.fd >= 0) {
            (void)dt_wire_send(&s->node[k].wire, DT_FRAME_END, &end, 1);
            shutdown(s->node[k].wire.fd, SHUT_WR);
        }
    for (int k = 1; k < s->nodes; k++)
        if (s->node[k].wire.fd >= 0)
            drain(s, s->node[k].wire.fd, until);
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* In a folder that nobody else may enter. */
static dt_status open_agents(dt_server *s)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    snprintf(s->folder, sizeof s->folder, "/tmp/dtrain-XXXXXX");
    if (!mkdtemp(s->folder)) {
        s->folder[0] = '\0';
        return dt_fail(DT_CANTCREATE, "a folder in /tmp: %s", strerror(errno));
    }
    snprintf(s->path, sizeof s->path, "%s/agent", s->folder);
    memcpy(at.sun_path, s->path, strlen(s->path) + 1);
    s->agents = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s->agents < 0 || bind(s->agents, (const struct sockaddr *)&at, sizeof at) != 0 ||
        listen(s->agents, 64) != 0)
        return dt_fail(DT_CANTCREATE, "%s: %s", s->path, strerror(errno));
    return DT_OK;
}

static dt_status server_make(dt_server **out, int nodes)
{
    dt_server *s = NULL;

    DT_TRY(dt_calloc(&s, 1, sizeof *s, "the meeting of hosts"));
    *out = s;
    s->nodes = nodes;
    s->listens = s->agents = s->signals = s->errors.from = -1;
    DT_TRY(dt_calloc(&s->node, (size_t)nodes, sizeof *s->node, "the meeting of hosts"));
    for (int k = 0; k < nodes; k++)
        s->node[k].wire.fd = s->node[k].agent = -1;
    return dt_calloc(&s->poll, (size_t)nodes + 2, sizeof *s->poll, "the meeting of hosts");
}

dt_status dt_server_open(dt_server **out, const dt_meeting *m, dt_hosts *h)
{
    DT_TRY(server_make(out, (int)m->own.nodes));
    dt_server *s = *out;
    s->meeting = *m;
    DT_TRY(dt_meeting_signals(&s->signals));
    DT_TRY(dt_meeting_socket(m->master, true, &s->listens));
    DT_TRY(name_own(s));
    const dt_status st = wait_for_all(s);
    if (st == DT_PREEMPTED)
        end_all(s, dt_status_exit_code(st));
    DT_TRY(st);
    DT_TRY(name_hosts(s, h));
    return open_agents(s);
}

dt_status dt_server_alone(dt_server **out)
{
    DT_TRY(server_make(out, 1));
    return dt_meeting_signals(&(*out)->signals);
}

const char *dt_server_socket(const dt_server *s)
{
    return s->path;
}

/* ---- While mpirun runs ----------------------------------------------------------------------- */

static void answer(server_node *n, uint8_t code)
{
    if (n->agent < 0)
        return;
    (void)!send(n->agent, &code, 1, MSG_NOSIGNAL);
    close(n->agent);
    n->agent = -1;
}

/* Host and words of a daemon, up to the end of what the agent sends. */
static void take_request(dt_server *s)
{
    char *text = (char *)s->frame.payload;
    size_t have = 0;

    const int fd = accept4(s->agents, NULL, NULL, SOCK_CLOEXEC);
    for (ssize_t n = 1; fd >= 0 && n > 0 && have<DT_WIRE_MOST; have += n> 0 ? (size_t)n : 0)
        n = recv(fd, text + have, DT_WIRE_MOST - have, 0);
    const size_t host = strnlen(text, have) + 1;
    for (int k = 1; fd >= 0 && have > host && k < s->nodes; k++) {
        server_node *n = &s->node[k];
        if (strcmp(n->name, text) != 0 || n->agent >= 0 || n->wire.fd < 0)
            continue;
        n->agent = fd;
        if (!dt_wire_send(&n->wire, DT_FRAME_START, text + host, (uint32_t)(have - host)))
            answer(n, 255);
        return;
    }
    if (fd >= 0)
        close(fd); /* the agent says that it could not */
}

static void hear(dt_server *s, server_node *n)
{
    if (!dt_wire_receive(&n->wire, &s->frame)) {
        dt_warn("host %d, %s, is gone: its daemon counts as lost", (int)(n - s->node), n->name);
        forget(n);
        answer(n, 255);
    } else if (s->frame.type == DT_FRAME_DONE && s->frame.bytes == 1) {
        answer(n, s->frame.payload[0]);
    } else if (s->frame.type == DT_FRAME_SIGNAL && s->frame.bytes == 1) {
        kill(s->mpirun, s->frame.payload[0]);
    }
}

/* Whether mpirun has ended: *code. */
static bool heed(dt_server *s, int *code)
{
    bool of_terminal;
    int number, status = 0;

    while (dt_meeting_signal(s->signals, &number, &of_terminal))
        if (number != SIGCHLD && !of_terminal)
            kill(s->mpirun, number);
    if (waitpid(s->mpirun, &status, WNOHANG) != s->mpirun)
        return false;
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return true;
}

static int stand_between(dt_server *s)
{
    int code = 0;

    for (;;) {
        const int news = wait_for_news(s, s->signals, s->agents, DT_PATIENCE_MS);
        if (news == 0)
            dt_patience_bound(s->mpirun);
        if (news <= 0)
            continue;
        for (int k = 1; k < s->nodes; k++)
            if (s->poll[k].revents)
                hear(s, &s->node[k]);
        if (s->poll[s->nodes].revents)
            take_request(s);
        if (s->poll[s->nodes + 1].revents)
            (void)dt_relay_pass(&s->errors);
        if (s->poll[0].revents && heed(s, &code))
            return code;
    }
}

/* What its program cannot be started for comes back through a pipe that execvp closes. errors: what
 * its standard error becomes; -1: it has this one's. */
static dt_status start_mpirun(dt_server *s, char **word, int errors)
{
    const pid_t own = getpid();
    int pipe[2], error = 0;

    if (pipe2(pipe, O_CLOEXEC) != 0)
        return dt_fail(DT_NOMEM, "no pipe: %s", strerror(errno));
    s->mpirun = fork();
    if (s->mpirun == 0) {
        dt_meeting_child(own);
        if (errors >= 0)
            dup2(errors, STDERR_FILENO);
        execvp(word[0], word);
        (void)!write(pipe[1], &errno, sizeof errno);
        _exit(127);
    }
    if (s->mpirun < 0)
        error = errno;
    close(pipe[1]);
    const bool failed = error || dt_read_until(pipe[0], &error, sizeof error) > 0;
    close(pipe[0]);
    if (s->mpirun < 0)
        return dt_fail(DT_NOMEM, "cannot start mpirun: %s; raise ulimit -u", strerror(error));
    return failed ? dt_fail(DT_NOINPUT,
                            "cannot start mpirun: %s; install openmpi-bin, or put it into PATH",
                            strerror(error))
                  : DT_OK;
}

dt_status dt_server_run(dt_server *s, char **word, bool several, int *code)
{
    int pipe[2] = {-1, -1};

    if (several && pipe2(pipe, O_CLOEXEC) != 0)
        return dt_fail(DT_NOMEM, "no pipe: %s", strerror(errno));
    s->errors = (dt_relay){.from = pipe[0]};
    const dt_status st = start_mpirun(s, word, pipe[1]);
    if (pipe[1] >= 0)
        close(pipe[1]);
    signal(SIGPIPE, SIG_IGN); /* nor does mpirun end when nobody reads its errors */
    *code = st == DT_OK ? stand_between(s) : dt_status_exit_code(st);
    while (dt_relay_pass(&s->errors))
        continue;
    if (*code == 0 && s->errors.lost_host) {
        *code = dt_status_exit_code(DT_COMM);
        dt_log_error("mpirun has lost a host and ends with 0: the run is not complete");
    }
    end_all(s, *code);
    return st;
}

void dt_server_close(dt_server *s)
{
    if (!s)
        return;
    for (int k = 0; s->node && k < s->nodes; k++)
        if (s->node[k].wire.fd >= 0)
            close(s->node[k].wire.fd);
    const int fd[] = {s->listens, s->agents, s->errors.from};
    for (size_t i = 0; i < DT_COUNT_OF(fd); i++)
        if (fd[i] >= 0)
            close(fd[i]);
    if (s->path[0])
        unlink(s->path);
    if (s->folder[0])
        rmdir(s->folder);
    free(s->poll);
    free(s->node);
    free(s);
}
