/* snapshot.h - a small network's numbers at step k, and a run folder to save them in. */
#ifndef DT_TEST_SNAPSHOT_H
#define DT_TEST_SNAPSHOT_H
#include "capture.h"
#include "folder.h"

#include <dirent.h>

#include "store/checkpoint_internal.h"

typedef struct fixture {
    char run[FOLDER_PATH], checkpoints[FOLDER_PATH + 16];
    dt_rundir d; /* of run, without a lock */
    dt_net *net;
    dt_options options;
    size_t floats, channels, all;
    float *slab; /* [all]: master, momentum, running means, running variances */
    dt_snapshot s;
} fixture;

/* The snapshot whose arrays are `slab`. */
static inline dt_snapshot snapshot_of(const fixture *f, float *slab)
{
    float *mean = slab + 2 * f->floats;
    return (dt_snapshot){.model = {f->net, slab, mean, mean + f->channels},
                         .momentum = slab + f->floats,
                         .options = &f->options,
                         .data_digest = "0123456789abcdef0123456789abcdef",
                         .bits_class = "test, avx512"};
}

static inline int snapshot_make(void **state)
{
    const dt_net_spec spec = {.net = "vgg11", .classes = 10, .width_divisor = 64};
    fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    folder_make(f->run);
    snprintf(f->checkpoints, sizeof f->checkpoints, "%s/checkpoints", f->run);
    f->d = (dt_rundir){.folder = open(f->run, O_RDONLY | O_DIRECTORY), .lock = -1};
    snprintf(f->d.path, sizeof f->d.path, "%s", f->run);
    dt_options_init(&f->options);
    f->options.net = "vgg11";
    f->options.width_divisor = 64;
    assert_ok(dt_net_create(&f->net, &spec));
    f->floats = f->net->slab_floats;
    f->channels = f->net->norm_channels;
    f->all = 2 * (f->floats + f->channels);
    f->slab = calloc(f->all, sizeof *f->slab);
    assert_non_null(f->slab);
    f->s = snapshot_of(f, f->slab);
    *state = f;
    return 0;
}

static inline int snapshot_release(void **state)
{
    fixture *f = *state;
    folder_remove(f->run);
    dt_rundir_close(&f->d);
    free(f->slab);
    dt_net_destroy(f->net);
    free(f);
    return 0;
}

#define SNAPSHOT_TEST(name) TEST_OF_FIXTURE(snapshot_make, snapshot_release, name)

/* The numbers and the place of step k. */
static inline void snapshot_fill(fixture *f, int64_t k)
{
    const size_t variances = f->all - f->channels; /* never negative */
    dt_fill_uniform(f->slab, variances, -1, 1, (uint32_t)k, DT_STREAM_TEST, 0);
    dt_fill_uniform(f->slab + variances, f->channels, 0, 1, (uint32_t)k, DT_STREAM_TEST, 1);
    f->s.at = (dt_position){.epoch = k / 7,
                            .step = k % 7,
                            .run_step = k,
                            .loss_sum = (double)k / 3,
                            .images = 32 * (k % 7),
                            .best_accuracy = 0.1,
                            .best_epoch = 2};
}

static inline void snapshot_save(fixture *f, int64_t k)
{
    snapshot_fill(f, k);
    assert_ok(dt_checkpoint_save(&f->d, &f->s));
}

static inline const char *step_path(const fixture *f, const char *name)
{
    return folder_path(f->checkpoints, name);
}

/* Whether a checkpoint can be resumed from, in memory of its own; sets *at. */
static inline dt_status snapshot_check(const char *path, dt_position *at)
{
    dt_checkpoint *c = NULL;

    DT_TRY(dt_checkpoint_open(&c, NULL, path));
    const dt_status st = dt_checkpoint_check(c, NULL, NULL, NULL);
    *at = c->at;
    dt_checkpoint_close(c);
    return st;
}

static inline dt_status snapshot_load(const char *path, const dt_snapshot *into, dt_position *at)
{
    dt_snapshot to = *into;
    dt_checkpoint *c = NULL;
    DT_TRY(dt_checkpoint_open(&c, NULL, path));
    const dt_status st = dt_checkpoint_load(c, &to);
    *at = to.at;
    dt_checkpoint_close(c);
    return st;
}

/* The newest valid checkpoint of any step, and what the search has written to stderr. */
static inline dt_status snapshot_find(const char *path, char found[PATH_MAX], capture *heard)
{
    capture_begin(heard);
    const dt_status st = dt_checkpoint_find(path, &(dt_query){.end = INT64_MAX}, found);
    capture_end(heard);
    return st;
}

/* What load gives is what save was given, bit for bit. */
static inline void assert_loads_step(fixture *f, const char *path, int64_t k)
{
    float *slab = calloc(f->all, sizeof *slab);
    assert_non_null(slab);
    dt_snapshot into = snapshot_of(f, slab);
    dt_position at;
    dt_digest want, has;

    snapshot_fill(f, k);
    assert_ok(snapshot_load(path, &into, &at));
    assert_int_equal(at.run_step, k);
    into.at = at;
    assert_ok(dt_snapshot_hash(&f->s, NULL, &want));
    assert_ok(dt_snapshot_hash(&into, NULL, &has));
    assert_true(want.high == has.high && want.low == has.low);
    free(slab);
}

/* One file of a checkpoint says something else, as its MANIFEST does. */
static inline void snapshot_forge(const char *folder, dt_checkpoint_file which, const char *text)
{
    char *old = NULL, manifest[DT_MANIFEST_CHARS];
    size_t length = 0;
    dt_manifest m;

    assert_ok(dt_file_read(AT_FDCWD, folder_path(folder, "MANIFEST"), 4096, &old, &length));
    assert_ok(dt_manifest_parse(folder, old, length, &m));
    m.file[0][which] = (dt_written){strlen(text), dt_hash_bytes(text, strlen(text))};
    folder_write(folder, dt_checkpoint_file_name[which], text, strlen(text));
    folder_write(folder, "MANIFEST", manifest, dt_manifest_text(&m, manifest));
    free(old);
}

/* The same with the first `from` of the file replaced. */
static inline void snapshot_edit(const char *folder, dt_checkpoint_file which, const char *from,
                                 const char *to)
{
    char *text = NULL, *edited = NULL;

    assert_ok(dt_file_read(AT_FDCWD, folder_path(folder, dt_checkpoint_file_name[which]), 1 << 16,
                           &text, NULL));
    const char *at = strstr(text, from);
    if (!at)
        fail_msg("%s has no %s", dt_checkpoint_file_name[which], from);
    assert_true(asprintf(&edited, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)) > 0);
    snapshot_forge(folder, which, edited);
    free(edited);
    free(text);
}

/* Names in the folder of checkpoints that begin with `prefix`, sorted, one space between. */
static inline const char *names_in(const fixture *f, const char *prefix, char out[1000])
{
    struct dirent **list = NULL;
    const int count = scandir(f->checkpoints, &list, NULL, alphasort);
    size_t used = 0;

    out[0] = '\0';
    for (int i = 0; i < count; i++) {
        const char *name = list[i]->d_name;
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
            strncmp(name, prefix, strlen(prefix)) == 0)
            used += (size_t)snprintf(out + used, 1000 - used, "%s%s", used ? " " : "", name);
        free(list[i]);
    }
    free(list);
    return out;
}
#endif
