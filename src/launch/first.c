/* first.c - the first host of a run: it waits for the others, then stands between mpirun and them.
 * Where there are none to wait for, it still looks after mpirun. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "meet.h"

enum {
    END_S = 3,    /* for the other hosts to hear that it is over */
    GUESTS = 256, /* connections whose handshakes are under way, fewer than files may be open; the
                   * oldest one makes room */
};

typedef struct node {
    dt_wire *wire; /* NULL: it has not come, is gone, or is this host */
    int agent;     /* that waits for its daemon's end; -1: none */
} node;

typedef struct guest {
    dt_wire *wire; /* NULL: none */
    double until;
} guest;

/* Places in dt_first's poll, before those of the nodes and the guests. */
enum { LISTENS, SIGNALS, AGENTS, ERRORS, NODES };

struct dt_first {
    const dt_meeting *meeting;
    node node[DT_MOST_HOSTS]; /* [nodes] */
    guest guest[GUESTS];      /* none where no host is awaited */
    struct pollfd poll[NODES + DT_MOST_HOSTS + GUESTS];
    int nodes, guests, next_guest, listens, agents, signals;
    char own[INET_ADDRSTRLEN];     /* this host's address */
    char socket[DT_AGENT_ADDRESS]; /* name of the agents' */
    pid_t mpirun;
    dt_relay errors; /* mpirun's */
};

