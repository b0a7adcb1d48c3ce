/* backend.h - backends execute products of tiles: the instructions, and the work around them.
 *
 * Everything is made of *blocks* of 32 x 32 numbers. Operands are bf16 or float32, sums float32.
 * All blocks are row by row, except the right operand in bf16: [2 halves of the columns][16 pairs]
 * [16 columns][2], so that four bytes are a pair of the reduction on both sides. All distances are
 * bytes.
 *
 * bf16 has two classes of bits. "amx", "avx512" and "plain" have --isa amx's: per element two
 * float32 chains from +0, over even and odd places of the reduction, of fused multiply-adds; the
 * two are added, and their sum is added to what was there. Every step rounds to nearest even,
 * reads denormals as zero and flushes denormal results to zero, as TDPBF16PS does. "dot" and
 * "dot_fma" have --isa avx512_bf16's: one chain of VDPBF16PS in order of the pairs; Intel's
 * CPUs, and those without the instruction, take "dot_fma".
 *
 * float32 has one class ("fma", "fma_avx2", "fma_neon", "fma_plain"): one chain of fused
 * multiply-adds in order of the reduction. Engines have their libraries' order: see
 * extra/engines. */
#ifndef DT_TILE_BACKEND_H
#define DT_TILE_BACKEND_H
#include "../kernel.h"

enum {
    DT_TILE = 32,           /* rows, columns and reduction of a block */
    DT_TILE_AREA = 32 * 32, /* its numbers */
    DT_TILE_PIXEL = 640,    /* bytes of a virtual pixel in one row, at most: 7 x 7 x 3 float32 */
    DT_TILE_WINDOWS = 8,    /* virtual pixels made at a time, at most */
    DT_TILE_HALF = 1024,    /* bf16: from the first 16 columns of a right operand to the others */
};

/* Neighbouring steps of a reduction, 32 places each. Step k multiplies the rows a + k * step,
 * a + k * step + row, .. with block k from b on. */
typedef struct dt_tile_run {
    const void *a, *b;
    size_t row, step;
    size_t place; /* from one place of the reduction to the next, in a; bf16: 2 */
    int steps;
} dt_tile_run;

/* Rows of a block as they lie in a tensor; other rows and channels become zero. */
typedef struct dt_tile_rows {
    const void *from; /* row 0 */
    size_t row;       /* to the next row */
    size_t ahead;     /* from each row to what is read next, for the prefetch; 0: none */
    int rows, channels;
    int fill; /* rows written, those from `rows` on as zeros; at most 32 */
} dt_tile_rows;

/* All that a kernel meets, kernel row by kernel row, as the channels of a virtual pixel. */
typedef struct dt_tile_window {
    const void *from;       /* row 0 of the first pixel */
    ptrdiff_t at;           /* from there to kernel row 0, which may lie outside */
    size_t row, line, step; /* to the next row, kernel row and pixel */
    int rows, fill;         /* as in dt_tile_rows */
    int lines, wide;        /* kernel rows, and bytes of each */
    int line0, line1;       /* kernel rows [line0, line1) and their bytes [first, end) lie */
    int first, end;         /* inside the image, the others are zeros */
    int blocks;             /* of a virtual pixel */
} dt_tile_window;

/* Where finished sums go: the bias is added, then they are rounded to `type` and stored. */
typedef struct dt_tile_out {
    void *at;         /* row 0, first channel; type */
    size_t row, jump; /* to the next row and fold */
    int fold;         /* rows of a fold: 32, 16, 8 or 4 */
    int rows, folds;  /* that are stored: rows of each fold, folds */
    int channels;     /* at most 32 */
    dt_dtype type;
    bool stream;       /* past the caches; the caller fences */
    const float *bias; /* [channels], or NULL */
} dt_tile_out;

