/* machine.c - cores, caches, memory and names of this machine, from hwloc and the kernel. */
#include "cgroup.h"
#include "topology.h"
#include <stdio.h>
#include <unistd.h>

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

static uint64_t machine_cache(hwloc_topology_t topology, hwloc_obj_type_t level)
{
    const hwloc_obj_t cache = hwloc_get_obj_by_type(topology, level, 0);
    return cache ? cache->attr->cache.size : 0;
}

/* Of the first package, or of the machine. */
static const char *machine_info(hwloc_topology_t topology, const char *name)
{
    const hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
    const char *info = package ? hwloc_obj_get_info_by_name(package, name) : NULL;

    return info ? info : hwloc_obj_get_info_by_name(hwloc_get_root_obj(topology), name);
}

/* What hwloc knows. A virtual machine may show hardware threads, but no cores. */
static void machine_topology(dt_machine *m, hwloc_topology_t topology)
{
    const int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
    if (cores > 0)
        m->cores = cores;
    m->packages = DT_MAX(hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE), 1);
    m->numa_nodes = DT_MAX(hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE), 1);
    m->l2_bytes = machine_cache(topology, HWLOC_OBJ_L2CACHE);
    m->l3_bytes = machine_cache(topology, HWLOC_OBJ_L3CACHE);

    const char *name = machine_info(topology, "CPUModel");
    const char *maker = machine_info(topology, "CPUImplementer");
    const char *part = machine_info(topology, "CPUPart");
    if (name)
        snprintf(m->cpu, sizeof m->cpu, "%s", name);
    else if (maker && part) /* ARM's have numbers */
        snprintf(m->cpu, sizeof m->cpu, "ARM CPU, implementer %s, part %s", maker, part);
}

/* The word in brackets of "always [madvise] never". */
static void machine_huge_pages(dt_machine *m)
{
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");

    if (!f)
        return;
    char text[64] = "";
    if (fgets(text, sizeof text, f) && strchr(text, '['))
        (void)sscanf(strchr(text, '['), "[%15[a-z]", m->huge_pages);
    fclose(f);
}

void dt_host_name(char host[DT_HOST_CHARS])
{
    if (gethostname(host, DT_HOST_CHARS) != 0)
        snprintf(host, DT_HOST_CHARS, "unknown host");
    host[DT_HOST_CHARS - 1] = '\0';
}

void dt_machine_describe(dt_machine *m)
{
    *m = (dt_machine){.cpu = "unknown CPU",
                      .cores = (int)sysconf(_SC_NPROCESSORS_ONLN),
                      .packages = 1,
                      .numa_nodes = 1,
                      .huge_pages = "unknown"};
    dt_host_name(m->host);
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page_bytes > 0)
        m->memory_bytes = (uint64_t)pages * (uint64_t)page_bytes;

    hwloc_topology_t topology;
    machine_huge_pages(m);
    if (dt_topology_load(&topology)) {
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
