/* monitor.h - shared by the files of extra/watch; private to it. A board has a row for each rank
 * of the world; rows of other nodes come by datagrams. */
#ifndef DT_WATCH_MONITOR_H
#define DT_WATCH_MONITOR_H
#include "watch.h"

#include <netinet/in.h>
#include <semaphore.h>

enum { DT_STATE_GONE = 'X', DT_WATCH_KEY = 32, DT_WATCH_ADDRESSES = 8 };

typedef struct dt_row {
    _Alignas(64) dt_activity place;
    _Atomic int64_t heard_ns; /* when its monitor last was heard; 0: never */
    _Atomic int64_t told_ns;  /* when its node was last heard of; 0: this node, or never */
    _Atomic int state;        /* of a process that does not run: the kernel's letter, or
                               * DT_STATE_GONE; 0: not looked at */
} dt_row;

typedef struct dt_board {
    _Atomic int ended;   /* 1 + the run's exit code; 0: it goes on, or was killed */
    _Atomic int stalled; /* its ranks are to end with DT_STALLED */
    dt_lent file;        /* rank 0's `progress`, which its node's ranks write, too */
    dt_row row[];        /* [world] */
} dt_board;

#define dt_seen(member) atomic_load_explicit(&(member), memory_order_acquire)
#define dt_tell(member, value) atomic_store_explicit(&(member), value, memory_order_release)

enum { DT_WATCH_HEARD_S = 3 }; /* a monitor that is silent for so long does not run */

/* A rank as it is seen. */
typedef struct dt_watch_view {
    bool runs;        /* its process does: its own monitor was heard */
    bool waits;       /* for other ranks */
    double still_s;   /* since its last change, or since it waits, or since it was heard */
    double allowed_s; /* a usual still_s: the longest time between two changes; if it waits, of a
                       * step; if it does not run, of another rank's report of it */
} dt_watch_view;

/* A rank is late if, for longer than allowed_s + warn_s, it does not run, or neither waits nor
 * changes its place. It is named once another rank has waited for warn_s / 2, or if there is no
 * other. If all ranks wait for longer than allowed_s + warn_s + DT_WATCH_HEARD_S, the run cannot
 * continue: one that does not run would have been found by then. Source: Horovod's stall inspector
 * asks who has not come; here all say where they are. */
typedef struct dt_watch_verdict {
    enum { DT_WATCH_FINE, DT_WATCH_LATE, DT_WATCH_ALL_WAIT } kind;
    int rank;       /* the one that is late for longest, or that waits for longest */
    double still_s; /* that one */
    int ranks;      /* that are late, or that wait for so long */
    int waits;      /* that wait, for half of warn_s or longer */
    double waits_s; /* the one that waits for longest */
} dt_watch_verdict;
dt_watch_verdict dt_watch_judge(const dt_watch_view *view, int count, double warn_s);

/* Facts of a rank that every other knows. Words of 64 bits, gathered by a sum over ranks. */
typedef struct dt_who {
    int64_t pid, first;                        /* first: rank of its node */
    int64_t port, address[DT_WATCH_ADDRESSES]; /* of its datagrams, network order; 0: none */
    char host[DT_HOST_CHARS];
    uint8_t key[DT_WATCH_KEY]; /* of the run's datagrams: rank 0's; else 0 */
} dt_who;

struct dt_watch {
    dt_board *board;
    dt_slab memory;                        /* the board's */
    dt_who *who;                           /* [world] */
    int rank, world, node_first, node_end; /* ranks of this node */
    dt_watch_opts o; /* warn_s and abort_s HUGE_VAL: never; folder only while it is opened */

    dt_watch_view *view;   /* [world] */
    int64_t since_ns;      /* the start, or the end of a pause: what was before does not count */
    dt_watch_verdict last; /* what was said; FINE: nothing */
    double next_s;         /* still_s from which the verdict is said again */
    int named;             /* the rank that was last named as slower than the others, -1: none */

    int socket;                 /* -1: one node */
    struct sockaddr_in *leader; /* [world] at a node's first rank: who spoke for it last */
    int64_t *sent;              /* [world] the last message about each rank */

    int file;   /* `progress`, on rank 0's node; -1: there is none */
    char *text; /* [text_bytes] to be written */
    size_t text_bytes;
    _Atomic int written; /* how many times */

    pthread_t thread[2]; /* [threads]: the monitor, the writer */
    int threads;
    sem_t due;        /* the writer is to write or stop */
    _Atomic int stop; /* a futex of the monitor's */
};

/* This rank's socket and its part of w->who, the run's key too. Does nothing where there is one
 * node. DT_NOMEM. Local. */
dt_status dt_channel_open(dt_watch *w, dt_comm *c) DT_MUST_CHECK;
/* Send this node's rows as of `now` to the other nodes. Never waits. Local. */
void dt_channel_send(dt_watch *w, int64_t now);
/* Put all rows that have come into the board. Never waits. Local. */
void dt_channel_receive(dt_watch *w, int64_t now);

enum { DT_MESSAGE_ROWS = 256, DT_MESSAGE_WORDS = 8 + DT_MESSAGE_ROWS * 13 };
/* A message of this node's rows from `first` on, as many as fit; out has
 * DT_MESSAGE_WORDS. Its bytes. */
size_t dt_message_write(const dt_watch *w, int first, int64_t now, int64_t *out);
/* Put its rows, all of other nodes, into the board; returns the first row's rank. -1: it is no
 * message of this run, or is not newer than the last one; nothing is changed. */
int dt_message_read(dt_watch *w, const int64_t *message, size_t bytes, int64_t now);

/* A file in rank 0's folder, unless that is NULL; rank 0's node has it. One warning where that
 * fails. Collective. */
dt_status dt_progress_open(dt_watch *w, dt_comm *c) DT_MUST_CHECK;
/* Write where all ranks are now: by a separate thread, so that a disk that hangs does not keep
 * the monitor, and at the end by rank 0. Nothing where this node has no file. Local. */
void dt_progress_write(const dt_watch *w);
/* "backward, layer3.2.conv2 of step 812". */
void dt_progress_place(const dt_watch *w, int rank, char *out, size_t room);
#endif
