/* first.c - the first host of a run: it waits for the others, then stands between mpirun and them.
 * Where there are none to wait for, it still looks after mpirun. */
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "launch.h"

enum {
    ASK_AGAIN_MS = 500, /* for a checkpoint */
    END_S = 3,          /* for the other hosts to read that the run is over; for mpirun's end */
    IDLE_S = 15,        /* of an mpirun whose ranks have ended */
    GUESTS = 256, /* connections whose handshakes are under way, fewer than files may be open; the
                   * oldest one, which may be silent, makes room */
};

/* A host, or, after all hosts, a guest. */
typedef struct peer {
    dt_wire wire; /* closed: it has not come, is gone, or is this host; its address, by which mpirun
                   * tells hosts apart, stays */
    int agent;    /* that waits for the end of the host's daemon; -1: none */
} peer;

/* What mpirun and the ranks say on standard error that decides the exit code. */
enum { LOST, STOPPED, WHOLE, STALLED, SAYINGS };
static const char *const saying[SAYINGS] = {
    /* mpirun of Open MPI 5.0.7 that has lost a host's daemon ends the ranks, and then itself with
     * code 0, as if the run were complete: prte's help-errmgr-base.txt, node-died. */
    [LOST] = "lost communication with a remote daemon",
    [STOPPED] = "dtrain: stopped by SIG", /* and how to resume */
    [WHOLE] = "the run is complete all the same",
    [STALLED] = "; checkpoints are whole: start it again"};
static const char by_usr1[] = "dtrain: stopped by SIGUSR1"; /* a rank that was asked */

/* Places in a poll, before those of the peers: fd[]. */
enum { LISTENS, SIGNALS, AGENTS, ERRORS, PEERS };

struct dt_first {
    const dt_meeting *meeting;
    peer peer[DT_MOST_HOSTS + GUESTS];
    int nodes, next_guest, fd[PEERS]; /* -1: none; ERRORS: mpirun's standard error */
    pid_t mpirun;                     /* 0: all hosts have not come */
    bool trains;
    bool began, hangs;   /* ranks were seen here; mpirun did not end when they had ended */
    double busy_s;       /* when it still had ranks, or may still get some */
    int asked, ended;    /* the signals by which the ranks were asked to stop, and were ended; 0 */
    double signal_s;     /* when asked or ended was set; 0: not yet */
    bool heard[SAYINGS]; /* LOST: or a host has left this one */
    bool spoke;          /* the ranks have said anything */
    size_t held_bytes;
    char held[4096]; /* of mpirun's standard error: the block under way */
};

/* ---- All come -------------------------------------------------------------------------------- */

/* The host that has the address, -1: none. */
static int host_at(const dt_first *f, const char *address)
{
    for (int k = 0; k < f->nodes; k++)
        if (strcmp(f->peer[k].wire.peer, address) == 0)
            return k;
    return -1;
}

