/* launch.c - dtrain launch: all that mpirun has to know, at one place. */
#include <argz.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"
#include "launch.h"

extern char **environ;

/* ---- The command line, whose options stand between dtrain's own ------------------------------ */

typedef struct launch_words {
    const dt_launcher *by;
    /* NULL: not given */
    const char *hosts, *hostfile, *rank_table, *interface, *agent, *master, *token, *program;
    /* -1: not given */
    int64_t np, per_host, nodes, node;
    bool dry_run, help;
    char **rest; /* dtrain's own, [rests] up to NULL; rest[-1] is there */
    int rests;
} launch_words;

enum { MOST_RANKS = DT_MOST_HOSTS * DT_MOST_SLOTS };

static const struct {
    const char *name, *metavar, *help;
    size_t offset;
    int64_t least, most;  /* of a number; most 0: it is a text; -1: it has no value */
    const char *variable; /* where it is not given; NULL: there is none */
} row[] = {
#define FLAG(member) offsetof(launch_words, member), 0, -1, NULL
#define TEXT(member) offsetof(launch_words, member), 0, 0, NULL
#define NUMBER(member, least, most, variable) offsetof(launch_words, member), least, most, variable
    {"hosts", "LIST", "hosts and their ranks: a:8,b:8", TEXT(hosts)},
    {"hostfile", "FILE", "mpirun's file of hosts: lines a slots=8", TEXT(hostfile)},
    {"rank-table", "FILE", "the same as the Ascend tutorial's rank table", TEXT(rank_table)},
    {"nproc-per-node", "N",
     "ranks of a host that is given without a number, and of this one where "
     "none is given (default: 1, and this one's cores)",
     NUMBER(per_host, 1, MOST_RANKS, "NPROC_PER_NODE")},
    {"np", "N", "ranks in all (default: those of all hosts)", NUMBER(np, 1, MOST_RANKS, NULL)},
    {"interface", "NAME|NET/BITS", "the network between the hosts: eth0, or 10.0.0.0/24",
     TEXT(interface)},
    {"agent", "PROGRAM", "what starts Open MPI's daemon on another host (default: ssh)",
     TEXT(agent)},
    {"nnodes", "N", "the same command is started on each of N hosts (or NNODES); with",
     NUMBER(nodes, 0, DT_MOST_HOSTS, "NNODES")},
    {"node-rank", "K", "which of them this is, from 0 (or NODE_RANK)",
     NUMBER(node, 0, DT_MOST_HOSTS, "NODE_RANK")},
    {"master", "HOST:PORT", "where host 0 waits for the others (or MASTER_ADDR, MASTER_PORT)",
     TEXT(master)},
    {"token-file", "FILE", "a secret that all of them hold (or DTRAIN_TOKEN)", TEXT(token)},
    {"program", "FILE", "what a rank is, in place of dtrain: a script that ends by becoming it",
     TEXT(program)},
    {"dry-run", "", "print what would be started", FLAG(dry_run)},
    {"help", "", "print this", FLAG(help)},
};
enum { ROWS = DT_COUNT_OF(row) };

static void print_help(void)
{
    printf("Usage: dtrain launch [LAUNCH OPTION...] [COMMAND] [OPTION...]\n\n"
           "Start mpirun with dtrain on all hosts, every host with the same program at the same "
           "path.\nAll words that are not below are dtrain's own.\n\n");
    for (int i = 0; i < ROWS; i++) {
        char option[64];
        snprintf(option, sizeof option, "--%s %s", row[i].name, row[i].metavar);
        printf("  %-28s %s\n", option, row[i].help);
    }
    printf("  %-28s %s\n", "--", "all that follows is dtrain's own");
}

/* The row that is called like the first bytes of name, '_' as '-'; -1: none. */
static int find_row(const char *name, size_t length)
{
    for (int i = 0; i < ROWS; i++) {
        size_t same = 0;
        while (same < length && row[i].name[same] == (name[same] == '_' ? '-' : name[same]))
            same++;
        if (same == length && row[i].name[same] == '\0')
            return i;
    }
    return -1;
}

