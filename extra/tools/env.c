/* env.c - dtrain env: what a run would find on this machine. */
#include "tools.h"

#include "launch/launch.h"

#include <jansson.h>

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
    dt_machine m;
    dt_affinity affinity;

    dt_machine_describe(&m);
    dt_affinity_find(&affinity, c->machine_rank, c->machine_ranks, dt_threads_auto(c));
    const dt_isa isa = dt_isa_current();
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, "
        "s:s, s:s, s:f, s:f, s:f, s:f}",
        "host", m.host, "cpu", m.cpu, "isa", dt_isa_name(isa), "amx",
        isa >= DT_ISA_AMX ? "yes" : "no", "bf16", isa >= DT_ISA_AVX512_BF16 ? "yes" : "no",
        "dtrain", dt_build(), "MPI", dt_comm_version(), "openblas", env_engine("openblas"),
        "onednn", env_engine("onednn"), "packages", m.packages, "numa_nodes",
        m.numa_nodes, "cores", m.cores, "cores_allowed", m.cores_allowed, "ranks", c->world,
        "nodes", c->nodes, "ranks_on_node", c->node_ranks, "threads_per_rank", dt_threads_auto(c),
        "pinned", affinity.text, "huge_pages", m.huge_pages, "l2", (double)m.l2_bytes / mib, "l3",
        (double)m.l3_bytes / mib, "memory", (double)m.memory_bytes / mib, "memory_available",
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
