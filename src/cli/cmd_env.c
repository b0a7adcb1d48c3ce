/* cmd_env.c - dtrain env: what a run would find on this machine. */
#include "cli.h"

static void env_print(dt_comm *c)
{
    dt_machine m;
    dt_machine_describe(&m);
    const dt_isa isa = dt_isa_current();
    const int ranks = dt_comm_node_ranks(c);
    const dt_field texts[] = {{"host", m.host},
                              {"cpu", m.cpu},
                              {"isa", dt_isa_name(isa)},
                              {"amx", isa >= DT_ISA_AMX ? "yes" : "no"},
                              {"bf16", isa >= DT_ISA_AVX512_BF16 ? "yes" : "no"},
                              {"dtrain", dt_build()},
                              {"MPI", dt_comm_version()}};
    const struct {
        const char *name;
        int n;
    } counts[] = {{"cores", m.cores},          {"cores_allowed", m.cores_allowed},
                  {"ranks", dt_comm_world(c)}, {"nodes", dt_comm_nodes(c)},
                  {"ranks_on_node", ranks},    {"threads_per_rank", dt_threads_auto(c)}};
    const struct {
        const char *name;
        uint64_t bytes;
    } sizes[] = {{"l2", m.l2_bytes},
                 {"l3", m.l3_bytes},
                 {"memory", m.memory_bytes},
                 {"memory_available", dt_memory_available()}};

    for (size_t i = 0; i < DT_COUNT_OF(texts); i++)
        printf("%-20s %s\n", texts[i].name, texts[i].value);
    for (size_t i = 0; i < DT_COUNT_OF(counts); i++)
        printf("%-20s %d\n", counts[i].name, counts[i].n);
    for (size_t i = 0; i < DT_COUNT_OF(sizes); i++)
        printf("%-20s %.0f MiB\n", sizes[i].name, (double)sizes[i].bytes / (1 << 20));
    if (ranks > m.cores_allowed)
        printf("\n%d ranks share %d cores: the results are the same, but waiting\n"
               "ranks take time from working ones; set OMPI_MCA_mpi_yield_when_idle=1\n",
               ranks, m.cores_allowed);
}

static dt_status env_run(dt_comm *c, const dt_settings *s)
{
    (void)s;
    if (dt_comm_rank(c) == 0)
        env_print(c);
    return DT_OK;
}

const dt_command dt_command_env = {.name = "env", .run = env_run};
