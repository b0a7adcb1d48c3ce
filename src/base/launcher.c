/* launcher.c - the table of launchers. */
#include "base.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define OTHER_MPI "another MPI library started it: put the mpirun of dtrain's first in PATH"
#define NO_PMI "srun --mpi=pmix starts ranks (srun --mpi=list has what there is), or dtrain --np N"
#define APART "dtrain --np N starts ranks, dtrain launch on several hosts; unset what is left over"

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

#define RANKS(strength_, size_, rank_, remedy_)                                                    \
    .strength = DT_##strength_, .size = size_, .rank = rank_, .remedy = remedy_
const dt_launcher dt_launchers[] = {
    {RANKS(TYPED, DT_ASKED_VARIABLE, "", OTHER_MPI)},
    {RANKS(MPIRUN, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", OTHER_MPI), .wires = true,
     .sign = "OMPI_COMM_WORLD_RANK", .library = " Open",
     .parents = " mpirun orterun orted prterun prted", .hosts = "--host", .file = "--hostfile",
     .export = "-x", .yields = "OMPI_MCA_mpi_yield_when_idle=1", .ends = SIGTERM, .daemons = true,
     .variables = open_mpi},
    {RANKS(MPIRUN, "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", OTHER_MPI), .wires = true},
    /* Hydra, of MPICH, Intel MPI and MVAPICH */
    {RANKS(MPIRUN, "PMI_SIZE", "PMI_RANK", OTHER_MPI), .wires = true, .sign = "MPI_LOCALRANKID",
     .library = " MPICH MVAPICH MVAPICH2 Intel(R)", .parents = " hydra_pmi_proxy",
     .hosts = "-hosts", .ends = SIGKILL, .bare = true, .variables = hydra},
    {RANKS(TASK, "PMI_SIZE", "PMI_RANK", OTHER_MPI), .wires = true}, /* srun --mpi=pmi2, PALS */
    {RANKS(TASK, "FLUX_JOB_SIZE", "FLUX_TASK_RANK", OTHER_MPI)},
    {RANKS(TASK, "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", NO_PMI)},
    {RANKS(TASK, "", "PALS_RANKID", ""), .wires = true}, /* where PALS sets no PMI_RANK */
    {RANKS(TASK, "", "PMIX_RANK", ""), .wires = true},
    {RANKS(INHERITED, "RANK_SIZE", "RANK_ID", APART)},
    {RANKS(INHERITED, "WORLD_SIZE", "RANK", APART)},
    {RANKS(INHERITED, "HOROVOD_SIZE", "HOROVOD_RANK", APART)},
    {RANKS(INHERITED, "MS_WORKER_NUM", "MS_NODE_ID", APART)},
    {.size = NULL},
};

const dt_launcher *dt_launcher_of(const char *library)
{
    const dt_launcher *by = NULL;
    char first[16];

    snprintf(first, sizeof first, "%.*s", (int)strcspn(library, " \t"), library);
    for (const dt_launcher *l = dt_launchers; l->size; l++)
        if (l->library && (!by || dt_words_have(l->library, first)))
            by = l;
    return by;
}

const dt_launcher *dt_launcher_mpirun(void)
{
    for (const dt_launcher *l = dt_launchers; l->size; l++)
        if (l->sign && getenv(l->sign))
            return l;
    return NULL;
}
