/* replay.h - every state that a power cut may leave, from a log of record.h.
 *
 * The model, after ALICE (Pillai et al., OSDI'14) and CrashMonkey (Mohan et al.,
 * OSDI'18), and as weak as POSIX allows. A cut may come between any two calls. Durable is:
 * of a file what was written before its last fsync; of a folder the entries made, renamed
 * and removed in it before its last fsync. Everything else is pending, and each pending
 * thing is kept or lost on its own, whatever its age:
 *   - a write may be there, not there, there in part, or as zeros or garbage in its range;
 *   - an entry may be as before or as after. fsync of a file does not make its entry
 *     durable. A rename is one: both its entries or neither. Changes of the same entry
 *     keep their order; nothing else does. */
#ifndef REPLAY_H
#define REPLAY_H
#include "base/base.h"
#include "record.h"
#include <stdio.h>

enum { NOWHERE = -1, MAX_LABEL = 80 };
#define NEVER SIZE_MAX

_Noreturn void die(const char *fmt, ...) DT_PRINTF(1, 2);
/* Room for one more of n elements, doubled as needed: never NULL. */
void *grow(void *list, size_t n, size_t size);

/* ---- replay_history.c: the log as changes of entries and edits of files -------------- */

typedef struct bytes {
    unsigned char *data;
    size_t size;
} bytes;

typedef struct node { /* a file or a folder, whatever its name is */
    bool folder;
    bytes initial; /* a file's, before the log */
    int *entries;  /* of a folder */
    size_t entry_count;
    int *edits; /* of a file */
    size_t edit_count;
} node;

typedef struct entry { /* a name in a folder */
    char *name;
    int folder, initial; /* nodes */
    struct {
        int change, to;
    } * turns; /* what it was made to mean, in order */
    size_t turn_count;
} entry;

typedef struct change { /* of one entry, or of the two of a rename */
    size_t at, durable; /* index in the log of the call, and of the sync */
    int entry[2], before[2], entries;
} change;

typedef struct edit { /* of a file's content */
    size_t at, durable;
    shim_call call; /* WRITE, TRUNCATE, ALLOCATE */
    int64_t offset;
    const unsigned char *data;
    size_t size;
} edit;

typedef struct saved {
    size_t since; /* acknowledged as durable at this cut and later; NEVER: only legal */
    long step;
    char hash[64];
} saved;

typedef struct history {
    node *nodes; /* 0 is the root */
    entry *entries;
    change *changes;
    edit *edits;
    saved *saves;
    char **calls; /* the log as text */
    bool *inert;  /* [calls], changes nothing: close and the like */
    size_t *row;  /* [calls], place in a row of writes to one file, from 0 */
    size_t node_count, entry_count, change_count, edit_count, save_count, call_count;
    size_t syncs;
    int last_written; /* file */
    char *told;       /* stdout so far, up to the last whole line */
} history;

void history_read_folder(history *h, const char *path); /* what was there before the log */
/* Lines "saved STEP HASH", acknowledged from the start, and "known STEP HASH". */
void history_read_known(history *h, const char *path);
void history_read_log(history *h, const char *path);

/* ---- replay_content.c: what may be in a file, and files by their content -------------- */

typedef struct table { /* digest to number */
    dt_digest *keys;
    int *values; /* NOWHERE: free */
    size_t room, count;
} table;
int *table_slot(table *t, dt_digest key, bool *is_new);

typedef struct pool { /* every content once, as a file to be linked to */
    char path[4096];
    table index;
    dt_digest *digests;
    int count;
} pool;
int pool_add(pool *p, bytes content);

typedef struct variant {
    int content; /* in the pool */
    char label[MAX_LABEL];
} variant;
typedef struct variants {
    variant *list; /* first: all is there; second, if any: all that is pending is lost */
    size_t count;
    size_t durable, pending; /* edits that the list was made for */
    bool made;
} variants;
/* Returns whether anything is pending at the cut. */
bool variants_make(const history *h, int file, size_t cut, pool *p, variants *v);

/* ---- replay_states.c: every choice at one cut ---------------------------------------- */

typedef struct state {
    const history *h;
    size_t cut;
    bool *kept;      /* [changes] */
    size_t *choice;  /* [nodes], of files */
    variants *files; /* [nodes] */
} state;
/* The node that an entry leads to, or NOWHERE. */
int state_entry(const state *s, int entry);

typedef struct limits {
    uint64_t per_cut, seed;
} limits;
/* Calls visit for the states at the cut s->cut, each at least once when they are at most
 * per_cut, else for a systematic part and a random part of them. Returns whether all. */
typedef void state_visit(void *self, const state *s);
bool states_at_cut(state *s, pool *p, const limits *l, state_visit *visit, void *self);

/* ---- replay_loader.c: the program under test --------------------------------------- */

typedef struct tree {
    struct {
        char *path;
        int content; /* NOWHERE: a folder */
    } * items;       /* folders before what they hold */
    size_t count;
    dt_digest digest;
} tree;
void tree_make(tree *t, const state *s, const pool *p);
/* Make the folder `path` of it, of links into the pool. */
void tree_write(const tree *t, const pool *p, const char *path);
/* The digest of a folder as it is on disk. */
dt_digest tree_read(const char *path);
void tree_free(tree *t);

typedef struct loader {
    char **command;
    int pid, to, from;
    const pool *contents;
    char path[4096];
} loader;
/* The line it prints for the tree; "died" or "hung" when it does not. */
void loader_ask(loader *l, const tree *t, char *line, size_t size);
void loader_close(loader *l);
#endif
