/* launch_wire.c - the connection of hosts: both ends must have the token, a changed byte ends it,
 * nothing but Open MPI's daemon is ever started, and the first host's last message arrives. */
#include "launch/launch.h"

#include "test.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

static const dt_token one = {{1}}, two = {{2}};

static bool says(json_t *message, const char *what, int value)
{
    const json_t *member = json_object_get(message, what);
    const bool so = json_object_size(message) == 1 && json_integer_value(member) == value;

    json_decref(message);
    return so;
}

/* Of a socket that blocks: only a signal interrupts it. */
static dt_greeting greet(dt_wire *w)
{
    dt_greeting greeting;

    while ((greeting = dt_wire_greet(w)) == DT_GREETING)
        ;
    return greeting;
}

/* Another host: its greeting; with 10 added where two messages did not pass. It speaks when the
 * first one has greeted it: *greeted. */
static int other_host(int fd, const dt_token *t, const _Atomic bool *greeted)
{
    dt_wire w;

    if (dt_wire_open(&w, fd, t, &(dt_hello){4, 3, 2}) != DT_OK)
        return 20;
    const dt_greeting greeting = greet(&w);
    while (greeting == DT_GREETED && !*greeted)
        usleep(1000);
    const bool talks = greeting == DT_GREETED && dt_wire_say(&w, json_pack("{s:i}", "done", 7)) &&
                       says(dt_wire_hear(&w), "end", 9);
    dt_wire_close(&w);
    return (int)greeting + (talks ? 0 : 10);
}

/* Bytes from `from` go to `to`, those after the greeting changed; and back, unchanged. */
static void carry(int from, int to, bool change, const _Atomic bool *greeted)
{
    char bytes[4096];
    ssize_t n;

    if (fork() == 0) {
        while ((n = read(to, bytes, sizeof bytes)) > 0 && write(from, bytes, (size_t)n) == n)
            ;
        shutdown(from, SHUT_WR);
        _exit(0);
    }
    while ((n = read(from, bytes, sizeof bytes)) > 0) {
        bytes[n - 1] = (char)(bytes[n - 1] ^ (change && *greeted ? 1 : 0));
        if (write(to, bytes, (size_t)n) != n)
            break;
    }
    shutdown(to, SHUT_WR);
    _exit(0);
}

TEST(both_need_the_token)
{
    static const struct {
        const dt_token *other;
        bool change, talks;
        dt_greeting greeting;
        int ends; /* other_host's code */
    } row[] = {{&one, false, true, DT_GREETED, DT_GREETED},
               {&two, false, false, DT_STRANGER, DT_STRANGER + 10},
               {&one, true, false, DT_GREETED, DT_GREETED + 10}};

    _Atomic bool *greeted =
        mmap(NULL, sizeof *greeted, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(greeted != MAP_FAILED);
    for (size_t i = 0; i < DT_COUNT_OF(row); i++) {
        int near[2], far[2], status = 0;
        dt_wire w;

        *greeted = false;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, near), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, far), 0);
        const pid_t host = fork();
        if (host == 0) {
            close(near[0]), close(near[1]), close(far[0]);
            _exit(other_host(far[1], row[i].other, greeted));
        }
        const pid_t cable = fork();
        if (cable == 0) {
            close(near[0]), close(far[1]);
            carry(far[0], near[1], row[i].change, greeted);
        }
        close(near[1]), close(far[0]), close(far[1]);
        assert_ok(dt_wire_open(&w, near[0], &one, NULL));
        assert_int_equal(greet(&w), row[i].greeting);
        *greeted = true;
        const bool talks = row[i].greeting == DT_GREETED && w.hello.nodes == 4 &&
                           w.hello.node == 3 && w.hello.slots == 2 &&
                           says(dt_wire_hear(&w), "done", 7) &&
                           dt_wire_say(&w, json_pack("{s:i}", "end", 9));
        assert_int_equal(talks, row[i].talks);
        dt_wire_close(&w);
        assert_int_equal(waitpid(host, &status, 0), host);
        assert_int_equal(waitpid(cable, NULL, 0), cable);
        assert_int_equal(WEXITSTATUS(status), row[i].ends);
    }
    munmap((void *)(uintptr_t)greeted, sizeof *greeted);
}

