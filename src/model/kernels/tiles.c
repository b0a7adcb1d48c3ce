/* tiles.c - convolution passes by products of tiles of our own: no library decides about
 * blocks or order, so the bits are ours. tiles/tiles.h says how a pass is cut, tiles/backend.h
 * how a product is computed. */
#include "parts.h"
#include "tiles/tiles.h"

#include <limits.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Which backend --------------------------------------------------------------------------- */

static const dt_tile_backend *tiles_backend; /* set by dt_tile_use */

void dt_tile_use(const dt_tile_backend *backend)
{
    tiles_backend = backend;
}

static const dt_tile_backend *tiles_floats(void)
{
#if defined(__x86_64__)
    if (dt_isa_current() >= DT_ISA_AVX512)
        return &dt_tile_backend_fma;
    if (dt_isa_current() >= DT_ISA_AVX2)
        return &dt_tile_backend_fma_avx2;
#endif
    return &dt_tile_backend_fma_plain;
}

const dt_tile_backend *dt_tile_current(dt_dtype type)
{
    if (type == DT_F32)
        return tiles_floats();
    if (tiles_backend)
        return tiles_backend;
#if defined(__x86_64__)
    const dt_isa isa = dt_isa_current(), bits = dt_isa_bits();
    if (bits == DT_ISA_AMX && isa == DT_ISA_AMX)
        return &dt_tile_backend_amx;
    if (bits == DT_ISA_AMX && isa >= DT_ISA_AVX512)
        return &dt_tile_backend_avx512;
    if (bits == DT_ISA_AVX512_BF16)
        return &dt_tile_backend_dot;
#endif
    return dt_isa_bits() == DT_ISA_AMX ? &dt_tile_backend_plain : NULL;
}

/* ---- Open and close -------------------------------------------------------------------------- */

/* Counts of pixels and blocks are ints. */
static bool tiles_fit(const dt_conv *c)
{
    const int64_t size[][4] = {{c->n, c->ih, c->iw, 1},
                               {c->n, c->oh, c->ow, 1},
                               {c->kernel[0], c->kernel[1], 2 * c->ic + DT_TILE, c->oc + DT_TILE},
                               {c->ih, c->iw, 2 * c->ic + DT_TILE, DT_TILE},
                               {c->oh, c->ow, 2 * c->oc + DT_TILE, DT_TILE}};

    return dt_conv_fits(size, DT_COUNT_OF(size), INT_MAX / 4);
}

static bool tiles_supports(const dt_conv *c, dt_pass pass)
{
    (void)pass;
    return dt_tile_current(c->type) != NULL && tiles_fit(c);
}

static void tiles_close(void *state)
{
    dt_tiles *t = state;

    if (t)
        dt_tiles_release(t);
    free(t);
}

static dt_status tiles_open(void **state, const dt_conv *c, dt_pass pass, dt_kernel_info *info)
{
    dt_tiles *t = NULL;
    dt_status st;

    DT_TRY(dt_calloc(&t, 1, sizeof *t, "a convolution of tiles"));
    *info = (dt_kernel_info){.scratch_bytes = 0};
    DT_GO(st, dt_tiles_plan(t, c, pass, dt_tile_current(c->type)), out);
    t->scratch = dt_align(t->scratch, 4096);
    info->scratch_bytes = t->scratch * (size_t)c->threads;
    if (pass == DT_PASS_WEIGHTS)
        info->scratch_bytes += dt_tiles_partial_bytes(t) + dt_align(t->team, 4096) +
                               (c->bias ? dt_bias_scratch_bytes(c) : 0);
    else
        info->packed_bytes = dt_tiles_packed_bytes(t);
    snprintf(info->impl, sizeof info->impl, "%s", t->backend->name);
    snprintf(info->layout, sizeof info->layout, "tiles %s %dx%d of %dx%d blocks of 32",
             pass == DT_PASS_DATA ? "data" : "forward", t->taps_y, t->taps_x, t->in.blocks,
             t->out.blocks);
    *state = t;
out:
    if (st != DT_OK)
        tiles_close(t);
    return st;
}

/* ---- Run ------------------------------------------------------------------------------------- */

static void tiles_pack(const void *state, const float *master, void *packed, size_t first,
                       size_t end)
{
    const size_t each = DT_TILE_AREA * sizeof(dt_bf16);
    dt_tiles_pack(state, master, packed, (first + each - 1) / each, (end + each - 1) / each);
}

/* One thread's part of a weight gradient whose threads pack for each other. */
static void tiles_team(const dt_tiles *t, const dt_conv_args *a, float *partial, char *team,
                       char *mine)
{
    for (int round = 0; round < dt_tiles_weights_rounds(t); round++) {
#pragma omp for schedule(static, 1)
        for (int i = 0; i < dt_tiles_weights_cells(t); i++)
            dt_tiles_weights_cell(t, round, i, a, team);
#pragma omp for schedule(static)
        for (int i = 0; i < t->units; i++)
            dt_tiles_weights_round(t, round, i, partial, team, mine);
    }
}

static dt_status tiles_run(void *state, const dt_conv_args *a)
{
    const dt_tiles *t = state;
    const dt_conv *c = &t->conv;
    const bool weights = t->pass == DT_PASS_WEIGHTS;
    float *partial = a->scratch;
    char *team = (char *)a->scratch + (weights ? dt_tiles_partial_bytes(t) : 0);
    char *scratch = team + dt_align(t->team, 4096);

#pragma omp parallel num_threads(c->threads)
    {
        char *mine = scratch + (size_t)omp_get_thread_num() * t->scratch;
        t->backend->begin();
        if (t->team)
            tiles_team(t, a, partial, team, mine);
        else
#pragma omp for schedule(static)
            for (int i = 0; i < t->units; i++)
                if (weights)
                    dt_tiles_weights(t, i, a, partial, mine);
                else
                    dt_tiles_forward(t, i, a, mine);
        t->backend->end();
    }
    if (!weights)
        return DT_OK;
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t r = 0; r < c->kernel[0] * c->kernel[1] * c->ic; r++)
        dt_tiles_weights_sum(t, r, a->scratch, a->dw);
    if (c->bias)
        dt_bias_gradient(c, a->dy, scratch + t->scratch * (size_t)c->threads, a->dbias);
    return DT_OK;
}

static int tiles_units(const void *state, dt_unit *unit, dt_unit *alone)
{
    const dt_tiles *t = state;

    *alone = t->alone;
    for (int i = 0; i < t->units; i++)
        unit[i] =
            t->pass == DT_PASS_WEIGHTS ? dt_tiles_weights_unit(t, i) : dt_tiles_forward_unit(t, i);
    return t->units;
}

/* No library: the program's own version says it. */
static void tiles_version(char *out, size_t size)
{
    snprintf(out, size, "%s", "own");
}

const dt_kernel dt_kernel_tiles = {
    .name = "tiles",
    .supports = tiles_supports,
    .open = tiles_open,
    .run = tiles_run,
    .pack = tiles_pack,
    .close = tiles_close,
    .units = tiles_units,
    .library = "tiles",
    .version = tiles_version,
};
