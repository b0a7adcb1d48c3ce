/* tile_backends.h - all backends of products of tiles that this program has. */
#ifndef DT_TEST_TILE_BACKENDS_H
#define DT_TEST_TILE_BACKENDS_H
#include "model/kernels/tiles/backend.h"

static const dt_tile_backend *const tile_backends[] = {
    &dt_tile_backend_plain,
#if defined(__x86_64__)
    &dt_tile_backend_avx512,
    &dt_tile_backend_dot,
    &dt_tile_backend_amx,
#endif
};
enum { TILE_BACKENDS = DT_COUNT_OF(tile_backends) };

#endif
