/* modelfile.h - a network's weights as model.safetensors; private to src/train.
 *
 * Tensors have the names, shapes and order of PyTorch's state_dict (weights OIHW,
 * float32; running_mean, running_var; num_batches_tracked int64), so torch loads the
 * file as it is; or those of another naming. __metadata__ has "format" = "pt" and the dtrain.*
 * keys net, variant, stem, normalize, image_size, width_divisor and classes, and steps where the
 * naming has no num_batches_tracked, all as text. All functions are Local. */
#ifndef DT_MODELFILE_H
#define DT_MODELFILE_H
#include "durable.h"
#include "state.h"

typedef struct dt_model_file_opts {
    const char *names;     /* scheme of dt_net_rename */
    const char *normalize; /* the images' normalisation that the weights are for */
    int64_t steps;         /* num_batches_tracked of every batch norm, 0 or more */
} dt_model_file_opts;

/* Errors as dt_safetensors_write; DT_CONFIG: the network has no such scheme. */
dt_status dt_model_save(const dt_model_state *s, const char *path,
                        const dt_model_file_opts *opts) DT_MUST_CHECK;
/* Room on the disk for just that file, as dt_safetensors_reserve. The numbers are not read. */
dt_status dt_model_reserve(const dt_model_state *s, const char *path,
                           const dt_model_file_opts *opts) DT_MUST_CHECK;
/* The same bytes into a new file, as dt_safetensors_put; w may be NULL. */
dt_status dt_model_put(const dt_model_state *s, const char *path,
                       const dt_model_file_opts *opts, dt_written *w) DT_MUST_CHECK;

/* A file, or a folder that holds model.safetensors (a run's, a checkpoint), to the path
 * of the file. DT_NOINPUT: the folder holds none. */
dt_status dt_model_path(const char *path, char out[PATH_MAX]) DT_MUST_CHECK;

/* What the file (or folder) says of its network, into the options that nobody gave:
 * net, variant, stem, normalize, image_size and width_divisor; dt_model_load then checks them against
 * the file. `origin` holds the texts and must outlive o. Errors as
 * dt_safetensors_open. */
enum { DT_ORIGIN_KEYS = 6, DT_ORIGIN_CHARS = 64 };
typedef struct dt_model_origin {
    char text[DT_ORIGIN_KEYS][DT_ORIGIN_CHARS];
} dt_model_origin;
dt_status dt_model_describe(const char *path, dt_options *o,
                            dt_model_origin *origin) DT_MUST_CHECK;

/* Fill master and the running statistics from a file in any naming, DDP's prefix
 * "module." included; num_batches_tracked may be absent; F16 and BF16 become float32, exactly. Nothing is written before the
 * whole header fits. A file without dtrain.* metadata is taken with one warning.
 *   path       as dt_model_path takes it
 *   normalize  of this run; NULL: whatever the file says
 *   DT_FORMAT  another network, variant, stem or normalisation; tensors that are
 *              missing, unexpected, or of another shape or type, in one message; a number
 *              that is not finite.
 *              Otherwise as dt_safetensors_open and dt_safetensors_read. */
dt_status dt_model_load(const dt_model_state *s, const char *path,
                        const char *normalize) DT_MUST_CHECK;
/* All but the classifier, which stays as it is in s; the file's may be of any shape, or missing. */
dt_status dt_model_load_body(const dt_model_state *s, const char *path,
                             const char *normalize) DT_MUST_CHECK;

#endif
