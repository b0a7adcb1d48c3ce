/* source_cifar10.c - the binary distribution of CIFAR-10 (Krizhevsky 2009,
 * https://www.cs.toronto.edu/~kriz/cifar.html): records of one label byte and three
 * 32x32 planes R, G, B, 10,000 to a file. */
#include "source.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
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
    CIFAR10_SHA_CHARS = 2 * CIFAR10_SHA_BYTES + 1,
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
    int train_files;
};

/* What reading has found, by file and by split. */
struct cifar10_found {
    uint8_t *records; /* of one file, owned */
    char sha256[CIFAR10_FILES][CIFAR10_SHA_CHARS];
    int64_t count[2][CIFAR10_CLASSES]; /* train, test */
    int64_t read[2];
};

/* ---- open: names and sizes ------------------------------------------------------- */

/* Does the folder hold any file of the set? One that cannot be read counts: it gets named. */
static dt_status cifar10_probe(struct cifar10 *c, const char *folder, bool *found)
{
    char path[PATH_MAX];
    struct stat about;

    for (int f = 0; f < CIFAR10_FILES; f++) {
        DT_TRY(dt_source_path(path, folder, cifar10_table[f].name));
        c->present[f] = lstat(path, &about) == 0;
        *found = *found || c->present[f];
    }
    if (*found)
        snprintf(c->folder, sizeof c->folder, "%s", folder);
    return DT_OK;
}

static dt_status cifar10_open_file(const struct cifar10 *c, int f, char *path, int *fd)
{
    int64_t bytes = 0;

    DT_TRY(dt_source_path(path, c->folder, cifar10_table[f].name));
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
        c->train_files += !cifar10_table[f].test;
        dt_hash_update(manifest, cifar10_table[f].name, strlen(cifar10_table[f].name) + 1);
    }
    if (info->test == 0 || info->train == 0)
        return dt_fail(DT_NOINPUT, "data folder '%s' has no %s; " CIFAR10_REMEDY, c->folder,
                       info->test == 0 ? "test_batch.bin" : "data_batch_1.bin ... _5.bin");
    if (c->train_files < CIFAR10_TRAIN_FILES)
        dt_note("CIFAR-10: %d of %d training files are in '%s': %lld training images",
                c->train_files, CIFAR10_TRAIN_FILES, c->folder, (long long)info->train);
    return DT_OK;
}

static dt_status cifar10_open(dt_source *s, const char *path, dt_hash *manifest)
{
    char inner[PATH_MAX];
    struct cifar10 *c = NULL;
    bool found = false;
    dt_status st = DT_OK;

    DT_TRY(dt_calloc(&c, 1, sizeof *c, "CIFAR-10 source"));
    DT_GO(st, cifar10_probe(c, path, &found), out);
    if (!found) {
        DT_GO(st, dt_source_path(inner, path, "cifar-10-batches-bin"), out);
        DT_GO(st, cifar10_probe(c, inner, &found), out);
    }
    if (!found) {
        st = DT_DECLINED;
        goto out;
    }
    s->state = c;
    s->info = (dt_source_info){.classes = CIFAR10_CLASSES,
                               .height = CIFAR10_SIDE,
                               .width = CIFAR10_SIDE,
                               .class_name = cifar10_names};
    return cifar10_open_files(c, &s->info, manifest);
out:
    free(c);
    return st;
}

/* ---- read: pixels, labels, hashes ------------------------------------------------ */

/* Planes R, G, B to interleaved pixels. */
static void cifar10_interleave(const uint8_t *planes, uint8_t *image)
{
    for (int p = 0; p < CIFAR10_PLANE; p++)
        for (int channel = 0; channel < 3; channel++)
            image[3 * p + channel] = planes[channel * CIFAR10_PLANE + p];
}

/* Take record r of a file: its image is stored unless --subset leaves it out. */
static dt_status cifar10_take(dt_source *s, struct cifar10_found *all, bool test, int r,
                              const char *path)
{
    const uint8_t *record = all->records + (size_t)r * CIFAR10_RECORD;
    const int64_t i = all->read[test]++;
    const int label = record[0];

    if (label >= CIFAR10_CLASSES)
        return dt_fail(DT_FORMAT,
                       "%s: record %d (byte offset %lld) has label %d, expected 0 to %d: the file "
                       "is damaged; " CIFAR10_REMEDY,
                       path, r, (long long)r * CIFAR10_RECORD, label, CIFAR10_CLASSES - 1);
    all->count[test][label]++;
    if (i >= (test ? s->info.test : s->info.train))
        return DT_OK;
    const int64_t at = test ? s->info.train + i : i;
    s->labels[at] = label;
    cifar10_interleave(record + 1, s->images + at * (3 * CIFAR10_PLANE));
    return DT_OK;
}

