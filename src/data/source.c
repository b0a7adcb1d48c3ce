/* source.c - the table of sources, and what they share: subset, memory, hashes. */
#include "source.h"

#include <assert.h>
#include <jansson.h>

/* Tried in this order; the last is an extra's. */
static const dt_source_row *source_table[] = {&dt_source_synthetic, &dt_source_cifar10,
                                              &dt_source_cifar100, NULL};
enum { SOURCE_ADDED = DT_COUNT_OF(source_table) - 1 };

void dt_source_set(const dt_source_row *row)
{
    source_table[SOURCE_ADDED] = row;
}

int dt_source_serve(int argc, char **argv)
{
    const dt_source_row *row = source_table[SOURCE_ADDED];
    return row && row->serve ? row->serve(argc, argv) : -1;
}

/* No row takes the path: say why. */
static dt_status source_unknown(const char *path)
{
    static const struct {
        const char *name, *what;
    } mistaken[] = {
        /* for CIFAR-10's binary version */
        {"data_batch_1", "the Python version of CIFAR-10, but the binary version is read"},
        {"cifar-10-batches-py", "the Python version of CIFAR-10, but the binary version is read"},
        {"cifar-10-binary.tar.gz", "an archive that is not unpacked yet: unpack it (tar -xzf)"},
    };
    static const char remedy[] = "get the images with scripts/get-cifar10, or use "
                                 "--data synthetic";
    const bool images = source_table[SOURCE_ADDED] != NULL; /* this build reads them */
    char inside[PATH_MAX];
    struct stat about;

    if (stat(path, &about) != 0)
        return dt_fail(DT_NOINPUT, "data '%s': %s; %s", path, strerror(errno), remedy);
    if (!S_ISDIR(about.st_mode))
        return dt_fail(DT_NOINPUT,
                       "data '%s' is a file, expected the folder that holds data_batch_1.bin or "
                       "train/ (unpack an archive first); %s",
                       path, remedy);
    if (faccessat(AT_FDCWD, path, R_OK | X_OK, AT_EACCESS) != 0)
        return dt_fail(DT_NOINPUT, "data folder '%s': %s", path, strerror(errno));
    for (size_t i = 0; i < DT_COUNT_OF(mistaken); i++)
        if (dt_path_join(inside, path, mistaken[i].name) == DT_OK && dt_path_exists(inside))
            return dt_fail(DT_NOINPUT, "data folder '%s' holds %s; %s", path, mistaken[i].what,
                           remedy);
    return dt_fail(DT_NOINPUT,
                   images ? "data folder '%s' holds neither CIFAR batches (data_batch_1.bin; of "
                            "CIFAR-100 train.bin) nor images (train/CLASS/*.png|jpg); %s"
                          : "data folder '%s' holds no CIFAR batches (data_batch_1.bin; of "
                            "CIFAR-100 train.bin), and this build has no part for images; %s",
                   path, remedy);
}

static size_t source_image_bytes(const dt_source *s)
{
    return (size_t)s->info.height * (size_t)s->info.width * 3;
}

static dt_status source_names(dt_source *s)
{
    json_t *names = json_array();

    for (int c = 0; c < s->info.classes; c++) {
        const char *shown = DT_SHOWN(s->info.class_name[c]);
        if (json_array_append_new(names, json_string(shown)) != 0 ||
            strcmp(shown, s->info.class_name[c]) != 0) {
            json_decref(names);
            return dt_fail(DT_FORMAT,
                           "class folder '%s': its name is no UTF-8, or has a tab or "
                           "other control characters (shown as ?): rename it",
                           shown);
        }
    }
    s->info.class_names = s->names = json_dumps(names, JSON_COMPACT);
    json_decref(names);
    return s->names ? DT_OK : dt_fail(DT_NOMEM, "no memory for the names of classes");
}

dt_status dt_source_open(dt_source **out, const char *path, int64_t subset, uint32_t seed)
{
    dt_source *s = NULL;
    dt_hash manifest;
    dt_status st = DT_OK;

    DT_GO(st, dt_calloc(&s, 1, sizeof *s, "data source"), out);
    dt_hash_init(&manifest);
    s->seed = seed;
    st = DT_DECLINED;
    for (size_t r = 0; r <= SOURCE_ADDED && source_table[r] && st == DT_DECLINED; r++) {
        s->row = source_table[r];
        st = s->row->open(s, path, &manifest);
    }
    DT_GO(st, st == DT_DECLINED ? source_unknown(path) : st, out);
    if (subset > s->info.train)
        DT_GO(st,
              dt_fail(DT_CONFIG,
                      "subset %lld: '%s' has %lld training images, use at most that many",
                      (long long)subset, path, (long long)s->info.train),
              out);
    s->info.train = subset > 0 ? subset : s->info.train;
    s->info.kind = s->row->name;
    DT_GO(st, source_names(s), out);

    const int64_t facts[] = {s->info.classes, s->info.height, s->info.width, s->info.train,
                             s->info.test};
    dt_hash_update(&manifest, s->row->name, strlen(s->row->name) + 1);
    dt_hash_update(&manifest, facts, sizeof facts);
    for (int c = 0; c < s->info.classes; c++)
        dt_hash_update(&manifest, s->info.class_name[c], strlen(s->info.class_name[c]) + 1);
    s->manifest = dt_hash_digest(&manifest);
    s->shown = s->info;
    *out = s;
    s = NULL;
out:
    dt_source_close(s);
    return st;
}

dt_status dt_source_hold_out(dt_source *s, int64_t images)
{
    const int64_t train = s->info.train;

    if (images == 0)
        return DT_OK;
    if (images >= train)
        return dt_fail(DT_CONFIG, "holdout %lld: there are %lld training images; hold out fewer",
                       (long long)images, (long long)train);
    DT_TRY(dt_calloc(&s->order, (size_t)train, sizeof *s->order, "held-out images"));
    dt_permute(s->order, train, 0, DT_STREAM_HOLDOUT, 0);
    s->shown.train = train - images;
    s->shown.test = images;
    return DT_OK;
}

void dt_source_fit(dt_source *s, int side, int height, int width)
{
    if (s->row->fit)
        s->row->fit(s, side, height, width);
}

void dt_source_close(dt_source *s)
{
    if (!s)
        return;
    if (s->state && s->row->close)
        s->row->close(s);
    DT_FREE(s->names, s->order, s->state, s);
}

const dt_source_info *dt_source_describe(const dt_source *s)
{
    return &s->shown;
}

dt_digest dt_source_manifest(const dt_source *s)
{
    return s->manifest;
}

size_t dt_source_bytes(const dt_source *s)
{
    return (size_t)(s->info.train + s->info.test) * (sizeof(int32_t) + source_image_bytes(s));
}

dt_status dt_source_load(dt_source *s, void *memory, bool read)
{
    s->labels = memory;
    s->images = (uint8_t *)(s->labels + s->info.train + s->info.test);
    return read ? s->row->read(s) : DT_OK;
}

dt_digest dt_source_digest(const dt_source *s)
{
    return dt_hash_bytes(s->labels, dt_source_bytes(s));
}

const uint8_t *dt_source_image(const dt_source *s, bool test, int64_t i, int32_t *label)
{
    assert(s->labels && i >= 0 && i < (test ? s->shown.test : s->shown.train));
    const int64_t shown = test ? s->shown.train + i : i, at = s->order ? s->order[shown] : shown;
    *label = s->labels[at];
    return s->images + (size_t)at * source_image_bytes(s);
}
