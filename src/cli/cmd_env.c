/* cmd_env.c - dtrain env: what a run would find on this machine. */
#include "cli.h"
#include <jansson.h>
#include <stdlib.h>

/* One line: numbers of bytes are shown in MiB. */
static void env_line(const char *name, const json_t *value)
{
    const char *unit = strstr(name, "_bytes");

    if (json_is_string(value))
        printf("%-20s %s\n", name, json_string_value(value));
    else if (json_is_boolean(value))
        printf("%-20s %s\n", name, json_is_true(value) ? "yes" : "no");
    else if (unit && unit[strlen("_bytes")] == '\0')
        printf("%-20.*s %.0f MiB\n", (int)(unit - name), name,
               (double)json_integer_value(value) / (1 << 20));
    else
        printf("%-20s %lld\n", name, (long long)json_integer_value(value));
}

static json_t *env_libraries(void)
{
    json_t *libraries = json_object();

    for (const dt_field *f = dt_library_versions(); f->name; f++)
        json_object_set_new(libraries, f->name, json_string(f->value));
    return libraries;
}

/* Everything that is shown, in order; jansson keeps it. New reference or NULL. */
static json_t *env_describe(dt_comm *c)
{
    dt_machine m;
    dt_machine_describe(&m);
    const dt_isa isa = dt_isa_current();
    const int ranks = dt_comm_node_ranks(c);

    return json_pack(
        "{s:s, s:s, s:s, s:b, s:b, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:I, "
        "s:o}",
        "host", m.host, "cpu", m.cpu, "isa", dt_isa_name(isa), "amx", isa >= DT_ISA_AMX, "bf16",
        isa >= DT_ISA_AVX512_BF16, "cores", m.cores, "cores_allowed", m.cores_allowed, "ranks",
        dt_comm_world(c), "nodes", dt_comm_nodes(c), "ranks_on_node", ranks, "threads_per_rank",
        dt_threads_auto(c), "l2_bytes", (json_int_t)m.l2_bytes, "l3_bytes", (json_int_t)m.l3_bytes,
        "memory_bytes", (json_int_t)m.memory_bytes, "memory_available_bytes",
        (json_int_t)dt_memory_available(), "libraries", env_libraries());
}

static dt_status env_print(dt_comm *c, bool json)
{
    dt_status st = DT_OK;
    json_t *all = env_describe(c), *value = NULL;
    const char *name = NULL;

    if (!all) {
        st = dt_fail(DT_NOMEM, "no memory to describe the machine");
        goto out;
    }
    if (json) {
        json_dumpf(all, stdout, JSON_INDENT(2));
        putchar('\n');
        goto out;
    }
    json_object_foreach (all, name, value)
        if (!json_is_object(value))
            env_line(name, value);
    json_t *libraries = json_object_get(all, "libraries");
    json_object_foreach (libraries, name, value)
        env_line(name, value);
    const json_int_t ranks = json_integer_value(json_object_get(all, "ranks_on_node"));
    const json_int_t cores = json_integer_value(json_object_get(all, "cores_allowed"));
    if (ranks > cores)
        printf("\n%lld ranks share %lld cores: the results are the same, but waiting\n"
               "ranks take time from working ones; set OMPI_MCA_mpi_yield_when_idle=1\n",
               (long long)ranks, (long long)cores);
out:
    json_decref(all);
    return st;
}

static dt_status env_run(dt_comm *c, const dt_settings *s)
{
    const dt_options *o = &s->options;
    return dt_comm_agree(c, dt_comm_rank(c) == 0 ? env_print(c, o->json) : DT_OK);
}

const dt_command dt_command_env = {.name = "env", .run = env_run};
