/* main.c - start, settings, one command, and the only place of exit codes. */
#include "cli.h"
#include <poll.h>
#include <signal.h>

extern char **environ;

/* A full disk shows only when the output is flushed. Where the reader has left, nothing is said. */
static dt_status main_output(dt_comm *c)
{
    const bool failed = fflush(stdout) != 0 || ferror(stdout);
    struct pollfd reader = {.fd = STDOUT_FILENO, .events = POLLOUT};
    int64_t left = failed && poll(&reader, 1, 0) == 1 && (reader.revents & POLLERR);

    DT_TRY(dt_comm_max_i64(c, &left, 1));
    if (left)
        return DT_IO;
    return dt_comm_agree(c, failed ? dt_fail(DT_IO, "standard output cannot be written") : DT_OK);
}

static dt_status main_call(dt_comm *c, const dt_settings *s)
{
    const bool leads = c->rank == 0;

    if (s->command->call)
        return s->command->call(c, &s->options);
    if (s->command->run)
        return s->command->run(c, s);
    return dt_comm_agree(c, leads ? s->command->lead(&s->options, s->operand, (size_t)s->operands)
                                  : DT_OK);
}

/* Tests, and users whose ranks cannot share memory, have each node's ranks treated as several
 * nodes; rank 0's variable counts. Agreed. */
static dt_status main_split(dt_comm *c)
{
    const char *text = c->rank == 0 ? getenv("DT_SPLIT_NODES") : NULL, *end = "";
    int64_t nodes = 1;
    dt_status st = DT_OK;

    if (text && *text && (!dt_whole_parse(text, &end, &nodes) || *end || nodes < 1 || nodes > 1024))
        st = dt_fail(DT_CONFIG, "DT_SPLIT_NODES=%s: give a number of nodes, 1 to 1024", text);
    DT_TRY(dt_comm_agree(c, st));
    DT_TRY(dt_comm_bcast(c, &nodes, sizeof nodes, 0));
    if (nodes == 1)
        return DT_OK;
    st = dt_comm_split_nodes(c, (int)nodes);
    return dt_comm_agree(c,
                         st == DT_OK ? st : dt_fail_place(st, "DT_SPLIT_NODES=%d: ", (int)nodes));
}

/* Settings that all ranks share, then the command. Collective. */
static dt_status main_run(dt_comm *c, int argc, char **argv)
{
    dt_settings settings;
    dt_isa isa = DT_ISA_PORTABLE;
    dt_status st = DT_OK;

    DT_GO(st, dt_comm_agree(c, dt_settings_init(&settings, argc, argv, environ)), out);
    const bool runs = settings.command->computes && !settings.command->looks;
    DT_GO(st, dt_comm_agree(c, runs ? dt_comm_check_asked(c) : DT_OK), out);
    DT_GO(st, dt_comm_agree(c, settings.command->computes ? dt_memory_check_limits() : DT_OK), out);
    DT_GO(st, dt_settings_resume(&settings, c), out);
    const bool file = settings.options.strategy[0] == '@'; /* each rank reads it */
    st = file ? dt_strategy_load(&settings.options, settings.strategy) : DT_OK;
    DT_GO(st, dt_comm_agree(c, st), out);
    DT_GO(st, dt_settings_same(&settings, c), out);
    if (settings.options.log_dir[0] && !settings.options.dry_run)
        DT_GO(st, dt_comm_agree(c, dt_log_into(settings.options.log_dir)), out);
    const bool named = dt_isa_parse(settings.options.isa, &isa);
    if (named && settings.command->looks)
        dt_isa_imagine(isa);
    if (named)
        DT_GO(st, dt_comm_agree(c, dt_isa_promise(isa)), out);
    if (settings.command->computes && !settings.command->engines)
        DT_GO(st, dt_comm_agree(c, dt_engine_use(settings.options.engine)), out);
    if (settings.command->computes && c->world > 1)
        DT_GO(st, main_split(c), out);
    DT_GO(st, main_call(c, &settings), out);
    st = main_output(c);
out:
    dt_settings_release(&settings);
    return st;
}

/* Threads of libgomp that wait by spinning take the cores from other ranks' threads: a step with
 * more threads than cores becomes 20 times slower (measured). libgomp reads how long they spin when
 * it is loaded, so where the user did not choose, the program starts itself once more. Where
 * libgomp has bound this thread (OMP_PROC_BIND), the next start gets all CPUs again. */
static void main_settle_threads(char **argv)
{
    const char *threads = getenv("OMP_NUM_THREADS");
    char path[PATH_MAX];
    cpu_set_t all;

    if (threads && !*threads) /* LLVM 14's libomp dies of it */
        unsetenv("OMP_NUM_THREADS");
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT"))
        return;
    /* By its own path, not /proc/self/exe: a list of processes shows the name it is started by. */
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0 || setenv("GOMP_SPINCOUNT", "10000", 1) != 0)
        return;
    path[length] = '\0';
    dt_machine_cpus(&all);
    if (CPU_COUNT(&all) > 0)
        (void)sched_setaffinity(0, sizeof all, &all);
    execv(path, argv); /* where it fails, this is all that is lost */
}

