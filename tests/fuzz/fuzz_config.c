/* fuzz_config.c - configuration files, and the values that they hold. */
#include "cli/cli.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static dt_layer layer;
    dt_options o;

    dt_options_init(&o);
    if (fuzz_judged(dt_config_parse(&layer, "a.yaml", (const char *)data, size), DT_CONFIG))
        for (size_t i = 0; i < DT_OPTIONS; i++)
            if (layer.value[i].text)
                fuzz_judged(dt_option_set(&dt_option_table[i], &o, layer.value[i].text, "a.yaml",
                                          DT_CONFIG),
                            DT_CONFIG);
    dt_layer_release(&layer);
    return 0;
}