/* What mpirun gives its agent, and what another host makes of the request. */
TEST(only_the_daemon_is_started)
{
    static const struct {
        const char *words[5];
        int count; /* 0: refused */
        const char *last;
    } row[] = {
        {{"a", "orted", "-mca", "ess", "\"env\""}, 4, "env"},
        {{"a", " orted", "\"a b\""}, 2, "a b"},
        {{"a", "prted", ";reboot"}, 2, ";reboot"}, /* a word like any other: there is no shell */
        {{"a", "orted"}, 1, "orted"},
        {{"a", "orted", "--daemonize", "-mca", "x"}, 3, "x"}, /* it would outlive its parent */
        {{"a", "--daemonize"}, 0, NULL},
        {{"a"}, 0, NULL},
        {{"a", ""}, 0, NULL},
        {{"a", "sh", "-c", "reboot"}, 0, NULL},
        {{"a", "A=b;export A;/usr/bin/prted", "x"}, 2, "x"},
        {{"a", "reboot;/tmp/orted"}, 1, "orted"}, /* the one in PATH, and nothing before it */
        {{"a", "/tmp/orted;/bin/sh"}, 0, NULL},
        {{"a", "orted/"}, 0, NULL},
        {{"a", "orted x"}, 0, NULL},
        {{"a", "env", "orted"}, 0, NULL},
    };

    for (size_t i = 0; i < DT_COUNT_OF(row); i++) {
        char text[5][64], *argv[5];
        int argc = 0;
        for (; argc < 5 && row[i].words[argc]; argc++) {
            snprintf(text[argc], sizeof text[argc], "%s", row[i].words[argc]);
            argv[argc] = text[argc];
        }
        json_t *request = dt_agent_request(argc, argv);
        assert_non_null(request);
        assert_int_equal(json_array_remove(request, 0), 0);
        char **word = dt_daemon_words(request);
        assert_int_equal(word != NULL, row[i].count > 0);
        if (word) {
            assert_string_equal(word[row[i].count - 1], row[i].last);
            assert_null(word[row[i].count]);
        }
        free(word);
        json_decref(request);
    }
}

TEST(a_request_may_hold_anything)
{
    static const char *const row[] = {
        "{}",          "7",           "null",           "[7]",
        "[[\"a\"]]", "[\"/orted\"]", "[\"orted\", 7]", "[\"orted\", null]"};

    for (size_t i = 0; i < DT_COUNT_OF(row); i++) {
        json_t *words = json_loads(row[i], JSON_DECODE_ANY, NULL);
        assert_non_null(words);
        assert_null(dt_daemon_words(words));
        json_decref(words);
    }
    assert_null(dt_daemon_words(NULL));
}

TEST(tokens_are_guarded)
{
    static const struct {
        int bytes;
        mode_t mode;
        dt_status st;
    } row[] = {{20000, 0600, DT_CONFIG}, {4097, 0600, DT_CONFIG}, {4096, 0600, DT_OK},
               {16, 0640, DT_CONFIG},    {16, 0600, DT_OK},       {15, 0600, DT_CONFIG},
               {0, 0600, DT_CONFIG}};
    char path[] = "/tmp/launch-wire-XXXXXX", text[20001] = "";
    dt_token a, b;

    memset(text, 'x', 20000);
    const int fd = mkstemp(path);
    assert_int_equal(write(fd, text, 20000), 20000);
    for (size_t i = 0; i < DT_COUNT_OF(row); i++) {
        assert_int_equal(ftruncate(fd, row[i].bytes), 0);
        assert_int_equal(fchmod(fd, row[i].mode), 0);
        assert_int_equal(dt_token_read(&a, path), row[i].st);
        dt_fail_clear();
    }
    assert_int_equal(pwrite(fd, "sixteen letters!\n", 17, 0), 17);
    assert_int_equal(ftruncate(fd, 17), 0);
    assert_ok(dt_token_read(&a, path));
    assert_int_equal(setenv("DTRAIN_TOKEN", "sixteen letters!", 1), 0);
    assert_ok(dt_token_read(&b, NULL));
    assert_memory_equal(a.key, b.key, sizeof a.key);
    assert_int_equal(pwrite(fd, "\xef\xbb\xbfsixteen letters!\r\n", 21, 0), 21); /* Windows' */
    assert_ok(dt_token_read(&a, path));
    assert_memory_equal(a.key, b.key, sizeof a.key);
    assert_int_equal(setenv("DTRAIN_TOKEN", text, 1), 0);
    assert_int_equal(dt_token_read(&b, NULL), DT_CONFIG);
    dt_fail_clear();
    assert_int_equal(unsetenv("DTRAIN_TOKEN"), 0);
    assert_int_equal(dt_token_read(&b, NULL), DT_USAGE);
    dt_fail_clear();
    close(fd);
    unlink(path);
}

