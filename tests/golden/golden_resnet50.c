/* golden_resnet50.c - ResNet-50 as torchvision has it (stride on the 3x3) at 64 pixels, and with
 * the 3x3 stem and no pool at 32; the Ascend tutorial's (asymmetric padding, stride on the 1x1). */
#include "golden_check.h"

int main(void)
{
    static golden_case cases[] = {
        {"resnet50-decisive", DT_F32},
        {"resnet50-decisive", DT_BF16},
        {"resnet50-cifar-real", DT_F32},
        {"resnet50-cifar-real", DT_BF16},
        {"resnet50-mindspore-decisive", DT_F32},
        {"resnet50-mindspore-decisive", DT_BF16},
        {"resnet50-mindspore-real", DT_F32},
        {"resnet50-mindspore-real", DT_BF16},
    };
    return golden_main(cases, sizeof cases / sizeof *cases);
}
