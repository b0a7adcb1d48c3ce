/* onednn_limits.c - what is known to be wrong in oneDNN, by shape alone. */
#include "onednn_limits.h"

#include <limits.h>

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* jit_avx512_core_amx_bwd_weights_kernel_t::compute_full_spat_loop halves its block of
 * rows until they fit 48 KiB, and ends early only below max(1, padding) rows: where one
 * row is too much and the padding is 1, it halves 1 for ever. A row is 16 channels of x and
 * of dy in bf16, transposed and padded as in init_conf, which takes this way for square
 * kernels, stride 1 and x as large as y. Wanted are more than 128 KiB in all. (Read in
 * 2.6.3; 3.7.2 creates the same shapes.) */
bool onednn_amx_loops(const dt_conv *c)
{
    enum { CHANNELS = 16, ROUND = 32, ENOUGH = 48 * 1024, START = 128 * 1024 };
    const bool whole = c->kernel[0] == c->kernel[1] && c->kernel[0] / 2 == 1 && c->pad[0] == 1 &&
                       c->pad[1] == 1 && c->stride[0] == 1 && c->stride[1] == 1 && c->ih == c->oh &&
                       c->iw == c->ow;
    const int64_t row = 2 * CHANNELS * (round_up(c->iw + ROUND, ROUND) + round_up(c->ow, 2));

    return c->type == DT_BF16 && whole && row > ENOUGH && row * c->oh > START;
}

/* The jit 1x1 weight gradients copy the pixels of a strided convolution next to each other
 * in scratch. rtus_prepare_space_info asks for room for ic channels a pixel, but
 * execute_backward_weights puts a block of pixels where it would begin with ic_block
 * channels (8 under AVX2, 16 under AVX-512) each: with fewer channels than that behind the
 * end, where another thread's scratch lies. (Read in 2.6.3 and 3.7.1, seen in 2.6.3.) */
bool onednn_overruns(const dt_conv *c)
{
    enum { MOST_CHANNELS_OF_A_BLOCK = 16 };

    return c->kernel[0] == 1 && c->kernel[1] == 1 && (c->stride[0] > 1 || c->stride[1] > 1) &&
           c->ic < MOST_CHANNELS_OF_A_BLOCK;
}

static bool fits(int64_t images, int64_t h, int64_t w, int64_t channels)
{
    const int64_t size[] = {images, h, w, channels};
    int64_t left = INT_MAX;

    for (int i = 0; i < 4; i++)
        left /= size[i] < 1 ? 1 : size[i];
    return left > 0;
}

bool onednn_fits(const dt_conv *c, int64_t images)
{
    return fits(images, c->ih, c->iw, c->ic) && fits(images, c->oh, c->ow, c->oc) &&
           fits(c->kernel[0], c->kernel[1], c->ic, c->oc);
}
