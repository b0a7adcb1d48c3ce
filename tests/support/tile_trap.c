/* tile_trap.c - the AMX instructions of backend_amx.c on a CPU that has none. Preloaded into the
 * program or linked into a test, it says that there is AMX, takes the SIGILL of each
 * instruction and does what Intel's manual says of it. Where the CPU has AMX it stands aside.
 *
 * The arithmetic is FMA's in a mode without denormals, which is a step of TDPBF16PS: another way
 * than backend_plain.c's through doubles, so that each is the other's oracle. */
#include "base/base.h"
#include <cpuid.h>
#include <immintrin.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>

/* ---- Tiles ------------------------------------------------------------------------------- */

enum { TILES = 8, ROWS = 16, LANES = 16, ROW_BYTES = 64 };
typedef uint32_t tile[ROWS][LANES];

/* A thread's registers: in its static block, since a handler may not allocate. */
static _Thread_local tile tiles[TILES];
static _Thread_local bool configured;

/* All tiles whole, as backend_amx.c has them: other shapes are refused, even legal ones. */
static bool configure(const char *from)
{
    uint8_t whole[64] = {1}; /* the palette */

    for (int t = 0; t < TILES; t++)
        whole[16 + 2 * t] = ROW_BYTES, whole[48 + t] = ROWS;
    memset(tiles, 0, sizeof tiles);
    return configured = memcmp(from, whole, sizeof whole) == 0;
}

static bool move(tile *t, char *memory, ptrdiff_t stride, bool store)
{
    for (int r = 0; r < ROWS; r++, memory += stride)
        memcpy(store ? memory : (char *)(*t)[r], store ? (char *)(*t)[r] : memory, ROW_BYTES);
    return true;
}

/* ---- Products ---------------------------------------------------------------------------- */

/* The two numbers of a pair. */
static float first(uint32_t pair)
{
    return dt_bf16_to_f32((dt_bf16)pair);
}

static float second(uint32_t pair)
{
    return dt_bf16_to_f32((dt_bf16)(pair >> 16));
}

/* a b + c. A NaN is the first operand that is one, made quiet, or else the indefinite one. */
static float fused(float a, float b, float c)
{
    const float operand[] = {a, b, c}, result = __builtin_fmaf(a, b, c);
    uint32_t u = 0xffc00000u;
    float nan;

    for (int i = 2; i >= 0; i--)
        if (isnan(operand[i]))
            memcpy(&u, &operand[i], sizeof u), u |= 0x00400000u;
    memcpy(&nan, &u, sizeof nan);
    return isnan(result) ? nan : result;
}

/* One element, whatever the numbers. */
static float element(float old, const uint32_t *left, tile *right, int column)
{
    float even = 0, odd = 0;
    for (int k = 0; k < ROWS; k++) {
        const uint32_t a = left[k], b = (*right)[k][column];
        even = fused(first(a), first(b), even);
        odd = fused(second(a), second(b), odd);
    }
    return fused(1, old, fused(1, even, odd));
}

/* sums += left right, a row of each: all columns at a time; those that come to a NaN once more. */
static void row_product(float *sums, const uint32_t *left, tile *right)
{
    float even[LANES] = {0}, odd[LANES] = {0}, sum[LANES];

    for (int k = 0; k < ROWS; k++) {
        const float a0 = first(left[k]), a1 = second(left[k]);
        for (int c = 0; c < LANES; c++) {
            even[c] = __builtin_fmaf(a0, first((*right)[k][c]), even[c]);
            odd[c] = __builtin_fmaf(a1, second((*right)[k][c]), odd[c]);
        }
    }
    for (int c = 0; c < LANES; c++)
        sum[c] = sums[c] + (even[c] + odd[c]);
    for (int c = 0; c < LANES; c++)
        sums[c] = isnan(sum[c]) ? element(sums[c], left, right, c) : sum[c];
}

/* Not merged with its caller, who sets the vector unit's mode. */
__attribute__((noinline)) static void all_rows(tile *sums, tile *left, tile *right)
{
    float row[LANES];

    for (int r = 0; r < ROWS; r++) {
        memcpy(row, (*sums)[r], sizeof row);
        row_product(row, (*left)[r], right);
        memcpy((*sums)[r], row, sizeof row);
    }
}

static bool product(tile *sums, tile *left, tile *right)
{
    if (sums == left || sums == right || left == right)
        return false;
    _mm_setcsr(0x9fc0); /* denormals are zeros, as operands and results; until the handler ends */
    all_rows(sums, left, right);
    return true;
}

/* ---- Instructions ------------------------------------------------------------------------ */

typedef struct instruction {
    unsigned prefix, opcode; /* 0: none, 1: 66, 2: F3, 3: F2 */
    unsigned reg, rm, third; /* operands; rm where it is no memory */
    bool in_memory, indexed; /* by a base and an index */
    char *memory;
    ptrdiff_t stride;
    const uint8_t *end;
} instruction;

/* Of the general registers, as a context has them and as instructions count them. */
static const int places[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                             REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                             REG_R12, REG_R13, REG_R14, REG_R15};

