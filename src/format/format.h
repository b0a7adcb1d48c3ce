/* format.h - files of numbers; the public header of src/format.
 *
 * Networks' weights as model files, the container that they are in, and a look for numbers
 * that are not finite. Everything is Local. */
#ifndef DT_FORMAT_H
#define DT_FORMAT_H
#include "base/base.h"
#include "model/model.h"

/* ---- Reading safetensors ----------------------------------------------------------------- */

/* The safetensors container, read strictly. Layout and rules:
 * github.com/huggingface/safetensors, "Format":
 *
 *     u64 little-endian N | N bytes of JSON | tensors, one after the other
 *
 * The reader takes nothing on trust: every number is bounded before it is used, all size
 * arithmetic is checked for overflow. Beside the format's own rules a header has at most 1 MiB,
 * 4096 tensors of F32, F16, BF16 or I64, and 8 dimensions each. */
enum { DT_TENSOR_MAX_RANK = 8, DT_TENSOR_MAX_COUNT = 4096, DT_TENSOR_MAX_HEADER = 1 << 20 };

typedef struct dt_tensor {
    const char *name;  /* borrowed */
    const char *dtype; /* "F32", "F16", "BF16" or "I64" */
    int rank;
    int64_t shape[DT_TENSOR_MAX_RANK];
    uint64_t offset, bytes; /* in the file; a writer sets them, without the header */
} dt_tensor;

typedef struct dt_safetensors dt_safetensors; /* an open file and its header */
/* Open and check a file; one whose name has the ending of another dt_format as that. DT_NOINPUT:
 * missing, unreadable or not a regular file; DT_FORMAT: anything that the format forbids, and
 * PyTorch's pickles; DT_IO; DT_NOMEM.
 *   bytes  NULL, or the file, of that length, which is in memory, borrowed until close: then
 *          `path` is for messages */
dt_status dt_safetensors_open(dt_safetensors **f, const char *path, const char *bytes,
                              size_t length) DT_MUST_CHECK;
void dt_safetensors_close(dt_safetensors *f);
const char *dt_safetensors_metadata(const dt_safetensors *f, const char *key); /* or NULL */
/* A tensor of F32, F16 or BF16 as float32, exactly; of I64 its bytes. data has room for them.
 * DT_IO; DT_FORMAT: the file has become shorter. */
dt_status dt_safetensors_read(const dt_safetensors *f, const dt_tensor *t,
                              void *data) DT_MUST_CHECK;

/* A path between the quotes of Python; returns out. */
const char *dt_python_text(const char *path, char out[2 * PATH_MAX]);

/* The first of x[0], ..., x[n - 1] that is not finite; n: all are. */
size_t dt_finite_floats(const float *x, size_t n);

/* ---- Model files ---------------------------------------------------------------------- */

/* A network's weights as model.safetensors.
 *
 * Tensors have the names, shapes and order of PyTorch's state_dict (weights OIHW,
 * float32; running_mean, running_var; num_batches_tracked int64), so torch loads the
 * file as it is; or those of another naming. __metadata__ has "format" = "pt" and the dtrain.*
 * keys net, variant, stem, normalize, mean and std (of R, G, B in 0 to 1, JSON arrays), image_size,
 * width_divisor, classes and steps as text; and where known resize, logit_scale, source_size
 * ("32x32") and class_names (a JSON array). */

typedef struct dt_model_file_opts {
    const char *names;     /* scheme of dt_net_rename */
    const char *normalize; /* the images' normalisation that the weights are for */
    int64_t steps;         /* num_batches_tracked of every batch norm, 0 or more */
    /* Of the images, before they become the network's; NULL and 0: not known. */
    const char *resize, *class_names; /* how; JSON, left out from DT_CLASS_NAMES characters on */
    int height, width;
    const char *format; /* of the file: NULL or a word of --to. The input of "onnx" is RGB in 0
                           to 1, of "onnx-raw" normalised */
    double logit_scale; /* 0: not known */
    const char *holds;  /* other numbers than a model's: "momentum"; NULL: a model's */
    const struct dt_portion *portion; /* that dt_pieces->put writes; NULL: the whole */
} dt_model_file_opts;

/* Errors as dt_outfile_open and dt_outfile_finish, and the format's; DT_CONFIG: the network has no
 * such scheme, or this build no such format. w may be NULL. */
dt_status dt_model_put(const dt_weights *s, const dt_target *t, const dt_model_file_opts *opts,
                       dt_written *w) DT_MUST_CHECK;

