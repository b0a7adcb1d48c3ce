/* affinity.c - the CPUs that this process may use, and those that a rank's threads keep to.
 *
 * Memory lies on the NUMA node whose CPU first writes to it, and is slow from others. So where a
 * machine's NUMA nodes, or else its packages, can be dealt to its ranks in equal numbers, or its
 * ranks to them, each rank keeps to its share. No rank gets fewer CPUs than it has threads, and a
 * launcher's choice stands. */
#include "cgroup.h"
#include "topology.h"
#include <hwloc/glibc-sched.h>
#include <omp.h>

enum { MOST_PARTS = 64 };

typedef struct part {
    cpu_set_t cpus;
    unsigned number; /* the system's */
} part;

static cpu_set_t all; /* before dt_affinity_enter; empty: it has changed nothing */

/* libgomp binds the first thread to one place before main (OMP_PROC_BIND): then its mask is not
 * the process's, and the places are. */
void dt_machine_cpus(cpu_set_t *set)
{
    int cpu[CPU_SETSIZE];
    const int places = omp_get_num_places();

    *set = all;
    if (CPU_COUNT(&all) > 0)
        return;
    for (int place = 0; place < places; place++) {
        const int count = omp_get_place_num_procs(place);
        if (count > CPU_SETSIZE)
            continue;
        omp_get_place_proc_ids(place, cpu);
        for (int k = 0; k < count; k++)
            if (cpu[k] >= 0 && cpu[k] < CPU_SETSIZE)
                CPU_SET((size_t)cpu[k], set);
    }
    if (places < 1 && sched_getaffinity(0, sizeof *set, set) != 0)
        CPU_ZERO(set); /* more CPUs than a set holds */
}

static cpu_set_t allowed_of(hwloc_topology_t t, hwloc_const_cpuset_t cpus)
{
    cpu_set_t set, allowed;

    hwloc_cpuset_to_glibc_sched_affinity(t, cpus, &set, sizeof set);
    hwloc_cpuset_to_glibc_sched_affinity(t, hwloc_topology_get_allowed_cpuset(t), &allowed,
                                         sizeof allowed);
    CPU_AND(&set, &set, &allowed);
    return set;
}

/* Neighbours follow each other. Nodes of memory alone have no CPUs, or those of another node. */
static int parts_of(hwloc_topology_t t, hwloc_obj_type_t type, part out[MOST_PARTS])
{
    cpu_set_t seen, both;
    int n = 0;

    CPU_ZERO(&seen);
    for (hwloc_obj_t o = NULL; n < MOST_PARTS && (o = hwloc_get_next_obj_by_type(t, type, o));) {
        out[n] = (part){allowed_of(t, o->cpuset), o->os_index};
        CPU_AND(&both, &seen, &out[n].cpus);
        CPU_OR(&seen, &seen, &out[n].cpus);
        n += CPU_COUNT(&out[n].cpus) > 0 && CPU_COUNT(&both) == 0;
    }
    return n;
}

/* All ranks by parts of this kind, or none. `together` ranks have one share, of `each` parts. */
static bool affinity_deal(dt_affinity *h, const char *kind, const part *p, int parts,
                          const dt_seat *s)
{
    const int together = parts > 0 && s->ranks % parts == 0 ? s->ranks / parts : 1;
    const int shares = s->ranks / together, each = parts / shares, own = s->rank / together;
    const int first = each * own;

    if (parts < 2 || parts % shares != 0)
        return false;
    for (int k = 0; k < shares; k++) {
        cpu_set_t share = p[each * k].cpus;
        for (int i = 1; i < each; i++)
            CPU_OR(&share, &share, &p[each * k + i].cpus);
        if (CPU_COUNT(&share) < together * s->threads)
            return false;
        if (k == own)
            h->cpus = share;
    }
    h->kind = kind;
    if (each == 1)
        snprintf(h->text, sizeof h->text, "%s %u", kind, p[first].number);
    else
        snprintf(h->text, sizeof h->text, "%ss %u to %u", kind, p[first].number,
                 p[first + each - 1].number);
    return true;
}

void dt_affinity_on(dt_affinity *h, hwloc_topology_t t, const dt_seat *s)
{
    static const struct {
        hwloc_obj_type_t type;
        const char *name;
    } kinds[] = {{HWLOC_OBJ_NUMANODE, "NUMA node"}, {HWLOC_OBJ_PACKAGE, "package"}};
    const cpu_set_t allowed = allowed_of(t, hwloc_topology_get_topology_cpuset(t));
    const char *reason = NULL;
    part parts[MOST_PARTS];

    *h = (dt_affinity){.kind = NULL};
    if (s->ranks < 2)
        reason = "no: one rank has the machine";
    else if (s->bound)
        reason = "no: OMP_PROC_BIND or OMP_PLACES is set";
    else if (!CPU_EQUAL(&s->cpus, &allowed))
        reason = "no: the launcher has bound it";
    else if (s->quota > 0 && s->quota < CPU_COUNT(&allowed))
        reason = "no: its quota is less than the machine";
    for (size_t k = 0; k < DT_COUNT_OF(kinds) && !reason; k++)
        if (affinity_deal(h, kinds[k].name, parts, parts_of(t, kinds[k].type, parts), s))
            return;
    snprintf(h->text, sizeof h->text, "%s",
             reason ? reason : "no: packages do not divide among ranks, or have too few CPUs");
}

void dt_affinity_find(dt_affinity *h, int rank, int ranks, int threads)
{
    dt_seat s = {.rank = rank, .ranks = ranks, .threads = threads};
    hwloc_topology_t t;

    *h = (dt_affinity){.text = "no: hwloc finds no machine"};
    /* LLVM's OpenMP has places, always. */
    s.bound = getenv("OMP_PROC_BIND") || getenv("OMP_PLACES") || getenv("GOMP_CPU_AFFINITY") ||
              getenv("KMP_AFFINITY");
    s.quota = dt_cgroup_limits("").cpus;
    dt_machine_cpus(&s.cpus);
    if (!dt_topology_load(&t))
        return;
    dt_affinity_on(h, t, &s);
    hwloc_topology_destroy(t);
}

void dt_affinity_enter(dt_affinity *h, int threads)
{
    const cpu_set_t to = h->kind ? h->cpus : all;
    cpu_set_t before;

    dt_machine_cpus(&before);
    if (CPU_COUNT(&to) == 0)
        return;
    if (sched_setaffinity(0, sizeof to, &to) != 0) {
        *h = (dt_affinity){.text = "no: the system refuses it"};
        return;
    }
    all = before;
#pragma omp parallel num_threads(threads)
    (void)sched_setaffinity(0, sizeof to, &to); /* of each thread, also of those from before */
}
