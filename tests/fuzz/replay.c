/* replay.c - every file of a folder through a harness: replay FOLDER. */
#include "fuzz.h"

#include <dirent.h>

static void replay(const char *folder, const char *name)
{
    char path[4096];
    struct stat about;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    fuzz_must(f && fstat(fileno(f), &about) == 0);
    const size_t size = (size_t)about.st_size;
    uint8_t *data = malloc(size ? size : 1); /* its exact size: sanitizers see the end */
    fuzz_must(data && fread(data, 1, size, f) == size);
    fclose(f);
    fprintf(stderr, "%s\n", name);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
}

int main(int argc, char **argv)
{
    struct dirent **entry = NULL;
    int files = 0;
    const int count = argc == 2 ? scandir(argv[1], &entry, NULL, alphasort) : -1;

    for (int i = 0; i < count; i++) {
        if (entry[i]->d_name[0] != '.') {
            replay(argv[1], entry[i]->d_name);
            files++;
        }
        free(entry[i]);
    }
    free(entry);
    printf("%d files\n", files);
    return files > 0 ? 0 : 1;
}
