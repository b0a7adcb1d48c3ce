/* words.h - the launch options on the command line; private to src/launch. */
#ifndef DT_LAUNCH_WORDS_H
#define DT_LAUNCH_WORDS_H
#include "launch.h"

typedef struct dt_words {
    /* NULL: not given */
    const char *hosts, *hostfile, *rank_table, *interface, *agent, *master, *token, *program;
    /* -1: not given */
    int64_t np, per_host, nodes, node;
    bool dry_run, help;
    char **rest; /* dtrain's own, up to NULL */
} dt_words;

/* argv up to its NULL, whose words that are dtrain's own move together. DT_USAGE. */
dt_status dt_words_read(dt_words *w, char **word) DT_MUST_CHECK;
/* The option `name`, where it was not given, from the variable, where that is set. DT_USAGE. */
dt_status dt_words_variable(dt_words *w, const char *name, const char *variable) DT_MUST_CHECK;
void dt_words_help(void);
#endif
