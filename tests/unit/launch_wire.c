/* launch_wire.c - the connection of hosts: who has the token is heard, a changed byte ends it,
 * nothing but Open MPI's daemon is ever started, and a refused host says why. */
#include "launch/meet.h"

#include "test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static dt_token token_of(int seed)
{
    dt_token t;
    memset(t.key, seed, sizeof t.key);
    return t;
}

/* Another host: says hello, sends two frames, wants one. Its exit code. */
static int other_host(int fd, const dt_token *t)
{
    static dt_frame f;
    dt_wire w;

    if (!dt_wire_connect(&w, fd, t, &(dt_hello){4, 3, 2}))
        return 10;
    if (!dt_wire_send(&w, DT_FRAME_DONE, "x", 1) || !dt_wire_send(&w, DT_FRAME_SIGNAL, "yz", 2))
        return 11;
    return dt_wire_receive(&w, &f) && f.type == DT_FRAME_END && f.bytes == 0 ? 0 : 12;
}

/* What comes on `from` goes to `to`, the byte at offset `flip` changed; and back, unchanged. */
static void forward(int from, int to, size_t flip)
{
    size_t at = 0;
    char byte;

    if (fork() == 0) {
        while (read(to, &byte, 1) == 1 && write(from, &byte, 1) == 1)
            ;
        shutdown(from, SHUT_WR);
        _exit(0);
    }
    for (; read(from, &byte, 1) == 1; at++) {
        byte = (char)(at == flip ? byte ^ 0x40 : byte);
        if (write(to, &byte, 1) != 1)
            break;
    }
    shutdown(to, SHUT_WR);
    _exit(0);
}

typedef struct outcome {
    bool accepted, both; /* the handshake; then both frames, as they were sent */
    int other;           /* exit code */
} outcome;

static outcome talk(const dt_token *first, const dt_token *other, size_t flip)
{
    static dt_frame f;
    int near[2], far[2], status = 0;
    outcome o = {.accepted = false};
    dt_hello hello = {0};
    dt_wire w;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, near), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, far), 0);
    const pid_t host = fork();
    if (host == 0) {
        close(near[0]), close(near[1]), close(far[0]);
        _exit(other_host(far[1], other));
    }
    const pid_t cable = fork();
    if (cable == 0) {
        close(near[0]), close(far[1]);
        forward(far[0], near[1], flip);
    }
    close(near[1]), close(far[0]), close(far[1]);
    o.accepted = dt_wire_accept(&w, near[0], first, &hello);
    if (o.accepted) {
        o.both = hello.nodes == 4 && hello.node == 3 && hello.slots == 2 &&
                 dt_wire_receive(&w, &f) && f.type == DT_FRAME_DONE && f.bytes == 1 &&
                 f.payload[0] == 'x' && dt_wire_receive(&w, &f) && f.type == DT_FRAME_SIGNAL &&
                 f.bytes == 2 && memcmp(f.payload, "yz", 2) == 0;
        if (o.both)
            assert_true(dt_wire_send(&w, DT_FRAME_END, "", 0));
    }
    close(near[0]);
    waitpid(host, &status, 0);
    waitpid(cable, NULL, 0);
    o.other = WEXITSTATUS(status);
    return o;
}

static void who_has_the_token_is_heard(void **state)
{
    (void)state;
    const dt_token a = token_of(1), b = token_of(2);

    const outcome same = talk(&a, &a, SIZE_MAX);
    assert_true(same.accepted && same.both);
    assert_int_equal(same.other, 0);
    const outcome differ = talk(&a, &b, SIZE_MAX);
    assert_false(differ.accepted);
    assert_int_equal(differ.other, 10);
}

/* 32 random bytes, 12 of hello, the proof; then head, payload and code of two frames. */
static void no_byte_may_change(void **state)
{
    (void)state;
    const dt_token a = token_of(1);
    const size_t all = 32 + 12 + 32 + 8 + 1 + 32 + 8 + 2 + 32;

    for (size_t k = 0; k < all; k++) {
        const outcome o = talk(&a, &a, k);
        if (o.both || o.accepted != (k >= 32 + 12 + 32))
            fail_msg("byte %zu: accepted %d, both frames %d", k, o.accepted, o.both);
    }
}

