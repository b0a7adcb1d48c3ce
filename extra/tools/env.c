/* env.c - dtrain env: what a run would find on this machine. */
#include "tools.h"

#include "base/topology.h"
#include "launch/launch.h"

/* MiB. */
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
    const dt_isa isa = dt_isa_current();
    char host[DT_HOST_CHARS], cpu[128] = "unknown CPU", pages[16];
    int packages = 1, numa_nodes = 1, cores;
    double l2 = 0, l3 = 0;
    hwloc_topology_t topology;
    dt_affinity affinity;

    if (dt_topology_load(&topology)) {
        const char *name = machine_info(topology, "CPUModel");
        const char *maker = machine_info(topology, "CPUImplementer");
        const char *part = machine_info(topology, "CPUPart");
        if (name)
            snprintf(cpu, sizeof cpu, "%s", name);
        else if (maker && part) /* ARM's have numbers */
            snprintf(cpu, sizeof cpu, "ARM CPU, implementer %s, part %s", maker, part);
        packages = DT_MAX(hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE), 1);
        numa_nodes = DT_MAX(hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE), 1);
        l2 = machine_cache(topology, HWLOC_OBJ_L2CACHE);
        l3 = machine_cache(topology, HWLOC_OBJ_L3CACHE);
        hwloc_topology_destroy(topology);
    }
    dt_host_name(host);
    huge_pages(pages);
    const int allowed = dt_cores(&cores);
    dt_affinity_find(&affinity, c->machine_rank, c->machine_ranks, dt_threads_auto(c));
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, "
        "s:s, s:s, s:f, s:f, s:f, s:f}",
        "host", host, "cpu", cpu, "isa", dt_isa_name(isa), "amx", isa >= DT_ISA_AMX ? "yes" : "no",
        "bf16", isa >= DT_ISA_AVX512_BF16 ? "yes" : "no", "dtrain", dt_build(), "MPI",
        dt_comm_version(), "openblas", env_engine("openblas"), "onednn", env_engine("onednn"),
        "packages", packages, "numa_nodes", numa_nodes, "cores", cores, "cores_allowed", allowed,
        "ranks", c->world, "nodes", c->nodes, "ranks_on_node", c->node_ranks, "threads_per_rank",
        dt_threads_auto(c), "pinned", affinity.text, "huge_pages", pages, "l2", l2, "l3", l3,
        "memory", memory / mib, "memory_available", (double)dt_memory_available() / mib);
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