static bool let_in(dt_first *f)
{
    const int fd = accept4(f->fd[LISTENS], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    peer *guest = &f->peer[f->nodes + f->next_guest];

    if (fd < 0)
        return false;
    f->next_guest = (f->next_guest + 1) % GUESTS;
    dt_wire_close(&guest->wire);
    if (dt_wire_open(&guest->wire, fd, &f->meeting->token, NULL) != DT_OK)
        dt_fail_clear(); /* no memory: the host tries again */
    return true;
}

/* A guest becomes a host, or is sent away, unless its handshake is under way. */
static void greet(dt_first *f, peer *guest)
{
    const dt_greeting greeting = dt_wire_greet(&guest->wire);
    const dt_hello *h = &guest->wire.hello;
    const char *from = guest->wire.peer;

    if (greeting == DT_GREETING)
        return;
    if (greeting != DT_GREETED) {
        dt_warn("a connection from %s %s: closed", from,
                greeting == DT_STRANGER ? "does not have the token"
                                        : "has ended, or is no dtrain launch");
    } else if (h->nodes == f->nodes && h->node >= 1 && h->node < f->nodes && h->slots >= 1 &&
               h->slots <= DT_MOST_SLOTS && f->peer[h->node].wire.fd < 0 && host_at(f, from) < 0) {
        f->peer[h->node].wire = guest->wire;
        guest->wire.fd = -1;
    } else {
        dt_warn("%s says that it is host %d of %d with %d ranks: refused: each of %d hosts comes "
                "once, with its own --node-rank and address, and 1 to %d ranks",
                from, h->node, h->nodes, h->slots, f->nodes, (int)DT_MOST_SLOTS);
        (void)dt_wire_say(&guest->wire, json_pack("{s:i}", "end", dt_status_exit_code(DT_COMM)));
    }
    dt_wire_close(&guest->wire);
}

static void answer(int *agent, int code)
{
    const uint8_t byte = (uint8_t)code;

    if (*agent < 0)
        return;
    (void)!send(*agent, &byte, 1, MSG_NOSIGNAL);
    close(*agent);
    *agent = -1;
}

/* A signal to this process or another host's. mpirun would kill the ranks, by INT at once, by TERM
 * after a second; USR1 it hands to them. timeout(1) sends its signal twice within a second, and a
 * closed terminal may HUP twice. mpirun may hang when it ends ranks: then it is killed. */
static void pass_signal(dt_first *f, int number)
{
    const double now = dt_seconds();
    const bool again =
        f->signal_s > 0 && (number == SIGINT || number == SIGTERM) && now - f->signal_s >= 1;

    if (number == SIGTSTP) { /* mpirun itself never stops: a shell would wait */
        dt_child_hold(f->mpirun, f->meeting->by, true);
        raise(SIGSTOP);
        dt_child_hold(f->mpirun, f->meeting->by, false);
    } else if (again || (!f->trains && !f->ended)) {
        kill(f->mpirun, f->ended ? SIGKILL : f->trains ? f->meeting->by->ends : number);
        f->ended = number;
        f->signal_s = now;
    } else if (f->trains && !f->asked) {
        f->asked = number;
        f->signal_s = now;
        dt_note("dtrain: SIG%s: the ranks finish their step and write a checkpoint; a second "
                "INT or TERM ends them at once",
                dt_signals_word(number));
        kill(f->mpirun, SIGUSR1);
    }
}

/* Before the run begins a host sends nothing but a signal that was for the run: DT_PREEMPTED; or it
 * leaves: DT_COMM. */
static dt_status hear(dt_first *f, int k)
{
    peer *p = &f->peer[k];
    json_t *message = dt_wire_hear(&p->wire);
    const json_t *done = json_object_get(message, "done");
    const json_t *number = json_object_get(message, "signal");
    dt_status st = DT_OK;

    if (f->mpirun == 0) {
        st = dt_fail(number ? DT_PREEMPTED : DT_COMM,
                     "host %d, %s, %s before all hosts had come: start all hosts again", k,
                     p->wire.peer, number ? "was stopped" : "has left");
    } else if (!message) {
        dt_warn("host %d, %s, is gone: its daemon counts as lost", k, p->wire.peer);
        dt_wire_close(&p->wire);
        answer(&p->agent, DT_NO_DAEMON);
        f->heard[LOST] = true;
    } else if (done) {
        answer(&p->agent, (int)json_integer_value(done));
    } else if (number) {
        pass_signal(f, (int)json_integer_value(number));
    }
    json_decref(message);
    return st;
}

/* ---- What mpirun asks for and says ---------------------------------------------------------- */

/* An array: the host, and the words of its daemon; from an agent of this user. */
static void take_request(dt_first *f)
{
    int agent = accept4(f->fd[AGENTS], NULL, NULL, SOCK_CLOEXEC);
    struct ucred who = {.uid = (uid_t)-1};
    socklen_t length = sizeof who;

    (void)getsockopt(agent, SOL_SOCKET, SO_PEERCRED, &who, &length);
    json_t *words = who.uid == geteuid() ? json_loadfd(agent, 0, NULL) : NULL;
    const char *host = json_string_value(json_array_get(words, 0));
    const int k = host ? host_at(f, host) : -1;
    json_array_remove(words, 0);
    if (k > 0 && f->peer[k].wire.fd >= 0 && f->peer[k].agent < 0 &&
        dt_wire_say(&f->peer[k].wire, json_pack("{s:O}", "start", words))) {
        f->peer[k].agent = agent;
        agent = -1;
    }
    answer(&agent, DT_NO_DAEMON);
    json_decref(words);
}

/* A line that mpirun draws around what it says. */
static bool is_ruler(const char *line)
{
    enum { SHORTEST = 59 };
    const size_t n = strspn(line, "-");

    return n >= SHORTEST && line[n] == '\n';
}

static void end_held(dt_first *f, bool shown)
{
    for (int i = 0; i < SAYINGS; i++)
        f->heard[i] |= strstr(f->held, saying[i]) != NULL;
    if (shown)
        (void)!write(STDERR_FILENO, f->held, f->held_bytes);
    f->held_bytes = 0;
    f->held[0] = '\0';
}

/* What is held ends with a line: is it whole? A block is, between two rulers. Left out is what only
 * repeats what dtrain says better: that a process has ended with a code, or that there was a signal
 * to stop. Open MPI 5 breaks the line before "signal". */
static void pass_line(dt_first *f)
{
    const char *last = memrchr(f->held, '\n', f->held_bytes - 1);
    const char *by = f->asked ? strstr(f->held, by_usr1) : NULL; /* this process was told, say: */
    const bool block = is_ruler(f->held);

    if (block && !(last && is_ruler(last + 1)))
        return;
    if (by)
        dprintf(STDERR_FILENO, "dtrain: stopped by SIG%s%s", dt_signals_word(f->asked),
                by + strlen(by_usr1));
    const bool repeated = (block && f->spoke && strstr(f->held, "non-zero")) ||
                          (f->asked && block && strstr(f->held, "signal 10 (")) ||
                          (f->asked && strncmp(f->held, "mpirun: Forwarding signal", 25) == 0);
    f->spoke |= !repeated && !block;
    end_held(f, !repeated && !by);
}

/* What mpirun says on its standard error, as far as it has come. */
static void pass_errors(dt_first *f)
{
    char byte;
    ssize_t n;

    while ((n = read(f->fd[ERRORS], &byte, 1)) == 1) {
        if (f->held_bytes == sizeof f->held - 1)
            end_held(f, true);
        f->held[f->held_bytes++] = byte;
        f->held[f->held_bytes] = '\0';
        if (byte == '\n')
            pass_line(f);
    }
    if (n < 0)
        return;
    end_held(f, true);
    close(f->fd[ERRORS]); /* mpirun has closed it */
    f->fd[ERRORS] = -1;
}

/* ---- All of it, as it comes ------------------------------------------------------------------ */

/* Wait for news, so long at most, and look after it. It fails only before the run begins. */
static dt_status serve(dt_first *f, int ms, bool *news)
{
    struct pollfd at[PEERS + DT_MOST_HOSTS + GUESTS];
    const int polls = PEERS + f->nodes + GUESTS;

    for (int i = 0; i < polls; i++)
        at[i] = (struct pollfd){.fd = i < PEERS ? f->fd[i] : f->peer[i - PEERS].wire.fd,
                                .events = POLLIN};
    *news = poll(at, (nfds_t)polls, ms) > 0;
    for (int k = 1; k < f->nodes; k++)
        if (at[PEERS + k].revents)
            DT_TRY(hear(f, k));
    for (int k = f->nodes; k < f->nodes + GUESTS; k++)
        if (at[PEERS + k].revents)
            greet(f, &f->peer[k]);
    for (int i = 0; i < GUESTS / 4 && let_in(f); i++)
        ;
    if (at[AGENTS].revents)
        take_request(f);
    if (at[ERRORS].revents)
        pass_errors(f);
    if (f->mpirun == 0)
        return dt_signals_stopped(f->fd[SIGNALS]);
    for (int number; (number = dt_signals_next(f->fd[SIGNALS])) != 0;)
        pass_signal(f, number);
    return DT_OK;
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

/* Until the other sides have closed: a socket that is closed with bytes unread is reset, and what
 * it had still to send is lost (RFC 1122, 4.2.2.13). */
static void end_all(dt_first *f, int code)
{
    for (int k = 1; k < f->nodes; k++)
        if (f->peer[k].wire.fd >= 0) {
            dt_wire_limit(f->peer[k].wire.fd, END_S);
            (void)dt_wire_say(&f->peer[k].wire, json_pack("{s:i}", "end", code));
            shutdown(f->peer[k].wire.fd, SHUT_WR);
        }
    for (int k = 1; k < f->nodes; k++)
        for (json_t *rest; f->peer[k].wire.fd >= 0 && (rest = dt_wire_hear(&f->peer[k].wire));)
            json_decref(rest);
}

static dt_status listen_to_agents(dt_first *f)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    socklen_t length = sizeof at;

    const int fd = f->fd[AGENTS] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (const struct sockaddr *)&at, sizeof at.sun_family) != 0 || listen(fd, 64) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &length) != 0)
        return dt_fail(DT_CANTCREATE, "a socket for mpirun's agent: %s", strerror(errno));
    at.sun_path[length - sizeof at.sun_family] = '\0';
    (void)setenv(DT_AGENT_VARIABLE, at.sun_path + 1, 1); /* without it mpirun says what it lacks */
    return DT_OK;
}

