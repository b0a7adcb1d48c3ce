/* backend_plain.c - products of tiles in plain C, with the bits of the AMX unit: see backend.h.
 *
 * A double holds the product of two bf16 exactly, and 53 >= 2 * 24 + 2, so that rounding a sum
 * first to 53 and then to 24 bits is rounding once (Figueroa 1995): no FMA instruction is
 * needed. A result is denormal if it lies below 2^-126 after rounding to 24 bits as if exponents
 * had no bound: below 2^-126 - 2^-151; that value itself, a tie, becomes 2^-126. */
#include "plain.h"

static float plain_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint32_t plain_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* Denormals are zero, the sign stays. */
static inline uint32_t plain_daz(uint32_t u)
{
    return u & 0x7f800000u ? u : u & 0x80000000u;
}

static inline float plain_widen(dt_bf16 x)
{
    return plain_float(plain_daz((uint32_t)x << 16));
}

static inline float plain_sum(double a, double b)
{
    const double s = a + b;
    return (float)(fabs(s) < 0x1p-126 - 0x1p-151 ? s * 0 : s); /* s * 0 keeps the sign */
}

/* ---- Any numbers ----------------------------------------------------------------------------- */

/* A NaN result is the first operand that is one, made quiet, or else the indefinite NaN. */
static uint32_t plain_nan(const uint32_t *operand, int count)
{
    for (int i = 0; i < count; i++)
        if ((operand[i] & 0x7fffffffu) > 0x7f800000u)
            return operand[i] | 0x00400000u;
    return 0xffc00000u;
}

static uint32_t plain_fma_bits(uint32_t a, uint32_t b, uint32_t c)
{
    const uint32_t in[3] = {plain_daz(a), plain_daz(b), plain_daz(c)};
    const double product = (double)plain_float(in[0]) * (double)plain_float(in[1]);
    const float r = plain_sum(product, (double)plain_float(in[2]));
    return isnan(r) ? plain_nan(in, 3) : plain_bits(r);
}

static uint32_t plain_add_bits(uint32_t a, uint32_t b)
{
    const uint32_t in[2] = {plain_daz(a), plain_daz(b)};
    const float r = plain_sum((double)plain_float(in[0]), (double)plain_float(in[1]));
    return isnan(r) ? plain_nan(in, 2) : plain_bits(r);
}

void dt_tile_row_exact(float *sums, const dt_bf16 *a, const dt_bf16 *b)
{
    for (int c = 0; c < 16; c++) {
        uint32_t even = 0, odd = 0;
        for (int k = 0; k < DT_TILE; k += 2) {
            const dt_bf16 *pair = b + 16 * k + 2 * c;
            even = plain_fma_bits((uint32_t)a[k] << 16, (uint32_t)pair[0] << 16, even);
            odd = plain_fma_bits((uint32_t)a[k + 1] << 16, (uint32_t)pair[1] << 16, odd);
        }
        sums[c] = plain_float(plain_add_bits(plain_bits(sums[c]), plain_add_bits(even, odd)));
    }
}

/* ---- Products where no NaN is about ---------------------------------------------------------- */

/* False: a NaN turned up, sums are as they were. */
static bool plain_row(float *sums, const dt_bf16 *a, const dt_bf16 *b)
{
    float even[16] = {0}, odd[16] = {0}, sum[16];
    bool good = true;

    for (int k = 0; k < DT_TILE; k += 2, b += 32) {
        const double x = (double)plain_widen(a[k]), y = (double)plain_widen(a[k + 1]);
        for (int c = 0; c < 16; c++)
            even[c] = plain_sum(x * (double)plain_widen(b[2 * c]), (double)even[c]);
        for (int c = 0; c < 16; c++)
            odd[c] = plain_sum(y * (double)plain_widen(b[2 * c + 1]), (double)odd[c]);
    }
    for (int c = 0; c < 16; c++) {
        const float old = plain_float(plain_daz(plain_bits(sums[c])));
        sum[c] = plain_sum((double)old, (double)plain_sum((double)even[c], (double)odd[c]));
        good &= !isnan(sum[c]);
    }
    if (good)
        memcpy(sums, sum, sizeof sum);
    return good;
}

/* ---- Operands and results -------------------------------------------------------------------- */

static void plain_turn_left(const void *block, void *to)
{
    const dt_bf16 *from = block;

    for (int c = 0; c < DT_TILE; c++)
        for (int j = 0; j < DT_TILE; j++)
            ((dt_bf16 *)to)[c * DT_TILE + j] = from[(j / 2 + j % 2 * 16) * DT_TILE + c];
}

/* Place k of the reduction, column c of a right operand. */
static inline dt_bf16 *plain_right(void *block, int k, int c)
{
    return (dt_bf16 *)block + c / 16 * DT_TILE_HALF / 2 + k / 2 * 32 + c % 16 * 2 + k % 2;
}

static void plain_turn_right(const void *from, size_t row, size_t ahead, void *to)
{
    (void)ahead;
    for (int c = 0; c < DT_TILE; c++)
        for (int j = 0; j < DT_TILE; j++)
            memcpy(plain_right(to, j, dt_tile_column(c)),
                   (const char *)from + (size_t)(j / 2 + j % 2 * 16) * row + 2 * c,
                   sizeof(dt_bf16));
}

static void plain_pack(const float *from, size_t k_step, size_t column, void *to)
{
    for (int c = 0; c < DT_TILE; c++)
        for (int k = 0; k < DT_TILE; k++)
            *plain_right(to, k, c) = dt_tile_round(from[(size_t)k * k_step + (size_t)c * column]);
}

static void plain_pack_rows(const float *from, size_t row, void *to)
{
    plain_pack(from, row, 1, to);
}

static void plain_pack_columns(const float *from, size_t row, void *to)
{
    plain_pack(from, 1, row, to);
}

static void plain_multiply(float *sums, const dt_tile_run *run, int runs, int rows, bool fresh,
                           const dt_tile_out *out)
{
    if (fresh)
        memset(sums, 0, DT_TILE_AREA * sizeof *sums);
    for (; runs > 0; runs--, run++)
        for (int k = 0; k < run->steps; k++) {
            const char *a = (const char *)run->a + (size_t)k * run->step;
            const char *b = (const char *)run->b + k * PLAIN_BLOCK;
            for (int i = 0; i < 2 * rows; i++) {
                const void *left = a + (size_t)(i / 2) * run->row;
                const void *right = b + i % 2 * DT_TILE_HALF;
                if (!plain_row(sums + 16 * i, left, right))
                    dt_tile_row_exact(sums + 16 * i, left, right);
            }
        }
    if (out)
        plain_finish(out, sums);
}

const dt_tile_backend dt_tile_backend_plain = {
    .name = "plain",
    .type = DT_BF16,
    .isa = DT_ISA_PORTABLE,
    .chunk = 12,
    .product = 200,
    .multiply = plain_multiply,
    .gather = plain_gather,
    .window = plain_window,
    .turn_left = plain_turn_left,
    .turn_right = plain_turn_right,
    .pack_rows = plain_pack_rows,
    .pack_columns = plain_pack_columns,
};
