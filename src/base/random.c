/* random.c - Philox4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel Random
 * Numbers: As Easy as 1, 2, 3", SC'11, section 3.3, and tensors filled from it. */
#include "base.h"

enum { PHILOX_ROUNDS = 10 };
#define PHILOX_M0 0xD2511F53u
#define PHILOX_M1 0xCD9E8D57u
#define PHILOX_W0 0x9E3779B9u /* golden ratio */
#define PHILOX_W1 0xBB67AE85u /* sqrt(3) - 1 */

/* ctr is replaced by its image under the keyed bijection. */
static void philox(uint32_t ctr[4], uint32_t key0, uint32_t key1)
{
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        const uint64_t p0 = (uint64_t)PHILOX_M0 * ctr[0];
        const uint64_t p1 = (uint64_t)PHILOX_M1 * ctr[2];
        ctr[0] = (uint32_t)(p1 >> 32) ^ ctr[1] ^ key0;
        ctr[2] = (uint32_t)(p0 >> 32) ^ ctr[3] ^ key1;
        ctr[1] = (uint32_t)p1;
        ctr[3] = (uint32_t)p0;
        key0 += PHILOX_W0;
        key1 += PHILOX_W1;
    }
}

void dt_random(uint32_t seed, dt_stream stream, uint32_t epoch, uint64_t index, uint32_t draw,
               uint32_t out[4])
{
    out[0] = (uint32_t)index;
    out[1] = (uint32_t)(index >> 32);
    out[2] = epoch;
    out[3] = draw;
    philox(out, seed, (uint32_t)stream);
}

void dt_permute(uint32_t *order, int64_t n, uint32_t seed, dt_stream stream, uint32_t epoch)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    for (int64_t i = n - 1; i > 0; i--) {
        uint32_t bits[4];
        dt_random(seed, stream, epoch, (uint64_t)i, 0, bits);
        const uint32_t j = dt_below(bits[0], (uint32_t)i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

void dt_fill_uniform(float *x, size_t count, float lo, float hi, uint32_t seed, dt_stream stream,
                     uint32_t tensor)
{
    const float width = hi - lo;
    uint32_t bits[4];
    for (size_t e = 0; e < count; e++) {
        if (e % 4 == 0)
            dt_random(seed, stream, tensor, e / 4, 0, bits);
        x[e] = lo + width * dt_uniform(bits[e % 4]);
    }
}

void dt_fill_normal(float *x, size_t count, double std, uint32_t seed, dt_stream stream,
                    uint32_t tensor)
{
    for (size_t e = 0; e < count; e++) {
        uint32_t bits[4];
        dt_random(seed, stream, tensor, e, 0, bits);
        const double u1 = ((double)bits[0] + 1) * 0x1p-32; /* never 0: log is finite */
        const double u2 = (double)bits[1] * 0x1p-32;
        x[e] = (float)(std * (sqrt(-2 * dt_log(u1)) * dt_cos_turns(u2)));
    }
}