static dt_status meet_others(dt_first *f, dt_hosts *h)
{
    const double until = dt_seconds() + DT_WINDOW_S;
    dt_status st = DT_OK;
    bool news;

    DT_TRY(dt_wire_socket(f->meeting->master, &f->fd[LISTENS], f->peer[0].wire.peer));
    for (int missing = 1; missing < f->nodes && st == DT_OK;)
        if (f->peer[missing].wire.fd >= 0)
            missing++;
        else if (dt_seconds() <= until)
            st = serve(f, DT_PATIENCE_MS, &news);
        else
            st = dt_fail(DT_COMM,
                         "host %d of %d (--node-rank %d) has not come to %s within %d s: start "
                         "the same command there, with the same token",
                         missing, f->nodes, missing, f->meeting->master, (int)DT_WINDOW_S);
    for (int i = 0; i < GUESTS; i++) /* no more hosts */
        dt_wire_close(&f->peer[f->nodes + i].wire);
    close(f->fd[LISTENS]);
    f->fd[LISTENS] = -1;
    if (st != DT_OK)
        end_all(f, dt_status_exit_code(st));
    DT_TRY(st);
    f->peer[0].wire.hello = f->meeting->own;
    for (const peer *p = f->peer; p < f->peer + f->nodes; p++)
        DT_TRY(dt_hosts_add(h, p->wire.peer, strlen(p->wire.peer), p->wire.hello.slots));
    return listen_to_agents(f);
}

