/* launch.c - dtrain launch and dtrain ranktable: what mpirun has to be told, told at one place. */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "meet.h"
#include "words.h"

extern char **environ;

/* ---- Where ranks go -------------------------------------------------------------------------- */

static dt_status find_hosts(const dt_words *w, dt_hosts *h)
{
    int slots = 0;

    if (!!w->hosts + !!w->hostfile + !!w->rank_table > 1)
        return dt_fail(DT_USAGE, "--hosts, --hostfile and --rank-table: one of them, not several");
    DT_TRY(dt_words_count("nproc-per-node", w->per_host, 1, &slots));
    if (w->hosts)
        return dt_hosts_parse(h, w->hosts, slots, "--hosts");
    if (w->hostfile)
        return dt_hosts_read(h, w->hostfile, slots);
    if (w->rank_table)
        return dt_ranktable_read(h, w->rank_table);
    *h = (dt_hosts){.host = NULL};
    return DT_OK;
}

static int cores_here(void)
{
    cpu_set_t set;

    dt_machine_cpus(&set);
    return DT_MAX(CPU_COUNT(&set), 1);
}

/* ---- mpirun ---------------------------------------------------------------------------------- */

/* What mpirun reads from the environment; what the user has set stays. Open MPI 4's names, then
 * those of PRRTE, the launcher of Open MPI 5. Without "slot" the latter would put all ranks on the
 * first host. A host that is gone is noticed after keepalive_time + probes x intvl = 11 s, sooner
 * than --stall-abort ends its ranks (by default after minutes, or never: 300 s + 9 x 20 s). */
static const struct {
    const char *name, *value;
    bool root; /* for root alone */
} told[] = {
    {"OMPI_ALLOW_RUN_AS_ROOT", "1", true},
    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", true},
    {"OMPI_MCA_rmaps_base_oversubscribe", "1", false},
    {"OMPI_MCA_hwloc_base_binding_policy", "none", false},
    {"OMPI_MCA_btl_tcp_disable_family", "6", false},
    {"OMPI_MCA_oob_tcp_keepalive_time", "5", false},
    {"OMPI_MCA_oob_tcp_keepalive_intvl", "2", false},
    {"OMPI_MCA_oob_tcp_keepalive_probes", "3", false},
    {"PRTE_MCA_rmaps_default_mapping_policy", "slot:oversubscribe", false},
    {"PRTE_MCA_hwloc_default_binding_policy", "none", false},
    {"PRTE_MCA_oob_tcp_keepalive_time", "5", false},
    {"PRTE_MCA_oob_tcp_keepalive_intvl", "2", false},
    {"PRTE_MCA_oob_tcp_keepalive_probes", "3", false},
};
static const char *const interface_names[] = {
    "OMPI_MCA_oob_tcp_if_include", "OMPI_MCA_btl_tcp_if_include", "PRTE_MCA_prte_if_include"};
static const char *const agent_names[] = {"OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"};

/* mpirun takes any number of bits. Of the names only mpirun knows. */
static dt_status check_interface(const char *list)
{
    for (const char *at = list; at && *at; at += *at == ',') {
        const size_t length = strcspn(at, ",");
        const char *bits = memchr(at, '/', length), *end = NULL;
        int64_t n = 0;
        if (bits && (!dt_whole_parse(bits + 1, &end, &n) || end != at + length || n < 0 || n > 32))
            return dt_fail(DT_USAGE, "--interface: '%.*s' is not NET/BITS with 0 to 32 bits",
                           (int)DT_MIN(length, 80), at);
        at += length;
    }
    return DT_OK;
}

