/* golden_resnet50_mindspore.c - ResNet-50 of the Ascend tutorial at 64 pixels: asymmetric
 * padding, stride on the 1x1. */
#include "golden_check.h"

int main(void)
{
    static golden_case cases[] = {
        {"resnet50-mindspore-decisive", DT_F32},
        {"resnet50-mindspore-decisive", DT_BF16},
        {"resnet50-mindspore-real", DT_F32},
        {"resnet50-mindspore-real", DT_BF16},
    };
    return golden_main(cases, sizeof cases / sizeof *cases);
}
