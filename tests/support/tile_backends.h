/* tile_backends.h - all backends of products of tiles, and one more in bf16: the
 * AMX unit's products with plain C around them, which need nothing else of a CPU. Without AMX they
 * are trapped. Links tile_amx.c and tile_trap.c. */
#ifndef DT_TEST_TILE_BACKENDS_H
#define DT_TEST_TILE_BACKENDS_H
#include "model/kernels/tiles/backend.h"
#include "test.h"

#if defined(__x86_64__)
extern const dt_tile_backend tile_amx_backend;

/* Takes SIGILL, if AMX is not there. For a test's function: cmocka sets handlers around it. */
void tile_trap_arm(void);

/* A fault in tile_amx_backend: TILE_AMX_FAULTS x a line of backend_amx.c + a kind, or 0; and
 * whether an instruction had it. Kinds: another tile; rows at half their distance, or the other
 * half of a product's left operand; the other half of its right operand. */
enum { TILE_AMX_FAULTS = 3, TILE_AMX_LINES = 200 };
extern int tile_amx_fault;
extern bool tile_amx_faulty;
#endif

static const dt_tile_backend *const tile_backends[] = {
    &dt_tile_backend_plain,
#if defined(__x86_64__)
    &dt_tile_backend_avx512, &dt_tile_backend_dot, &dt_tile_backend_dot_fma,
#ifndef DT_NO_AMX
    &dt_tile_backend_amx,    &tile_amx_backend,
#endif
#endif
};
enum { TILE_BACKENDS = DT_COUNT_OF(tile_backends) };

static const dt_tile_backend *const float_backends[] = {
    &dt_tile_backend_fma_plain,
#if defined(__x86_64__)
    &dt_tile_backend_fma_avx2,
    &dt_tile_backend_fma,
#elif defined(__aarch64__)
    &dt_tile_backend_fma_neon,
#endif
};
enum { FLOAT_BACKENDS = DT_COUNT_OF(float_backends) };

/* Else says so; but the AMX unit's are here in any case. */
static inline bool tile_backend_runs(const dt_tile_backend *b)
{
#if defined(__x86_64__)
    tile_trap_arm();
    if (dt_isa_current() < b->isa && strcmp(b->name, "amx") != 0)
        test_skips("backend %s: this CPU has %s", b->name, dt_isa_name(dt_isa_current()));
#endif
    return dt_isa_current() >= b->isa;
}
#endif
