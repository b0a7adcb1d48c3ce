/* machine.c - cores, caches and names of this machine, from hwloc, and the part of it
 * that this process may use. */
#include "base.h"
#include "cgroup.h"
#include <hwloc.h>
#include <omp.h>
#include <stdio.h>
#include <unistd.h>

/* libgomp binds the first thread to one place before main (OMP_PROC_BIND): then its mask is not
 * the process's, and the places are. */
void dt_machine_cpus(cpu_set_t *set)
{
    int cpu[CPU_SETSIZE];
    const int places = omp_get_num_places();

    CPU_ZERO(set);
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

static uint64_t machine_cache(hwloc_topology_t topology, hwloc_obj_type_t level)
{
    const hwloc_obj_t cache = hwloc_get_obj_by_type(topology, level, 0);
    return cache ? cache->attr->cache.size : 0;
}

/* What hwloc knows. A virtual machine may show hardware threads, but no cores. */
static void machine_topology(dt_machine *m, hwloc_topology_t topology)
{
    const int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
    if (cores > 0)
        m->cores = cores;
    m->l2_bytes = machine_cache(topology, HWLOC_OBJ_L2CACHE);
    m->l3_bytes = machine_cache(topology, HWLOC_OBJ_L3CACHE);

    const hwloc_obj_t whole = hwloc_get_root_obj(topology);
    const hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
    const char *name = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
    if (!name)
        name = hwloc_obj_get_info_by_name(whole, "CPUModel");
    if (name)
        snprintf(m->cpu, sizeof m->cpu, "%s", name);
}

void dt_host_name(char host[DT_HOST_CHARS])
{
    if (gethostname(host, DT_HOST_CHARS) != 0)
        snprintf(host, DT_HOST_CHARS, "unknown host");
    host[DT_HOST_CHARS - 1] = '\0';
}

void dt_machine_describe(dt_machine *m)
{
    *m = (dt_machine){.cpu = "unknown CPU", .cores = (int)sysconf(_SC_NPROCESSORS_ONLN)};
    dt_host_name(m->host);
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page_bytes > 0)
        m->memory_bytes = (uint64_t)pages * (uint64_t)page_bytes;

    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) == 0) {
        /* The machine's cores, not only those that the affinity or a cpuset leaves. */
        if (hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) == 0 &&
            hwloc_topology_load(topology) == 0)
            machine_topology(m, topology);
        hwloc_topology_destroy(topology);
    }
    cpu_set_t mine;
    dt_machine_cpus(&mine);
    const int quota = dt_cgroup_limits("").cpus;
    m->cores_allowed = CPU_COUNT(&mine) > 0 ? CPU_COUNT(&mine) : m->cores;
    if (quota > 0)
        m->cores_allowed = DT_MIN(m->cores_allowed, quota);
}
