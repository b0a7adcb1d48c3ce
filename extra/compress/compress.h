/* compress.h - compression of gradients: forms in which leaves and sums of whole numbers travel;
 * the public header of extra/compress. Everything is Local. */
#ifndef DT_COMPRESS_H
#define DT_COMPRESS_H
#include "dist/fold.h"

void dt_extra_compress(void);

/* bf16; float32 that is rounded to bf16 when it is read; whole numbers: in 2 bits -1, 0 or 1, four
 * in a byte, the first one lowest; in 8 bits -127 to 127. The number left over in each stands for
 * NaN. All but the second can be packed. */
extern const dt_form dt_form_half, dt_form_rounded, dt_form_ternary, dt_form_byte;

/* x + residual becomes -1, 0 or 1 thresholds, in x as that number; residual = what is left. What is
 * no finite number becomes NaN. */
void dt_quantise_f32(float *x, float *residual, float threshold, size_t count, int threads);
#endif