static dt_status set(launch_words *w, int i, const char *value)
{
    void *member = (char *)w + row[i].offset;
    const char *end = NULL;
    int64_t n = -1;

    if (!value || !value[0])
        return dt_fail(DT_USAGE, "--%s needs a value: %s", row[i].name, row[i].metavar);
    if (row[i].most == 0)
        *(const char **)member = value;
    else if (!dt_whole_parse(value, &end, &n) || *end || n < row[i].least || n > row[i].most)
        return dt_fail(DT_USAGE, "--%s: '%.40s' is not a number from %lld to %lld", row[i].name,
                       value, (long long)row[i].least, (long long)row[i].most);
    else
        *(int64_t *)member = n;
    return DT_OK;
}

/* argv up to its NULL, whose words that are dtrain's own move together. */
static dt_status read_words(launch_words *w, const dt_launcher *by, char **word)
{
    *w = (launch_words){.by = by, .np = -1, .per_host = -1, .nodes = -1, .node = -1, .rest = word};
    for (; *word && strcmp(*word, "--") != 0; word++) {
        const char *name = *word + 2;
        const size_t length = strcspn(*word, "=");
        const int i = strncmp(*word, "--", 2) == 0 ? find_row(name, length - 2) : -1;
        const bool own = (*word)[length] != '\0'; /* value: --name=value */
        if (i < 0) {
            w->rest[w->rests++] = *word;
        } else if (row[i].most < 0) {
            *(bool *)((char *)w + row[i].offset) = true;
        } else {
            DT_TRY(set(w, i, own ? *word + length + 1 : word[1]));
            word += !own;
        }
    }
    for (word += *word != NULL; *word; word++)
        w->rest[w->rests++] = *word;
    w->rest[w->rests] = NULL;
    return DT_OK;
}

/* ---- Where ranks go -------------------------------------------------------------------------- */

/* A line is a name, which must not look like an option of ssh, and words like slots=2. Open MPI's
 * mpirun reads it, and understands more than is checked here: lines of many kilobytes crash that of
 * 4.1.4, and it does not come back from slots that overflow. adds: another mpirun is given hosts
 * by name, from *h. */
static dt_status read_hostfile(const char *path, bool adds, dt_hosts *h)
{
    enum { LINE = 1024, MOST = 1 << 20 };
    char *text = NULL;
    size_t length = 0;
    dt_status st = dt_file_read(AT_FDCWD, path, MOST, &text, &length);
    int number = 1;

    for (char *at = text; st == DT_OK && at < text + length; number++) {
        const size_t n = strcspn(at, "\n");
        const bool whole = at[n] == '\n' || at + n == text + length; /* no zero byte in it */
        at[n] = '\0';
        const char *name = at + strspn(at, " \t"), *slots = strstr(at, " slots=");
        slots = slots ? slots : strstr(at, "\tslots=");              /* not those of max-slots= */
        const size_t letters = strcspn(name, adds ? " \t:" : " \t"); /* Hydra's own way: a:2 */
        const char *after = slots ? slots + 7 : name[letters] == ':' ? name + letters + 1 : NULL;
        int64_t count = 1;
        if (n >= LINE || !whole || *name == '-' || *at == '\xef' || strchr(at, '\r') ||
            (after &&
             (!dt_whole_parse(after, &after, &count) || count < 1 || count > DT_MOST_SLOTS)))
            st = dt_fail(DT_CONFIG, "not a line of a hostfile: NAME slots=1..%d, no CR/BOM",
                         (int)DT_MOST_SLOTS);
        else if (adds && *name && *name != '#')
            st = dt_hosts_add(h, name, letters, count);
        if (st != DT_OK)
            st = dt_fail_place(DT_CONFIG, "%s:%d: ", path, number);
        at += n + 1;
    }
    free(text);
    return st == DT_FORMAT ? DT_CONFIG : st;
}

/* *h stays empty where mpirun reads them from its own file, or starts all ranks here. */
static dt_status find_hosts(const launch_words *w, dt_hosts *h)
{
    if (!!w->hosts + !!w->hostfile + !!w->rank_table > 1)
        return dt_fail(DT_USAGE, "--hosts, --hostfile and --rank-table: one of them, not several");
    if (w->hosts)
        return dt_hosts_parse(h, w->hosts, (int)DT_MAX(w->per_host, 1));
    if (w->rank_table)
        return dt_ranktable_read(h, w->rank_table);
    if (!w->hostfile)
        return DT_OK;
    if (w->per_host > 0)
        return dt_fail(DT_USAGE, "--nproc-per-node is not for --hostfile: write 'NAME slots=N' "
                                 "into the file");
    return read_hostfile(w->hostfile, !w->by->file, h);
}

