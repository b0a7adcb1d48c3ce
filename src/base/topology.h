/* topology.h - the machine, as hwloc sees it; private to src/base and extra/tools. */
#ifndef DT_TOPOLOGY_H
#define DT_TOPOLOGY_H
#include "base.h"
#include <hwloc.h>

/* All of this machine, not only what the affinity or a cpuset leaves; false: hwloc fails. To be
 * destroyed by hwloc_topology_destroy. */
bool dt_topology_load(hwloc_topology_t *t);

/* A rank of a machine: its number, how many there are, and each one's threads; the CPUs that it was
 * started on, the quota of its control group (0: none), and whether libgomp binds its threads. */
typedef struct dt_seat {
    int rank, ranks, threads;
    cpu_set_t cpus;
    int quota;
    bool bound;
} dt_seat;
/* dt_affinity_find on a machine like t. */
void dt_affinity_on(dt_affinity *h, hwloc_topology_t t, const dt_seat *s);

#endif
