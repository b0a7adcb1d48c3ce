/* source_cifar10.c - the binary distribution of CIFAR-10 (Krizhevsky 2009,
 * https://www.cs.toronto.edu/~kriz/cifar.html): records of one label byte and three
 * 32x32 planes R, G, B, 10,000 to a file. */
#include "source.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    CIFAR10_CLASSES = 10,
    CIFAR10_SIDE = 32,
    CIFAR10_PLANE = CIFAR10_SIDE * CIFAR10_SIDE,
    CIFAR10_RECORD = 1 + 3 * CIFAR10_PLANE,
    CIFAR10_PER_FILE = 10000,
    CIFAR10_FILE_BYTES = CIFAR10_PER_FILE * CIFAR10_RECORD,
    CIFAR10_FILES = 6,
    CIFAR10_TRAIN_FILES = 5,
    CIFAR10_SHA_BYTES = 32,
};

#define CIFAR10_REMEDY "get the data again with scripts/get-cifar10"

/* SHA-256 of the files of the original archive. */
static const struct cifar10_file {
    const char *name;
    bool test;
    const char *sha256;
} cifar10_table[CIFAR10_FILES] = {
    {"data_batch_1.bin", false, "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"},
    {"data_batch_2.bin", false, "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"},
    {"data_batch_3.bin", false, "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"},
    {"data_batch_4.bin", false, "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"},
    {"data_batch_5.bin", false, "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"},
    {"test_batch.bin", true, "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"},
};
static const char *const cifar10_names[CIFAR10_CLASSES] = {
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};

struct cifar10 {
    char folder[PATH_MAX];
    bool present[CIFAR10_FILES];
    int64_t read[2];   /* records taken so far: train, test */
    char unknown[128]; /* files whose SHA-256 is not the original's: six have 98 characters */
};

/* ---- open: names and sizes ------------------------------------------------------- */

/* Does the folder hold any file of the set? One that cannot be read counts: it gets named. */
static bool cifar10_probe(struct cifar10 *c)
{
    char path[PATH_MAX + 32];
    bool found = false;

    for (int f = 0; f < CIFAR10_FILES; f++) {
        snprintf(path, sizeof path, "%s/%s", c->folder, cifar10_table[f].name);
        c->present[f] = dt_path_taken(path);
        found = found || c->present[f];
    }
    return found;
}

static dt_status cifar10_open_file(const struct cifar10 *c, int f, char *path, int *fd)
{
    int64_t bytes = 0;

    DT_TRY(dt_path_join(path, c->folder, cifar10_table[f].name));
    DT_TRY(dt_file_open(AT_FDCWD, path, fd, &bytes));
    if (bytes == CIFAR10_FILE_BYTES)
        return DT_OK;
    close(*fd);
    return dt_fail(DT_FORMAT, "%s: has %lld bytes, expected %d (%d records of %d); " CIFAR10_REMEDY,
                   path, (long long)bytes, CIFAR10_FILE_BYTES, CIFAR10_PER_FILE, CIFAR10_RECORD);
}

static dt_status cifar10_open_files(struct cifar10 *c, dt_source_info *info, dt_hash *manifest)
{
    char path[PATH_MAX];

    for (int f = 0; f < CIFAR10_FILES; f++) {
        int fd = -1;
        if (!c->present[f])
            continue;
        DT_TRY(cifar10_open_file(c, f, path, &fd));
        close(fd);
        *(cifar10_table[f].test ? &info->test : &info->train) += CIFAR10_PER_FILE;
        dt_hash_update(manifest, cifar10_table[f].name, strlen(cifar10_table[f].name) + 1);
    }
    if (info->test == 0 || info->train == 0)
        return dt_fail(DT_NOINPUT, "data folder '%s' has no %s; " CIFAR10_REMEDY, c->folder,
                       info->test == 0 ? "test_batch.bin" : "data_batch_1.bin ... _5.bin");
    if (info->train < CIFAR10_TRAIN_FILES * CIFAR10_PER_FILE)
        dt_note("CIFAR-10: %d of %d training files are in '%s': %lld training images",
                (int)(info->train / CIFAR10_PER_FILE), CIFAR10_TRAIN_FILES, c->folder,
                (long long)info->train);
    return DT_OK;
}

