/* words.c - the launch options on the command line, which stand between dtrain's own. */
#include "words.h"

#include <stdlib.h>

enum { MOST_RANKS = DT_MOST_HOSTS * DT_MOST_SLOTS };

static const struct {
    const char *name, *metavar, *help;
    size_t offset;
    int64_t least, most; /* of a number; most 0: it is a text; -1: it has no value */
} row[] = {
#define FLAG(member) offsetof(dt_words, member), 0, -1
#define TEXT(member) offsetof(dt_words, member), 0, 0
#define NUMBER(member, least, most) offsetof(dt_words, member), least, most
    {"hosts", "LIST", "hosts and their ranks: a:8,b:8", TEXT(hosts)},
    {"hostfile", "FILE", "mpirun's file of hosts: lines a slots=8", TEXT(hostfile)},
    {"rank-table", "FILE", "the same as the Ascend tutorial's rank table", TEXT(rank_table)},
    {"nproc-per-node", "N",
     "ranks of a host that is given without a number, and of this one where "
     "none is given (default: 1, and this one's cores)",
     NUMBER(per_host, 1, MOST_RANKS)},
    {"np", "N", "ranks in all (default: those of all hosts)", NUMBER(np, 1, MOST_RANKS)},
    {"interface", "NAME|NET/BITS", "the network between the hosts: eth0, or 10.0.0.0/24",
     TEXT(interface)},
    {"agent", "PROGRAM", "what starts Open MPI's daemon on another host (default: ssh)",
     TEXT(agent)},
    {"nnodes", "N", "the same command is started on each of N hosts (or NNODES); with",
     NUMBER(nodes, 0, DT_MOST_HOSTS)},
    {"node-rank", "K", "which of them this is, from 0 (or NODE_RANK)",
     NUMBER(node, 0, DT_MOST_HOSTS)},
    {"master", "HOST:PORT", "where host 0 waits for the others (or MASTER_ADDR, MASTER_PORT)",
     TEXT(master)},
    {"token-file", "FILE", "a secret that all of them hold (or DTRAIN_TOKEN)", TEXT(token)},
    {"program", "FILE", "what a rank is, in place of dtrain: a script that ends by becoming it",
     TEXT(program)},
    {"dry-run", "", "print what would be started", FLAG(dry_run)},
    {"help", "", "print this", FLAG(help)},
};
enum { ROWS = DT_COUNT_OF(row) };

void dt_words_help(void)
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

/* The row that is called like the first bytes of name; -1: none. */
static int find_row(const char *name, size_t length)
{
    for (int i = 0; i < ROWS; i++)
        if (strlen(row[i].name) == length && strncmp(row[i].name, name, length) == 0)
            return i;
    return -1;
}

static dt_status set(dt_words *w, int i, const char *value)
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

dt_status dt_words_variable(dt_words *w, const char *name, const char *variable)
{
    const int i = find_row(name, strlen(name));
    const void *member = (const char *)w + row[i].offset;
    const char *value = getenv(variable);
    const bool given =
        row[i].most ? *(const int64_t *)member >= 0 : *(const char *const *)member != NULL;

    return given || !value ? DT_OK : set(w, i, value);
}

dt_status dt_words_read(dt_words *w, char **word)
{
    char **rest = word; /* dtrain's words move together */

    *w = (dt_words){.np = -1, .per_host = -1, .nodes = -1, .node = -1, .rest = word};
    for (; *word && strcmp(*word, "--") != 0; word++) {
        const char *name = *word + 2;
        const size_t length = strcspn(*word, "=");
        const int i = strncmp(*word, "--", 2) == 0 ? find_row(name, length - 2) : -1;
        const bool own = (*word)[length] != '\0'; /* value: --name=value */
        if (i < 0) {
            *rest++ = *word;
        } else if (row[i].most < 0) {
            *(bool *)((char *)w + row[i].offset) = true;
        } else {
            DT_TRY(set(w, i, own ? *word + length + 1 : word[1]));
            word += !own;
        }
    }
    for (word += *word != NULL; *word; word++)
        *rest++ = *word;
    *rest = NULL;
    return DT_OK;
}
