/* fuzz_strategy.c - strategies in files, and the words that become of them. */
#include "fuzz.h"
#include "split/split.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char line[DT_OPTION_CHARS];
    char *text = malloc(size + 1); /* files end with a zero byte, too */
    dt_options o;

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    dt_options_init(&o);
    o.variant = "mindspore";
    fuzz_judged(dt_strategy_parse(&o, "a.yaml", text, size, line), DT_CONFIG);
    free(text);
    return 0;
}
