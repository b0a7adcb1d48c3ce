/* launch.c - dtrain launch and dtrain ranktable: what mpirun has to be told, told at one place. */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "launch_internal.h"

extern char **environ;

/* ---- Words of the command line --------------------------------------------------------------- */

typedef struct launch_words {
    const char *hosts, *hostfile, *rank_table, *np, *per_host, *interface, *agent;
    bool dry_run, help;
    char **rest; /* dtrain's own, up to NULL */
} launch_words;

static const struct {
    const char *name, *metavar, *help;
    size_t offset;
} launch_rows[] = {
    {"hosts", "LIST", "hosts and their ranks: a:8,b:8", offsetof(launch_words, hosts)},
    {"hostfile", "FILE", "the same as lines: a slots=8", offsetof(launch_words, hostfile)},
    {"rank-table", "FILE", "the same as the Ascend tutorial's rank table",
     offsetof(launch_words, rank_table)},
    {"nproc-per-node", "N",
     "ranks of a host that is given without a number, and of this one where "
     "none is given (default: 1, and this one's cores)",
     offsetof(launch_words, per_host)},
    {"np", "N", "ranks in all (default: those of all hosts)", offsetof(launch_words, np)},
    {"interface", "NAME|NET/BITS", "the network between the hosts: eth0, or 10.0.0.0/24",
     offsetof(launch_words, interface)},
    {"agent", "PROGRAM", "what starts Open MPI's daemon on another host (default: ssh)",
     offsetof(launch_words, agent)},
};
enum { LAUNCH_ROWS = DT_COUNT_OF(launch_rows) };

static void launch_help(void)
{
    printf("Usage: dtrain launch [LAUNCH OPTION...] [COMMAND] [OPTION...]\n\n"
           "Start mpirun with dtrain on all hosts, every host with the same program at the same "
           "path.\nAll words that are not below are dtrain's own.\n\n");
    for (int i = 0; i < LAUNCH_ROWS; i++) {
        char option[64];
        snprintf(option, sizeof option, "--%s %s", launch_rows[i].name, launch_rows[i].metavar);
        printf("  %-28s %s\n", option, launch_rows[i].help);
    }
    printf("  %-28s %s\n  %-28s %s\n", "--dry-run", "print what would be started", "--",
           "all that follows is dtrain's own");
}

/* Which row the word is, with its value, of the word itself or the next: -1, none. */
static int find_row(char **word, const char **value)
{
    const char *name = *word + 2;
    const size_t length = strcspn(name, "=");

    for (int i = 0; i < LAUNCH_ROWS; i++)
        if (strlen(launch_rows[i].name) == length &&
            strncmp(launch_rows[i].name, name, length) == 0) {
            *value = name[length] ? name + length + 1 : word[1];
            return i;
        }
    return -1;
}

static dt_status read_words(launch_words *w, char **word)
{
    *w = (launch_words){.rest = word};
    char **rest = word; /* dtrain's words move together */

    for (; *word && strcmp(*word, "--") != 0; word++) {
        const char *value = NULL;
        const int row = strncmp(*word, "--", 2) == 0 ? find_row(word, &value) : -1;
        if (row >= 0) {
            if (!value || !value[0])
                return dt_fail(DT_USAGE, "--%s needs a value: %s", launch_rows[row].name,
                               launch_rows[row].metavar);
            *(const char **)(void *)((char *)w + launch_rows[row].offset) = value;
            word += value == word[1];
        } else if (strcmp(*word, "--dry-run") == 0) {
            w->dry_run = true;
        } else if (strcmp(*word, "--help") == 0) {
            w->help = true;
        } else {
            *rest++ = *word;
        }
    }
    for (word += *word != NULL; *word; word++)
        *rest++ = *word;
    *rest = NULL;
    return DT_OK;
}

static dt_status count_of(const char *name, const char *text, int otherwise, int *count)
{
    const char *end = NULL;
    int64_t n = otherwise;

    if (text &&
        (!dt_whole_parse(text, &end, &n) || *end || n < 1 || n > DT_MOST_HOSTS * DT_MOST_SLOTS))
        return dt_fail(DT_USAGE, "--%s: '%.40s' is no number of ranks", name, text);
    *count = (int)n;
    return DT_OK;
}