dt_status dt_first_open(dt_first **out, const dt_meeting *m, dt_hosts *h)
{
    dt_first *f = NULL;

    DT_TRY(dt_calloc(&f, 1, sizeof *f, "the meeting of hosts"));
    *out = f;
    f->meeting = m;
    f->nodes = m->own.nodes;
    for (int k = 0; k < f->nodes + GUESTS; k++)
        f->peer[k].wire.fd = f->peer[k].agent = -1;
    for (int i = 0; i < PEERS; i++)
        f->fd[i] = -1;
    DT_TRY(dt_signals_open(&f->fd[SIGNALS]));
    return f->nodes > 1 ? meet_others(f, h) : DT_OK;
}

/* ---- While mpirun runs ----------------------------------------------------------------------- */

/* One that is asked before mpirun or a rank handles signals dies of USR1, or, where daemons are not
 * there yet, ends with 0 (Open MPI 4.1.4) or an error of its own (5.0.7): it had not begun. A run
 * that is complete says so. */
static int end_code(dt_first *f, int code)
{
    if (f->meeting->by->bare && code > 1 && code < 32) /* of a rank that it has ended, too */
        code = f->heard[STALLED] ? dt_status_exit_code(DT_STALLED) : 128 + code;
    if (code == 128 + SIGABRT && !f->began) {
        dt_warn("mpirun has crashed; Open MPI 4 does where a host's name has 57 letters");
        return dt_status_exit_code(DT_COMM);
    }
    if (f->ended && code != dt_status_exit_code(DT_PREEMPTED)) {
        if (f->trains)
            dt_note("dtrain: ended by a second signal: the last checkpoint holds");
        return 128 + f->ended;
    }
    if (f->hangs)
        return dt_status_exit_code(f->heard[STOPPED] ? DT_PREEMPTED : DT_COMM);
    if (!f->asked || f->heard[WHOLE] || (f->began && code != 0 && code != 128 + SIGUSR1))
        return code;
    if (!f->heard[STOPPED])
        dt_note("dtrain: stopped by SIG%s before the run was set up: nothing to save yet; start it "
                "again",
                dt_signals_word(f->asked));
    return dt_status_exit_code(DT_PREEMPTED);
}

