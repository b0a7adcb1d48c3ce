/* images_decoder.c - the process that decodes: what it gives, what it may do, and what its
 * caller says when it is gone. */
#include "images/decoder.h"
#include "jpeg.h"
#include "test.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static dt_decoder decoder;

FIXTURE(start)
{
    alarm(100);
    assert_ok(dt_decoder_start(&decoder));
    return 0;
}

FIXTURE(stop)
{
    dt_decoder_stop(&decoder);
    alarm(0);
    return 0;
}

static dt_status decode(uint8_t pixels[48])
{
    return dt_decoder_run(&decoder, "a/b.jpg", jpeg, sizeof jpeg, 4, 4, pixels);
}

/* A file that was not checked is refused, and the next one served. */
TEST_WITH(start, stop, pixels_come_back)
{
    uint8_t pixels[49];
    const int colour[3] = {199, 60, 19};

    memset(pixels, 77, sizeof pixels);
    for (int k = 0; k < 100; k++)
        assert_ok(decode(pixels));
    assert_fails(dt_decoder_run(&decoder, "a/c.jpg", jpeg, 100, 4, 4, pixels), DT_FORMAT,
                 "'a/c.jpg' cannot be decoded (");
    assert_fails(dt_decoder_run(&decoder, "a/d.jpg", jpeg, sizeof jpeg, 2, 4, pixels), DT_FORMAT,
                 "another size");
    assert_ok(decode(pixels));
    for (int i = 0; i < 48; i++)
        assert_in_range(pixels[i], colour[i % 3] - 2, colour[i % 3] + 2);
    assert_int_equal(pixels[48], 77);
}

TEST_WITH(start, stop, a_decoder_that_dies_costs_a_message)
{
    static const struct {
        int signal;
        const char *message;
    } ends[] = {
        /* AddressSanitizer turns it into a code */
        {SIGSEGV, DT_SANITIZED ? "'a/b.jpg' cannot be decoded (the decoder ended with code"
                               : "'a/b.jpg' cannot be decoded (the decoder ended by signal 11"},
        {SIGKILL, "the decoder ended by signal 9, Killed"}};
    uint8_t pixels[48];

    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(kill(decoder.pid, ends[i].signal), 0);
        dt_status st = DT_OK;
        while (st == DT_OK) /* the signal may come behind an image */
            st = decode(pixels);
        assert_fails(st, DT_FORMAT, ends[i].message);
        assert_fails(decode(pixels), DT_BUG, "has ended");
        dt_decoder_stop(&decoder);
        assert_ok(dt_decoder_start(&decoder));
        assert_ok(decode(pixels));
    }
}

TEST_WITH(start, stop, a_decoder_that_hangs_is_ended)
{
    uint8_t pixels[48];
    const pid_t pid = decoder.pid;

    decoder.seconds = 1;
    assert_int_equal(kill(pid, SIGSTOP), 0);
    assert_fails(decode(pixels), DT_FORMAT, "the decoder was not done after 1 s");
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(errno, ESRCH);
}

/* Signals meant for the run are not the decoder's, and it does not outlive its caller. */
TEST_WITH(start, stop, it_obeys_its_caller_alone)
{
    uint8_t pixels[48];

    for (int i = 0; i < 3; i++)
        kill(decoder.pid, (const int[]){SIGINT, SIGTERM, SIGHUP}[i]);
    assert_ok(decode(pixels));
    close(decoder.fd);
    decoder.fd = -1;
    int status = 0;
    assert_int_equal(waitpid(decoder.pid, &status, 0), decoder.pid);
    decoder.pid = 0;
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int status_of(pid_t pid, const char *key)
{
    char path[64], line[256];
    int value = -1;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0)
            value = atoi(line + strlen(key));
    fclose(f);
    return value;
}

/* Nor its caller's files: of a pipe no end that writes stays behind. */
TEST_WITH(start, stop, it_has_no_files)
{
    dt_decoder another;
    char byte;
    int end[2];

    assert_int_equal(pipe(end), 0);
    assert_ok(dt_decoder_start(&another));
    close(end[1]);
    assert_int_equal(fcntl(end[0], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(read(end[0], &byte, 1), 0);
    close(end[0]);
    dt_decoder_stop(&another);
}

/* Where the kernel has seccomp, a confined process is killed by another call, also if there is a
 * filter already, as in containers; elsewhere it cannot open a file. */
TEST_WITH(start, stop, it_has_no_rights)
{
    struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    int status = 0;

    assert_int_equal(status_of(decoder.pid, "NoNewPrivs:"), 1);
    if (DT_SANITIZED) /* which needs the others */
        return;
    assert_int_equal(status_of(decoder.pid, "Threads:"), 1); /* seccomp binds one */
    for (int filtered = 0; filtered < 2; filtered++) {
        const pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            if (filtered &&
                prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &(struct sock_fprog){1, &all}))
                _exit(7);
            dt_decoder_confine();
            _exit(open("/dev/null", O_RDONLY) >= 0 || filtered ? 8 : 7);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (WIFSIGNALED(status))
            assert_int_equal(status_of(decoder.pid, "Seccomp:"), SECCOMP_MODE_FILTER);
        else
            assert_int_equal(WEXITSTATUS(status), 7);
    }
}

int main(int argc, char **argv)
{
    const int served = dt_decoder_serve(argc, argv);
    return served >= 0 ? served : tests_run(NULL, NULL);
}
