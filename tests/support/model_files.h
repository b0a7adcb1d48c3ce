/* model_files.h - a network, its numbers, and a folder for two model files, of which the second may
 * be the first one edited. */
#ifndef DT_TEST_MODEL_FILES_H
#define DT_TEST_MODEL_FILES_H
#include "folder.h"

#include "format/tensors.h"

typedef struct fixture {
    char dir[FOLDER_PATH], file[FOLDER_PATH + 32], other[FOLDER_PATH + 32];
    dt_net *net;
    size_t floats, channels;
    dt_weights state;
} fixture;

/* Zeros; three arrays one behind the other. */
static inline void weights_take(const dt_net *net, dt_weights *s)
{
    const size_t floats = net->slab_floats, channels = net->norm_channels;
    float *x = calloc(floats + 2 * channels, sizeof *x);

    assert_non_null(x);
    *s = (dt_weights){net, x, x + floats, x + floats + channels};
}

static inline void weights_give(dt_weights *s)
{
    free(s->master);
}

static inline fixture *model_files_make(const dt_net_spec *spec)
{
    fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    folder_make(f->dir);
    snprintf(f->file, sizeof f->file, "%s/model.safetensors", f->dir);
    snprintf(f->other, sizeof f->other, "%s/other.safetensors", f->dir);
    assert_ok(dt_net_create(&f->net, spec));
    f->floats = f->net->slab_floats;
    f->channels = f->net->norm_channels;
    weights_take(f->net, &f->state);
    return f;
}

static inline int model_files_release(void **state)
{
    fixture *f = *state;
    unlink(f->file);
    unlink(f->other);
    assert_int_equal(rmdir(f->dir), 0); /* no temporary file was left */
    weights_give(&f->state);
    dt_net_destroy(f->net);
    free(f);
    return 0;
}

/* Normalised as "cifar". */
static inline void model_save(const dt_weights *s, const char *path, const char *names,
                              int64_t steps)
{
    const dt_target t = path_target(path);
    assert_ok(dt_model_put(
        s, &t, &(dt_model_file_opts){.names = names, .normalize = "cifar", .steps = steps}, NULL));
}

static inline const dt_tensor *tensor_named(const dt_safetensors *s, const char *name)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->tensor[i].name, name) == 0)
            return &s->tensor[i];
    fail_msg("no tensor %s", name);
    return NULL;
}
/* ---- Edited files ---------------------------------------------------------------- */

typedef struct edit {
    const char *of;                    /* tensors whose names hold this ... */
    bool drop;                         /* are left out, */
    bool reshape;                      /* get one more dimension of 1, */
    const char *prefix, *name, *dtype; /* this before their names, this name, this type; */
    uint16_t bits;                     /* their second number of BF16 is this */
    const char *field, *value; /* this field of the metadata is changed; value NULL: all are gone */
} edit;

typedef struct edited {
    const dt_safetensors *from;
    const edit *e;
    const dt_tensor *source[512];
    dt_tensor tensor[512];
    char name[512][128];
} edited;

/* Float32 becomes BF16 by its upper half; a number of another type becomes 0. */
static inline dt_status edited_fill(const void *context, size_t i, void *data)
{
    const edited *to = context;
    const dt_tensor *t = to->source[i];
    uint16_t *wide = malloc(t->bytes), *narrow = data;

    assert_non_null(wide);
    assert_ok(dt_safetensors_read(to->from, t, wide));
    if (strcmp(t->dtype, to->tensor[i].dtype) == 0)
        memcpy(data, wide, t->bytes);
    else if (strcmp(t->dtype, "I64") == 0)
        memset(data, 0, sizeof(float));
    else
        for (size_t k = 0; k < t->bytes / sizeof(float); k++)
            narrow[k] = k == 1 && to->e->bits ? to->e->bits : wide[2 * k + 1];
    free(wide);
    return DT_OK;
}

/* f->file, edited, to f->other. */
static inline void edit_file(const fixture *f, const edit *e)
{
    const dt_target other = path_target(f->other);
    char key[DT_META_KEYS][64];
    dt_field field[DT_META_KEYS];
    dt_safetensors *s = NULL;
    edited *to = calloc(1, sizeof *to);
    size_t n = 0;

    assert_non_null(to);
    assert_ok(dt_safetensors_open(&s, f->file, NULL, 0));
    to->from = s;
    to->e = e;
    for (size_t i = 0; i < s->count; i++) {
        const dt_tensor *t = to->source[n] = &s->tensor[i];
        const bool changed = e->of && strstr(t->name, e->of);
        if (changed && e->drop)
            continue;
        to->tensor[n] = *t;
        to->tensor[n].name = to->name[n];
        snprintf(to->name[n], sizeof to->name[n], "%s%s", changed && e->prefix ? e->prefix : "",
                 changed && e->name ? e->name : t->name);
        if (changed && e->dtype && (e->of[0] || t->rank > 0)) /* not all counters */
            to->tensor[n].dtype = e->dtype;
        if (changed && e->reshape)
            to->tensor[n].shape[to->tensor[n].rank++] = 1;
        n++;
    }
    for (size_t i = 0; i < DT_META_KEYS; i++) {
        const bool changed = e->field && strcmp(dt_meta_key[i], e->field) == 0;
        snprintf(key[i], sizeof key[i], "dtrain.%s", dt_meta_key[i]);
        field[i] = (dt_field){key[i], changed ? e->value : dt_safetensors_metadata(s, key[i])};
    }
    const dt_safetensors_content content = {.tensor = to->tensor,
                                            .tensors = n,
                                            .metadata = field,
                                            .fields = e->field && !e->value ? 0 : DT_META_KEYS,
                                            .fill = edited_fill,
                                            .context = to};
    assert_ok(dt_safetensors_put(&other, &content, NULL));
    dt_safetensors_close(s);
    free(to);
}
#endif
