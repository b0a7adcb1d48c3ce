/* launch_words.c - the table of launchers: whose mpirun belongs to an MPI library, and what dtrain
 * launch tells it, which a machine with one MPI shows of that one alone. */
#include "capture.h"

#include "launch/launch.h"

/* What `dtrain launch WORDS` prints where this is the MPI library. */
static dt_status show(const char *library, const char *words, char text[4096])
{
    char copy[1024], launch[] = "launch", *argv[32] = {launch};
    int argc = 1, code = 0;
    capture c;

    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    capture_fd(&c, STDOUT_FILENO);
    const dt_status st = dt_launch(argc - 1, argv + 1, dt_mpirun_of(library), &code);
    capture_end(&c);
    memcpy(text, c.text, sizeof c.text);
    return st;
}

TEST(libraries_have_launchers)
{
    static const struct {
        const char *library, *hosts;
    } rows[] = {{"Open MPI v4.1.4, package: Debian OpenMPI", "--host"},
                {"Open MPI v5.0.7", "--host"},
                {"MPICH Version:\t4.0.2", "-hosts"},
                {"MVAPICH2 Version      :\t2.3.7", "-hosts"},
                {"MVAPICH Version: 4.0", "-hosts"},
                {"Intel(R) MPI Library 2021.6 for Linux* OS", "-hosts"},
                {"another", "--host"},
                {"", "--host"}};

    for (size_t i = 0; i < DT_COUNT_OF(rows); i++)
        assert_string_equal(dt_mpirun_of(rows[i].library)->hosts, rows[i].hosts);
}

TEST(words_are_the_launchers)
{
    char path[] = "/tmp/dtrain-hosts-XXXXXX", text[4096];
    char words[128];
    const int fd = mkstemp(path);
    FILE *f = fdopen(fd, "w");
    static const struct {
        const char *library, *words, *want;
    } rows[] = {
        {"Open MPI v4", "--dry-run --hosts a:2,b:3 --net x", "mpirun --host a:2,b:3 -np 5 -x "},
        {"Open MPI v4", "--dry-run --hosts a:2,b:3 --net x", " -x DTRAIN_LR=0.5 "},
        {"MPICH 4", "--dry-run --hosts a:2,b:3 --net x", "mpirun -hosts a:2,b:3 -np 5 /"},
        {"MPICH 4", "--dry-run --np 4 --net x", "mpirun -np 4 /"},
        {"MPICH 4", "--dry-run --hosts a --interface eth7", "HYDRA_IFACE=eth7 "},
        {"MPICH 4", "--dry-run --hosts a --agent /bin/x", "HYDRA_LAUNCHER_EXEC=/bin/x "},
        {"Open MPI v4", NULL, "mpirun --hostfile /tmp/"},
        {"MPICH 4", NULL, "mpirun -hosts a:2,b:1,c:3 -np 6 /"},
    };

    assert_non_null(f);
    fputs("# two\n\na slots=2\n \tb\t# one\nc:3 max-slots=4\n", f);
    fclose(f);
    snprintf(words, sizeof words, "--dry-run --hostfile %s", path);
    setenv("DTRAIN_LR", "0.5", 1);
    for (size_t i = 0; i < DT_COUNT_OF(rows); i++) {
        assert_ok(show(rows[i].library, rows[i].words ? rows[i].words : words, text));
        if (!strstr(text, rows[i].want))
            fail_msg("no '%s' in: %s", rows[i].want, text);
        for (const dt_launch_variable *v = dt_mpirun_of(rows[i].library)->variables; v->name; v++)
            unsetenv(v->name);
    }
    unlink(path);
}

TEST(what_it_cannot_is_refused)
{
    char text[4096];
    char path[] = "/tmp/dtrain-hosts-XXXXXX", words[128];
    FILE *f = fdopen(mkstemp(path), "w");

    assert_int_equal(show("MPICH 4", "--nnodes 2 --node-rank 0 --master a:1", text),
                     DT_UNSUPPORTED);
    assert_non_null(strstr(dt_fail_text(), "--nnodes"));
    dt_fail_clear();
    assert_non_null(f);
    fputs("a:2\nme@b:2\n", f);
    fclose(f);
    snprintf(words, sizeof words, "--dry-run --hostfile %s", path);
    assert_int_equal(show("MPICH 4", words, text), DT_CONFIG);
    assert_non_null(strstr(dt_fail_text(), ":2: 'me@b' is not a host name"));
    dt_fail_clear();
    unlink(path);
}