/* Nobody keeps the first host busy by a byte now and then. */
static void a_slow_stranger_is_left(void **state)
{
    const dt_token t = token_of(1);
    dt_hello hello;
    int pair[2], status = 0;
    dt_wire w;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    const pid_t stranger = fork();
    if (stranger == 0) {
        close(pair[0]);
        for (int i = 0; i < 40; i++) {
            if (send(pair[1], "x", 1, MSG_NOSIGNAL) != 1)
                _exit(0);
            usleep(500 * 1000);
        }
        _exit(1);
    }
    close(pair[1]);
    assert_false(dt_wire_accept(&w, pair[0], &t, &hello));
    close(pair[0]);
    assert_int_equal(waitpid(stranger, &status, 0), stranger);
    assert_int_equal(status, 0);
}

static void only_the_daemon_is_started(void **state)
{
    (void)state;
    static const struct {
        const char *words;
        size_t bytes;
        int count; /* 0: refused */
        const char *last;
    } row[] = {
        {"orted\0-mca\0ess\0\"env\"", 21, 4, "env"},
        {" orted\0\"a b\"", 13, 2, "a b"},
        {"prted\0;reboot", 14, 2, ";reboot"}, /* a word like any other: there is no shell */
        {"orted", 6, 1, "orted"},
        {"orted\0--daemonize\0-mca\0x", 25, 3, "x"}, /* it would outlive its parent */
        {"--daemonize", 12, 0, NULL},
        {"orted", 5, 0, NULL}, /* no end */
        {"", 0, 0, NULL},
        {"", 1, 0, NULL},
        {"sh\0-c\0reboot", 13, 0, NULL},
        {"A=b;export A;/usr/bin/prted\0x", 30, 2, "x"},
        {"reboot;/tmp/orted", 18, 1, "orted"}, /* the one in PATH, and nothing before it */
        {"/tmp/orted;/bin/sh", 19, 0, NULL},
        {"orted/", 7, 0, NULL},
        {"orted x", 8, 0, NULL},
        {"orted;reboot", 13, 0, NULL},
        {"env\0orted", 10, 0, NULL},
    };

    for (size_t i = 0; i < DT_COUNT_OF(row); i++) {
        char payload[64] = "";
        memcpy(payload, row[i].words, row[i].bytes);
        char **word = dt_daemon_words(payload, row[i].bytes);
        assert_int_equal(word != NULL, row[i].count > 0);
        if (!word)
            continue;
        assert_string_equal(word[row[i].count - 1], row[i].last);
        assert_null(word[row[i].count]);
        free(word);
    }
}

static void tokens_are_guarded(void **state)
{
    (void)state;
    char path[] = "/tmp/launch-wire-XXXXXX";
    const int fd = mkstemp(path);
    dt_token a, b;

    assert_true(fd >= 0 && write(fd, "sixteen letters!\n", 17) == 17);
    assert_ok(dt_token_read(&a, path));
    assert_int_equal(setenv("DTRAIN_TOKEN", "sixteen letters!", 1), 0);
    assert_ok(dt_token_read(&b, NULL));
    assert_memory_equal(a.key, b.key, sizeof a.key);
    assert_int_equal(unsetenv("DTRAIN_TOKEN"), 0);
    assert_int_equal(dt_token_read(&b, NULL), DT_USAGE);
    dt_fail_clear();
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(dt_token_read(&a, path), DT_CONFIG);
    dt_fail_clear();
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(ftruncate(fd, 15), 0);
    assert_int_equal(dt_token_read(&a, path), DT_CONFIG);
    dt_fail_clear();
    close(fd);
    unlink(path);
    assert_int_equal(dt_token_read(&a, path), DT_NOINPUT);
    dt_fail_clear();
}

/* A first host that refuses whoever comes, with a text that would fill and steer a terminal. */
static void refuse_all(int listens, const dt_token *t)
{
    static char why[DT_WIRE_MOST];
    dt_hello hello;
    dt_wire w;

    memset(why, '\033', sizeof why);
    memcpy(why, "no", 2);
    if (!dt_wire_accept(&w, accept(listens, NULL, NULL), t, &hello))
        _exit(1);
    _exit(dt_wire_send(&w, DT_FRAME_REFUSED, why, sizeof why) ? 0 : 2);
}

