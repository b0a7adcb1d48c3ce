/* words.h - the launch options on the command line; private to src/launch. */
#ifndef DT_LAUNCH_WORDS_H
#define DT_LAUNCH_WORDS_H
#include "launch_internal.h"

typedef struct dt_words {
    /* NULL: not given */
    const char *hosts, *hostfile, *rank_table, *np, *per_host, *interface, *agent;
    const char *nodes, *node, *master, *token, *program;
    bool dry_run, help;
    char **rest; /* dtrain's own, up to NULL */
} dt_words;

/* argv up to its NULL, whose words that are dtrain's own move together. DT_USAGE. */
dt_status dt_words_read(dt_words *w, char **word) DT_MUST_CHECK;
void dt_words_help(void);

/* The value of --name as a number of ranks; text NULL: `otherwise`. DT_USAGE. */
dt_status dt_words_count(const char *name, const char *text, int otherwise,
                         int *count) DT_MUST_CHECK;
/* The same as a number from 0 to `most`. */
dt_status dt_words_number(const char *name, const char *text, int64_t most,
                          uint32_t *number) DT_MUST_CHECK;
#endif
