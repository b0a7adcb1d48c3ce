/* launch.c - dtrain launch: all that mpirun has to know, at one place. */
#include <argz.h>

#include "cli/cli.h"
#include "launch.h"

extern char **environ;

/* ---- The command line, whose options stand between dtrain's own ------------------------------ */

/* clang-format off */
enum { HOSTS, HOSTFILE, RANK_TABLE, PER_HOST, NP, INTERFACE, AGENT, NODES, NODE, MASTER, TOKEN,
       PROGRAM, DRY_RUN, HELP, ROWS };
enum { MOST_RANKS = DT_MOST_HOSTS * DT_MOST_SLOTS };
static const struct {
    const char *name, *metavar, *help; /* metavar "": it has no value */
    int64_t least, most;               /* of a number; most 0: it is a text */
    const char *variable;              /* where it is not given; NULL: there is none */
} row[ROWS] = {
    [HOSTS] = {"hosts", "LIST", "hosts and their ranks: a:8,b:8", 0, 0, NULL},
    [HOSTFILE] = {"hostfile", "FILE", "mpirun's file of hosts: lines a slots=8", 0, 0, NULL},
    [RANK_TABLE] = {"rank-table", "FILE", "the same as the Ascend tutorial's rank table", 0, 0, NULL},
    [PER_HOST] = {"nproc-per-node", "N",
                  "ranks of a host that is given without a number, and of this one where "
                  "none is given (default: 1, and this one's cores)",
                  1, MOST_RANKS, "NPROC_PER_NODE"},
    [NP] = {"np", "N", "ranks in all (default: those of all hosts)", 1, MOST_RANKS, NULL},
    [INTERFACE] = {"interface", "NAME|NET/BITS",
                   "the network between the hosts: eth0, or 10.0.0.0/24", 0, 0, NULL},
    [AGENT] = {"agent", "PROGRAM", "what starts Open MPI's daemon on another host (default: ssh)",
               0, 0, NULL},
    [NODES] = {"nnodes", "N", "the same command is started on each of N hosts (or NNODES); with",
               0, DT_MOST_HOSTS, "NNODES"},
    [NODE] = {"node-rank", "K", "which of them this is, from 0 (or NODE_RANK)",
              0, DT_MOST_HOSTS, "NODE_RANK"},
    [MASTER] = {"master", "HOST:PORT",
                "where host 0 waits for the others (or MASTER_ADDR, MASTER_PORT)", 0, 0, NULL},
    [TOKEN] = {"token-file", "FILE", "a secret that all of them hold (or DTRAIN_TOKEN)", 0, 0, NULL},
    [PROGRAM] = {"program", "FILE",
                 "what a rank is, in place of dtrain: a script that ends by becoming it", 0, 0, NULL},
    [DRY_RUN] = {"dry-run", "", "print what would be started", 0, 0, NULL},
    [HELP] = {"help", "", "print this", 0, 0, NULL},
};
/* clang-format on */

typedef struct launch_words {
    const dt_mpirun *by;
    const char *text[ROWS]; /* NULL: not given */
    int64_t number[ROWS];   /* the same; -1 */
    char **rest;            /* dtrain's own, [rests] up to NULL; rest[-1] is there */
    int rests;
} launch_words;

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
    char spelled[DT_OPTION_NAME];

    dt_argument_name(name, spelled);
    for (int i = 0; i < ROWS; i++)
        if (strlen(row[i].name) == length && strncmp(row[i].name, spelled, length) == 0)
            return i;
    return -1;
}

static dt_status set(launch_words *w, int i, const char *value)
{
    const char *end = NULL;
    int64_t *n = &w->number[i];

    if (!value || !value[0])
        return dt_fail(DT_USAGE, "--%s needs a value: %s", row[i].name, row[i].metavar);
    if (row[i].most > 0 &&
        (!dt_whole_parse(value, &end, n) || *end || *n < row[i].least || *n > row[i].most))
        return dt_fail(DT_USAGE, "--%s: '%.40s' is not a number from %lld to %lld", row[i].name,
                       value, (long long)row[i].least, (long long)row[i].most);
    w->text[i] = value;
    return DT_OK;
}

