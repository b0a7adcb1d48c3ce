/* fuzz_cifar10.c - a CIFAR-10 folder: the names of classes, and sizes of files (the first
 * byte says whether one is right). Records are any bytes but the label, which
 * tests/unit/data_source_cifar10.c tries. */
#include "data/data.h"
#include "fuzz.h"

enum { RIGHT = 30730000 };

static void sized(const char *name, off_t bytes)
{
    char path[128];

    fuzz_file(name, (const uint8_t *)"", 0);
    fuzz_must(truncate(fuzz_path(path, name), bytes) == 0); /* a hole */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dt_source *s = NULL;

    if (size == 0)
        return 0;
    sized("data_batch_1.bin", RIGHT + (data[0] > 250 ? data[0] - 253 : 0));
    sized("test_batch.bin", RIGHT);
    fuzz_file("batches.meta.txt", data + 1, size - 1);
    if (fuzz_judged(dt_source_open(&s, fuzz_root, 0, 0), DT_FORMAT)) {
        const dt_source_info *info = dt_source_describe(s);
        fuzz_must(info->classes == 10 && info->train == 10000 && info->test == 10000);
        for (int c = 0; c < info->classes; c++)
            fuzz_must(strlen(info->class_name[c]) < size + 16);
    }
    dt_source_close(s);
    return 0;
}
