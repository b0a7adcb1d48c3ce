/* fuzz_ranktable.c - rank tables: one that is taken names hosts that fit a command line, and is the
 * same when written and read again. */
#include "fuzz.h"
#include "launch/launch.h"

static void same_when_written(const dt_hosts *h)
{
    char path[128], *text = NULL;
    size_t length = 0;
    dt_hosts again;

    FILE *f = open_memstream(&text, &length);
    fuzz_must(f && dt_ranktable_write(f, h) == DT_OK);
    fclose(f);
    fuzz_file("b.json", (const uint8_t *)text, length);
    free(text);
    fuzz_must(dt_ranktable_read(&again, fuzz_path(path, "b.json")) == DT_OK);
    fuzz_must(again.count == h->count && again.ranks == h->ranks);
    for (int i = 0; i < h->count; i++)
        fuzz_must(strcmp(again.host[i].name, h->host[i].name) == 0 &&
                  again.host[i].slots == h->host[i].slots);
    dt_hosts_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    char path[128];
    int ranks = 0;
    dt_hosts h;

    fuzz_file("a.json", data, size);
    if (!fuzz_judged(dt_ranktable_read(&h, fuzz_path(path, "a.json")), DT_CONFIG)) {
        fuzz_must(!h.host && h.count == 0);
        return 0;
    }
    fuzz_must(h.count > 0);
    for (int i = 0; i < h.count; i++) {
        const char *name = h.host[i].name;
        fuzz_must(name[0] && name[0] != '-' && strspn(name, letters) == strlen(name));
        ranks += h.host[i].slots;
    }
    fuzz_must(ranks == h.ranks);
    same_when_written(&h);
    dt_hosts_release(&h);
    return 0;
}