/* ModRM's memory operand, from the byte behind it on. high: the fourth bits of base and index. */
static void decode_memory(instruction *i, unsigned mode, const unsigned high[2],
                          const greg_t *registers, const uint8_t *at)
{
    unsigned base = i->rm;
    bool wide = mode == 2; /* a distance of four bytes */
    greg_t address = 0;
    int32_t distance;

    if ((i->indexed = base == 4)) {
        const unsigned scale = *at >> 6, index = (*at >> 3 & 7) | high[1];
        base = *at++ & 7;
        i->stride = index == 4 ? 0 : (ptrdiff_t)((uintptr_t)registers[places[index]] << scale);
    }
    if (mode == 0 && base == 5) /* none, or the next instruction's place */
        wide = true, address = i->indexed ? 0 : (greg_t)(uintptr_t)(at + 4);
    else
        address = registers[places[base | high[0]]];
    if (wide)
        memcpy(&distance, at, sizeof distance), address += distance, at += 4;
    else if (mode == 1)
        address += (int8_t)*at++;
    i->memory = (char *)address;
    i->end = at;
}

/* VEX of three bytes, 128 bits, map 0F38: false for others. Bytes are read one after the other. */
static bool decode(instruction *i, const greg_t *registers, const uint8_t *at)
{
    if (at[0] != 0xc4 || (at[1] & 0x1f) != 2 || (at[2] & 0x84) != 0)
        return false;
    if (at[3] != 0x49 && at[3] != 0x4b && at[3] != 0x5c)
        return false;
    const unsigned mode = at[4] >> 6, flipped = (unsigned)~at[1];
    const unsigned high[2] = {flipped >> 2 & 8, flipped >> 3 & 8};
    *i = (instruction){.prefix = at[2] & 3,
                       .opcode = at[3],
                       .reg = (at[4] >> 3 & 7) | (flipped >> 4 & 8),
                       .rm = at[4] & 7,
                       .third = (unsigned)~at[2] >> 3 & 15,
                       .in_memory = mode != 3,
                       .end = at + 5};
    if (!i->in_memory)
        i->rm |= high[0];
    else
        decode_memory(i, mode, high, registers, at + 5);
    return true;
}

/* False: none of ours, or one that a CPU would refuse. */
static bool execute(const instruction *i)
{
    if (i->reg >= TILES || i->rm >= TILES || (i->opcode != 0x5c && i->third != 0) ||
        (i->opcode != 0x49 && !configured))
        return false;
    tile *t = &tiles[i->reg];
    switch (i->opcode << 12 | i->prefix << 8 | (unsigned)i->in_memory << 4 | i->indexed) {
    case 0x49010: /* LDTILECFG */
    case 0x49011:
        return i->reg == 0 && configure(i->memory);
    case 0x49000: /* TILERELEASE */
        configured = false;
        return i->reg == 0 && i->rm == 0;
    case 0x49300: /* TILEZERO */
        memset(t, 0, sizeof *t);
        return i->rm == 0 && configured;
    case 0x4b311: /* TILELOADD, TILELOADDT1 */
    case 0x4b111:
        return move(t, i->memory, i->stride, false);
    case 0x4b211: /* TILESTORED */
        return move(t, i->memory, i->stride, true);
    case 0x5c200: /* TDPBF16PS */
        return i->third < TILES && product(t, &tiles[i->rm], &tiles[i->third]);
    default:
        return false;
    }
}

/* ---- The CPU that there would be ------------------------------------------------------------ */

void tile_trap_arm(void);       /* see tile_backends.h */
static struct sigaction before; /* what a SIGILL was for */

/* This instruction, and those that follow it: a signal takes longer than a product. Another
 * SIGILL comes again, and finds what it would have found. */
static void trap(int signal, siginfo_t *info, void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const uint8_t *const start = (const uint8_t *)registers[REG_RIP], *at = start;
    instruction i;

    (void)signal, (void)info;
    while (decode(&i, registers, at) && execute(&i))
        at = i.end;
    registers[REG_RIP] = (greg_t)(uintptr_t)at;
    if (at == start)
        sigaction(SIGILL, &before, NULL);
}

/* The program's own (src/base/cpu.c); nothing in a shell or in mpirun, which are preloaded, too. */
__attribute__((weak)) dt_isa dt_isa_current(void);
__attribute__((weak)) void dt_isa_imagine(dt_isa isa);

/* The CPU has AMX, and the kernel lets this process use it. */
static bool is_native(void)
{
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    const unsigned bits = 1u << 22 | 1u << 24; /* BF16, TILE: leaf 7, edx */
    unsigned word[4] = {0};

    __get_cpuid_count(7, 0, word, word + 1, word + 2, word + 3);
    return (word[3] & bits) == bits &&
           syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

__attribute__((constructor)) void tile_trap_arm(void)
{
    const struct sigaction action = {.sa_sigaction = trap, .sa_flags = SA_SIGINFO | SA_NODEFER};

    if (is_native())
        return;
    sigaction(SIGILL, &action, &before);
    if (dt_isa_imagine && dt_isa_current() == DT_ISA_AVX512_BF16)
        dt_isa_imagine(DT_ISA_AMX);
}
