/* patches.c - how neighbouring pixels go together, which a layer that whitens begins with. The sums
 * are of whole numbers, so they have no order; what follows them is float64 of a few numbers. */
#include "data.h"

typedef struct patch_sums {
    int64_t count, of[DT_PATCH], products[DT_PATCH][DT_PATCH];
} patch_sums;

/* All patches of lines `top` and the next, in 32 bits: a line has fewer than 2^16 pixels. */
static void patch_line(patch_sums *s, const uint8_t *top, int width)
{
    uint32_t of[DT_PATCH] = {0}, products[DT_PATCH][DT_PATCH] = {{0}};

    for (int x = 0; x + 1 < width; x++) {
        uint32_t p[DT_PATCH];
        for (int k = 0; k < DT_PATCH; k++) /* [channel][row][column] */
            p[k] = top[((size_t)(k / 2 % 2) * (size_t)width + (size_t)(x + k % 2)) * 3 +
                       (size_t)(k / 4)];
        for (int i = 0; i < DT_PATCH; i++) {
            of[i] += p[i];
            for (int k = 0; k < DT_PATCH; k++)
                products[i][k] += p[i] * p[k];
        }
    }
    s->count += width - 1;
    for (int i = 0; i < DT_PATCH; i++) {
        s->of[i] += of[i];
        for (int k = 0; k < DT_PATCH; k++)
            s->products[i][k] += products[i][k];
    }
}

void dt_source_patches(const dt_source *s, const char *normalize, int64_t images,
                       double out[DT_PATCH][DT_PATCH])
{
    const dt_source_info *info = dt_source_describe(s);
    const int64_t most = DT_MIN(images, info->train);
    float mean[3] = {0}, std[3] = {1, 1, 1};
    patch_sums sums = {0};
    int32_t label;

    for (int64_t i = 0; i < most; i++) {
        const uint8_t *image = dt_source_image(s, false, i * info->train / most, &label);
        for (int y = 0; y + 1 < info->height; y++)
            patch_line(&sums, image + 3 * (size_t)y * (size_t)info->width, info->width);
    }
    (void)!dt_normalize_find(normalize, mean, std);
    const double n = (double)DT_MAX(sums.count, 1);
    for (int i = 0; i < DT_PATCH; i++)
        for (int k = 0; k < DT_PATCH; k++) { /* of a byte x: x * scale - shift */
            const double scale_i = 1 / (255 * (double)std[i / 4]);
            const double scale_k = 1 / (255 * (double)std[k / 4]);
            const double shift_i = (double)mean[i / 4] / (double)std[i / 4];
            const double shift_k = (double)mean[k / 4] / (double)std[k / 4];
            out[i][k] = scale_i * scale_k * ((double)sums.products[i][k] / n) -
                        (scale_i * shift_k * ((double)sums.of[i] / n) +
                         scale_k * shift_i * ((double)sums.of[k] / n)) +
                        shift_i * shift_k;
        }
}
