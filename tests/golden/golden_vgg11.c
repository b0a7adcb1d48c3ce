/* golden_vgg11.c - VGG11 at 32 pixels, a twin of 1/16 of its width whose loss is steep, one with
 * three linear layers, and the perceptron. */
#include "golden_check.h"

int main(void)
{
    static golden_case cases[] = {
        {"vgg11-narrow-steep", DT_F32}, {"vgg11-narrow-steep", DT_BF16}, {"vgg11-decisive", DT_F32},
        {"vgg11-decisive", DT_BF16},    {"vgg11-real", DT_F32},          {"vgg11-real", DT_BF16},
        {"vgg11-wide-real", DT_F32},    {"vgg11-wide-real", DT_BF16},    {"mlp-real", DT_F32},
        {"mlp-real", DT_BF16},
    };
    return golden_main(cases, sizeof cases / sizeof *cases);
}
