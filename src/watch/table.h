/* table.h - what the ranks of a node share, and the file `progress`, a copy of it; private to
 * src/watch.
 *
 * A header, a row for each rank of the world, then the names of the plan's steps. All numbers are
 * this machine's own: the file is for this machine's programs, and is no archive. */
#ifndef DT_WATCH_TABLE_H
#define DT_WATCH_TABLE_H
#include "watch.h"

#define DT_TABLE_MAGIC "dtrain progress"
enum { DT_TABLE_VERSION = 4, DT_TABLE_NAME = 48, DT_TABLE_BOOT = 40 };
enum { DT_STATE_GONE = 'X' };

typedef struct dt_table_head {
    char magic[16];
    int32_t version, row_bytes, world, names;
    int64_t total_steps, batch;
    char boot[DT_TABLE_BOOT]; /* of the machine: clocks of another one say nothing */
    _Atomic int ended;        /* 1 + its exit code; 0: it goes on, or was killed */
    _Atomic int stalled;      /* its ranks are to end with DT_STALLED */
    dt_lent copy;             /* rank 0's file, which its node's ranks write to */
} dt_table_head;

typedef struct dt_table_row {
    _Alignas(64) dt_place place;
    _Atomic int64_t heard_ns; /* its watcher, last */
    _Atomic int64_t told_ns;  /* when another node last told of it; 0: this node's, or never */
    _Atomic int state;        /* of a process that does not run, the kernel's letter, DT_STATE_GONE
                               * where there is none; 0: nobody has looked */
    int64_t pid;
    int32_t rank, node;
    char host[DT_HOST_CHARS];
} dt_table_row;

typedef struct dt_table {
    dt_table_head *head; /* all in one block */
    dt_table_row *row;   /* [world] */
    char *name;          /* [names][DT_TABLE_NAME] */
} dt_table;

size_t dt_table_bytes(int world, int names);
dt_table dt_table_of(void *memory, int world);
/* The machine's boot. */
void dt_table_boot(char boot[DT_TABLE_BOOT]);
/* "backward, layer3.2.conv2 of step 812". */
void dt_table_place(const dt_table *t, int rank, char *out, size_t room);
#define dt_seen(member) atomic_load_explicit(&(member), memory_order_relaxed)
#define dt_tell(member, value) atomic_store_explicit(&(member), value, memory_order_relaxed)
#endif
