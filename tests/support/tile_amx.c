/* tile_amx.c - backend_amx.c once more: with plain C around its tiles, so that a CPU (or
 * tile_trap.c) needs nothing else for it, and with a fault in an instruction on request. */
#define dt_tile_backend_plain tile_amx_plain
#define dt_tile_row_exact tile_amx_row_exact
#define dt_tile_backend_amx tile_amx_whole
#include "tile_backends.h"
#include <immintrin.h>

/* What surrounds the products is private to plain C's file: that is included, too. */
#include "model/kernels/tiles/backend_plain.c"
#define DT_TILE_LANES_H
#define lanes_finish plain_finish
#define LANES_WORK                                                                                 \
    .gather = plain_gather, .window = plain_window, .turn_left = plain_turn_left,                  \
    .turn_right = plain_turn_right, .pack_rows = plain_pack_rows,                                  \
    .pack_columns = plain_pack_columns

int tile_amx_fault;
bool tile_amx_faulty;

/* 1 for the instruction of this line of backend_amx.c, when the fault is its */
#define FAULT(kind) fault(__LINE__, kind)
static int fault(int line, int kind)
{
    const bool now = tile_amx_fault == TILE_AMX_FAULTS * line + kind;
    if (now) /* other tests multiply on several threads */
        tile_amx_faulty = true;
    return now;
}

/* Numbers of tiles are constants in an instruction: 8 x one + a tile, or three digits. */
enum { ZERO = 0, LOAD = 8, STORE = 16, SUM = 0100 };
#define DO(number, instruction)                                                                    \
    case number:                                                                                   \
        instruction;                                                                               \
        break;
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define MOVES(t)                                                                                   \
    DO(ZERO + t, _tile_zero(t))                                                                    \
    DO(LOAD + t, _tile_loadd(t, (void *)at, stride))                                               \
    DO(STORE + t, _tile_stored(t, (void *)at, stride))
#define PRODUCT(sum, a, b) DO(SUM *(1 + sum) + 8 * a + b, _tile_dpbf16ps(sum, a, b))
#define PRODUCTS(sum) PRODUCT(sum, 4, 6) PRODUCT(sum, 4, 7) PRODUCT(sum, 5, 6) PRODUCT(sum, 5, 7)

static void execute(int number, uintptr_t at, size_t stride)
{
    switch (number) {
        EACH(MOVES)
        PRODUCTS(0) PRODUCTS(1) PRODUCTS(2) PRODUCTS(3)
    }
}

/* Another tile (its neighbour), rows at half their distance, the other operand's half. */
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_zero(t) execute(ZERO + ((t) ^ FAULT(0)), 0, 0)
#define MOVE(what, t, at, row)                                                                     \
    execute(what + (t ^ FAULT(0)), (uintptr_t)(at), (size_t)(row) >> FAULT(1))
#define _tile_loadd(t, at, row) MOVE(LOAD, t, at, row)
#define _tile_stored(t, at, row) MOVE(STORE, t, at, row)
#define _tile_dpbf16ps(sum, a, b)                                                                  \
    execute(SUM *(1 + (sum ^ FAULT(0))) + 8 * (a ^ FAULT(1)) + (b ^ FAULT(2)), 0, 0)
#include "model/kernels/tiles/backend_amx.c"

const dt_tile_backend tile_amx_backend = {
    .name = "amx, plain C around it",
    .type = DT_BF16,
    .isa = DT_ISA_PORTABLE,
    .chunk = 12,
    .begin = amx_begin,
    .end = amx_end,
    .multiply = amx_multiply,
    LANES_WORK,
};
