/* library.c - engines: products of tiles in float32 by the sgemm of OpenBLAS or oneDNN, on
 * one thread inside each of ours. Packing, cuts, threads and the order of partial sums stay ours;
 * the order inside a product is the library's, and depends on its version and on the core that it
 * has chosen code for, but not on threads or ranks: their products have the same shapes.
 *
 * A library is loaded when it is asked for, its symbols kept apart: a run by dtrain's own kernels
 * maps neither, and the program starts where none is installed. Headers tell the compiler how the
 * functions are called, and nothing else. */
#include "engines.h"

#include <dlfcn.h>
#include <omp.h>

enum { TEXT = 200, ROW = DT_TILE * sizeof(float), BLOCK = DT_TILE * ROW };
enum { STEPS = 8 }; /* a longer product may be cut by the sizes of caches */

typedef struct engine {
    const char *name, *package, *file;
    bool (*open)(void *library, char *text);
    void (*sgemm)(bool turned, int rows, int inner, const float *a, int row, const float *b,
                  float beta, float *sums);
    char text[TEXT]; /* "": not loaded */
} engine;

static const engine *engine_now;        /* process state: the last that was chosen */
static dt_tile_backend library_backend; /* packs as `plain` does */
static const dt_tile_backend *const plain = &dt_tile_backend_fma_plain;

/* ---- Products -------------------------------------------------------------------------------- */

/* What oneDNN, and an OpenBLAS that is built with OpenMP, take for the number of threads. */
static _Thread_local int library_threads;

static void library_begin(void)
{
    library_threads = omp_get_max_threads();
    omp_set_num_threads(1);
}

static void library_end(void)
{
    omp_set_num_threads(library_threads);
}

/* Steps are one product; those that do not go on in memory are laid out so. */
static void library_multiply(float *sums, const dt_tile_run *run, int runs, int rows, bool fresh,
                             const dt_tile_out *out)
{
    _Alignas(64) char room[STEPS * BLOCK];

    if (fresh && runs == 0)
        memset(sums, 0, DT_TILE_AREA * sizeof *sums);
    for (; runs > 0; runs--, run++) {
        const bool turned = run->place != sizeof(float);
        const bool goes_on = run->step == (turned ? DT_TILE * run->place : (size_t)ROW);
        for (int k = 0, n; k < run->steps; k += n, fresh = false) {
            const char *a = (const char *)run->a + (size_t)k * run->step;
            size_t row = turned ? run->place : run->row;
            n = goes_on || !turned ? DT_MIN(run->steps - k, (int)STEPS) : 1;
            if (!goes_on && n > 1) {
                for (int r = 0; r < rows; r++)
                    for (int i = 0; i < n; i++)
                        memcpy(room + (r * STEPS + i) * ROW,
                               a + (size_t)i * run->step + (size_t)r * run->row, ROW);
                a = room, row = sizeof room / DT_TILE;
            }
            engine_now->sgemm(turned, rows, n * DT_TILE, (const float *)(const void *)a,
                              (int)(row / sizeof(float)),
                              (const float *)run->b + (size_t)k * DT_TILE_AREA, fresh ? 0 : 1,
                              sums);
        }
    }
    if (out)
        plain->multiply(sums, NULL, 0, rows, false, out);
}

/* ---- Libraries ------------------------------------------------------------------------------- */

/* What is preloaded comes first. */
static inline void *find(void *library, const char *name)
{
    void *preloaded = dlsym(RTLD_DEFAULT, name);

    return preloaded ? preloaded : dlsym(library, name);
}

/* A variable f_, of the type that the header declares. */
#define FIND(library, f)                                                                           \
    __typeof__(&f) f##_ = NULL;                                                                    \
    *(void **)&f##_ = find(library, #f)

#ifdef DT_OPENBLAS
#include <cblas.h>
static __typeof__(&cblas_sgemm) openblas_call;

static void openblas_sgemm(bool turned, int rows, int inner, const float *a, int row,
                           const float *b, float beta, float *sums)
{
    openblas_call(CblasRowMajor, turned ? CblasTrans : CblasNoTrans, CblasNoTrans, rows, DT_TILE,
                  inner, 1, a, row, b, DT_TILE, beta, sums, DT_TILE);
}

static bool openblas_open(void *library, char *text)
{
    FIND(library, cblas_sgemm);
    FIND(library, openblas_get_config);
    FIND(library, openblas_set_num_threads);
    if (!cblas_sgemm_ || !openblas_get_config_ || !openblas_set_num_threads_)
        return false;
    openblas_set_num_threads_(1);
    openblas_call = cblas_sgemm_;
    snprintf(text, TEXT, "%s", openblas_get_config_()); /* version, build, core */
    return true;
}
#endif

#ifdef DT_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>
static __typeof__(&dnnl_sgemm) onednn_call;

static void onednn_sgemm(bool turned, int rows, int inner, const float *a, int row, const float *b,
                         float beta, float *sums)
{
    onednn_call(turned ? 'T' : 'N', 'N', rows, DT_TILE, inner, 1, a, row, b, DT_TILE, beta, sums,
                DT_TILE);
}

static bool onednn_open(void *library, char *text)
{
    FIND(library, dnnl_sgemm);
    FIND(library, dnnl_version);
    FIND(library, dnnl_get_effective_cpu_isa);
    FIND(library, dnnl_cpu_isa2str);
    if (!dnnl_sgemm_ || !dnnl_version_ || !dnnl_get_effective_cpu_isa_ || !dnnl_cpu_isa2str_)
        return false;
    const dnnl_version_t *v = dnnl_version_();
    onednn_call = dnnl_sgemm_;
    snprintf(text, TEXT, "oneDNN %d.%d.%d build %s runtime %u %s", v->major, v->minor, v->patch,
             v->hash, v->cpu_runtime, dnnl_cpu_isa2str_(dnnl_get_effective_cpu_isa_()));
    return true;
}
#endif

static engine engines[] = {
#ifdef DT_OPENBLAS
    {"openblas", "libopenblas-dev", DT_OPENBLAS, openblas_open, openblas_sgemm, ""},
#endif
#ifdef DT_ONEDNN
    {"onednn", "libdnnl-dev", DT_ONEDNN, onednn_open, onednn_sgemm, ""},
#endif
    {.name = ""},
};

static dt_status engine_load(engine *e)
{
    /* OpenBLAS starts its threads while it is loaded. */
    if (setenv("OPENBLAS_NUM_THREADS", "1", 1) != 0)
        return dt_fail(DT_NOMEM, "no memory for the environment");
    void *library = dlopen(e->file, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return dt_fail(DT_UNSUPPORTED, "engine %s: %s: install %s, or take --engine own",
                       e->name, dlerror(), e->package);
    if (!e->open(library, e->text))
        return dt_fail(DT_UNSUPPORTED, "engine %s: %s lacks a function: take another version",
                       e->name, e->file);
    return DT_OK;
}

static dt_status engine_choose(const char *name, const dt_tile_backend **backend)
{
    for (engine *e = engines; e->name[0]; e++)
        if (strcmp(e->name, name) == 0) {
            if (!e->text[0])
                DT_TRY(engine_load(e));
            engine_now = e;
            library_backend.name = e->name;
            library_backend.text = e->text;
            *backend = &library_backend;
        }
    return DT_OK;
}

void dt_extra_engines(void)
{
    library_backend = *plain;
    library_backend.chunk = STEPS;
    library_backend.product = 4;
    library_backend.begin = library_begin;
    library_backend.end = library_end;
    library_backend.multiply = library_multiply;
    library_backend.check = dt_products_check;
    dt_engine_load = engine_choose;
}