/* Where it hangs (Open MPI 4.1.4, one launch of thousands): the ranks of a run end together. */
static void end_idle(dt_first *f)
{
    const double now = dt_seconds();

    if (!dt_child_idle(f->mpirun, f->meeting->by, &f->began))
        f->busy_s = now;
    if (now - f->busy_s < IDLE_S)
        return;
    if (!f->hangs)
        dt_warn("mpirun has not ended %d s after its ranks: it is ended", (int)IDLE_S);
    f->hangs = true;
    kill(f->mpirun, now - f->busy_s < IDLE_S + END_S ? SIGTERM : SIGKILL);
}

dt_status dt_first_run(dt_first *f, char **word, bool trains, int *code)
{
    int errors[2];
    bool news;

    f->trains = trains;
    if (pipe2(errors, O_CLOEXEC) != 0 || fcntl(errors[0], F_SETFL, O_NONBLOCK) != 0)
        return dt_fail(DT_NOMEM, "no pipe: %s", strerror(errno));
    f->fd[ERRORS] = errors[0];
    const dt_status st = dt_child_start(word, errors[1], &f->mpirun);
    close(errors[1]);
    if (st != DT_OK) {
        end_all(f, dt_status_exit_code(st));
        return st;
    }
    for (f->busy_s = dt_seconds(); !dt_child_ended(f->mpirun, code); end_idle(f)) {
        (void)!serve(f, f->asked || !f->began ? ASK_AGAIN_MS : DT_PATIENCE_MS, &news);
        if (!news)
            dt_child_bound(f->mpirun);
        if (!news && f->asked && !f->ended) /* before ranks were there, it was lost */
            kill(f->mpirun, SIGUSR1);
    }
    pass_errors(f);
    end_held(f, true);
    *code = end_code(f, *code);
    if (f->heard[LOST] && (*code == 0 || *code == DT_NO_DAEMON)) {
        dt_warn("mpirun has lost a host and ends with %d: the run is not complete", *code);
        *code = dt_status_exit_code(DT_COMM);
    }
    end_all(f, *code);
    return DT_OK;
}

void dt_first_close(dt_first *f)
{
    if (!f)
        return;
    for (int k = 0; k < f->nodes; k++)
        dt_wire_close(&f->peer[k].wire);
    for (int i = 0; i < PEERS; i++)
        close(f->fd[i]);
    free(f);
}
