/* VGG11 at 32 pixels, and its 1/16-width twin whose gradients are compared whole. */
#include "golden.h"

int main(void)
{
    static golden_case cases[] = {
        {"vgg11-narrow-decisive", DT_F32, "onednn", true},
        {"vgg11-narrow-decisive", DT_F32, "blas", true},
        {"vgg11-narrow-real", DT_F32, "onednn", true},
        {"vgg11-narrow-real", DT_F32, "blas", true},
        {"vgg11-narrow-real", DT_BF16, "onednn", true},
        {"vgg11-decisive", DT_F32, "onednn", true},
        {"vgg11-decisive", DT_F32, "blas", true},
        {"vgg11-decisive", DT_BF16, "onednn", false},
        {"vgg11-real", DT_F32, "onednn", true},
        {"vgg11-real", DT_F32, "blas", true},
        {"vgg11-real", DT_BF16, "onednn", true},
    };
    struct CMUnitTest tests[sizeof cases / sizeof *cases];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        tests[i] = (struct CMUnitTest){cases[i].file, golden_run, NULL, NULL, &cases[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