static int cores_here(void)
{
    cpu_set_t set;

    dt_machine_cpus(&set);
    return DT_MAX(CPU_COUNT(&set), 1);
}

/* ---- mpirun ---------------------------------------------------------------------------------- */

_Static_assert(DT_MOST_HOSTS <= 4096, "all hosts' daemons start at once");

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
        printf(*word == '\'' ? "'\\''" : "%c", *word);
    printf("' ");
}

/* To mpirun's command line, an argz vector: whether there was memory. */
static bool put(char **line, size_t *bytes, const char *option, const char *value)
{
    return !value ||
           ((!option || argz_add(line, bytes, option) == 0) && argz_add(line, bytes, value) == 0);
}

/* How many ranks; 0: mpirun counts those of its file. */
static int64_t count_ranks(const launch_words *w, const dt_hosts *h)
{
    return w->np > 0         ? w->np
           : h->count > 0    ? h->ranks
           : w->hostfile     ? 0
           : w->per_host > 0 ? w->per_host
                             : cores_here();
}

/* After mpirun's words are made; what the user has set stays. It hands the environment on to this
 * host's ranks, which see by DT_ASKED_VARIABLE whether all have come. It splits the agent's name at
 * blanks, which the path of this program may have. */
static void set_variables(const launch_words *w, const dt_hosts *h, bool met)
{
    char own_agent[64], ranks[24];
    const char *const given[DT_WHENS] = {"", w->interface, met ? own_agent : w->agent,
                                         met ? "" : NULL};

    snprintf(own_agent, sizeof own_agent, "/proc/%ld/exe launch --as-agent", (long)getpid());
    for (const dt_launch_variable *v = w->by->variables; v->name; v++) {
        const char *value = v->value ? v->value : given[v->when];
        if (!given[v->when])
            continue;
        if (w->dry_run && !getenv(v->name)) {
            printf("%s=", v->name);
            print_word(value);
        }
        (void)setenv(v->name, value, met && v->when >= DT_AGENT);
    }
    snprintf(ranks, sizeof ranks, "%lld", (long long)count_ranks(w, h));
    unsetenv(DT_ASKED_VARIABLE);
    if (w->np > 0 || h->count > 0 || w->per_host > 0)
        (void)setenv(DT_ASKED_VARIABLE, ranks, 1);
}

/* Ranks on other hosts get this one's DTRAIN_* and number of threads, as those here. */
static dt_status put_line(const launch_words *w, const dt_hosts *h, char **line, size_t *bytes)
{
    const int64_t ranks = count_ranks(w, h);
    char np[24], program[PATH_MAX];

    snprintf(np, sizeof np, "%lld", (long long)ranks);
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[DT_MAX(length, 0)] = '\0';
    bool all = put(line, bytes, NULL, "mpirun") && put(line, bytes, w->by->hosts, h->list) &&
               put(line, bytes, w->by->file, w->by->file ? w->hostfile : NULL) &&
               put(line, bytes, "-np", ranks ? np : NULL);
    for (char **v = environ; w->by->export && *v; v++)
        if (strncmp(*v, "DTRAIN_", 7) == 0 || strncmp(*v, "OMP_NUM_THREADS=", 16) == 0 ||
            strncmp(*v, "DT_SPLIT_NODES=", 15) == 0)
            all = all && put(line, bytes, w->by->export, *v);
    all = all && put(line, bytes, NULL, w->program ? w->program : program);
    for (int i = 0; i < w->rests; i++)
        all = all && put(line, bytes, NULL, w->rest[i]);
    return all ? DT_OK : dt_fail(DT_NOMEM, "no memory for mpirun's command line");
}

