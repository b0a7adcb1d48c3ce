/* env.c - dtrain env: what a run would find on this machine. */
#include "tools.h"

#include "base/topology.h"
#include "launch/launch.h"

typedef struct machine {
    int packages, numa_nodes;
    char cpu[128];
    double l2, l3; /* MiB */
} machine;

static double machine_cache(hwloc_topology_t topology, hwloc_obj_type_t level)
{
    const hwloc_obj_t cache = hwloc_get_obj_by_type(topology, level, 0);
    return cache ? (double)cache->attr->cache.size / (1 << 20) : 0;
}

/* Of the first package, or of the machine. */
static const char *machine_info(hwloc_topology_t topology, const char *name)
{
    const hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
    const char *info = package ? hwloc_obj_get_info_by_name(package, name) : NULL;

    return info ? info : hwloc_obj_get_info_by_name(hwloc_get_root_obj(topology), name);
}

/* What hwloc knows. */
static machine machine_find(void)
{
    machine m = {.cpu = "unknown CPU", .packages = 1, .numa_nodes = 1};
    hwloc_topology_t topology;

    if (!dt_topology_load(&topology))
        return m;
    m.packages = DT_MAX(hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE), 1);
    m.numa_nodes = DT_MAX(hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE), 1);
    m.l2 = machine_cache(topology, HWLOC_OBJ_L2CACHE);
    m.l3 = machine_cache(topology, HWLOC_OBJ_L3CACHE);

    const char *name = machine_info(topology, "CPUModel");
    const char *maker = machine_info(topology, "CPUImplementer");
    const char *part = machine_info(topology, "CPUPart");
    if (name)
        snprintf(m.cpu, sizeof m.cpu, "%s", name);
    else if (maker && part) /* ARM's have numbers */
        snprintf(m.cpu, sizeof m.cpu, "ARM CPU, implementer %s, part %s", maker, part);
    hwloc_topology_destroy(topology);
    return m;
}

/* Whether the kernel gives pages of 2 MiB: always, madvise (where asked, as slabs do), never: the
 * word in brackets of "always [madvise] never"; else unknown. */
static void huge_pages(char out[16])
{
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    char text[64] = "";

    snprintf(out, 16, "unknown");
    if (f && fgets(text, sizeof text, f) && strchr(text, '['))
        (void)sscanf(strchr(text, '['), "[%15[a-z]", out);
    if (f)
        fclose(f);
}

/* Library, version, build and core of an engine, or why there is none. */
static json_t *env_engine(const char *name)
{
    const bool there = dt_engine_use(name) == DT_OK;
    json_t *j = json_string(there ? dt_engine_text() : dt_fail_text());

    dt_fail_clear();
    return dt_engine_use("own") == DT_OK ? j : NULL;
}

static json_t *env_object(dt_comm *c)
{
    const double mib = 1 << 20;
    const double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    const machine m = machine_find();
    char host[DT_HOST_CHARS], pages[16];
    int cores;
    const int allowed = dt_cores(&cores);
    dt_affinity affinity;

    dt_host_name(host);
    huge_pages(pages);
    dt_affinity_find(&affinity, c->machine_rank, c->machine_ranks, dt_threads_auto(c));
    const dt_isa isa = dt_isa_current();
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, "
        "s:s, s:s, s:f, s:f, s:f, s:f}",
        "host", host, "cpu", m.cpu, "isa", dt_isa_name(isa), "amx",
        isa >= DT_ISA_AMX ? "yes" : "no", "bf16", isa >= DT_ISA_AVX512_BF16 ? "yes" : "no",
        "dtrain", dt_build(), "MPI", dt_comm_version(), "openblas", env_engine("openblas"),
        "onednn", env_engine("onednn"), "packages", m.packages, "numa_nodes", m.numa_nodes, "cores",
        cores, "cores_allowed", allowed, "ranks", c->world, "nodes", c->nodes, "ranks_on_node",
        c->node_ranks, "threads_per_rank", dt_threads_auto(c), "pinned", affinity.text,
        "huge_pages", pages, "l2", m.l2, "l3", m.l3, "memory", memory / mib, "memory_available",
        (double)dt_memory_available() / mib);
}

/* Real numbers are MiB. */
static void env_text(json_t *j)
{
    const char *name;
    json_t *value;

    json_object_foreach (j, name, value)
        if (json_is_string(value))
            printf("%-20s %s\n", name, json_string_value(value));
        else if (json_is_integer(value))
            printf("%-20s %d\n", name, (int)json_integer_value(value));
        else if (json_real_value(value) < 1)
            printf("%-20s %.0f KiB\n", name, 1024 * json_real_value(value));
        else
            printf("%-20s %.0f MiB\n", name, json_real_value(value));
    const int ranks = (int)json_integer_value(json_object_get(j, "ranks_on_node"));
    const int cores = (int)json_integer_value(json_object_get(j, "cores_allowed"));
    const char *yields = dt_mpirun_of(dt_comm_version())->yields;
    if (ranks > cores)
        printf("\n%d ranks share %d cores: the results are the same, but waiting\n"
               "ranks take time from working ones%s%s\n",
               ranks, cores, yields ? "; set " : "", yields ? yields : "");
}

dt_status dt_env(dt_comm *c, const dt_options *o)
{
    if (c->rank != 0)
        return DT_OK;
    json_t *j = env_object(c);
    if (!o->json)
        env_text(j);
    else if (json_dumpf(j, stdout, JSON_INDENT(1)) == 0)
        putchar('\n');
    json_decref(j);
    return DT_OK;
}
