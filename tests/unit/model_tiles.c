/* model_tiles.c - products of tiles: every backend against plain C, bit for bit inside a class, on
 * usual and special numbers; packed operands of every backend against plain C's. */
#include "conv.h"
#include "tile_backends.h"

#include <signal.h>
#include <sys/wait.h>

enum { STEPS = 3, AREA = DT_TILE_AREA, ROW = 2 * DT_TILE, BLOCK = 2 * AREA };

/* ---- Numbers ---------------------------------------------------------- */

static uint32_t draw(uint64_t index)
{
    uint32_t out[4];
    dt_random(7, DT_STREAM_TEST, 0, index / 4, 0, out);
    return out[index % 4];
}

/* Kinds of bf16: usual; wide exponents; near the smallest normal, denormals among them; any bits;
 * sums that cancel; infinities and NaN here and there. */
enum { USUAL, WIDE, TINY, ANY, CANCEL, SPECIAL, KINDS };
static dt_bf16 number(int kind, uint64_t index)
{
    static const dt_bf16 special[] = {0x7f80, 0xff80, 0x7fc1, 0xffa3, 0x0001, 0x8001, 0, 0x8000};
    const uint32_t u = draw(index), sign = u & 0x8000u;

    if (kind == USUAL)
        return (dt_bf16)(sign | (0x3e00u + (u >> 16) % 0x200u));
    if (kind == WIDE)
        return (dt_bf16)(sign | (0x2000u + (u >> 16) % 0x4000u));
    if (kind == TINY) /* products near 2^-126 */
        return (dt_bf16)(sign | (0x1f40u + (u >> 16) % 0x140u) * ((u >> 8) % 8 > 0) |
                         ((u >> 8) % 8 == 0 ? (u >> 16) % 0x100u : 0));
    if (kind == ANY)
        return (dt_bf16)(u >> 16);
    if (kind == CANCEL)
        return (dt_bf16)(sign | (0x3f80u + (u >> 16) % 4u * 0x80u));
    return u % 61 == 0 ? special[(u >> 16) % 8] : (dt_bf16)(sign | (0x3e00u + (u >> 16) % 0x200u));
}

typedef struct operands {
    _Alignas(64) dt_bf16 a[STEPS * AREA], b[STEPS * AREA];
    _Alignas(64) float old[AREA];
} operands;

static void operands_draw(operands *o, int kind, int turn)
{
    uint64_t index = (uint64_t)(kind * 1000 + turn) * 3 * STEPS * AREA;
    for (int i = 0; i < STEPS * AREA; i++) {
        o->a[i] = number(kind, index++);
        o->b[i] = number(kind, index++);
    }
    for (int i = 0; i < AREA; i++) {
        const uint32_t top = number(kind, index++), u = top << 16 | (draw(index) & 0xffffu);
        memcpy(&o->old[i], &u, sizeof u);
    }
}

/* Two runs of one and two steps, rows side by side; in registers that another product has left. */
static void multiply(const dt_tile_backend *w, const operands *o, bool fresh, int rows, float *sums)
{
    const dt_tile_run run[] = {{o->a, o->b, ROW, BLOCK, 2, 1},
                               {o->a + AREA, o->b + AREA, ROW, BLOCK, 2, STEPS - 1}};
    dt_tile_begin(w);
    w->multiply(sums, run, 1, rows, true, NULL);
    memcpy(sums, o->old, sizeof o->old);
    w->multiply(sums, run, 2, rows, fresh, NULL);
    dt_tile_end(w);
}

/* ---- The class of the AMX unit ---------------------------------------------------------- */

static bool has_amx_bits(const dt_tile_backend *b)
{
    return strncmp(b->name, "dot", 3) != 0;
}

TEST(test_products)
{
    static operands o;
    _Alignas(64) float want[AREA], got[AREA];

    for (int w = 1; w < TILE_BACKENDS; w++) {
        if (!has_amx_bits(tile_backends[w]) || !tile_backend_runs(tile_backends[w]))
            continue;
        for (int kind = 0; kind < KINDS; kind++)
            for (int turn = 0; turn < 12; turn++) {
                const int rows = turn % 3 == 0 ? DT_TILE : 1 + turn;
                operands_draw(&o, kind, turn);
                multiply(&dt_tile_backend_plain, &o, turn % 2, rows, want);
                multiply(tile_backends[w], &o, turn % 2, rows, got);
                for (int i = 0; i < rows * DT_TILE; i++) {
                    uint32_t x, y;
                    memcpy(&x, &want[i], sizeof x);
                    memcpy(&y, &got[i], sizeof y);
                    if (x != y)
                        fail_msg("%s, kind %d, turn %d, [%d]: %08x, plain C %08x",
                                 tile_backends[w]->name, kind, turn, i, y, x);
                }
            }
    }
}