/* ---- Where ranks go -------------------------------------------------------------------------- */

static dt_status find_hosts(const launch_words *w, dt_hosts *h)
{
    int slots = 0;

    if (!!w->hosts + !!w->hostfile + !!w->rank_table > 1)
        return dt_fail(DT_USAGE, "--hosts, --hostfile and --rank-table: one of them, not several");
    DT_TRY(count_of("nproc-per-node", w->per_host, 1, &slots));
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

static void tell_all(const launch_words *w)
{
    for (size_t i = 0; i < DT_COUNT_OF(told); i++)
        if (!told[i].root || geteuid() == 0)
            tell(told[i].name, told[i].value, w->dry_run);
    for (size_t i = 0; w->interface && i < DT_COUNT_OF(interface_names); i++)
        tell(interface_names[i], w->interface, w->dry_run);
    for (size_t i = 0; w->agent && i < DT_COUNT_OF(agent_names); i++)
        tell(agent_names[i], w->agent, w->dry_run);
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

static dt_status put_line(words_out *o, const launch_words *w, const dt_hosts *h, const char *hosts,
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

static dt_status start(const launch_words *w, const dt_hosts *h)
{
    words_out o = {.word = NULL};
    char np[16], program[PATH_MAX], *hosts = NULL;
    int here = 0, ranks = 0;
    dt_status st = DT_OK;

    DT_GO(st, count_of("nproc-per-node", w->per_host, cores_here(), &here), out);
    DT_GO(st, count_of("np", w->np, h->count ? h->ranks : here, &ranks), out);
    snprintf(np, sizeof np, "%d", ranks);
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    DT_GO(st, host_list(h, &hosts), out);
    DT_GO(st, put_line(&o, w, h, hosts, np, length > 0 ? program : "dtrain"), out);
    tell_all(w);
    if (w->dry_run) {
        for (size_t i = 0; i < o.count; i++)
            print_word(o.word[i]);
        putchar('\n');
        goto out;
    }
    fflush(stdout);
    execvp(o.word[0], o.word);
    st = dt_fail(DT_NOINPUT, "cannot start mpirun: %s; install openmpi-bin, or put it into PATH",
                 strerror(errno));
out:
    free(hosts);
    free(o.kept);
    free(o.word);
    return st;
}

dt_status dt_launch(int argc, char **argv)
{
    launch_words w;
    dt_hosts h;

    (void)argc; /* argv ends with NULL */
    DT_TRY(read_words(&w, argv));
    if (w.help) {
        launch_help();
        return DT_OK;
    }
    DT_TRY(find_hosts(&w, &h));
    const dt_status st = start(&w, &h);
    dt_hosts_release(&h);
    return st;
}

/* ---- Rank tables ----------------------------------------------------------------------------- */

dt_status dt_ranktable(int argc, char **argv)
{
    launch_words w;
    dt_hosts h;
    int slots = 0;

    (void)argc;
    DT_TRY(read_words(&w, argv));
    const bool checks = w.rest[0] != NULL;
    if (w.help || checks == !!w.hosts || (checks && w.rest[1]) || w.hostfile || w.rank_table)
        return dt_fail(DT_USAGE, "usage: dtrain ranktable FILE, to check one; dtrain ranktable "
                                 "--hosts a,b --nproc-per-node 8, to print one");
    if (checks) {
        DT_TRY(dt_ranktable_read(&h, w.rest[0]));
        printf("ok   %s: %d ranks on %d hosts:", w.rest[0], h.ranks, h.count);
        for (int i = 0; i < h.count; i++)
            printf(" %s:%d", h.host[i].name, h.host[i].slots);
        putchar('\n');
        dt_hosts_release(&h);
        return DT_OK;
    }
    DT_TRY(count_of("nproc-per-node", w.per_host, 8, &slots));
    DT_TRY(dt_hosts_parse(&h, w.hosts, slots, "--hosts"));
    const dt_status st = dt_ranktable_write(stdout, &h);
    dt_hosts_release(&h);
    return st;
}
