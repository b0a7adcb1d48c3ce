/* eyes.h - one look at the table, and what follows from it; private to src/watch. */
#ifndef DT_WATCH_EYES_H
#define DT_WATCH_EYES_H
#include <pthread.h>
#include <semaphore.h>

#include "channel.h"

struct dt_watch {
    dt_table table;
    dt_node_mem *memory;
    size_t bytes;        /* of the table */
    int copy;            /* the file's descriptor, on rank 0's node; -1: there is none */
    dt_channel *channel; /* NULL: one node */
    int rank, world, node_first, node_end; /* ranks of this node */
    double warn_s, abort_s, silent_s;      /* of stillness; silent_s: of a host; HUGE_VAL: never */
    dt_watch_view *view;                   /* [world] */
    pthread_t thread, copier;              /* what of them was started: */
    bool watches, copies;
    sem_t copy_due;
    bool stop;             /* under wake and copy_due */
    int64_t since_ns;      /* nothing counts from before: the start, or the end of a pause */
    dt_watch_verdict last; /* what was said; FINE: nothing */
    double next_s;         /* of stillness, when it is said again */
};

/* See all ranks, tell the other nodes of this one's, judge, and speak and end the run where it is
 * for this rank to do so. Once a tick, by the watch's thread. */
void dt_watch_look(dt_watch *w, int64_t now);
/* Make the file, say in one line where that fails: its descriptor, or -1. Local. */
int dt_copy_make(const char *folder, size_t bytes);
/* The table as it is now into the file. Local. */
void dt_copy_write(const dt_watch *w);
/* A thread that does so when it is asked, and at the end: a disk that hangs keeps nobody else. */
void *dt_copy_main(void *context);
void dt_copy_ask(dt_watch *w);
/* End this process where its node's ranks are to end. */
void dt_watch_obey(const dt_watch *w);
#endif
