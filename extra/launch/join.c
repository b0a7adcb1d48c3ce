/* join.c - another host of a run: it starts Open MPI's daemon when the first one asks for it; and
 * the agent, which mpirun starts in place of ssh: it asks the first host's process for that. */
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "launch.h"

enum {
    RETRY_MS = 200,
    NOTE_S = 5, /* without the first host: then this is said */
};

typedef struct joined {
    const dt_meeting *meeting;
    dt_wire wire;
    int signals;
    pid_t daemon; /* 0: it has ended; -1: there was none */
} joined;

/* ---- Finding the first host ------------------------------------------------------------------ */

/* It may be started last. */
static dt_status meet_first(joined *j)
{
    const dt_meeting *m = j->meeting;
    const double began = dt_seconds();
    bool noted = false;

    for (;; nanosleep(&(struct timespec){.tv_nsec = RETRY_MS * 1000000L}, NULL)) {
        dt_greeting greeting = DT_LEFT;
        int fd = -1;
        DT_TRY(dt_signals_stopped(j->signals));
        dt_status st = dt_wire_socket(m->master, &fd, NULL);
        if (st == DT_OK && (st = dt_wire_open(&j->wire, fd, &m->token, &m->own)) == DT_OK) {
            greeting = dt_wire_greet(&j->wire);
            if (greeting == DT_GREETED)
                return DT_OK;
            dt_wire_close(&j->wire);
            st = dt_fail(DT_COMM, "--master %s: the first host %s", m->master,
                         greeting == DT_STRANGER
                             ? "has another token"
                             : "does not answer, or what answers there is no dtrain launch");
        }
        const double waited = dt_seconds() - began;
        if (st != DT_COMM || greeting == DT_STRANGER || waited > DT_WINDOW_S)
            return st; /* trying again does not help, or takes too long */
        if (!noted && waited > NOTE_S)
            dt_note("%s; it is not started yet, or its run has begun without this host: trying for "
                    "%d s",
                    dt_fail_text(), (int)DT_WINDOW_S);
        noted = waited > NOTE_S;
        dt_fail_clear();
    }
}

/* ---- The daemon ------------------------------------------------------------------------------ */

char **dt_daemon_words(const json_t *words)
{
    const size_t count = json_array_size(words);
    const char *program = json_string_value(json_array_get(words, 0));
    char **word = NULL;

    if (!program || (strcmp(program, "orted") != 0 && strcmp(program, "prted") != 0))
        return NULL;
    word = calloc(count + 1, sizeof *word);
    for (size_t i = 0; word && i < count; i++) {
        word[i] = (char *)(uintptr_t)json_string_value(json_array_get(words, i));
        if (!word[i]) {
            free(word);
            return NULL;
        }
    }
    return word;
}

/* The first host's mpirun waits for the daemon: one that does not start has ended. */
static void start_daemon(joined *j, const json_t *words)
{
    char **word = dt_daemon_words(words);

    if (!word || dt_child_start(word, STDERR_FILENO, &j->daemon) != DT_OK) {
        dt_log_error("no daemon is started: %s",
                     word ? dt_fail_text() : "the first host asks for another program");
        dt_fail_clear();
        j->daemon = 0;
        (void)dt_wire_say(&j->wire, json_pack("{s:i}", "done", (int)DT_NO_DAEMON));
    }
    free(word);
}

static void pass_signals(joined *j)
{
    int code = 0;

    for (int number; (number = dt_signals_next(j->signals)) != 0;)
        if (number == SIGTSTP)
            raise(SIGSTOP); /* this process alone: the run is not here */
        else
            (void)dt_wire_say(&j->wire, json_pack("{s:i}", "signal", number));
    if (j->daemon > 0 && dt_child_ended(j->daemon, &code)) {
        j->daemon = 0;
        (void)dt_wire_say(&j->wire, json_pack("{s:i}", "done", code));
    }
}

/* ---- The run --------------------------------------------------------------------------------- */

/* code: of the run's end, if that is heard. */
static dt_status hear(joined *j, int *code)
{
    json_t *message = dt_wire_hear(&j->wire);
    const json_t *start = json_object_get(message, "start"), *end = json_object_get(message, "end");
    const dt_status st =
        message ? DT_OK
                : dt_fail(DT_COMM, "the first host, %s, is gone: the run is over here, too",
                          j->meeting->master);

    if (start)
        start_daemon(j, start);
    if (end)
        *code = (int)json_integer_value(end) & 255;
    if (end && j->daemon < 0 && *code != 0)
        dt_log_error("--master %s: the first host has ended before the run began, or refuses this "
                     "one: its output says why",
                     j->meeting->master);
    json_decref(message);
    return st;
}

/* The daemon, if it is still there, ends with this process, and its ranks with it. */
dt_status dt_join(const dt_meeting *m, int *code)
{
    joined j = {.meeting = m, .signals = -1, .daemon = -1};
    dt_status st = DT_OK;

    DT_TRY(dt_signals_open(&j.signals));
    DT_TRY(meet_first(&j));
    for (*code = -1; st == DT_OK && *code < 0;) {
        struct pollfd p[2] = {{.fd = j.wire.fd, .events = POLLIN},
                              {.fd = j.signals, .events = POLLIN}};
        (void)poll(p, 2, -1);
        pass_signals(&j);
        if (p[0].revents)
            st = hear(&j, code);
    }
    dt_wire_close(&j.wire);
    return st;
}

/* ---- The agent ------------------------------------------------------------------------------- */

/* Words come with blanks before the first and quotes around values. PRRTE, of Open MPI 5, has
 * "NAME=value;export NAME;...;/usr/bin/prted": variables are the other host's own, and the program
 * is the one that PATH finds there. By "--daemonize" it would leave its parent, and outlive it. */
json_t *dt_agent_request(int argc, char **argv)
{
    json_t *words = json_array();
    int failed = words == NULL;

    for (int i = 0; i < argc; i++) {
        char *word = argv[i] + (i > 0 ? strspn(argv[i], " ") : 0);
        const size_t length = strlen(word);
        if (i > 0 && length >= 2 && word[0] == '"' && word[length - 1] == '"') {
            word[length - 1] = '\0';
            word++;
        }
        for (char *end; i == 1 && (end = strpbrk(word, ";/")) != NULL;)
            word = end + 1;
        if (strcmp(word, "--daemonize") != 0)
            failed |= json_array_append_new(words, json_string(word));
    }
    if (!failed)
        return words;
    json_decref(words);
    return NULL;
}

int dt_agent(int argc, char **argv)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const char *name = getenv(DT_AGENT_VARIABLE);
    uint8_t code = DT_NO_DAEMON;
    json_t *words = dt_agent_request(argc, argv);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(to.sun_path + 1, sizeof to.sun_path - 1, "%s", name ? name : "");
    const socklen_t length = (socklen_t)(sizeof to.sun_family + 1 + strlen(to.sun_path + 1));
    if (words && connect(fd, (const struct sockaddr *)&to, length) == 0 &&
        json_dumpfd(words, fd, 0) == 0 && shutdown(fd, SHUT_WR) == 0)
        (void)!recv(fd, &code, 1, MSG_WAITALL);
    json_decref(words);
    return code;
}