/* The first host, or the only one that is started here. */
static dt_status lead(const launch_words *w, const dt_meeting *m, int *code)
{
    dt_first *first = NULL;
    dt_hosts h = {.list = NULL};
    char *line = NULL, **word = NULL;
    size_t bytes = 0;
    const char *command = w->rest[0];
    const bool trains = !command || command[0] == '-' || strcmp(command, "train") == 0;
    dt_status st = DT_OK;

    if (m->own.nodes == 1)
        DT_GO(st, find_hosts(w, &h), out);
    DT_GO(st, dt_first_open(&first, m, &h), out);
    DT_GO(st, put_line(w, &h, &line, &bytes), out);
    DT_GO(st, dt_calloc(&word, argz_count(line, bytes) + 1, sizeof *word, "mpirun's words"), out);
    argz_extract(line, bytes, word);
    set_variables(w, &h, m->own.nodes > 1);
    for (size_t i = 0; w->dry_run && word[i]; i++)
        print_word(word[i]);
    if (w->dry_run)
        putchar('\n');
    fflush(stdout);
    if (!w->dry_run)
        st = dt_first_run(first, word, trains, code);
out:
    dt_first_close(first);
    free(h.list);
    free(line);
    free(word);
    return st;
}

/* ---- One command on each host -------------------------------------------------------------- */

/* *m: where and as what this host meets the others; own.nodes is 1 where this host starts all. */
static dt_status find_meeting(launch_words *w, dt_meeting *m)
{
    const bool listed = w->hosts || w->hostfile || w->rank_table;
    const bool apart = w->nodes >= 0 || w->node >= 0 || w->master || w->token;
    const char *address = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");

    *m = (dt_meeting){.by = w->by, .own.nodes = 1};
    for (int i = 0; i < ROWS && !listed; i++) {
        const bool counts = row[i].variable && (apart || w->np < 0); /* --np N: here, whatever a */
        const char *value = counts ? getenv(row[i].variable) : NULL; /* batch system has set */
        if (value && *(const int64_t *)((const char *)w + row[i].offset) < 0)
            DT_TRY(set(w, i, value));
    }
    if (apart && (listed || w->nodes < 1))
        return dt_fail(DT_USAGE, "--nnodes N (or NNODES), from 1, --node-rank, --master and "
                                 "--token-file go together, for hosts that are started one by "
                                 "one; with --hosts, --hostfile or --rank-table leave them out");
    if (w->nodes > 0 && w->node >= w->nodes)
        return dt_fail(DT_USAGE, "--node-rank: '%lld' is not a number from 0 to %lld",
                       (long long)w->node, (long long)w->nodes - 1);
    if (w->nodes < 2)
        return DT_OK;
    if (w->dry_run)
        return dt_fail(DT_USAGE, "--dry-run: what is started depends on who comes; leave out "
                                 "--nnodes and NNODES");
    if (w->node < 0 || (!w->master && !address))
        return dt_fail(DT_USAGE, "--nnodes needs --node-rank K (or NODE_RANK), which of them this "
                                 "is, from 0, and --master HOST:PORT, where host 0 waits");
    if (!w->by->daemons)
        return dt_fail(DT_UNSUPPORTED, "--nnodes needs Open MPI's daemons, which this MPI has not: "
                                       "give --hosts, or use the batch system's launcher");
    if (w->master)
        snprintf(m->master, sizeof m->master, "%s", w->master);
    else
        snprintf(m->master, sizeof m->master, "%s:%s", address, port ? port : "29500");
    m->own = (dt_hello){.nodes = (int)w->nodes,
                        .node = (int)w->node,
                        .slots = w->per_host > 0 ? (int)w->per_host : cores_here()};
    return dt_token_read(&m->token, w->token);
}

dt_status dt_launch(int argc, char **argv, const dt_launcher *by, int *code)
{
    launch_words w;
    dt_meeting m;
    bool alone;

    if (argc > 0 && strcmp(argv[0], "--as-agent") == 0) {
        *code = dt_agent(argc - 1, argv + 1);
        return DT_OK;
    }
    DT_TRY(read_words(&w, by, argv));
    if (w.help) {
        print_help();
        return DT_OK;
    }
    if (!w.program && !w.dry_run)
        DT_TRY(dt_arguments_check(w.rests + 1, w.rest - 1, &alone));
    DT_TRY(find_meeting(&w, &m));
    if (m.own.nodes < 2 && dt_comm_has_peers())
        return dt_fail(DT_USAGE, "launch: each of the processes that a launcher has started beside "
                                 "this one would start a run of its own: start one, or give "
                                 "--nnodes");
    unsetenv(DT_TOKEN_VARIABLE); /* nothing that is started need know it, used or not */
    DT_TRY(w.dry_run || !by->daemons ? DT_OK : dt_child_room());
    return m.own.node == 0 ? lead(&w, &m, code) : dt_join(&m, code);
}
