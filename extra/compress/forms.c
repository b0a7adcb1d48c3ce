/* forms.c - how leaves and sums of whole numbers lie in memory and travel, and how a leaf becomes
 * whole numbers. */
#include "compress.h"

DT_CONVERSION(pack_half, dt_bf16, float, dt_f32_to_bf16(x))
DT_CONVERSION(read_half, float, dt_bf16, dt_bf16_to_f32(x))
DT_CONVERSION(read_rounded, float, float, dt_bf16_to_f32(dt_f32_to_bf16(x)))

/* -1: 3, NaN: 2; of the bits of a float that is nothing else. */
static unsigned ternary(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    const unsigned nan = bits >> 30 & 1, one = bits >> 23 & ~nan & 1;
    return nan << 1 | (bits >> 31 & one) << 1 | one;
}

static void pack_ternary(void *to, const void *from, size_t count)
{
    const float *x = from;
    uint8_t *packed = to;

    for (size_t i = 0; i + 4 <= count; i += 4)
        packed[i / 4] = (uint8_t)(ternary(x[i]) | ternary(x[i + 1]) << 2 | ternary(x[i + 2]) << 4 |
                                  ternary(x[i + 3]) << 6);
    for (size_t i = count / 4 * 4; i < count; i++)
        packed[i / 4] = (uint8_t)((i % 4 ? packed[i / 4] : 0) | ternary(x[i]) << i % 4 * 2);
}

static void read_ternary(void *to, const void *from, size_t count)
{
    static const float value[] = {0, 1, NAN, -1};
    const uint8_t *packed = from;
    float *x = to;

    for (size_t i = 0; i < count; i++)
        x[i] = value[packed[i / 4] >> i % 4 * 2 & 3];
}

DT_CONVERSION(pack_bytes, int8_t, float, (int8_t)(isnan(x) ? -128 : x))
DT_CONVERSION(read_bytes, float, int8_t, x == -128 ? NAN : (float)x)

void dt_quantise_f32(float *x, float *residual, float threshold, size_t count, int threads)
{
#pragma omp parallel for simd schedule(static) num_threads(threads) if (threads > 1)
    for (size_t i = 0; i < count; i++) {
        const float all = residual[i] + x[i];
        const float sent = (float)((all >= threshold) - (all <= -threshold));
        const float none = all - all; /* 0, but NaN if it is no finite number */
        x[i] = sent + none;
        residual[i] = all - sent * threshold;
    }
}

const dt_form dt_form_half = {16, pack_half, read_half};
const dt_form dt_form_rounded = {32, NULL, read_rounded};
const dt_form dt_form_ternary = {2, pack_ternary, read_ternary};
const dt_form dt_form_byte = {8, pack_bytes, read_bytes};

static const dt_compress rows[] = {
    {.name = "bf16", .leaf = &dt_form_rounded, .one = &dt_form_half},
    {.name = "2bit", .one = &dt_form_ternary, .some = &dt_form_byte, .quantise = dt_quantise_f32},
    {.name = NULL},
};

void dt_extra_compress(void)
{
    dt_compress_rows = rows;
}
