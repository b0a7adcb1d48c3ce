/* tiles.c - convolution passes by products of tiles of our own: no library decides about
 * blocks, and none about order unless an engine is asked for. tiles/tiles.h says how a pass is cut,
 * tiles/backend.h how a product is computed. */
#include "tiles/tiles.h"

#include <omp.h>

/* ---- Which backend --------------------------------------------------------------------------- */

static const dt_tile_backend *kernel_backend; /* set by dt_tile_use */

void dt_tile_use(const dt_tile_backend *backend)
{
    kernel_backend = backend;
}

const dt_tile_backend *dt_tile_own(void)
{
#if defined(__x86_64__)
    if (dt_isa_current() >= DT_ISA_AVX512)
        return &dt_tile_backend_fma;
    if (dt_isa_current() >= DT_ISA_AVX2)
        return &dt_tile_backend_fma_avx2;
#elif defined(__aarch64__)
    if (dt_isa_current() >= DT_ISA_NEON)
        return &dt_tile_backend_fma_neon;
#endif
    return &dt_tile_backend_fma_plain;
}

const dt_tile_backend *dt_tile_current(dt_dtype type)
{
    if (kernel_backend && kernel_backend->type == type)
        return kernel_backend;
    if (type == DT_F32)
        return dt_tile_own();
#if defined(__x86_64__)
    const dt_isa isa = dt_isa_current(), bits = dt_isa_bits();
    if (bits == DT_ISA_AMX && isa == DT_ISA_AMX)
        return &dt_tile_backend_amx;
    if (bits == DT_ISA_AMX && isa >= DT_ISA_AVX512)
        return &dt_tile_backend_avx512;
    if (bits == DT_ISA_AVX512_BF16)
        return isa < bits || __builtin_cpu_is("intel") ? &dt_tile_backend_dot_fma
                                                       : &dt_tile_backend_dot;
#endif
    return dt_isa_bits() == DT_ISA_AMX ? &dt_tile_backend_plain : NULL;
}

dt_status (*dt_engine_load)(const char *name, const dt_tile_backend **backend);

dt_status dt_engine_use(const char *name)
{
    const dt_tile_backend *backend = NULL;

    if (strcmp(name, "all") == 0)
        return dt_fail(DT_CONFIG, "--engine all is for bench alone");
    if (dt_engine_load)
        DT_TRY(dt_engine_load(name, &backend));
    else if (strcmp(name, "own") != 0)
        return dt_fail(DT_UNSUPPORTED, "engine %s: this build is the core (DTRAIN_EXTRAS)", name);
    if (!backend && strcmp(name, "own") != 0)
        return dt_fail(DT_UNSUPPORTED,
                       "engine %s: this build has none: install lib%s-dev and build again", name,
                       strcmp(name, "onednn") == 0 ? "dnnl" : name);
    dt_tile_use(backend);
    return DT_OK;
}

const char *dt_engine_text(void)
{
    return kernel_backend ? kernel_backend->text : NULL;
}

dt_status dt_engine_check(const dt_tiles *t, const char *layer)
{
    return t->backend->check ? t->backend->check(t, layer) : DT_OK;
}

dt_status dt_precision_choose(const char *name, dt_dtype *type)
{
    const bool any = strcmp(name, "auto") == 0, bf16 = strcmp(name, "bf16") == 0;
    const bool can = dt_tile_current(DT_BF16) != NULL && !dt_engine_text();

    if (bf16 && dt_engine_text())
        return dt_fail(DT_UNSUPPORTED,
                       "precision bf16: engine %s computes float32 alone; take --precision fp32, "
                       "or --engine own",
                       dt_engine_text());
    if (bf16 && !can)
        return dt_fail(DT_UNSUPPORTED,
                       "precision bf16: there are no kernels for the instruction set %s (%s); "
                       "take --precision fp32, or --isa amx, which any CPU can, if slowly",
                       dt_isa_name(dt_isa_bits()), dt_isa_origin());
    *type = (bf16 || any) && can ? DT_BF16 : DT_F32;
    return DT_OK;
}

/* ---- Open and close -------------------------------------------------------------------------- */

/* Pixels, and blocks of pixels and of weights, are counted by ints: each of these products, of
 * sizes that are at least 1, is one with room to spare. */