static dt_status cifar10_open(dt_source *s, const char *path, dt_hash *manifest)
{
    static const char *const inside[] = {"", "/cifar-10-batches-bin"};
    struct cifar10 c = {.folder = ""};
    bool found = false;

    for (int i = 0; i < 2 && !found; i++) {
        snprintf(c.folder, sizeof c.folder, "%s%s", path, inside[i]);
        found = cifar10_probe(&c);
    }
    if (!found)
        return DT_DECLINED;
    DT_TRY(dt_calloc(&s->state, 1, sizeof c, "CIFAR-10 source"));
    memcpy(s->state, &c, sizeof c);
    s->info = (dt_source_info){.classes = CIFAR10_CLASSES,
                               .height = CIFAR10_SIDE,
                               .width = CIFAR10_SIDE,
                               .class_name = cifar10_names};
    return cifar10_open_files(s->state, &s->info, manifest);
}

/* ---- read: pixels, labels, hashes ------------------------------------------------ */

/* Take record r of a file, a label and planes R, G, B: its image is stored, pixel by pixel, unless
 * --subset leaves it out. */
static dt_status cifar10_take(dt_source *s, bool test, int r, const uint8_t *record,
                              const char *path)
{
    struct cifar10 *c = s->state;
    const int64_t i = c->read[test]++, at = test ? s->info.train + i : i;
    const int label = record[0];

    if (label >= CIFAR10_CLASSES)
        return dt_fail(DT_FORMAT,
                       "%s: record %d (byte offset %lld) has label %d, expected 0 to %d: the file "
                       "is damaged; " CIFAR10_REMEDY,
                       path, r, (long long)r * CIFAR10_RECORD, label, CIFAR10_CLASSES - 1);
    if (i >= (test ? s->info.test : s->info.train))
        return DT_OK;
    uint8_t *image = s->images + at * (3 * CIFAR10_PLANE);
    s->labels[at] = label;
    for (int p = 0; p < CIFAR10_PLANE; p++)
        for (int channel = 0; channel < 3; channel++)
            *image++ = record[1 + channel * CIFAR10_PLANE + p];
    return DT_OK;
}

/* Is a file's SHA-256 the original's? */
static void cifar10_hash(struct cifar10 *c, int f, const uint8_t *records)
{
    unsigned char sha[CIFAR10_SHA_BYTES];
    char text[2 * CIFAR10_SHA_BYTES + 1] = "";
    const size_t used = strlen(c->unknown);
    const bool known = EVP_Digest(records, CIFAR10_FILE_BYTES, sha, NULL, EVP_sha256(), NULL) == 1;

    for (size_t i = 0; known && i < sizeof sha; i++)
        snprintf(text + 2 * i, 3, "%02x", sha[i]);
    if (strcmp(text, cifar10_table[f].sha256) != 0)
        snprintf(c->unknown + used, sizeof c->unknown - used, " %s", cifar10_table[f].name);
}

static dt_status cifar10_read_file(dt_source *s, int f, uint8_t *records)
{
    char path[PATH_MAX];
    int fd = -1;

    DT_TRY(cifar10_open_file(s->state, f, path, &fd));
    const dt_status st = dt_file_read_at(fd, path, 0, records, CIFAR10_FILE_BYTES);
    close(fd);
    DT_TRY(st);
    for (int r = 0; r < CIFAR10_PER_FILE; r++)
        DT_TRY(
            cifar10_take(s, cifar10_table[f].test, r, records + (size_t)r * CIFAR10_RECORD, path));
    cifar10_hash(s->state, f, records);
    return DT_OK;
}

static dt_status cifar10_read(dt_source *s)
{
    const struct cifar10 *c = s->state;
    uint8_t *records = NULL;
    dt_status st = dt_calloc(&records, CIFAR10_FILE_BYTES, 1, "a file of CIFAR-10");

    for (int f = 0; f < CIFAR10_FILES && st == DT_OK; f++)
        if (c->present[f])
            st = cifar10_read_file(s, f, records);
    free(records);
    DT_TRY(st);
    if (c->unknown[0])
        dt_note("CIFAR-10: unknown SHA-256, not the original distribution:%s", c->unknown);
    else
        dt_note("CIFAR-10: the original distribution (SHA-256 of all files)");
    return DT_OK;
}

const dt_source_row dt_source_cifar10 = {"cifar10", cifar10_open, cifar10_read, NULL};