typedef struct dt_tile_backend {
    const char *name;
    dt_dtype type;
    dt_isa isa;     /* that the CPU must have */
    int chunk;      /* steps that are multiplied for a group of blocks before the next ones */
    bool ahead;     /* it waits for left operands: small groups, the next one prefetched */
    double product; /* its time in units of packing a block; used only to cut */
    /* Around all other calls, in each thread, by dt_tile_begin and dt_tile_end. NULL: nothing. */
    void (*begin)(void);
    void (*end)(void);
    /* Add the runs to `sums`, in order; only `rows` rows need be right. fresh: `sums` is not read.
     * out: these are the last runs; finished sums go to *out, and `sums` may hold anything. */
    void (*multiply)(float *sums, const dt_tile_run *run, int runs, int rows, bool fresh,
                     const dt_tile_out *out);
    /* Left operand: gather takes `count` blocks that lie side by side, window makes the blocks of
     * `count` virtual pixels. */
    void (*gather)(const dt_tile_rows *g, int count, void *to);
    void (*window)(const dt_tile_window *w, int count, void *to);
    /* Operands whose reduction runs over the 32 rows; ahead as in dt_tile_rows. bf16: in pairs
     * (j, j + 16), since that order costs the fewest shuffles; the left one [channel][pair][2], the
     * right one with columns as dt_tile_column has them. float32: the rows as they are. */
    void (*turn_left)(const void *block, void *to);
    void (*turn_right)(const void *from, size_t row, size_t ahead, void *to);
    /* Right operand from 32 x 32 float32, whose rows are `row` numbers apart: pack_rows if the
     * reduction runs over the rows of `from`, pack_columns if over its columns. */
    void (*pack_rows)(const float *from, size_t row, void *to);
    void (*pack_columns)(const float *from, size_t row, void *to);
    /* Of an engine: dt_engine_text; and try each shape of product that a pass asks of it, once in
     * the process, by one thread at a time. DT_CORRUPT names the layer; a product that never
     * returns ends the process. */
    const char *text;
    dt_status (*check)(const dt_tiles *t, const char *layer);
} dt_tile_backend;

static inline void dt_tile_begin(const dt_tile_backend *b)
{
    if (b->begin)
        b->begin();
}
static inline void dt_tile_end(const dt_tile_backend *b)
{
    if (b->end)
        b->end();
}

/* One file backend_<name>.c each; those with vector instructions need their own compiler flags. */
extern const dt_tile_backend dt_tile_backend_plain, dt_tile_backend_fma_plain;
#if defined(__x86_64__)
extern const dt_tile_backend dt_tile_backend_avx512, dt_tile_backend_dot, dt_tile_backend_dot_fma,
    dt_tile_backend_amx, dt_tile_backend_fma, dt_tile_backend_fma_avx2;
#ifdef DT_NO_AMX /* the compiler cannot make it */
#define dt_tile_backend_amx dt_tile_backend_avx512
#endif
#elif defined(__aarch64__)
extern const dt_tile_backend dt_tile_backend_fma_neon;
#endif

/* The backend of this CPU, or the one of this type set by dt_tile_use. NULL: there is none for
 * bf16 with the bits of this instruction set. */
const dt_tile_backend *dt_tile_current(dt_dtype type);
const dt_tile_backend *dt_tile_own(void); /* of this CPU in float32 */
/* For engines and tests: NULL lifts it. */
void dt_tile_use(const dt_tile_backend *backend);
/* Load the engine of that name; *backend stays NULL where it is none. DT_UNSUPPORTED: it cannot be
 * loaded. extra/engines sets it; NULL: this build has no engines. */
extern dt_status (*dt_engine_load)(const char *name, const dt_tile_backend **backend);

/* Bytes from `at` to a row of the block, or -1 where it is not stored. */
static inline ptrdiff_t dt_tile_place(const dt_tile_out *o, int r)
{
    /* Mostly there is one fold, and a division takes as long as storing the row. */
    const int fold = o->fold < DT_TILE ? r / o->fold : 0, row = r - fold * o->fold;
    return row < o->rows && fold < o->folds
               ? (ptrdiff_t)((size_t)fold * o->jump + (size_t)row * o->row)
               : -1;
}

/* bf16: where turn_right puts column c of 32, as 16 * half + place: each half gets four columns in
 * turn. */
static inline int dt_tile_column(int c)
{
    return c / 4 % 2 * 16 + c / 8 * 4 + c % 4;
}

/* To nearest even; denormals become zero, as VCVTNE2PS2BF16 has it. */
static inline dt_bf16 dt_tile_round(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return (u & 0x7f800000u) == 0 ? (dt_bf16)(u >> 16 & 0x8000u) : dt_f32_to_bf16(f);
}

/* One row of a product in plain C, for any numbers: sums[16] += a[32] b[16][16][2]. */
void dt_tile_row_exact(float *sums, const dt_bf16 *a, const dt_bf16 *b);
#endif
