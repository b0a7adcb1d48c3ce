/* cpu.h - the machine: instruction sets, cores, parts that threads keep to; a part of base.h. */
#ifndef DT_CPU_H
#define DT_CPU_H
#include "status.h"
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* Instruction sets that kernels are written for, each including the ones before. On ARM64 those of
 * x86-64 only name bits: AMX's, which are made in software, and others, which are refused. */
#if defined(__aarch64__)
#define DT_ISA_ARM(X) X(NEON, "neon")
#else
#define DT_ISA_ARM(X)
#endif
#define DT_ISA_LIST(X)                                                                             \
    X(PORTABLE, "portable")                                                                        \
    DT_ISA_ARM(X)                                                                                  \
    X(AVX2, "avx2")                                                                                \
    X(AVX512, "avx512")                                                                            \
    X(AVX512_BF16, "avx512_bf16")                                                                  \
    X(AMX, "amx")
typedef enum dt_isa {
#define X(name, text) DT_ISA_##name,
    DT_ISA_LIST(X)
#undef X
        DT_ISA_COUNT
} dt_isa;
const char *dt_isa_name(dt_isa isa);
bool dt_isa_parse(const char *name, dt_isa *isa); /* false: unknown */
/* Best set of this CPU and system, lowered by dt_isa_limit and by the variable DT_MAX_ISA. */
dt_isa dt_isa_current(void);
/* Lower what dt_isa_current answers; call before any model is made. */
void dt_isa_limit(dt_isa isa);
/* The set whose bits are computed: dt_isa_current, or the one that dt_isa_promise named. */
dt_isa dt_isa_bits(void);
/* Results have the bits of `isa` from now on, and nothing higher is used. DT_UNSUPPORTED: this CPU
 * cannot make them. Any CPU makes AMX's in software, any with AVX-512 makes AVX512_BF16's. */
dt_status dt_isa_promise(dt_isa isa) DT_MUST_CHECK;
/* This CPU passes for one whose best set is `isa`: before dt_isa_promise, where no kernel runs. */
void dt_isa_imagine(dt_isa isa);
/* What decided that set, for messages: "--isa", the variable's name, "this CPU's best", ... */
const char *dt_isa_origin(void);

/* This host's name, for messages. */
enum { DT_HOST_CHARS = 64 };
void dt_host_name(char host[DT_HOST_CHARS]);

/* How many cores this process may run on (affinity mask and cgroup quota), and in *machine, which
 * may be NULL, those of the machine. */
int dt_cores(int *machine);

/* The CPUs that this process may use, as it was started; empty where unknown. */
void dt_machine_cpus(cpu_set_t *set);

/* The part of a machine that a rank's threads keep to. Results never depend on it. */
typedef struct dt_affinity {
    const char *kind; /* "NUMA node" or "package"; NULL: they run where the system puts them */
    cpu_set_t cpus;
    char text[64]; /* "NUMA node 1", or "no: " and the reason */
} dt_affinity;
/* Of rank `rank` of this machine's `ranks`, of so many threads each: an equal share of its NUMA
 * nodes, or else packages, that has a CPU for each thread of the ranks in it. None where a
 * launcher, a batch system, a quota or the user (OMP_PROC_BIND) has decided. */
void dt_affinity_find(dt_affinity *h, int rank, int ranks, int threads);
/* Binds the calling thread and libgomp's to it, or back to all CPUs where it is none. Call it
 * before memory is taken; threads that are made later follow. *h is none where refused. */
void dt_affinity_enter(dt_affinity *h, int threads);

#endif
