/* words.c - the launch options on the command line, which stand between dtrain's own. */
#include "words.h"

#include <stdlib.h>

static const struct {
    const char *name, *metavar, *help;
    size_t offset;
} launch_rows[] = {
    {"hosts", "LIST", "hosts and their ranks: a:8,b:8", offsetof(dt_words, hosts)},
    {"hostfile", "FILE", "the same as lines: a slots=8", offsetof(dt_words, hostfile)},
    {"rank-table", "FILE", "the same as the Ascend tutorial's rank table",
     offsetof(dt_words, rank_table)},
    {"nproc-per-node", "N",
     "ranks of a host that is given without a number, and of this one where "
     "none is given (default: 1, and this one's cores)",
     offsetof(dt_words, per_host)},
    {"np", "N", "ranks in all (default: those of all hosts)", offsetof(dt_words, np)},
    {"interface", "NAME|NET/BITS", "the network between the hosts: eth0, or 10.0.0.0/24",
     offsetof(dt_words, interface)},
    {"agent", "PROGRAM", "what starts Open MPI's daemon on another host (default: ssh)",
     offsetof(dt_words, agent)},
    {"nnodes", "N", "the same command is started on each of N hosts (or NNODES); with",
     offsetof(dt_words, nodes)},
    {"node-rank", "K", "which of them this is, from 0 (or NODE_RANK)", offsetof(dt_words, node)},
    {"master", "HOST:PORT", "where host 0 waits for the others (or MASTER_ADDR, MASTER_PORT)",
     offsetof(dt_words, master)},
    {"token-file", "FILE", "a secret that all of them hold (or DTRAIN_TOKEN)",
     offsetof(dt_words, token)},
    {"program", "FILE", "what a rank is, in place of dtrain: a script that ends by becoming it",
     offsetof(dt_words, program)},
};
enum { LAUNCH_ROWS = DT_COUNT_OF(launch_rows) };

void dt_words_help(void)
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

dt_status dt_words_read(dt_words *w, char **word)
{
    *w = (dt_words){.rest = word};
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

dt_status dt_words_number(const char *name, const char *text, int64_t most, uint32_t *number)
{
    const char *end = NULL;
    int64_t n = -1;

    if (!text || !dt_whole_parse(text, &end, &n) || *end || n < 0 || n > most)
        return dt_fail(DT_USAGE, "--%s: '%.40s' is not a number from 0 to %lld", name,
                       text ? text : "", (long long)most);
    *number = (uint32_t)n;
    return DT_OK;
}

dt_status dt_words_count(const char *name, const char *text, int otherwise, int *count)
{
    const char *end = NULL;
    int64_t n = otherwise;

    if (text &&
        (!dt_whole_parse(text, &end, &n) || *end || n < 1 || n > DT_MOST_HOSTS * DT_MOST_SLOTS))
        return dt_fail(DT_USAGE, "--%s: '%.40s' is no number of ranks", name, text);
    *count = (int)n;
    return DT_OK;
}