/* A format beside safetensors, which an extra adds. */
struct dt_safetensors_content;
typedef struct dt_format {
    const char *name; /* a word of --to */
    const char *end;  /* of files that `read` reads */
    /* Write a whole file; errors as dt_model_put. */
    dt_status (*put)(const dt_target *t, const struct dt_safetensors_content *c, dt_written *w);
    /* Of f path, size, and fd or bytes are set: fill header (names alone), tensor and count. Every
     * length is bounded before it is used. DT_FORMAT, DT_IO, DT_NOMEM. NULL: it is not read. */
    dt_status (*read)(dt_safetensors *f);
} dt_format;
extern const dt_format *dt_formats; /* ended by one without a name; NULL: none is added */

/* Models in several files: what extra/pieces adds. NULL: this build has whole files alone. */
typedef struct dt_file_bytes {
    char path[PATH_MAX];
    char *bytes; /* of the file, borrowed; NULL: it is opened by its path */
    size_t length;
} dt_file_bytes;
extern const struct dt_pieces {
    /* dt_pieces_join, dt_pieces_open in extra/pieces/pieces.h. */
    dt_status (*join)(dt_safetensors **f, const char *path, const dt_file_bytes *file,
                      size_t files);
    dt_status (*open)(dt_safetensors **f, const char *folder);
    /* Write c->opts->portion of a model; as a format's. */
    dt_status (*put)(const dt_target *t, const struct dt_safetensors_content *c, dt_written *w);
} * dt_pieces;

/* A path below names a file, or a folder that holds model.safetensors or the model in pieces
 * (a run's, a checkpoint). */

/* Errors as dt_safetensors_open, dt_pieces_join. */
dt_status dt_model_open(dt_safetensors **f, const char *path) DT_MUST_CHECK;
/* Metadata of the file (or folder): its network, as texts of the options in dt_meta_key, "" where
 * there is none; the steps that it was trained; its images, or 0 and "". Errors
 * as dt_safetensors_open. */
enum { DT_META_NET, DT_META_KEYS = 8, DT_META_CHARS = 64, DT_CLASS_NAMES = 32 << 10 };
extern const char *const dt_meta_key[DT_META_KEYS];
typedef struct dt_model_meta {
    char path[PATH_MAX]; /* of the file, or of the folder that has it in pieces */
    uint64_t bytes;
    char text[DT_META_KEYS][DT_META_CHARS];
    int64_t steps;
    int classes;       /* of the classifier; 0: there is none */
    int height, width; /* of the source's images */
    char class_names[DT_CLASS_NAMES];
} dt_model_meta;
dt_status dt_model_describe(const char *path, dt_model_meta *meta) DT_MUST_CHECK;

/* Fill master and the running statistics from a file in any naming, DDP's prefix
 * "module." included; num_batches_tracked may be anything; F16 and BF16 become float32, exactly.
 * Nothing is written before the whole header fits. A file without dtrain.* metadata is taken
 * with one warning.
 *   normalize  of this run; NULL: whatever the file says
 *   head       false: the classifier stays as it is in s, and the file's may be of any shape, or
 *              missing
 *   DT_FORMAT  another network, variant, stem or normalisation; momentum; tensors that are
 *              missing, unexpected, or of another shape or type, in one message; a number
 *              that is not finite.
 *              Otherwise as dt_safetensors_open and dt_safetensors_read. */
dt_status dt_model_load(const dt_weights *s, const char *path, const char *normalize,
                        bool head) DT_MUST_CHECK;
/* The same of an open file; closes it. */
dt_status dt_model_load_open(const dt_weights *s, dt_safetensors *f, const char *normalize,
                             bool head) DT_MUST_CHECK;

/* A model file with the network that it is of. */
typedef struct dt_model_read {
    dt_net *net; /* owned */
    float *slab; /* [floats] of state, then all below; owned */
    size_t floats;
    dt_weights state;   /* filled by dt_model_load */
    dt_weights trained; /* zeros, like momentum: a checkpoint has them, too */
    float *momentum;    /* [net->slab_floats] */
} dt_model_read;

/* Build the network of `spec`; the classifier of the file that was described gives the number of
 * classes. r is to be closed whatever the outcome, and must not be moved. Errors as dt_net_create;
 * DT_FORMAT: the file cannot hold it; DT_NOMEM. */
dt_status dt_model_read_open(dt_model_read *r, const dt_model_meta *meta,
                             const dt_net_spec *spec) DT_MUST_CHECK;
void dt_model_read_close(dt_model_read *r);

#endif