static bool is_program(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

/* As mpirun finds it: by PATH, or from here. Other hosts are not asked. */
static dt_status check_program(const char *option, const char *word)
{
    char path[PATH_MAX];
    const char *at = getenv("PATH");

    bool found = is_program(word);
    while (at && *at && !found && !strchr(word, '/')) {
        const size_t length = strcspn(at, ":");
        snprintf(path, sizeof path, "%.*s/%s", (int)DT_MIN(length, PATH_MAX / 2), at, word);
        found = is_program(path);
        at += length + (at[length] == ':');
    }
    return found ? DT_OK
                 : dt_fail(DT_NOINPUT, "%s: there is no program '%.200s' here", option, word);
}

typedef struct words_out {
    char **word;
    size_t count, room;
    char *kept; /* texts made here */
} words_out;

static void tell(const char *name, const char *value, bool show)
{
    const bool set = getenv(name) != NULL;

    if (show && !set)
        printf("%s=%s ", name, value);
    (void)setenv(name, value, 0); /* without it mpirun says what it lacks */
}

static void tell_all(const dt_words *w)
{
    for (size_t i = 0; i < DT_COUNT_OF(told); i++)
        if (!told[i].root || geteuid() == 0)
            tell(told[i].name, told[i].value, w->dry_run);
    for (size_t i = 0; w->interface && i < DT_COUNT_OF(interface_names); i++)
        tell(interface_names[i], w->interface, w->dry_run);
    for (size_t i = 0; w->agent && i < DT_COUNT_OF(agent_names); i++)
        tell(agent_names[i], w->agent, w->dry_run);
}

/* Daemons are started by this program again, over the hosts' connections, by the first host alone,
 * and all at once: an agent lives as long as its daemon, and by default 128 may. */
static dt_status tell_agent(const dt_server *server, const char *program)
{
    static const struct {
        const char *name, *value;
    } row[] = {{"OMPI_MCA_plm_rsh_no_tree_spawn", "1"},
               {"PRTE_MCA_plm_ssh_no_tree_spawn", "1"},
               {"OMPI_MCA_plm_rsh_num_concurrent", "4096"},
               {"PRTE_MCA_plm_ssh_num_concurrent", "4096"}};
    _Static_assert(DT_MOST_HOSTS <= 4096, "all hosts' daemons start at once");
    char agent[PATH_MAX + 32];
    int failed = 0;

    snprintf(agent, sizeof agent, "%s launch --as-agent", program);
    for (size_t i = 0; i < DT_COUNT_OF(agent_names); i++)
        failed |= setenv(agent_names[i], agent, 1);
    for (size_t i = 0; i < DT_COUNT_OF(row); i++)
        failed |= setenv(row[i].name, row[i].value, 1);
    failed |= setenv(DT_AGENT_VARIABLE, dt_server_socket(server), 1);
    return failed ? dt_fail(DT_NOMEM, "no memory for variables") : DT_OK;
}

static dt_status put(words_out *o, const char *word)
{
    if (o->count + 1 >= o->room) {
        const size_t room = 2 * o->room + 64;
        char **more = realloc(o->word, room * sizeof *more);
        if (!more)
            return dt_fail(DT_NOMEM, "no memory for mpirun's command line");
        o->word = more;
        o->room = room;
    }
    o->word[o->count++] = (char *)(uintptr_t)word;
    o->word[o->count] = NULL;
    return DT_OK;
}

/* "a:8,b:8" */
static dt_status host_list(const dt_hosts *h, char **list)
{
    const size_t each = DT_HOST_NAME + 8;
    size_t at = 0;

    DT_TRY(dt_calloc(list, (size_t)h->count + 1, each, "the list of hosts"));
    for (int i = 0; i < h->count; i++)
        at += (size_t)snprintf(*list + at, each, "%s%s:%d", i ? "," : "", h->host[i].name,
                               h->host[i].slots);
    return DT_OK;
}

/* Ranks on other hosts get this one's DTRAIN_*, as those here do. */
static dt_status put_variables(words_out *o)
{
    size_t bytes = 0;
    for (char **v = environ; *v; v++)
        bytes += strcspn(*v, "=") + 1;
    DT_TRY(dt_calloc(&o->kept, bytes + 1, 1, "names of variables"));
    char *to = o->kept;
    for (char **v = environ; *v; v++) {
        const size_t length = strcspn(*v, "=");
        if (strncmp(*v, "DTRAIN_", 7) != 0)
            continue;
        memcpy(to, *v, length);
        DT_TRY(put(o, "-x"));
        DT_TRY(put(o, to));
        to += length + 1;
    }
    return DT_OK;
}

static dt_status put_line(words_out *o, const dt_words *w, const dt_hosts *h, const char *hosts,
                          const char *np, const char *program)
{
    DT_TRY(put(o, "mpirun"));
    if (h->count > 0) {
        DT_TRY(put(o, "--host"));
        DT_TRY(put(o, hosts));
    }
    DT_TRY(put(o, "-np"));
    DT_TRY(put(o, np));
    DT_TRY(put_variables(o));
    DT_TRY(put(o, program));
    for (char **word = w->rest; *word; word++)
        DT_TRY(put(o, *word));
    return DT_OK;
}

/* As a shell reads it. */
static void print_word(const char *word)
{
    const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";

    if (word[0] && strspn(word, plain) == strlen(word)) {
        printf("%s ", word);
        return;
    }
    putchar('\'');
    for (; *word; word++)
        if (*word == '\'')
            printf("'\\''");
        else
            putchar(*word);
    printf("' ");
}

static dt_status start(const dt_words *w, const dt_hosts *h, dt_server *server, int *code)
{
    words_out o = {.word = NULL};
    char np[16], program[PATH_MAX], *hosts = NULL;
    int here = 0, ranks = 0;
    dt_status st = DT_OK;

    DT_GO(st, dt_words_count("nproc-per-node", w->per_host, cores_here(), &here), out);
    DT_GO(st, dt_words_count("np", w->np, h->count ? h->ranks : here, &ranks), out);
    snprintf(np, sizeof np, "%d", ranks);
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    snprintf(program + DT_MAX(length, 0), sizeof program - (size_t)DT_MAX(length, 0), "%s",
             length > 0 ? "" : "dtrain");
    DT_GO(st, host_list(h, &hosts), out);
    DT_GO(st, put_line(&o, w, h, hosts, np, w->program ? w->program : program), out);
    tell_all(w);
    if (dt_server_socket(server)[0])
        DT_GO(st, tell_agent(server, program), out);
    if (w->dry_run) {
        for (size_t i = 0; i < o.count; i++)
            print_word(o.word[i]);
        putchar('\n');
        goto out;
    }
    fflush(stdout);
    st = dt_server_run(server, o.word, h->count > 1, code);
out:
    free(hosts);
    free(o.kept);
    free(o.word);
    return st;
}

/* ---- One command on each host -------------------------------------------------------------- */

static const char *or_variable(const char *given, const char *name)
{
    return given ? given : getenv(name);
}

/* Which word says on the command line that hosts are started one by one; NULL: none. Variables are
 * none: a batch system may set them in every job. */
static const char *one_by_one(const dt_words *w)
{
    return w->nodes    ? "--nnodes"
           : w->node   ? "--node-rank"
           : w->master ? "--master"
           : w->token  ? "--token-file"
                       : NULL;
}

/* m->own.nodes: 0 where this one host starts all. */
static dt_status find_meeting(const dt_words *w, dt_meeting *m, char place[DT_HOST_NAME + 8])
{
    const char *nodes = or_variable(w->nodes, "NNODES"), *port = getenv("MASTER_PORT");
    const char *node = or_variable(w->node, "NODE_RANK"), *word = one_by_one(w);
    int slots = 0;

    *m = (dt_meeting){.master = place};
    if (w->hosts || w->hostfile || w->rank_table) {
        if (word)
            return dt_fail(DT_USAGE,
                           "%s is for hosts that are started one by one: leave it "
                           "out, or --hosts, --hostfile and --rank-table",
                           word);
        return DT_OK;
    }
    if (nodes)
        DT_TRY(dt_words_number("nnodes", nodes, DT_MOST_HOSTS, &m->own.nodes));
    if (m->own.nodes == 0 && word)
        return dt_fail(DT_USAGE,
                       "%s is for hosts that are started one by one: how many they are is missing, "
                       "--nnodes N (or NNODES), from 1",
                       word);
    if (m->own.nodes < 2) {
        if (w->node)
            DT_TRY(dt_words_number("node-rank", w->node, 0, &m->own.node));
        m->own.nodes = 0;
        return DT_OK;
    }
    if (!node)
        return dt_fail(DT_USAGE, "--nnodes needs --node-rank K (or NODE_RANK), which of them this "
                                 "is, from 0");
    DT_TRY(dt_words_number("node-rank", node, m->own.nodes - 1, &m->own.node));
    DT_TRY(dt_words_count("nproc-per-node", or_variable(w->per_host, "NPROC_PER_NODE"),
                          cores_here(), &slots));
    m->own.slots = (uint32_t)slots;
    if (!w->master && !getenv("MASTER_ADDR"))
        return dt_fail(DT_USAGE, "--nnodes needs --master HOST:PORT, where host 0 waits");
    if (w->master)
        snprintf(place, DT_HOST_NAME + 8, "%s", w->master);
    else
        snprintf(place, DT_HOST_NAME + 8, "%s:%s", getenv("MASTER_ADDR"), port ? port : "29500");
    return dt_token_read(&m->token, w->token);
}

/* Those that start with the daemon here; mpirun's -x brings the first host's. */
static void forget_options(void)
{
    char **to = environ;

    for (char **v = environ; *v; v++)
        if (strncmp(*v, "DTRAIN_", 7) != 0)
            *to++ = *v;
    *to = NULL;
}

static dt_status meet(const dt_words *w, const dt_meeting *m, int *code)
{
    dt_server *server = NULL;
    dt_hosts h = {.host = NULL};

    if (w->dry_run)
        return dt_fail(DT_USAGE, "--dry-run: what is started depends on who comes; leave out "
                                 "--nnodes and NNODES");
    if (m->own.node > 0) {
        forget_options();
        return dt_join(m, code);
    }
    dt_status st = dt_server_open(&server, m, &h);
    if (st == DT_OK)
        st = start(w, &h, server, code);
    dt_server_close(server);
    dt_hosts_release(&h);
    return st;
}

dt_status dt_launch(int argc, char **argv, int *code)
{
    char place[DT_HOST_NAME + 8];
    dt_words w;
    dt_meeting m;
    dt_server *server = NULL;
    dt_hosts h;

    if (argc > 0 && strcmp(argv[0], "--as-agent") == 0) {
        *code = dt_agent(argc - 1, argv + 1);
        return DT_OK;
    }
    DT_TRY(dt_words_read(&w, argv));
    if (w.help) {
        dt_words_help();
        return DT_OK;
    }
    DT_TRY(check_interface(w.interface));
    if (w.program && !w.dry_run)
        DT_TRY(check_program("--program", w.program));
    if (w.agent && !w.dry_run && !strpbrk(w.agent, " :")) /* else a list, or with arguments */
        DT_TRY(check_program("--agent", w.agent));
    DT_TRY(find_meeting(&w, &m, place));
    unsetenv(DT_TOKEN_VARIABLE); /* nothing that is started need know it, used or not */
    if (m.own.nodes > 0)
        return meet(&w, &m, code);
    DT_TRY(find_hosts(&w, &h));
    dt_status st = dt_server_alone(&server);
    if (st == DT_OK)
        st = start(&w, &h, server, code);
    dt_server_close(server);
    dt_hosts_release(&h);
    return st;
}

/* ---- Rank tables ----------------------------------------------------------------------------- */

dt_status dt_ranktable(int argc, char **argv, int *code)
{
    static const char usage[] = "dtrain ranktable FILE, to check one; dtrain ranktable --hosts a,b "
                                "--nproc-per-node 8, to print one";
    dt_words w;
    dt_hosts h;
    int slots = 0;

    (void)argc;
    (void)code;
    DT_TRY(dt_words_read(&w, argv));
    const bool checks = w.rest[0] != NULL;
    if (w.help) {
        printf("Usage: %s\n", usage);
        return DT_OK;
    }
    if (checks == !!w.hosts || (checks && w.rest[1]) || w.hostfile || w.rank_table)
        return dt_fail(DT_USAGE, "usage: %s", usage);
    if (checks) {
        DT_TRY(dt_ranktable_read(&h, w.rest[0]));
        printf("ok   %s: %d ranks on %d host%s:", w.rest[0], h.ranks, h.count,
               h.count == 1 ? "" : "s");
        for (int i = 0; i < h.count; i++)
            printf(" %s:%d", h.host[i].name, h.host[i].slots);
        putchar('\n');
        dt_hosts_release(&h);
        return DT_OK;
    }
    DT_TRY(dt_words_count("nproc-per-node", w.per_host, 8, &slots));
    DT_TRY(dt_hosts_parse(&h, w.hosts, slots, "--hosts"));
    const dt_status st = dt_ranktable_write(stdout, &h);
    dt_hosts_release(&h);
    return st;
}