static void a_refused_host_says_why(void **state)
{
    (void)state;
    const dt_token t = token_of(1);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    char master[32];
    int code = 0, status = 0;

    const int listens = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listens, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listens, 1), 0);
    assert_int_equal(getsockname(listens, (struct sockaddr *)&at, &length), 0);
    snprintf(master, sizeof master, "127.0.0.1:%d", ntohs(at.sin_port));
    const pid_t first = fork();
    if (first == 0)
        refuse_all(listens, &t);
    const dt_meeting m = {.master = master, .own = {4, 3, 2}, .token = t};
    assert_int_equal(dt_join(&m, &code), DT_COMM);
    assert_non_null(strstr(dt_fail_text(), "refuses this one: no??"));
    assert_true(strlen(dt_fail_text()) < 400);
    assert_null(strchr(dt_fail_text(), '\033'));
    dt_fail_clear();
    assert_int_equal(waitpid(first, &status, 0), first);
    assert_int_equal(status, 0);
    close(listens);
}

/* Another host that sends more than the first one reads before it ends, and acknowledges late:
 * what it hears in the end. */
static int busy_host(const struct sockaddr_in *first, const dt_token *t)
{
    enum { FRAMES = 40 };
    const struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000002)};
    const int off = 0;
    static dt_frame f;
    dt_wire w;

    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(fd, (const struct sockaddr *)&own, sizeof own) != 0)
        return 9;
    for (int i = 0; i < 100 && connect(fd, (const struct sockaddr *)first, sizeof *first) != 0; i++)
        usleep(20 * 1000);
    if (!dt_wire_connect(&w, fd, t, &(dt_hello){2, 1, 1}))
        return 10;
    usleep(100 * 1000);
    for (int i = 0; i < FRAMES; i++)
        if (setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof off) != 0 ||
            !dt_wire_send(&w, DT_FRAME_DONE, "", 0))
            return 11;
    usleep(400 * 1000);
    return dt_wire_receive(&w, &f) && f.type == DT_FRAME_END && f.bytes == 1 ? f.payload[0] : 12;
}

/* A port of this host that is free, in *at and as a text. */
static void free_port(struct sockaddr_in *at, char master[32])
{
    socklen_t length = sizeof *at;

    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)at, sizeof *at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)at, &length), 0);
    close(fd);
    snprintf(master, 32, "127.0.0.1:%d", ntohs(at->sin_port));
}

/* The first host, that stands still until its mpirun has ended: its exit code. */
static int late_host(const dt_meeting *m)
{
    char sh[] = "sh", c[] = "-c";
    char ends[] = "(sleep 0.3; kill -CONT $PPID) & kill -STOP $PPID; exit 7";
    char *words[] = {sh, c, ends, NULL};
    dt_server *s = NULL;
    dt_hosts h = {0};
    int code = 0;

    if (dt_server_open(&s, m, &h) != DT_OK || dt_server_run(s, words, true, &code) != DT_OK)
        return 20;
    dt_server_close(s);
    dt_hosts_release(&h);
    return code;
}

static void the_last_word_is_heard(void **state)
{
    (void)state;
    const dt_token t = token_of(1);
    struct sockaddr_in at;
    char master[32];
    int status = 0;

    free_port(&at, master);
    const dt_meeting m = {.master = master, .own = {2, 0, 1}, .token = t};
    const pid_t first = fork();
    if (first == 0)
        _exit(late_host(&m));
    const pid_t other = fork();
    if (other == 0)
        _exit(busy_host(&at, &t));
    assert_int_equal(waitpid(first, &status, 0), first);
    assert_int_equal(WEXITSTATUS(status), 7);
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(WEXITSTATUS(status), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_has_the_token_is_heard), cmocka_unit_test(no_byte_may_change),
        cmocka_unit_test(only_the_daemon_is_started), cmocka_unit_test(tokens_are_guarded),
        cmocka_unit_test(a_refused_host_says_why),    cmocka_unit_test(a_slow_stranger_is_left),
        cmocka_unit_test(the_last_word_is_heard)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
