/* cpu.c - which of the instruction sets of DT_ISA_LIST may be used: what the CPU has,
 * what the kernel saves and permits, and what the user leaves. Bits: Intel SDM, volume 2 (CPUID)
 * and volume 1 (XCR0); permission for tiles: the kernel's Documentation/arch/x86/xstate.rst. */
#include "base.h"
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#endif

/* Process state: what dt_isa_limit and dt_isa_promise set (-1: nothing), and the CPU's answer (-1:
 * not asked yet), which is kept: AMX is requested once. */
static struct {
    _Atomic int limit, promise, machine;
} isa_state = {DT_ISA_COUNT - 1, -1, -1};

#if defined(__x86_64__)
enum { EAX, EBX, ECX, EDX };
#define BIT(n) (1u << (n))

/* What XCR0 says of AVX's registers, and of AVX-512's. */
enum { YMM_SAVED = 0x6, ZMM_SAVED = 0xe6 };

/* In the order of dt_isa, so the first unmet need ends the search. AVX, OSXSAVE and FMA;
 * AVX2; AVX512 F, DQ, BW, VL; AVX512_BF16; AMX-BF16, AMX-TILE. */
static const struct {
    dt_isa isa;
    unsigned leaf, sub, reg, bits, saved;
} isa_needs[] = {
    {DT_ISA_AVX2, 1, 0, ECX, BIT(28) | BIT(27) | BIT(12), YMM_SAVED},
    {DT_ISA_AVX2, 7, 0, EBX, BIT(5), YMM_SAVED},
    {DT_ISA_AVX512, 7, 0, EBX, BIT(16) | BIT(17) | BIT(30) | BIT(31), ZMM_SAVED},
    {DT_ISA_AVX512_BF16, 7, 1, EAX, BIT(5), ZMM_SAVED},
    {DT_ISA_AMX, 7, 0, EDX, BIT(22) | BIT(24), ZMM_SAVED},
};

/* The CPU has it, and the kernel saves its registers, which XGETBV says where there is OSXSAVE.
 * Linux gives the 8 KiB of tile registers only to processes that ask. */
static dt_isa isa_detect(void)
{
    for (size_t i = 0; i < DT_COUNT_OF(isa_needs); i++) {
        const unsigned bits = isa_needs[i].bits, registers = isa_needs[i].saved;
        unsigned word[4] = {0}, saved = 0, high;
        __get_cpuid_count(isa_needs[i].leaf, isa_needs[i].sub, word, word + 1, word + 2, word + 3);
        if ((word[isa_needs[i].reg] & bits) == bits)
            __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
        if ((saved & registers) != registers)
            return (dt_isa)(isa_needs[i].isa - 1);
    }
#ifndef DT_NO_AMX
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    if (syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0)
        return DT_ISA_AMX;
#endif
    return DT_ISA_AVX512_BF16;
}
#else
/* NEON is part of ARM64; other architectures have none. */
static dt_isa isa_detect(void)
{
    return DT_ISA_AVX2 - 1;
}
#endif

static const char *const isa_names[DT_ISA_COUNT] = {DT_ISA_LIST(DT_TEXT_OF)};

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
#if defined(__x86_64__)
    isa_state.machine = (int)isa;
#else
    (void)isa; /* there are no kernels to plan for */
#endif
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
