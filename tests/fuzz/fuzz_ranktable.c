/* fuzz_ranktable.c - rank tables: one that is taken gives a list of hosts that fits a command line,
 * and that is itself taken. */
#include "fuzz.h"
#include "launch/launch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:,";
    char path[128];
    dt_hosts h = {.list = NULL}, again = {.list = NULL};

    fuzz_file("a.json", data, size);
    if (fuzz_judged(dt_ranktable_read(&h, fuzz_path(path, "a.json")), DT_CONFIG)) {
        fuzz_must(h.count > 0 && h.list[0] != '-' && strspn(h.list, letters) == strlen(h.list));
        fuzz_must(dt_hosts_parse(&again, h.list, 1) == DT_OK);
        fuzz_must(strcmp(again.list, h.list) == 0);
        fuzz_must(again.count == h.count && again.ranks == h.ranks);
    }
    free(h.list);
    free(again.list);
    return 0;
}