static dt_status cifar10_read_file(dt_source *s, struct cifar10_found *all, int f)
{
    unsigned char sha[CIFAR10_SHA_BYTES];
    char path[PATH_MAX];
    int fd = -1;

    DT_TRY(cifar10_open_file(s->state, f, path, &fd));
    const dt_status st = dt_file_read_at(fd, path, 0, all->records, CIFAR10_FILE_BYTES);
    close(fd);
    DT_TRY(st);
    for (int r = 0; r < CIFAR10_PER_FILE; r++)
        DT_TRY(cifar10_take(s, all, cifar10_table[f].test, r, path));
    if (EVP_Digest(all->records, CIFAR10_FILE_BYTES, sha, NULL, EVP_sha256(), NULL) != 1)
        return dt_fail(DT_NOMEM, "libcrypto cannot compute the SHA-256 of %s", path);
    for (size_t i = 0; i < sizeof sha; i++)
        snprintf(all->sha256[f] + 2 * i, 3, "%02x", sha[i]);
    return DT_OK;
}

/* Every class has exactly as many images as any other, in the test file and in the five
 * training files together. */
static dt_status cifar10_check_counts(const dt_source *s, const struct cifar10_found *all)
{
    const struct cifar10 *c = s->state;

    for (int test = 0; test < 2; test++) {
        const int64_t expected = all->read[test] / CIFAR10_CLASSES;
        if (!test && c->train_files < CIFAR10_TRAIN_FILES)
            continue;
        for (int k = 0; k < CIFAR10_CLASSES; k++)
            if (all->count[test][k] != expected)
                return dt_fail(DT_FORMAT,
                               "'%s': %s class %d (%s) has %lld images, expected "
                               "%lld: the files are damaged or mixed up; " CIFAR10_REMEDY,
                               c->folder, test ? "test" : "training", k, cifar10_names[k],
                               (long long)all->count[test][k], (long long)expected);
    }
    return DT_OK;
}

/* Of two files with the same content one is a copy: test images must not be trained on, and no
 * training image twice. */
static dt_status cifar10_check_copies(const struct cifar10 *c, const struct cifar10_found *all)
{
    for (int f = 0; f < CIFAR10_FILES; f++)
        for (int g = 0; g < f; g++)
            if (c->present[f] && c->present[g] && strcmp(all->sha256[f], all->sha256[g]) == 0)
                return dt_fail(DT_FORMAT, "'%s': %s and %s have the same content; " CIFAR10_REMEDY,
                               c->folder, cifar10_table[g].name, cifar10_table[f].name);
    return DT_OK;
}

static void cifar10_note_hashes(const struct cifar10 *c, const struct cifar10_found *all)
{
    char other[128] = ""; /* six names have 98 characters with their commas */
    size_t used = 0;

    for (int f = 0; f < CIFAR10_FILES; f++)
        if (c->present[f] && strcmp(all->sha256[f], cifar10_table[f].sha256) != 0)
            used += (size_t)snprintf(other + used, sizeof other - used, "%s%s", used ? ", " : "",
                                     cifar10_table[f].name);
    if (used)
        dt_note("CIFAR-10: unknown SHA-256, not the original distribution: %s", other);
    else
        dt_note("CIFAR-10: the original distribution (SHA-256 of all files)");
}

static dt_status cifar10_read(dt_source *s)
{
    const struct cifar10 *c = s->state;
    struct cifar10_found *all = NULL;
    dt_status st = DT_OK;

    DT_TRY(dt_calloc(&all, 1, sizeof *all, "CIFAR-10 counts"));
    DT_GO(st, dt_calloc(&all->records, CIFAR10_FILE_BYTES, 1, "a file of CIFAR-10"), out);
    for (int f = 0; f < CIFAR10_FILES; f++)
        if (c->present[f])
            DT_GO(st, cifar10_read_file(s, all, f), out);
    DT_GO(st, cifar10_check_copies(c, all), out);
    DT_GO(st, cifar10_check_counts(s, all), out);
    cifar10_note_hashes(c, all);
out:
    free(all->records);
    free(all);
    return st;
}

static void cifar10_close(dt_source *s)
{
    free(s->state);
}

const dt_source_row dt_source_cifar10 = {"cifar10", cifar10_open, cifar10_read, cifar10_close};