static bool kernel_fits(const dt_conv *c)
{
    const int64_t groups = c->n / DT_TILE + 1;
    const int64_t in = DT_MAX(c->ic / DT_TILE + 1, DT_TILE_PIXEL / 64);
    const int64_t out = c->oc / DT_TILE + 1;
    const int64_t size[][4] = {{c->n, c->ih, c->iw, 1},
                               {c->n, c->oh, c->ow, 1},
                               {c->kernel[0], c->kernel[1], in, out},
                               {groups, c->ih, c->iw, in},
                               {groups, c->oh, c->ow, out}};

    for (size_t i = 0; i < DT_COUNT_OF(size); i++) {
        int64_t left = INT_MAX / 4;
        for (int k = 0; k < 4; k++)
            left /= size[i][k];
        if (left == 0)
            return false;
    }
    return true;
}

void dt_kernel_close(dt_tiles *t)
{
    if (t)
        free(t->tables);
    free(t);
}

dt_status dt_kernel_open(dt_tiles **t, const dt_conv *c, dt_pass pass, const dt_cut *some,
                         dt_kernel_info *info)
{
    const int64_t all = pass == DT_PASS_DATA ? c->ic : c->oc;
    const dt_cut of = some ? *some : (dt_cut){0, all, all};

    *t = NULL;
    *info = (dt_kernel_info){.scratch_bytes = 0};
    if (!kernel_fits(c))
        return dt_fail(DT_UNSUPPORTED,
                       "a convolution of %lld images of %lldx%lld with %lld channels is larger "
                       "than the kernels can count; take a smaller batch",
                       (long long)c->n, (long long)c->ih, (long long)c->iw, (long long)c->ic);
    DT_TRY(dt_calloc(t, 1, sizeof **t, "a convolution"));
    dt_tiles *made = *t;
    DT_TRY(dt_tiles_plan(made, c, pass, (int)of.count, dt_tile_current(c->type)));
    made->scratch = dt_align(made->scratch, 4096);
    info->scratch_bytes = made->scratch * (size_t)c->threads;
    if (pass == DT_PASS_WEIGHTS)
        info->scratch_bytes += dt_tiles_partial_bytes(made) + dt_align(made->team, 4096) +
                               (c->bias ? dt_bias_scratch_bytes(c, of.count) : 0);
    else
        info->packed_bytes = (size_t)made->out.blocks * (size_t)dt_tiles_steps(made) * made->block;
    info->backend = made->backend->name;
    snprintf(info->layout, sizeof info->layout, "%s %dx%d of %d blocks to channels %lld to %lld",
             pass == DT_PASS_DATA ? "data" : "forward", made->taps_y, made->taps_x, made->in.blocks,
             (long long)of.first, (long long)(of.first + of.count));
    return DT_OK;
}

/* ---- Run ------------------------------------------------------------------------------------- */

void dt_kernel_pack(const void *t, const float *master, void *packed, size_t first, size_t end)
{
    const size_t each = ((const dt_tiles *)t)->block;
    dt_tiles_pack(t, master, packed, (first + each - 1) / each, (end + each - 1) / each);
}

/* One thread's part of a weight gradient. */
static void kernel_weights(const dt_tiles *t, const dt_conv_args *a, char *team, char *mine)
{
    for (int round = 0; round < (t->team ? dt_tiles_weights_rounds(t) : 1); round++) {
        if (t->team)
#pragma omp for schedule(static, 1)
            for (int i = 0; i < dt_tiles_weights_cells(t); i++)
                dt_tiles_weights_cell(t, round, i, a, team);
#pragma omp for schedule(static)
        for (int i = 0; i < t->units; i++)
            dt_tiles_weights(t, round, i, a, a->scratch, team, mine);
    }
}

void dt_kernel_run(const dt_tiles *t, const dt_conv_args *a)
{
    const dt_conv *c = &t->conv;
    const bool weights = t->pass == DT_PASS_WEIGHTS;
    char *team = (char *)a->scratch + (weights ? dt_tiles_partial_bytes(t) : 0);
    char *scratch = team + dt_align(t->team, 4096);

#pragma omp parallel num_threads(c->threads)
    {
        char *mine = scratch + (size_t)omp_get_thread_num() * t->scratch;
        dt_tile_begin(t->backend);
        if (weights)
            kernel_weights(t, a, team, mine);
        else
#pragma omp for schedule(static)
            for (int i = 0; i < t->units; i++)
                dt_tiles_forward(t, i, a, mine);
        dt_tile_end(t->backend);
    }
    if (!weights)
        return;
    const int64_t rows = t->strips > 1 ? c->kernel[0] * c->kernel[1] * c->ic : 0;
#pragma omp parallel for num_threads(c->threads) schedule(static) if (rows > 0)
    for (int64_t r = 0; r < rows; r++)
        dt_tiles_weights_sum(t, r, a->scratch, a->dw);
    if (c->bias)
        dt_bias_gradient(c, t->out.channels, a->dy, scratch + t->scratch * (size_t)c->threads,
                         a->dbias);
}
