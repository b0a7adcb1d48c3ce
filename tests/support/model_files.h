/* model_files.h - a network, its numbers, and a folder for two model files. */
#ifndef DT_TEST_MODEL_FILES_H
#define DT_TEST_MODEL_FILES_H
#include "folder.h"

#include "format/safetensors.h"

typedef struct fixture {
    char dir[FOLDER_PATH], file[FOLDER_PATH + 32], other[FOLDER_PATH + 32];
    dt_net *net;
    size_t floats, channels;
    dt_weights state;
} fixture;

/* Zeros; three arrays one behind the other. */
static inline void weights_take(const dt_net *net, dt_weights *s)
{
    const size_t floats = dt_net_slab_floats(net), channels = dt_net_norm_channels(net);
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
    dt_fail_clear(); /* of a test that has failed */
    folder_make(f->dir);
    snprintf(f->file, sizeof f->file, "%s/model.safetensors", f->dir);
    snprintf(f->other, sizeof f->other, "%s/other.safetensors", f->dir);
    assert_ok(dt_net_create(&f->net, spec));
    f->floats = dt_net_slab_floats(f->net);
    f->channels = dt_net_norm_channels(f->net);
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

static inline const dt_tensor *tensor_named(const dt_safetensors *s, const char *name)
{
    for (size_t i = 0; i < dt_safetensors_count(s); i++)
        if (strcmp(dt_safetensors_get(s, i)->name, name) == 0)
            return dt_safetensors_get(s, i);
    fail_msg("no tensor %s", name);
    return NULL;
}
#endif