/* By hand: even and odd places are two sums, each from +0, added before they join the old one. */
TEST(test_definition)
{
    static operands o;
    _Alignas(64) float sums[AREA];
    const dt_tile_run run = {o.a, o.b, ROW, BLOCK, 2, 1};
    const dt_bf16 one = 0x3f80, large = 0x4b80, minus = 0xcb80; /* 1, 2^24, -2^24 */

    for (int w = 0; w < TILE_BACKENDS; w++) {
        if (!has_amx_bits(tile_backends[w]) || !tile_backend_runs(tile_backends[w]))
            continue;
        memset(&o, 0, sizeof o);
        for (int i = 0; i < DT_TILE; i++) /* column 0 of all pairs */
            o.b[i / 2 * 32 + i % 2] = one;
        o.a[0] = large, o.a[1] = one, o.a[2] = one, o.a[4] = minus; /* even: 2^24 + 1 is 2^24 */
        o.a[DT_TILE] = large, o.a[DT_TILE + 1] = minus, o.a[DT_TILE + 3] = one;
        memset(sums, 0, sizeof sums);
        sums[DT_TILE] = 0x1p25f; /* takes in (2^24) + (1 - 2^24): 1, lost in 2^25 */
        dt_tile_begin(tile_backends[w]);
        tile_backends[w]->multiply(sums, &run, 1, 2, false, NULL);
        dt_tile_end(tile_backends[w]);
        assert_true(sums[0] == 1.0f);
        assert_true(sums[DT_TILE] == 0x1p25f);
    }
}

#if defined(__x86_64__)
#ifdef DT_NO_AMX
TEST(test_no_amx)
{
    test_skips("tiles: this compiler has no AMX");
}
#else
/* Each instruction of backend_amx.c with each fault: other sums, or sums as they should be. */
TEST(test_faults)
{
    static operands o;
    _Alignas(64) float want[2][AREA], got[AREA];
    int found = 0;

    tile_trap_arm();
    operands_draw(&o, USUAL, 3);
    for (int fresh = 0; fresh < 2; fresh++)
        multiply(&dt_tile_backend_plain, &o, fresh, DT_TILE, want[fresh]);
    for (int fault = 0; fault < TILE_AMX_FAULTS * TILE_AMX_LINES; fault++) {
        bool same = true;
        tile_amx_fault = fault, tile_amx_faulty = false;
        for (int fresh = 0; fresh < 2; fresh++) {
            multiply(&tile_amx_backend, &o, fresh, DT_TILE, got);
            same &= memcmp(got, want[fresh], sizeof got) == 0;
        }
        if (same == tile_amx_faulty)
            fail_msg("backend_amx.c:%d, kind %d: %s", fault / TILE_AMX_FAULTS,
                     fault % TILE_AMX_FAULTS, same ? "not found" : "no fault, but other sums");
        found += tile_amx_faulty;
    }
    tile_amx_fault = 0;
    assert_int_equal(found, 4 + 8 * 2 + 4 * 3 + 4 * 2); /* zero, load, product, store */
}