/* ---- The last message ------------------------------------------------------------------------ */

/* Another host that sends more than the first one reads before it ends, and acknowledges late:
 * what it hears in the end. */
static int busy_host(const struct sockaddr_in *first)
{
    enum { MESSAGES = 40 };
    const struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000002)};
    const int off = 0;
    dt_wire w;

    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(fd, (const struct sockaddr *)&own, sizeof own) != 0)
        return 9;
    for (int i = 0; i < 100 && connect(fd, (const struct sockaddr *)first, sizeof *first) != 0; i++)
        usleep(20 * 1000);
    if (dt_wire_open(&w, fd, &one, &(dt_hello){2, 1, 1}) != DT_OK || greet(&w) != DT_GREETED)
        return 10;
    usleep(100 * 1000);
    for (int i = 0; i < MESSAGES; i++)
        if (setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof off) != 0 ||
            !dt_wire_say(&w, json_pack("{s:i}", "done", 0)))
            return 11;
    usleep(400 * 1000);
    return says(dt_wire_hear(&w), "end", 7) ? 7 : 12;
}

/* The first host, that stands still until its mpirun has ended: its exit code. */
static int late_host(const dt_meeting *m)
{
    char sh[] = "sh", c[] = "-c";
    char ends[] = "(sleep 0.3; kill -CONT $PPID) & kill -STOP $PPID; exit 7";
    char *words[] = {sh, c, ends, NULL};
    dt_first *f = NULL;
    dt_hosts h = {0};
    int code = 0;

    if (dt_first_open(&f, m, &h) != DT_OK || dt_first_run(f, words, true, &code) != DT_OK)
        return 20;
    dt_first_close(f);
    free(h.list);
    return code;
}

/* An address of this host that others may reach: *at. */
static bool own_address(struct sockaddr_in *at)
{
    struct ifaddrs *all = NULL;
    bool found = false;

    assert_int_equal(getifaddrs(&all), 0);
    for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next)
        if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && !(i->ifa_flags & IFF_LOOPBACK)) {
            memcpy(at, i->ifa_addr, sizeof *at);
            found = true;
        }
    freeifaddrs(all);
    return found;
}

TEST(the_last_message_arrives)
{
    struct sockaddr_in at;
    socklen_t length = sizeof at;
    dt_meeting m = {.own = {2, 0, 1}, .token = one, .by = dt_mpirun_of("Open MPI")};
    char text[INET_ADDRSTRLEN];
    int status = 0;

    if (!own_address(&at))
        test_skip("no network but the loopback");
    const int fd = socket(AF_INET, SOCK_STREAM, 0); /* for a port that is free */
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &length), 0);
    close(fd);
    snprintf(m.master, sizeof m.master, "%s:%d",
             inet_ntop(AF_INET, &at.sin_addr, text, sizeof text), ntohs(at.sin_port));
    const pid_t first = fork();
    if (first == 0)
        _exit(late_host(&m));
    const pid_t other = fork();
    if (other == 0)
        _exit(busy_host(&at));
    assert_int_equal(waitpid(first, &status, 0), first);
    assert_int_equal(WEXITSTATUS(status), 7);
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(WEXITSTATUS(status), 7);
}
