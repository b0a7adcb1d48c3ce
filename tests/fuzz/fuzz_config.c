/* fuzz_config.c - configuration files, and the values that they hold. */
#include "cli/cli.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[128];
    dt_settings s = {0};
    dt_layer layer = {.code = DT_CONFIG};
    dt_options o;

    fuzz_file("a.yaml", data, size);
    dt_options_init(&o);
    if (fuzz_judged(dt_config_read(&s.kept, fuzz_path(path, "a.yaml"), &layer), DT_CONFIG))
        for (size_t i = 0; i < DT_SETTINGS; i++)
            if (layer.value[i].text)
                fuzz_judged(dt_option_set(&dt_option_table[i], &o, layer.value[i].text,
                                          layer.value[i].place, DT_CONFIG),
                            DT_CONFIG);
    dt_settings_release(&s);
    return 0;
}
