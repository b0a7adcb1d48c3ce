/* golden_resnet50_cifar.c - ResNet-50 with the 3x3 stem and no pool, at 32 pixels. */
#include "golden_check.h"

int main(void)
{
    static golden_case cases[] = {
        {"resnet50-cifar-decisive", DT_F32, "onednn"},
        {"resnet50-cifar-decisive", DT_BF16, "auto"},
        {"resnet50-cifar-real", DT_F32, "onednn"},
        {"resnet50-cifar-real", DT_BF16, "auto"},
        {"resnet50-cifar-decisive", DT_F32, "blas"},
    };
    return golden_main(cases, sizeof cases / sizeof *cases);
}
