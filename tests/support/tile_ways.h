/* tile_ways.h - all ways to execute products of tiles that this program has. */
#ifndef DT_TEST_TILE_WAYS_H
#define DT_TEST_TILE_WAYS_H
#include "model/kernels/tiles/way.h"

static const dt_tile_way *const tile_ways[] = {
    &dt_tile_way_plain,
#if defined(__x86_64__)
    &dt_tile_way_avx512,
    &dt_tile_way_dot,
    &dt_tile_way_amx,
#endif
};
enum { TILE_WAYS = DT_COUNT_OF(tile_ways) };

#endif
