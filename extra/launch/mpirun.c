/* mpirun.c - the mpiruns that dtrain starts, a row for each. */
#include "launch.h"

#include <signal.h>

/* orterun of Open MPI 4 reads OMPI_MCA, prterun of Open MPI 5 PRTE_MCA. Without "slot" the latter
 * would put all ranks on the first host. A host that is gone is noticed after keepalive_time +
 * probes x intvl = 11 s, sooner than --stall-abort ends its ranks (by default after minutes, or
 * never: 300 s + 9 x 20 s). Where hosts have met, the first one starts all daemons itself, and all
 * at once: an agent lives as long as its daemon, and by default 128 may. */
static const dt_launch_variable open_mpi[] = {
    {DT_ALWAYS, "HOME", "/"}, /* Open MPI 5 does not start without */
    {DT_ALWAYS, "OMPI_ALLOW_RUN_AS_ROOT", "1"},
    {DT_ALWAYS, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
    {DT_ALWAYS, "OMPI_MCA_rmaps_base_oversubscribe", "1"},
    {DT_ALWAYS, "OMPI_MCA_hwloc_base_binding_policy", "none"},
    {DT_ALWAYS, "OMPI_MCA_btl_tcp_disable_family", "6"},
    {DT_ALWAYS, "OMPI_MCA_oob_tcp_keepalive_time", "5"},
    {DT_ALWAYS, "OMPI_MCA_oob_tcp_keepalive_intvl", "2"},
    {DT_ALWAYS, "OMPI_MCA_oob_tcp_keepalive_probes", "3"},
    {DT_ALWAYS, "PRTE_MCA_rmaps_default_mapping_policy", "slot:oversubscribe"},
    {DT_ALWAYS, "PRTE_MCA_hwloc_default_binding_policy", "none"},
    {DT_ALWAYS, "PRTE_MCA_oob_tcp_keepalive_time", "5"},
    {DT_ALWAYS, "PRTE_MCA_oob_tcp_keepalive_intvl", "2"},
    {DT_ALWAYS, "PRTE_MCA_oob_tcp_keepalive_probes", "3"},
    {DT_INTERFACE, "OMPI_MCA_oob_tcp_if_include", NULL},
    {DT_INTERFACE, "OMPI_MCA_btl_tcp_if_include", NULL},
    {DT_INTERFACE, "PRTE_MCA_prte_if_include", NULL},
    {DT_AGENT, "OMPI_MCA_plm_rsh_agent", NULL},
    {DT_AGENT, "PRTE_MCA_plm_ssh_agent", NULL},
    {DT_MET, "OMPI_MCA_plm_rsh_no_tree_spawn", "1"},
    {DT_MET, "PRTE_MCA_plm_ssh_no_tree_spawn", "1"},
    {DT_MET, "OMPI_MCA_plm_rsh_num_concurrent", "4096"},
    {DT_MET, "PRTE_MCA_plm_ssh_num_concurrent", "4096"},
    {DT_ALWAYS, NULL, NULL},
};

/* MPICH leaves ranks to all cores, and as many as are asked for; Intel MPI and MVAPICH bind them.
 * The network is named to Hydra and to the libraries that carry MPICH's messages. */
static const dt_launch_variable hydra[] = {
    {DT_ALWAYS, "I_MPI_PIN", "off"},
    {DT_ALWAYS, "MV2_ENABLE_AFFINITY", "0"},
    {DT_INTERFACE, "HYDRA_IFACE", NULL},
    {DT_INTERFACE, "UCX_NET_DEVICES", NULL},
    {DT_INTERFACE, "FI_TCP_IFACE", NULL},
    {DT_AGENT, "HYDRA_LAUNCHER_EXEC", NULL},
    {DT_ALWAYS, NULL, NULL},
};

static const dt_mpirun mpiruns[] = {
    {.library = " Open", .sign = "OMPI_COMM_WORLD_RANK", .hosts = "--host", .file = "--hostfile",
     .export = "-x", .yields = "OMPI_MCA_mpi_yield_when_idle=1", .ends = SIGTERM, .daemons = true,
     .variables = open_mpi},
    {.library = " MPICH MVAPICH MVAPICH2 Intel(R)", .sign = "MPI_LOCALRANKID", .hosts = "-hosts",
     .ends = SIGKILL, .bare = true, .variables = hydra},
};

const dt_mpirun *dt_mpirun_of(const char *library)
{
    char first[16];

    snprintf(first, sizeof first, "%.*s", (int)strcspn(library, " \t"), library);
    return &mpiruns[dt_words_have(mpiruns[1].library, first)];
}