/* argv up to its NULL, whose words that are dtrain's own move together. Behind `dtrain --np N`,
 * --dry-run is the training's. */
static dt_status read_words(launch_words *w, const dt_mpirun *by, char **word)
{
    *w = (launch_words){.by = by, .rest = word};
    for (int i = 0; i < ROWS; i++)
        w->number[i] = -1;
    for (; *word && strcmp(*word, "--") != 0; word++) {
        const size_t length = strcspn(*word, "=");
        const int i = strncmp(*word, "--", 2) == 0 ? find_row(*word + 2, length - 2) : -1;
        const bool own = (*word)[length] != '\0'; /* value: --name=value */
        if (i < 0 || (i == DRY_RUN && strcmp(w->rest[-1], "launch") != 0)) {
            w->rest[w->rests++] = *word;
        } else if (!row[i].metavar[0]) {
            w->text[i] = *word;
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
    if (!!w->text[HOSTS] + !!w->text[HOSTFILE] + !!w->text[RANK_TABLE] > 1)
        return dt_fail(DT_USAGE, "--hosts, --hostfile and --rank-table: one of them, not several");
    if (w->text[HOSTS])
        return dt_hosts_parse(h, w->text[HOSTS], (int)DT_MAX(w->number[PER_HOST], 1));
    if (w->text[RANK_TABLE])
        return dt_ranktable_read(h, w->text[RANK_TABLE]);
    if (!w->text[HOSTFILE])
        return DT_OK;
    if (w->number[PER_HOST] > 0)
        return dt_fail(DT_USAGE, "--nproc-per-node is not for --hostfile: write 'NAME slots=N' "
                                 "into the file");
    return read_hostfile(w->text[HOSTFILE], !w->by->file, h);
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
    return w->number[NP] > 0         ? w->number[NP]
           : h->count > 0            ? h->ranks
           : w->text[HOSTFILE]       ? 0
           : w->number[PER_HOST] > 0 ? w->number[PER_HOST]
                                     : dt_cores(NULL);
}

/* After mpirun's words are made; what the user has set stays. It hands the environment on to this
 * host's ranks, which see by DT_ASKED_VARIABLE whether all have come. It splits the agent's name at
 * blanks, which the path of this program may have. */
static void set_variables(const launch_words *w, const dt_hosts *h, bool met)
{
    char own_agent[64], ranks[24];
    const char *const given[DT_WHENS] = {"", w->text[INTERFACE], met ? own_agent : w->text[AGENT],
                                         met ? "" : NULL};

    snprintf(own_agent, sizeof own_agent, "/proc/%ld/exe launch --as-agent", (long)getpid());
    for (const dt_launch_variable *v = w->by->variables; v->name; v++) {
        const char *value = v->value ? v->value : given[v->when];
        if (!given[v->when])
            continue;
        if (w->text[DRY_RUN] && !getenv(v->name)) {
            printf("%s=", v->name);
            print_word(value);
        }
        (void)setenv(v->name, value, met && v->when >= DT_AGENT);
    }
    snprintf(ranks, sizeof ranks, "%lld", (long long)count_ranks(w, h));
    unsetenv(DT_ASKED_VARIABLE);
    if (w->number[NP] > 0 || h->count > 0 || w->number[PER_HOST] > 0)
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
               put(line, bytes, w->by->file, w->by->file ? w->text[HOSTFILE] : NULL) &&
               put(line, bytes, "-np", ranks ? np : NULL);
    for (char **v = environ; w->by->export && *v; v++)
        if (strncmp(*v, "DTRAIN_", 7) == 0 || strncmp(*v, "OMP_NUM_THREADS=", 16) == 0 ||
            strncmp(*v, "DT_SPLIT_NODES=", 15) == 0)
            all = all && put(line, bytes, w->by->export, *v);
    all = all && put(line, bytes, NULL, w->text[PROGRAM] ? w->text[PROGRAM] : program);
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
    for (size_t i = 0; w->text[DRY_RUN] && word[i]; i++)
        print_word(word[i]);
    if (w->text[DRY_RUN])
        putchar('\n');
    else
        st = dt_first_run(first, word, trains, code);
out:
    dt_first_close(first);
    DT_FREE(h.list, line, word);
    return st;
}

/* ---- One command on each host -------------------------------------------------------------- */

/* *m: where and as what this host meets the others; own.nodes is 1 where this host starts all. */
static dt_status find_meeting(launch_words *w, dt_meeting *m)
{
    const bool listed = w->text[HOSTS] || w->text[HOSTFILE] || w->text[RANK_TABLE];
    const bool apart =
        w->number[NODES] >= 0 || w->number[NODE] >= 0 || w->text[MASTER] || w->text[TOKEN];
    const char *address = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");

    *m = (dt_meeting){.by = w->by, .own.nodes = 1};
    for (int i = 0; i < ROWS && !listed; i++) {
        /* --np N: here, whatever a batch system has set */
        const bool counts = row[i].variable && !w->text[i] && (apart || !w->text[NP]);
        const char *value = counts ? getenv(row[i].variable) : NULL;
        if (value)
            DT_TRY(set(w, i, value));
    }
    if (apart && (listed || w->number[NODES] < 1))
        return dt_fail(DT_USAGE, "--nnodes N (or NNODES), from 1, --node-rank, --master and "
                                 "--token-file go together, for hosts that are started one by "
                                 "one; with --hosts, --hostfile or --rank-table leave them out");
    if (w->number[NODES] > 0 && w->number[NODE] >= w->number[NODES])
        return dt_fail(DT_USAGE, "--node-rank: '%lld' is not a number from 0 to %lld",
                       (long long)w->number[NODE], (long long)w->number[NODES] - 1);
    if (w->number[NODES] < 2)
        return DT_OK;
    if (w->text[DRY_RUN])
        return dt_fail(DT_USAGE, "--dry-run: what is started depends on who comes; leave out "
                                 "--nnodes and NNODES");
    if (w->number[NODE] < 0 || (!w->text[MASTER] && !address))
        return dt_fail(DT_USAGE, "--nnodes needs --node-rank K (or NODE_RANK), which of them this "
                                 "is, from 0, and --master HOST:PORT, where host 0 waits");
    if (!w->by->daemons)
        return dt_fail(DT_UNSUPPORTED, "--nnodes needs Open MPI's daemons, which this MPI has not: "
                                       "give --hosts, or use the batch system's launcher");
    if (w->text[MASTER])
        snprintf(m->master, sizeof m->master, "%s", w->text[MASTER]);
    else
        snprintf(m->master, sizeof m->master, "%s:%s", address, port ? port : "29500");
    m->own =
        (dt_hello){.nodes = (int)w->number[NODES],
                   .node = (int)w->number[NODE],
                   .slots = w->number[PER_HOST] > 0 ? (int)w->number[PER_HOST] : dt_cores(NULL)};
    return dt_token_read(&m->token, w->text[TOKEN]);
}

dt_status dt_launch(int argc, char **argv, const dt_mpirun *by, int *code)
{
    launch_words w;
    dt_meeting m;
    bool alone;

    if (argc > 0 && strcmp(argv[0], "--as-agent") == 0) {
        *code = dt_agent(argc - 1, argv + 1);
        return DT_OK;
    }
    DT_TRY(read_words(&w, by, argv));
    if (w.text[HELP]) {
        print_help();
        return DT_OK;
    }
    if (!w.text[PROGRAM] && !w.text[DRY_RUN])
        DT_TRY(dt_arguments_check(w.rests + 1, w.rest - 1, &alone));
    DT_TRY(find_meeting(&w, &m));
    if (m.own.nodes < 2 && dt_comm_has_peers())
        return dt_fail(DT_USAGE, "launch: each of the processes that a launcher has started beside "
                                 "this one would start a separate run: start one, or give "
                                 "--nnodes");
    unsetenv(DT_TOKEN_VARIABLE); /* nothing that is started need know it, used or not */
    DT_TRY(w.text[DRY_RUN] || !by->daemons ? DT_OK : dt_child_room());
    return m.own.node == 0 ? lead(&w, &m, code) : dt_join(&m, code);
}
