/* source_cifar.c - the binary distributions of CIFAR-10 and CIFAR-100 (Krizhevsky 2009,
 * https://www.cs.toronto.edu/~kriz/cifar.html): records of a label byte, in CIFAR-100 a coarse and
 * a fine one, and three 32x32 planes R, G, B. Fine labels are the classes. */
#include "source.h"

#include <openssl/evp.h>

enum {
    CIFAR_SIDE = 32,
    CIFAR_PLANE = CIFAR_SIDE * CIFAR_SIDE,
    CIFAR_BLOCK = 10000, /* records that are read at once; a file has one block or more */
    CIFAR_FILES = 6,
    CIFAR_SHA_BYTES = 32,
};

/* clang-format off */
static const char *const cifar10_names[10] = {
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
static const char *const cifar100_names[100] = {
    "apple", "aquarium_fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle",
    "bowl", "boy", "bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle",
    "chair", "chimpanzee", "clock", "cloud", "cockroach", "couch", "crab", "crocodile", "cup",
    "dinosaur", "dolphin", "elephant", "flatfish", "forest", "fox", "girl", "hamster", "house",
    "kangaroo", "keyboard", "lamp", "lawn_mower", "leopard", "lion", "lizard", "lobster", "man",
    "maple_tree", "motorcycle", "mountain", "mouse", "mushroom", "oak_tree", "orange", "orchid",
    "otter", "palm_tree", "pear", "pickup_truck", "pine_tree", "plain", "plate", "poppy",
    "porcupine", "possum", "rabbit", "raccoon", "ray", "road", "rocket", "rose", "sea", "seal",
    "shark", "shrew", "skunk", "skyscraper", "snail", "snake", "spider", "squirrel", "streetcar",
    "sunflower", "sweet_pepper", "table", "tank", "telephone", "television", "tiger", "tractor",
    "train", "trout", "tulip", "turtle", "wardrobe", "whale", "willow_tree", "wolf", "woman",
    "worm"};
/* clang-format on */

static const struct cifar_edition {
    const dt_source_row *row;
    const char *title, *inside, *train_files, *remedy;
    int classes, label_bytes; /* the last one is the class */
    const char *const *class_name;
    struct cifar_file {
        const char *name; /* NULL after the last */
        bool test;
        int blocks;
        const char *sha256; /* of the file in the original archive; NULL: not known */
    } file[CIFAR_FILES];
} cifar_editions[] = {
    {&dt_source_cifar10,
     "CIFAR-10",
     "/cifar-10-batches-bin",
     "data_batch_1.bin ... _5.bin",
     "get the data again with scripts/get-cifar10",
     10,
     1,
     cifar10_names,
     {
         {"data_batch_1.bin", false, 1,
          "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"},
         {"data_batch_2.bin", false, 1,
          "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"},
         {"data_batch_3.bin", false, 1,
          "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"},
         {"data_batch_4.bin", false, 1,
          "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"},
         {"data_batch_5.bin", false, 1,
          "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"},
         {"test_batch.bin", true, 1,
          "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"},
     }},
    {&dt_source_cifar100,
     "CIFAR-100",
     "/cifar-100-binary",
     "train.bin",
     "get the archive cifar-100-binary.tar.gz again, and unpack it",
     100,
     2,
     cifar100_names,
     {{"train.bin", false, 5, NULL}, {"test.bin", true, 1, NULL}}},
};

struct cifar {
    const struct cifar_edition *of;
    size_t record; /* bytes */
    char folder[PATH_MAX];
    bool present[CIFAR_FILES];
    int64_t read[2];   /* records taken so far: train, test */
    char unknown[128]; /* files whose SHA-256 is not the original's: six have 98 characters */
};

/* ---- open: names and sizes ------------------------------------------------------- */

/* Does the folder hold any file of the set? One that cannot be read counts: it gets named. */
static bool cifar_probe(struct cifar *c)
{
    char path[PATH_MAX + 32];
    bool found = false;

    for (int f = 0; f < CIFAR_FILES && c->of->file[f].name; f++) {
        snprintf(path, sizeof path, "%s/%s", c->folder, c->of->file[f].name);
        c->present[f] = dt_path_taken(path);
        found = found || c->present[f];
    }
    return found;
}

static dt_status cifar_open_file(const struct cifar *c, int f, char *path, int *fd)
{
    const int records = c->of->file[f].blocks * CIFAR_BLOCK;
    const long long want = (long long)records * (long long)c->record;
    int64_t bytes = 0;

    DT_TRY(dt_path_join(path, c->folder, c->of->file[f].name));
    DT_TRY(dt_file_open(AT_FDCWD, path, fd, &bytes));
    if (bytes == want)
        return DT_OK;
    close(*fd);
    return dt_fail(DT_FORMAT, "%s: has %lld bytes, expected %lld (%d records of %zu); %s", path,
                   (long long)bytes, want, records, c->record, c->of->remedy);
}

static dt_status cifar_open_files(struct cifar *c, dt_source_info *info, dt_hash *manifest)
{
    char path[PATH_MAX];
    int have = 0, all = 0; /* files for training */

    for (int f = 0; f < CIFAR_FILES && c->of->file[f].name; f++) {
        const struct cifar_file *file = &c->of->file[f];
        int fd = -1;
        all += !file->test;
        if (!c->present[f])
            continue;
        DT_TRY(cifar_open_file(c, f, path, &fd));
        close(fd);
        have += !file->test;
        *(file->test ? &info->test : &info->train) += file->blocks * CIFAR_BLOCK;
        dt_hash_update(manifest, file->name, strlen(file->name) + 1);
    }
    if (info->test == 0 || info->train == 0)
        return dt_fail(DT_NOINPUT, "data folder '%s' has no %s; %s", c->folder,
                       info->test == 0 ? c->of->file[all].name : c->of->train_files, c->of->remedy);
    if (have < all)
        dt_note("%s: %d of %d training files are in '%s': %lld training images", c->of->title, have,
                all, c->folder, (long long)info->train);
    return DT_OK;
}

static dt_status cifar_open(dt_source *s, const char *path, dt_hash *manifest)
{
    struct cifar c = {.of = cifar_editions};
    bool found = false;

    while (c.of->row != s->row)
        c.of++;
    c.record = (size_t)c.of->label_bytes + 3 * CIFAR_PLANE;
    for (int i = 0; i < 2 && !found; i++) {
        snprintf(c.folder, sizeof c.folder, "%s%s", path, i ? c.of->inside : "");
        found = cifar_probe(&c);
    }
    if (!found)
        return DT_DECLINED;
    DT_TRY(dt_calloc(&s->state, 1, sizeof c, "CIFAR source"));
    memcpy(s->state, &c, sizeof c);
    s->info = (dt_source_info){.classes = c.of->classes,
                               .height = CIFAR_SIDE,
                               .width = CIFAR_SIDE,
                               .class_name = c.of->class_name};
    return cifar_open_files(s->state, &s->info, manifest);
}

/* ---- read: pixels, labels, hashes ------------------------------------------------ */

/* Take record r of a file, labels and planes R, G, B: its image is stored, pixel by pixel, unless
 * --subset leaves it out. */
static dt_status cifar_take(dt_source *s, bool test, int r, const uint8_t *record, const char *path)
{
    struct cifar *c = s->state;
    const int64_t i = c->read[test]++, at = test ? s->info.train + i : i;
    const uint8_t *planes = record + c->of->label_bytes;
    const int label = planes[-1];

    if (label >= c->of->classes)
        return dt_fail(DT_FORMAT,
                       "%s: record %d (byte offset %lld) has label %d, expected 0 to %d: the file "
                       "is damaged; %s",
                       path, r, (long long)r * (long long)c->record, label, c->of->classes - 1,
                       c->of->remedy);
    if (i >= (test ? s->info.test : s->info.train))
        return DT_OK;
    uint8_t *image = s->images + at * (3 * CIFAR_PLANE);
    s->labels[at] = label;
    for (int p = 0; p < CIFAR_PLANE; p++)
        for (int channel = 0; channel < 3; channel++)
            *image++ = planes[channel * CIFAR_PLANE + p];
    return DT_OK;
}

/* Is the SHA-256 of a file of one block the original's? */
static void cifar_hash(dt_source *s, int f, const uint8_t *records)
{
    struct cifar *c = s->state;
    unsigned char sha[CIFAR_SHA_BYTES];
    char text[2 * CIFAR_SHA_BYTES + 1] = "";
    const size_t used = strlen(c->unknown);
    const bool known =
        EVP_Digest(records, CIFAR_BLOCK * c->record, sha, NULL, EVP_sha256(), NULL) == 1;

    for (size_t i = 0; known && i < sizeof sha; i++)
        snprintf(text + 2 * i, 3, "%02x", sha[i]);
    strncat(s->files, text, sizeof s->files - 1 - strlen(s->files));
    if (strcmp(text, c->of->file[f].sha256) != 0)
        snprintf(c->unknown + used, sizeof c->unknown - used, " %s", c->of->file[f].name);
}

static dt_status cifar_read_file(dt_source *s, int f, uint8_t *records)
{
    struct cifar *c = s->state;
    const struct cifar_file *file = &c->of->file[f];
    const size_t block = CIFAR_BLOCK * c->record;
    char path[PATH_MAX];
    int fd = -1;
    dt_status st = DT_OK;

    DT_TRY(cifar_open_file(c, f, path, &fd));
    for (int r = 0; r < file->blocks * CIFAR_BLOCK; r++) {
        const int at = r % CIFAR_BLOCK;
        if (at == 0)
            DT_GO(st, dt_file_read_at(fd, path, r * (int64_t)c->record, records, block), out);
        DT_GO(st, cifar_take(s, file->test, r, records + (size_t)at * c->record, path), out);
    }
    if (file->sha256)
        cifar_hash(s, f, records);
out:
    close(fd);
    return st;
}

static dt_status cifar_read(dt_source *s)
{
    const struct cifar *c = s->state;
    uint8_t *records = NULL;
    dt_status st = dt_calloc(&records, CIFAR_BLOCK * c->record, 1, "a file of CIFAR");

    for (int f = 0; f < CIFAR_FILES && st == DT_OK; f++)
        if (c->present[f])
            st = cifar_read_file(s, f, records);
    free(records);
    DT_TRY(st);
    if (c->unknown[0])
        dt_note("%s: unknown SHA-256, not the original distribution:%s", c->of->title, c->unknown);
    else if (c->of->file[0].sha256)
        dt_note("%s: the original distribution (SHA-256 of all files)", c->of->title);
    return DT_OK;
}

const dt_source_row dt_source_cifar10 = {"cifar10", cifar_open, cifar_read, NULL, NULL, NULL};
const dt_source_row dt_source_cifar100 = {"cifar100", cifar_open, cifar_read, NULL, NULL, NULL};