static bool wait_for_news(dt_first *f, int ms)
{
    const int fixed[NODES] = {f->listens, f->signals, f->agents, f->errors.from};
    const int polls = NODES + f->nodes + f->guests;

    for (int i = 0; i < polls; i++) {
        const int k = i - NODES, g = k - f->nodes;
        const dt_wire *w = k < 0 ? NULL : g < 0 ? f->node[k].wire : f->guest[g].wire;
        const int fd = k < 0 ? fixed[i] : w ? w->fd : -1;
        f->poll[i] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
    return poll(f->poll, (nfds_t)polls, ms) > 0;
}

/* ---- All come -------------------------------------------------------------------------------- */

static void forget(dt_wire **w)
{
    dt_wire_close(*w);
    *w = NULL;
}

/* By address, by which mpirun tells hosts apart. */
static const char *name_of(const dt_first *f, int k)
{
    return k == 0 ? f->own : f->node[k].wire ? f->node[k].wire->peer : "";
}

/* The host that has the address, -1: none. */
static int host_at(const dt_first *f, const char *address)
{
    for (int k = 0; k < f->nodes; k++)
        if (strcmp(name_of(f, k), address) == 0)
            return k;
    return -1;
}

/* Why a host that has the token is refused; "": it is not. */
static void judge(const dt_first *f, const dt_wire *w, char *why, size_t room)
{
    const dt_hello *h = &w->hello;
    const int same = host_at(f, w->peer);

    why[0] = '\0';
    if (h->nodes != f->nodes)
        snprintf(why, room, "this run has %d hosts, not %d (--nnodes)", f->nodes, h->nodes);
    else if (h->node < 1 || h->node >= h->nodes)
        snprintf(why, room, "it is none of hosts 1 to %d (--node-rank)", f->nodes - 1);
    else if (h->slots < 1 || h->slots > DT_MOST_SLOTS)
        snprintf(why, room, "from 1 to %d ranks fit (--nproc-per-node)", (int)DT_MOST_SLOTS);
    else if (f->node[h->node].wire)
        snprintf(why, room, "host %d is already there, from %s (--node-rank)", h->node,
                 name_of(f, h->node));
    else if (same >= 0)
        snprintf(why, room,
                 "host %d has its address, %s: start a host once, with all its ranks "
                 "(--nproc-per-node)",
                 same, w->peer);
}

static void seat(dt_first *f, guest *g)
{
    const dt_hello *h = &g->wire->hello;
    char why[160];

    judge(f, g->wire, why, sizeof why);
    if (!why[0]) {
        f->node[h->node].wire = g->wire;
        g->wire = NULL;
        return;
    }
    dt_warn("%s says that it is host %d of %d with %d ranks: refused: %s", g->wire->peer, h->node,
            h->nodes, h->slots, why);
    (void)dt_wire_say(g->wire, json_pack("{s:s}", "refused", why));
    forget(&g->wire);
}

static bool let_in(dt_first *f)
{
    const int fd = accept4(f->listens, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    guest *g = &f->guest[f->next_guest];

    if (fd < 0)
        return false;
    f->next_guest = (f->next_guest + 1) % GUESTS;
    forget(&g->wire);
    g->until = dt_seconds() + DT_WIRE_PATIENCE_S;
    if (dt_wire_open(&g->wire, fd, &f->meeting->token, NULL) != DT_OK)
        dt_fail_clear(); /* no memory: the host tries again */
    return true;
}

static void greet_guests(dt_first *f)
{
    for (guest *g = f->guest; g < f->guest + f->guests; g++) {
        const struct pollfd *p = &f->poll[NODES + f->nodes + (g - f->guest)];
        const dt_greeting greeting = g->wire && p->revents ? dt_wire_greet(g->wire) : DT_GREETING;
        if (greeting == DT_GREETED) {
            seat(f, g);
        } else if (g->wire && (greeting != DT_GREETING || dt_seconds() > g->until)) {
            dt_warn("a connection from %s %s: closed", g->wire->peer,
                    greeting == DT_STRANGER ? "does not have the token"
                    : greeting == DT_LEFT   ? "has ended, or is no dtrain launch"
                                            : "is silent");
            forget(&g->wire);
        }
    }
}

static int first_missing(const dt_first *f)
{
    int k = 1;

    while (k < f->nodes && f->node[k].wire)
        k++;
    return k;
}

/* Before the run begins a host sends nothing but a signal that was for it: it leaves by that. */
static void hear_early(dt_first *f, int k)
{
    node *n = &f->node[k];
    json_t *message = dt_wire_hear(n->wire);

    if (json_object_get(message, "signal"))
        (void)dt_wire_say(n->wire, json_pack("{s:i}", "end", dt_status_exit_code(DT_PREEMPTED)));
    dt_warn("host %d, %s, has left before all had come: its place is free again", k, n->wire->peer);
    json_decref(message);
    forget(&n->wire);
}

static dt_status wait_for_all(dt_first *f)
{
    enum { TICK_MS = 500 }; /* in which a guest's time ends, too */
    const double until = dt_seconds() + DT_WINDOW_S;

    while (first_missing(f) < f->nodes) {
        if (dt_seconds() > until)
            return dt_fail(
                DT_COMM,
                "host %d of %d (--node-rank %d) has not come to %s within %d s: start the "
                "same command there, with the same token",
                first_missing(f), f->nodes, first_missing(f), f->meeting->master, (int)DT_WINDOW_S);
        (void)wait_for_news(f, TICK_MS);
        DT_TRY(dt_meeting_stopped(f->signals));
        for (int k = 1; k < f->nodes; k++)
            if (f->poll[NODES + k].revents)
                hear_early(f, k);
        greet_guests(f);
        for (int i = 0; i < GUESTS / 4 && let_in(f); i++)
            ;
    }
    return DT_OK;
}

/* Until the other sides have closed, or that time. A socket that is closed with bytes unread is
 * reset, and what it had still to send is lost: the end of the last message, while its head is not
 * acknowledged (RFC 1122, 4.2.2.13 and 4.2.3.4). */
static void end_all(dt_first *f, int code)
{
    const double until = dt_seconds() + END_S;
    char rest[4096];

    for (int k = 1; k < f->nodes; k++)
        if (f->node[k].wire) {
            dt_wire_limit(f->node[k].wire->fd, END_S);
            (void)dt_wire_say(f->node[k].wire, json_pack("{s:i}", "end", code));
            shutdown(f->node[k].wire->fd, SHUT_WR);
        }
    for (int k = 1; k < f->nodes; k++)
        while (f->node[k].wire && dt_seconds() < until &&
               recv(f->node[k].wire->fd, rest, sizeof rest, 0) > 0)
            ;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static dt_status name_own(dt_first *f)
{
    struct sockaddr_in own;
    socklen_t length = sizeof own;

    if (getsockname(f->listens, (struct sockaddr *)&own, &length) != 0 ||
        !inet_ntop(AF_INET, &own.sin_addr, f->own, sizeof f->own))
        return dt_fail(DT_COMM, "--master %s: %s", f->meeting->master, strerror(errno));
    return DT_OK;
}

/* No more of them: the port is closed, too. */
static void close_door(dt_first *f)
{
    for (int i = 0; i < f->guests; i++)
        forget(&f->guest[i].wire);
    f->guests = 0;
    if (f->listens >= 0)
        close(f->listens);
    f->listens = -1;
}

static dt_status listen_to_agents(dt_first *f)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    socklen_t length = sizeof at;

    f->agents = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(f->agents, (const struct sockaddr *)&at, sizeof at.sun_family) != 0 ||
        listen(f->agents, 64) != 0 || getsockname(f->agents, (struct sockaddr *)&at, &length) != 0)
        return dt_fail(DT_CANTCREATE, "a socket for mpirun's agent: %s", strerror(errno));
    memcpy(f->socket, at.sun_path + 1, DT_AGENT_ADDRESS - sizeof(sa_family_t) - 1);
    return DT_OK;
}

static dt_status meet_others(dt_first *f, dt_hosts *h)
{
    f->guests = GUESTS;
    DT_TRY(dt_meeting_socket(f->meeting->master, true, &f->listens));
    DT_TRY(name_own(f));
    const dt_status st = wait_for_all(f);
    close_door(f);
    if (st == DT_PREEMPTED)
        end_all(f, dt_status_exit_code(st));
    DT_TRY(st);
    for (int k = 0; k < f->nodes; k++)
        DT_TRY(dt_hosts_add(h, name_of(f, k), strlen(name_of(f, k)),
                            (k ? &f->node[k].wire->hello : &f->meeting->own)->slots));
    return listen_to_agents(f);
}

dt_status dt_first_open(dt_first **out, const dt_meeting *m, dt_hosts *h)
{
    dt_first *f = NULL;

    DT_TRY(dt_calloc(&f, 1, sizeof *f, "the meeting of hosts"));
    *out = f;
    f->meeting = m;
    f->nodes = m->own.nodes;
    f->listens = f->agents = f->signals = f->errors.from = -1;
    for (int k = 0; k < f->nodes; k++)
        f->node[k].agent = -1;
    DT_TRY(dt_meeting_signals(&f->signals));
    return f->nodes > 1 ? meet_others(f, h) : DT_OK;
}

const char *dt_first_socket(const dt_first *f)
{
    return f->socket;
}

/* ---- While mpirun runs ----------------------------------------------------------------------- */

static void answer(int *agent, int code)
{
    const uint8_t byte = (uint8_t)code;

    if (*agent < 0)
        return;
    (void)!send(*agent, &byte, 1, MSG_NOSIGNAL);
    close(*agent);
    *agent = -1;
}

/* An array: the host, and the words of its daemon. NULL: it is no agent of this user. */
static json_t *request_of(int agent)
{
    struct ucred who = {.uid = (uid_t)-1};
    socklen_t length = sizeof who;

    if (getsockopt(agent, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0 || who.uid != geteuid())
        return NULL;
    return json_loadfd(agent, 0, NULL);
}

static void take_request(dt_first *f)
{
    int agent = accept4(f->agents, NULL, NULL, SOCK_CLOEXEC);
    json_t *words = request_of(agent);
    const char *host = json_string_value(json_array_get(words, 0));
    const int k = host ? host_at(f, host) : -1;

    json_array_remove(words, 0);
    if (k > 0 && f->node[k].agent < 0 &&
        dt_wire_say(f->node[k].wire, json_pack("{s:O}", "start", words))) {
        f->node[k].agent = agent;
        agent = -1;
    }
    answer(&agent, DT_NO_DAEMON);
    json_decref(words);
}

static void hear(dt_first *f, int k)
{
    node *n = &f->node[k];
    json_t *message = dt_wire_hear(n->wire);
    const json_t *done = json_object_get(message, "done");
    const json_t *number = json_object_get(message, "signal");

    if (!message) {
        dt_warn("host %d, %s, is gone: its daemon counts as lost", k, n->wire->peer);
        forget(&n->wire);
        answer(&n->agent, DT_NO_DAEMON);
    }
    if (done)
        answer(&n->agent, (int)json_integer_value(done));
    if (number)
        kill(f->mpirun, (int)json_integer_value(number));
    json_decref(message);
}

static void pass_signals(dt_first *f)
{
    for (int number; (number = dt_meeting_signal(f->signals)) != 0;)
        if (number != SIGCHLD)
            kill(f->mpirun, number);
}

static int stand_between(dt_first *f)
{
    int code = 0;

    for (;;) {
        if (!wait_for_news(f, DT_PATIENCE_MS)) {
            dt_child_bound(f->mpirun);
            continue;
        }
        for (int k = 1; k < f->nodes; k++)
            if (f->poll[NODES + k].revents)
                hear(f, k);
        if (f->poll[AGENTS].revents)
            take_request(f);
        if (f->poll[ERRORS].revents)
            (void)dt_relay_pass(&f->errors);
        if (f->poll[SIGNALS].revents)
            pass_signals(f);
        if (dt_child_ended(f->mpirun, &code))
            return code;
    }
}

dt_status dt_first_run(dt_first *f, char **word, bool several, int *code)
{
    int pipe[2] = {-1, -1};

    if (several && pipe2(pipe, O_CLOEXEC) != 0)
        return dt_fail(DT_NOMEM, "no pipe: %s", strerror(errno));
    f->errors.from = pipe[0];
    const dt_status st = dt_child_start(word, pipe[1], &f->mpirun);
    if (pipe[1] >= 0)
        close(pipe[1]);
    *code = st == DT_OK ? stand_between(f) : dt_status_exit_code(st);
    while (dt_relay_pass(&f->errors))
        continue;
    if (*code == 0 && f->errors.lost_host) {
        *code = dt_status_exit_code(DT_COMM);
        dt_log_error("mpirun has lost a host and ends with 0: the run is not complete");
    }
    end_all(f, *code);
    return st;
}

void dt_first_close(dt_first *f)
{
    if (!f)
        return;
    close_door(f);
    for (int k = 0; k < f->nodes; k++)
        dt_wire_close(f->node[k].wire);
    if (f->agents >= 0)
        close(f->agents);
    if (f->errors.from >= 0)
        close(f->errors.from);
    free(f);
}