/* By a signal's handler, in which little may be called. */
static void main_leave(const char *line)
{
    if (write(STDERR_FILENO, line, strlen(line)) < 0)
        _exit(dt_status_exit_code(DT_IO));
    _exit(dt_status_exit_code(DT_PREEMPTED));
}

/* Else the first files that the run opens would get these numbers, and the log's lines. Open for
 * reading only: writing to a closed output stays an error. */
static void main_fill_closed(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0)
            return;
}

/* What starts other programs, or reads a file, needs no ranks. */
static int main_alone(const dt_command *command, int argc, char **argv)
{
    int code = 0;
    dt_status st = command->alone(argc, argv, &code);

    if (st == DT_OK && (fflush(stdout) != 0 || ferror(stdout)))
        st = dt_fail(DT_IO, "standard output cannot be written");
    if (st != DT_OK)
        dt_log_error("%s", dt_fail_text());
    return st != DT_OK ? dt_status_exit_code(st) : code;
}

/* Whether the option is there, alone or with a value. */
static bool main_has(char **argv, const char *option)
{
    const size_t n = strlen(option);

    for (; *argv && strcmp(*argv, "--") != 0; argv++)
        if (strncmp(*argv, option, n) == 0 && ((*argv)[n] == '\0' || (*argv)[n] == '='))
            return true;
    return false;
}

/* A rank that mpirun itself has started, and no shell in between. The others may have been given
 * other words: mpirun would wait for ever if this one ended without MPI (Open MPI 4.1.4). */
static bool main_is_rank(void)
{
    const char *parents = dt_comm_mpirun();
    char path[64], parent[32] = "";

    snprintf(path, sizeof path, "/proc/%ld/comm", (long)getppid());
    FILE *f = parents ? fopen(path, "r") : NULL;
    if (f && fscanf(f, "%31s", parent) != 1)
        parent[0] = '\0';
    if (f)
        fclose(f);
    return parents && dt_words_have(parents, parent);
}

int main(int argc, char **argv)
{
    dt_comm *c = NULL;

    dt_extras_add();
    const int served = dt_source_serve(argc, argv);
    if (served >= 0)
        return served;
    main_fill_closed();
    const dt_command *train = &dt_core_command[DT_RUN_TRAIN], *launch = dt_command_find("launch");
    const dt_command *command = argc < 2 || argv[1][0] == '-' ? train : dt_command_find(argv[1]);
    if (command && command->alone)
        return main_alone(command, argc - 2, argv + 2);
    /* --np N starts N ranks of any command, as dtrain launch does; under mpirun it is refused. */
    const bool launches = launch && main_has(argv, "--np") && !dt_comm_has_peers();
    if (launches && (!command || !main_has(argv, "--help")))
        return main_alone(launch, argc - 1, argv + 1);
    if (launches)
        return dt_help_print(stdout, command, main_has(argv, "--help=all")), 0;
    bool alone = false;
    int64_t rank;
    if (dt_arguments_check(argc, argv, &alone) != DT_OK)
        dt_fail_clear(); /* said once all ranks are there */
    alone = alone && !main_is_rank();
    if (alone && dt_comm_launcher(&rank) != 1 && rank > 0)
        return 0;
    main_settle_threads(argv);
    signal(SIGXFSZ, SIG_IGN); /* a file that grows too large is an error of write, */
    signal(SIGPIPE, SIG_IGN); /* and so is an output whose reader has left */
    if (command == train)
        dt_signals_catch(main_leave);
    dt_status st = alone ? dt_comm_open(&c, false, &argc, &argv) : dt_start_mpi(&c, &argc, &argv);
    if (st == DT_OK && command == train)
        dt_signals_started();
    if (st == DT_OK)
        st = main_run(c, argc, argv);
    /* dt_comm_agree clears the record: what is left is this rank's alone, and the others would wait
     * for it for ever. */
    const bool unknown = st != DT_OK && dt_fail_text()[0] != '\0';
    if (unknown)
        dt_log_error("%s", dt_fail_text());
    if (unknown && c && c->world > 1) {
        (void)!fflush(NULL);
        dt_comm_abort(c, dt_status_exit_code(st));
    }
    /* One rank reports to mpirun a failure that all agreed upon: eight codes at the same moment
     * have made it wait for ever (Open MPI 4.1.4). */
    const bool silent = st != DT_OK && !unknown && c && c->rank != 0;
    dt_comm_close(c);
    return silent ? 0 : dt_status_exit_code(st);
}
