/* machine.c - this machine's name and cores. */
#include "cgroup.h"
#include "topology.h"

bool dt_topology_load(hwloc_topology_t *t)
{
    if (hwloc_topology_init(t) != 0)
        return false;
    if (hwloc_topology_set_flags(*t, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) == 0 &&
        hwloc_topology_load(*t) == 0)
        return true;
    hwloc_topology_destroy(*t);
    return false;
}

void dt_host_name(char host[DT_HOST_CHARS])
{
    if (gethostname(host, DT_HOST_CHARS) != 0)
        snprintf(host, DT_HOST_CHARS, "unknown host");
    host[DT_HOST_CHARS - 1] = '\0';
}

int dt_cores(int *machine)
{
    const int quota = dt_cgroup_limits("").cpus;
    int cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    hwloc_topology_t topology;
    cpu_set_t mine;

    if (dt_topology_load(&topology)) {
        const int found = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
        cores = found > 0 ? found : cores; /* a virtual machine may show hardware threads alone */
        hwloc_topology_destroy(topology);
    }
    if (machine)
        *machine = cores;
    dt_machine_cpus(&mine);
    const int allowed = CPU_COUNT(&mine) > 0 ? CPU_COUNT(&mine) : cores;
    return quota > 0 ? DT_MIN(allowed, quota) : allowed;
}
