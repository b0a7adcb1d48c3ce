/* cpu.c - which of the instruction sets of DT_ISA_LIST may be used: what the CPU has,
 * what the kernel saves and permits, and what the user leaves. The C library knows the
 * first two (its manual: X86); bits: Intel SDM, volume 2 (CPUID); permission for tiles:
 * the kernel's Documentation/arch/x86/xstate.rst. */
#include "base.h"
#include <stdlib.h>
#if defined(__x86_64__)
#include <sys/platform/x86.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* Process state: what dt_isa_limit and dt_isa_promise set (-1: nothing), and the CPU's answer (-1:
 * not asked yet), which is kept: AMX is requested once. */
static struct {
    _Atomic int limit, promise, machine;
} isa_state = {DT_ISA_COUNT - 1, -1, -1};

#if defined(__x86_64__)
enum { EAX, EBX, ECX, EDX };
#define BIT(n) (1u << (n))

/* In the order of dt_isa, so the first unmet need ends the search. AVX and FMA; AVX2;
 * AVX512 F, DQ, BW, VL; AVX512_BF16; AMX-BF16, AMX-TILE. */
static const struct {
    dt_isa isa;
    unsigned leaf, reg, bits;
} isa_needs[] = {
    {DT_ISA_AVX2, CPUID_INDEX_1, ECX, BIT(28) | BIT(12)},
    {DT_ISA_AVX2, CPUID_INDEX_7, EBX, BIT(5)},
    {DT_ISA_AVX512, CPUID_INDEX_7, EBX, BIT(16) | BIT(17) | BIT(30) | BIT(31)},
    {DT_ISA_AVX512_BF16, CPUID_INDEX_7_ECX_1, EAX, BIT(5)},
    {DT_ISA_AMX, CPUID_INDEX_7, EDX, BIT(22) | BIT(24)},
};

/* Active: the CPU has it, and the kernel saves its registers. Linux gives the 8 KiB of tile
 * registers only to processes that ask. */
static dt_isa isa_detect(void)
{
    const long arch_req_xcomp_perm = 0x1023, xtiledata = 18;

    for (size_t i = 0; i < DT_COUNT_OF(isa_needs); i++) {
        const struct cpuid_feature *leaf = __x86_get_cpuid_feature_leaf(isa_needs[i].leaf);
        const unsigned active = leaf->active_array[isa_needs[i].reg], bits = isa_needs[i].bits;
        if ((active & bits) != bits)
            return (dt_isa)(isa_needs[i].isa - 1);
    }
    return syscall(SYS_arch_prctl, arch_req_xcomp_perm, xtiledata) == 0 ? DT_ISA_AMX
                                                                        : DT_ISA_AVX512_BF16;
}
#else
static dt_isa isa_detect(void)
{
    return DT_ISA_PORTABLE;
}
#endif

static const char *const isa_names[DT_ISA_COUNT] = {
#define X(name, text) text,
    DT_ISA_LIST(X)
#undef X
};

const char *dt_isa_name(dt_isa isa)
{
    return (unsigned)isa < DT_ISA_COUNT ? isa_names[isa] : "unknown";
}

bool dt_isa_parse(const char *name, dt_isa *isa)
{
    for (int i = 0; i < DT_ISA_COUNT; i++)
        if (strcmp(name, isa_names[i]) == 0) {
            *isa = (dt_isa)i;
            return true;
        }
    return false;
}

#define ISA_VARIABLE "DT_MAX_ISA"

/* What is no instruction set limits nothing. */
static dt_isa isa_environment(void)
{
    const char *value = getenv(ISA_VARIABLE);
    dt_isa isa;

    return value && dt_isa_parse(value, &isa) ? isa : DT_ISA_COUNT - 1;
}

static int isa_machine(void)
{
    if (isa_state.machine < 0)
        isa_state.machine = (int)isa_detect();
    return isa_state.machine;
}

void dt_isa_imagine(dt_isa isa)
{
    isa_state.machine = (int)isa;
}

dt_isa dt_isa_current(void)
{
    const int machine = isa_machine();
    const int limit = isa_state.limit, environment = (int)isa_environment();
    const int cap = DT_MIN(limit, environment);
    return (dt_isa)DT_MIN(cap, machine);
}

void dt_isa_limit(dt_isa isa)
{
    isa_state.limit = (int)isa;
}

dt_isa dt_isa_bits(void)
{
    const int promise = isa_state.promise;
    return promise < 0 ? dt_isa_current() : (dt_isa)promise;
}

const char *dt_isa_origin(void)
{
    const int bits = (int)dt_isa_bits(), environment = (int)isa_environment();

    if (bits > (int)dt_isa_current())
        return "--isa, done in software";
    if (isa_state.promise >= 0 || bits == isa_machine())
        return isa_state.promise >= 0 ? "--isa" : "this CPU's best";
    return bits == environment ? ISA_VARIABLE : "a limit of this program";
}

dt_status dt_isa_promise(dt_isa isa)
{
    const dt_isa best = dt_isa_current();

    if (isa > best && isa != DT_ISA_AMX && (isa != DT_ISA_AVX512_BF16 || best < DT_ISA_AVX512))
        return dt_fail(DT_UNSUPPORTED,
                       "--isa %s: there is %s (%s); take --isa auto, or --isa amx, which is "
                       "done in software where it has to be",
                       dt_isa_name(isa), dt_isa_name(best), dt_isa_origin());
    dt_isa_limit(isa);
    isa_state.promise = (int)isa;
    return DT_OK;
}

const char *dt_dtype_name(dt_dtype t)
{
    return t == DT_BF16 ? "bf16" : "fp32";
}