/* No instruction, or one that the tiles do not allow: the end, with AMX as without. */
TEST(test_refusals)
{
    for (int what = 0; what < 4; what++) {
        int status = 0;
        fflush(NULL);
        const pid_t child = fork();
        if (child == 0) {
            static uint8_t config[64] = {[16] = 64, [18] = 64, [20] = 64, [48] = 16, 16, 15};
            signal(SIGILL, SIG_DFL), signal(SIGSEGV, SIG_DFL);
            tile_trap_arm();
            config[0] = what == 2 ? 2 : 1; /* there is no palette 2 */
            if (what == 0)
                __asm__ volatile("ud2");
            if (what > 1)
                __asm__ volatile("ldtilecfg %0" ::"m"(config));
            __asm__ volatile("tdpbf16ps %tmm2, %tmm1, %tmm0"); /* tiles that do not fit, or none */
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
    }
}
#endif
#endif

/* ---- One chain: VDPBF16PS ---------------------------------------------------------- */

#if defined(__x86_64__)
/* The instruction and the fused multiply-adds, on any numbers. */
TEST(test_same_dots)
{
    static operands o;
    _Alignas(64) float want[AREA], got[AREA];

    if (!tile_backend_runs(&dt_tile_backend_dot))
        return;
    for (int turn = 0; turn < 12 * KINDS; turn++) {
        operands_draw(&o, turn % KINDS, turn);
        multiply(&dt_tile_backend_dot, &o, turn & 1, DT_TILE, want);
        multiply(&dt_tile_backend_dot_fma, &o, turn & 1, DT_TILE, got);
        for (int i = 0; i < AREA; i++) /* which NaN it is does not matter: it ends a run */
            if (!(isnan(want[i]) && isnan(got[i])))
                assert_memory_equal(&want[i], &got[i], sizeof *want);
    }
}
#endif

/* Against double: |error| is at most some units in the last place of the sum of magnitudes. */
TEST(test_dot)
{
#if defined(__x86_64__)
    static operands o;
    _Alignas(64) float got[AREA];

    if (!tile_backend_runs(&dt_tile_backend_dot))
        return;
    for (int turn = 0; turn < 6; turn++) {
        operands_draw(&o, turn % 2 ? CANCEL : USUAL, turn);
        multiply(&dt_tile_backend_dot, &o, true, DT_TILE, got);
        for (int i = 0; i < AREA; i++) {
            double want = 0, size = 0;
            for (int k = 0; k < STEPS * DT_TILE; k++) {
                const int c = i % DT_TILE, p = k % DT_TILE;
                const dt_bf16 b =
                    o.b[k / DT_TILE * AREA + c / 16 * AREA / 2 + p / 2 * 32 + c % 16 * 2 + p % 2];
                const dt_bf16 a = o.a[k / DT_TILE * AREA + i / DT_TILE * DT_TILE + p];
                const double x = (double)dt_bf16_to_f32(a) * (double)dt_bf16_to_f32(b);
                want += x, size += fabs(x);
            }
            assert_true(fabs((double)got[i] - want) <= 0x1p-23 * STEPS * DT_TILE * size);
        }
    }
#else
#endif
}

/* ---- float32 ----------------------------------------------------------------------------- */

/* One chain for each sum, in order of the reduction, each step a fused multiply-add; the left
 * operand row by row, or place by place. */
TEST(test_float_products)
{
    static _Alignas(64) float a[2 * AREA], b[2 * AREA], old[AREA], got[AREA];

    for (int i = 0; i < 2 * AREA; i++) {
        a[i] = (float)(int)draw((uint64_t)i) * 0x1p-31f;
        b[i] = (float)(int)draw((uint64_t)i + 10000) * 0x1p-29f;
        old[i % AREA] = (float)(int)draw((uint64_t)i + 20000) * 0x1p-27f;
    }
    for (int turn = 0; turn < 4 * FLOAT_BACKENDS; turn++) {
        const dt_tile_backend *w = float_backends[turn / 4];
        const bool turned = turn & 1, fresh = turn & 2;
        const size_t row = turned ? 1 : DT_TILE, place = turned ? DT_TILE : 1;
        if (!tile_backend_runs(w))
            continue;
        const dt_tile_run run = {a, b, row * sizeof *a, AREA * sizeof *a, place * sizeof *a, 2};
        memcpy(got, old, sizeof got);
        w->multiply(got, &run, 1, DT_TILE, fresh, NULL);
        for (int r = 0; r < DT_TILE; r++)
            for (int c = 0; c < DT_TILE; c++) {
                float want = fresh ? 0 : old[r * DT_TILE + c];
                for (size_t k = 0; k < 2 * DT_TILE; k++)
                    want = fmaf(a[k / DT_TILE * AREA + (size_t)r * row + k % DT_TILE * place],
                                b[k * DT_TILE + (size_t)c], want);
                assert_memory_equal(&want, &got[r * DT_TILE + c], sizeof want);
            }
    }
}

TEST(test_float_packing)
{
    static float from[40 * DT_TILE];
    _Alignas(64) float packed[AREA];

    for (int i = 0; i < 40 * DT_TILE; i++)
        from[i] = (float)i;
    for (int turn = 0; turn < 2 * FLOAT_BACKENDS; turn++) {
        const dt_tile_backend *w = float_backends[turn / 2];
        const bool columns = turn & 1;
        if (!tile_backend_runs(w))
            continue;
        (columns ? w->pack_columns : w->pack_rows)(from, 40, packed);
        for (int k = 0; k < DT_TILE; k++)
            for (int c = 0; c < DT_TILE; c++)
                assert_true(packed[k * DT_TILE + c] == (float)(columns ? c * 40 + k : k * 40 + c));
    }
}

/* ---- Operands and results ---------------------------------------------------------- */

enum { OPERAND_BYTES = 32 * BLOCK };

/* Kernels of one to many rows and blocks, inside the image and at all its sides. */
static void check_windows(const dt_tile_backend *plain, const dt_tile_backend *backend,
                          const operands *o, char *want, char *got)
{
    static const int kernels[][2] = {{3, 18}, {7, 84}, {1, 10}, {3, 96}, {2, 256}, {9, 2}};
    const int row = DT_TILE * (int)dt_dtype_bytes(backend->type);

    for (size_t k = 0; k < DT_COUNT_OF(kernels); k++)
        for (int side = 0; side < 16; side++) {
            const int lines = kernels[k][0], wide = kernels[k][1];
            const dt_tile_window w = {.from = o->b + 600,
                                      .at = -34,
                                      .row = 70,
                                      .line = 60,
                                      .step = 4,
                                      .rows = side % 3 ? DT_TILE / 2 : 5,
                                      .fill = side % 3 ? DT_TILE / 2 : DT_TILE,
                                      .lines = lines,
                                      .wide = wide,
                                      .line0 = side & 1,
                                      .line1 = lines - (side >> 1 & 1),
                                      .first = (side & 4) / 4 * (wide / 4 * 2),
                                      .end = wide - (side & 8) / 8 * (wide / 6 * 2),
                                      .blocks = (lines * wide + row - 1) / row};
            memset(want, 0x55, OPERAND_BYTES), memset(got, 0x55, OPERAND_BYTES);
            plain->window(&w, 2, want), backend->window(&w, 2, got);
            assert_memory_equal(want, got, OPERAND_BYTES);
        }
}

static void check_operands(const dt_tile_backend *plain, const dt_tile_backend *backend)
{
    static operands o;
    static _Alignas(64) char want[OPERAND_BYTES], got[OPERAND_BYTES];

    if (!tile_backend_runs(backend))
        return;
    operands_draw(&o, ANY, 1);
    memset(want, 0x55, sizeof want), memset(got, 0x55, sizeof got);
    plain->turn_left(o.a, want), backend->turn_left(o.a, got);
    assert_memory_equal(want, got, sizeof got);
    plain->turn_right(o.a, 2 * ROW, 0, want), backend->turn_right(o.a, 2 * ROW, 0, got);
    assert_memory_equal(want, got, sizeof got);
    plain->pack_rows(o.old, DT_TILE, want), backend->pack_rows(o.old, DT_TILE, got);
    assert_memory_equal(want, got, sizeof got);
    plain->pack_columns(o.old, DT_TILE, want), backend->pack_columns(o.old, DT_TILE, got);
    assert_memory_equal(want, got, sizeof got);
    for (int count = 0; count <= DT_TILE; count++) {
        const dt_tile_rows g = {.from = o.b + 1,
                                .row = 80,
                                .rows = count % 17,
                                .fill = count % 2 ? DT_TILE : DT_TILE / 2,
                                .channels = count};
        memset(want, 0x55, sizeof want), memset(got, 0x55, sizeof got);
        plain->gather(&g, 2, want), backend->gather(&g, 2, got);
        assert_memory_equal(want, got, sizeof got);
    }
    check_windows(plain, backend, &o, want, got);
}

TEST(test_operands)
{
    for (int w = 1; w < TILE_BACKENDS; w++)
        check_operands(tile_backends[0], tile_backends[w]);
    for (int w = 1; w < FLOAT_BACKENDS; w++)
        check_operands(float_backends[0], float_backends[w]);
}

/* Rounded, with a bias, in part of a block or all of it; nothing else is written. */
TEST(test_results)
{
    static operands o;
    static _Alignas(64) float want[2 * AREA], got[2 * AREA], bias[DT_TILE];

    for (int kind = 0; kind < KINDS; kind++) {
        operands_draw(&o, kind, 5);
        memcpy(bias, o.old + 7, sizeof bias);
        for (int i = 0; i < DT_TILE; i++)
            if (!isfinite(bias[i])) /* which NaN an addition gives is not promised */
                bias[i] = 1;
        for (int w = 1; w < TILE_BACKENDS; w++) {
            if (!has_amx_bits(tile_backends[w]) || !tile_backend_runs(tile_backends[w]))
                continue;
            for (int turn = 0; turn < 96; turn++) {
                const bool whole = turn >= 64; /* blocks, which may go past the caches */
                const dt_tile_run run = {o.a, o.b, ROW, BLOCK, 2, 1 + turn % STEPS};
                _Alignas(64) float sums[AREA];
                const int fold = DT_TILE >> turn % 4;
                const size_t each = turn % 3 ? sizeof(dt_bf16) : sizeof(float);
                dt_tile_out out = {.at = want,
                                   .row = (whole ? 64 : 48) * each,
                                   .jump = (size_t)(fold * (whole ? 64 : 48) + !whole * 5) * each,
                                   .fold = fold,
                                   .folds = 1 + turn % (DT_TILE / fold),
                                   .rows = whole ? fold - turn / 8 % 3 : 1 + turn / 2 % fold,
                                   .channels = whole ? DT_TILE : 1 + turn * 7 % DT_TILE,
                                   .stream = whole && turn & 8,
                                   .type = turn % 3 ? DT_BF16 : DT_F32,
                                   .bias =
                                       turn & 16 && kind != SPECIAL && kind != ANY ? bias : NULL};
                memset(want, 0x55, sizeof want), memset(got, 0x55, sizeof got);
                memcpy(sums, o.old, sizeof sums);
                const int rows = fold == DT_TILE ? out.rows : DT_TILE;
                dt_tile_backend_plain.multiply(sums, &run, 1, rows, turn & 4, &out);
                memcpy(sums, o.old, sizeof sums);
                out.at = got;
                dt_tile_begin(tile_backends[w]);
                tile_backends[w]->multiply(sums, &run, 1, rows, turn & 4, &out);
                dt_tile_end(tile_backends[w]);
                assert_memory_equal(want, got, sizeof got);
            }
        }
    }
}

/* Chunks of the reduction, and groups of tile pixels with a smaller one at the end, change no bit
 * of a pass: of one fold, multiplied where they lie, and of several. */
static void check_groups(const dt_tile_backend *backend, int size, int ic, int kernel)
{
    static const int chunks[] = {INT_MAX, 2, 1};
    conv_problem p;
    conv_run want, got;

    if (!tile_backend_runs(backend))
        return;
    conv_open(&p, conv_square(9, size, ic, 64, kernel, 1, kernel / 2, backend->type));
    for (int pass = DT_PASS_FORWARD; pass <= DT_PASS_DATA; pass++)
        for (int turn = 0; turn < 6; turn++) {
            dt_tile_backend other = *backend;
            other.chunk = chunks[turn / 2], other.ahead = turn % 2;
            dt_tile_use(&other);
            conv_execute(turn ? &got : &want, &p, (dt_pass)pass, 9, 1 + turn);
            if (turn) {
                assert_memory_equal(want.at[CONV_RESULT].data, got.at[CONV_RESULT].data, got.bytes);
                conv_unmap(got.at, CONV_MADE);
            }
            if (turn == 5)
                conv_unmap(want.at, CONV_MADE);
        }
    conv_unmap(p.at, CONV_DRAWN);
    dt_tile_use(NULL);
}

TEST(test_groups)
{
    for (int i = 0; i < TILE_BACKENDS + FLOAT_BACKENDS; i++) {
        const dt_tile_backend *b =
            i < TILE_BACKENDS ? tile_backends[i] : float_backends[i - TILE_BACKENDS];
        check_groups(b, 6, 96, 1); /* 11 tile pixels, the last one of 4 rows */
        check_groups(b, 4, 32, 3);
    }
}

TEST(test_rounding)
{
    assert_int_equal(dt_tile_round(0x1p-127f), 0);       /* a denormal */
    assert_int_equal(dt_tile_round(-0x1p-127f), 0x8000); /* its sign stays */
    assert_int_equal(dt_tile_round(0x1p-126f), 0x0080);
    assert_int_equal(dt_tile_round(1 + 0x1p-8f), 0x3f80); /* ties to even */
    assert_int_equal(dt_tile_round(1 + 3 * 0x1p-8f), 0x3f82);
    assert_int_equal(dt_tile_round(INFINITY), 0x7f80);
    assert_true(dt_tile_round(NAN) % 0x8000 > 0x7f80);
}
