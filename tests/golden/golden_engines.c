/* golden_engines.c - the networks in float32 by each engine, within the tolerances of dtrain's own
 * products: an engine's sums differ from them by roundings alone. */
#include "engines/engines.h"
#include "golden_check.h"

int main(void)
{
    static golden_case cases[] = {
        {"vgg11-narrow-steep", DT_F32},     {"vgg11-decisive", DT_F32},
        {"vgg11-real", DT_F32},             {"vgg11-wide-real", DT_F32},
        {"mlp-real", DT_F32},               {"resnet50-decisive", DT_F32},
        {"resnet50-cifar-real", DT_F32},    {"resnet50-mindspore-decisive", DT_F32},
        {"resnet50-mindspore-real", DT_F32},
    };
    static const char *const engine[] = {"openblas", "onednn"};
    int bad = 0;

    dt_extra_engines();
    for (size_t i = 0; i < DT_COUNT_OF(engine); i++) {
        if (dt_engine_use(engine[i]) != DT_OK) {
            test_skips("engine %s is not there", engine[i]);
            dt_fail_clear();
            continue;
        }
        bad |= golden_main(cases, DT_COUNT_OF(cases));
    }
    return bad;
}
