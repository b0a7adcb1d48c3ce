/* fuzz.h - what the harnesses of tests/fuzz share.
 *
 * A harness is one file fuzz_<what>.c with LLVMFuzzerTestOneInput, which gives foreign
 * bytes to a decoder and ends the process when a promise of its header is broken; crashes
 * and bytes that nothing set are the sanitizers' to see. It is built twice: with replay.c as
 * a test that reads tests/fuzz/corpus/<what>, and by proofs/fuzz with libFuzzer, which
 * looks for more. */
#ifndef DT_TEST_FUZZ_H
#define DT_TEST_FUZZ_H
#include "base/base.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define fuzz_must(what)                                                                            \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);                     \
            fprintf(stderr, "the recorded failure: %s\n", dt_fail_text());                         \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* A call that succeeds in silence or fails with this status and a reason. */
static inline bool fuzz_judged(dt_status st, dt_status allowed)
{
    fuzz_must(st == DT_OK || st == allowed);
    fuzz_must((st == DT_OK) == (dt_fail_text()[0] == '\0'));
    dt_fail_clear();
    return st == DT_OK;
}

static char fuzz_root[] = "/tmp/dtrain-fuzz-XXXXXX";
static const char *fuzz_names[4];

static inline char *fuzz_path(char path[128], const char *name)
{
    snprintf(path, 128, "%s/%s", fuzz_root, name);
    return path;
}

static inline void fuzz_sweep(void)
{
    char path[128];
    for (size_t i = 0; i < 4 && fuzz_names[i]; i++)
        unlink(fuzz_path(path, fuzz_names[i]));
    rmdir(fuzz_root);
}

/* Write a file of the process's own folder, which goes when the process ends. */
static inline void fuzz_file(const char *name, const uint8_t *data, size_t size)
{
    char path[128];
    size_t i = 0;

    if (!fuzz_names[0]) {
        fuzz_must(mkdtemp(fuzz_root) != NULL);
        atexit(fuzz_sweep);
    }
    while (fuzz_names[i] && strcmp(fuzz_names[i], name) != 0)
        i++;
    fuzz_must(i < 4);
    fuzz_names[i] = name;
    const int fd = open(fuzz_path(path, name), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    fuzz_must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    close(fd);
}
#endif
