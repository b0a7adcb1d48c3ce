/* imitate.c - how others save, as far as the order of their system calls goes, and one
 * protocol that is sound: what the replayer must find fault with, and what it must not.
 *
 *   imitate PROTOCOL FOLDER FIRST COUNT   saves; prints "saved STEP HASH" after each
 *   imitate PROTOCOL --load [FOLDER]      prints "loaded STEP HASH" or "none"; without a
 *                                         FOLDER once for each line of stdin
 *
 * done       the model, no fsync, then an empty DONE file, then the older model and its
 *            DONE are deleted (llm.c, train_gpt2.cu: write_checkpoint)
 * rename     a temporary file, no fsync, then renamed (safetensors, src/tensor.rs:
 *            buffered_write_to_file; timm, checkpoint_saver.py: _replace)
 * overwrite  the data file in place and fsync, then the metadata through a temporary
 *            file, fsync and rename (torch.distributed.checkpoint, filesystem.py); here
 *            with fsync of the folder after each, so that only the mixture is left
 * sound      a temporary file, fsync, rename, fsync of the folder */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PIECE = 6000, PIECES = 3, MODEL = PIECE * PIECES };

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "imitate: %s: %s\n", what, strerror(errno));
    exit(2);
}

/* The model of a step: the step, then numbers that depend on it. */
static void make_model(long step, unsigned char model[MODEL])
{
    uint32_t x[4];

    for (int i = 0; i < MODEL; i += 16) {
        dt_random(1, DT_STREAM_INIT, (uint32_t)step, (uint64_t)i, 0, x);
        memcpy(model + i, x, MODEL - i < 16 ? (size_t)(MODEL - i) : 16);
    }
    memcpy(model, &step, sizeof step);
}

static void say(const char *word, long step, const void *data, size_t bytes)
{
    char text[DT_DIGEST_CHARS];

    dt_digest_text(dt_hash_bytes(data, bytes), text);
    printf("%s %ld %s\n", word, step, text);
    fflush(stdout);
}

/* ---- Saving ------------------------------------------------------------------------ */

typedef enum write_how { SYNC = 1, IN_PLACE = 2 } write_how;

static void write_file(const char *path, const void *data, size_t bytes, unsigned how)
{
    const int fd = open(path, O_WRONLY | O_CREAT | (how & IN_PLACE ? 0 : O_TRUNC), 0644);

    if (fd < 0)
        die(path);
    for (size_t at = 0; at < bytes; at += PIECE) {
        const size_t n = bytes - at < PIECE ? bytes - at : PIECE;
        if (write(fd, (const char *)data + at, n) != (ssize_t)n)
            die(path);
    }
    if (((how & SYNC) && fsync(fd) != 0) || close(fd) != 0)
        die(path);
}

static void sync_folder(void)
{
    const int fd = open(".", O_RDONLY | O_DIRECTORY);
    if (fd < 0 || fsync(fd) != 0 || close(fd) != 0)
        die("folder");
}

static void save_done(long step, const unsigned char *model)
{
    char name[64];

    snprintf(name, sizeof name, "model_%08ld.bin", step);
    write_file(name, model, MODEL, 0);
    snprintf(name, sizeof name, "DONE_%08ld", step);
    write_file(name, "", 0, 0);
    snprintf(name, sizeof name, "model_%08ld.bin", step - 2);
    unlink(name);
    snprintf(name, sizeof name, "DONE_%08ld", step - 2);
    unlink(name);
}

static void save_rename(long step, const unsigned char *model)
{
    (void)step;
    write_file("last.tmp", model, MODEL, 0);
    if (rename("last.tmp", "last") != 0)
        die("last");
}

static void save_overwrite(long step, const unsigned char *model)
{
    char text[32];

    write_file("data", model, MODEL, SYNC | IN_PLACE);
    sync_folder();
    const int n = snprintf(text, sizeof text, "%ld\n", step);
    write_file("metadata.tmp", text, (size_t)n, SYNC);
    if (rename("metadata.tmp", "metadata") != 0)
        die("metadata");
    sync_folder();
}

static void save_sound(long step, const unsigned char *model)
{
    (void)step;
    write_file("last.tmp", model, MODEL, SYNC);
    if (rename("last.tmp", "last") != 0)
        die("last");
    sync_folder();
}

/* ---- Loading: whatever is there is taken, as they do -------------------------------- */

static void load_file(const char *folder, const char *name, long step)
{
    static unsigned char data[2 * MODEL];
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    const size_t n = f ? fread(data, 1, sizeof data, f) : 0;
    if (f)
        fclose(f);
    if (step < 0 && n >= sizeof step)
        memcpy(&step, data, sizeof step);
    say("loaded", step, data, n);
}

static void load_done(const char *folder)
{
    char path[PATH_MAX], name[64];

    for (long step = 64; step > 0; step--) {
        snprintf(path, sizeof path, "%s/DONE_%08ld", folder, step);
        if (access(path, F_OK) == 0) {
            snprintf(name, sizeof name, "model_%08ld.bin", step);
            load_file(folder, name, step);
            return;
        }
    }
    puts("none");
}

static void load_last(const char *folder)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/last", folder);
    if (access(path, F_OK) == 0)
        load_file(folder, "last", -1);
    else
        puts("none");
}

static void load_overwrite(const char *folder)
{
    char path[PATH_MAX];
    long step = -1;

    snprintf(path, sizeof path, "%s/metadata", folder);
    FILE *f = fopen(path, "r");
    if (!f) {
        puts("none");
        return;
    }
    char text[32] = "";
    if (fgets(text, sizeof text, f))
        step = strtol(text, NULL, 10);
    fclose(f);
    load_file(folder, "data", step);
}

static const struct {
    const char *name;
    void (*save)(long step, const unsigned char *model);
    void (*load)(const char *folder);
} protocols[] = {{"done", save_done, load_done},
                 {"rename", save_rename, load_last},
                 {"overwrite", save_overwrite, load_overwrite},
                 {"sound", save_sound, load_last}};

static int usage(void)
{
    fputs("usage: imitate PROTOCOL FOLDER FIRST COUNT | PROTOCOL --load [FOLDER]\n", stderr);
    return 2;
}

int main(int argc, char **argv)
{
    static unsigned char model[MODEL];
    const size_t known = sizeof protocols / sizeof *protocols;
    size_t p = 0;

    while (argc > 2 && p < known && strcmp(protocols[p].name, argv[1]) != 0)
        p++;
    if (argc < 3 || p == known)
        return usage();
    if (strcmp(argv[2], "--load") == 0) {
        char folder[PATH_MAX];
        if (argc > 3)
            protocols[p].load(argv[3]);
        while (argc == 3 && fgets(folder, sizeof folder, stdin)) {
            folder[strcspn(folder, "\n")] = '\0';
            protocols[p].load(folder);
            fflush(stdout);
        }
        return 0;
    }
    if (argc != 5)
        return usage();
    if (chdir(argv[2]) != 0)
        die(argv[2]);
    const long first = strtol(argv[3], NULL, 10), count = strtol(argv[4], NULL, 10);
    for (long step = first; step < first + count; step++) {
        make_model(step, model);
        protocols[p].save(step, model);
        say("saved", step, model, MODEL);
    }
    return 0;
}
