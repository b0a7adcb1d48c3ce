/* pieces.h - models and checkpoints in several files, each with a portion of the numbers.
 *
 * --save-shards: every rank writes the portion that it has in memory, and the files are joined when
 * they are read. They are those of PyTorch's torch.distributed.checkpoint: DCP_SHARDING_INFO of
 * their metadata says where pieces begin. */
#ifndef DT_PIECES_H
#define DT_PIECES_H
#include "store/store.h"

/* One file of the tensors whose pieces are in several; a file without DCP_SHARDING_INFO has whole
 * tensors. DT_FORMAT names file, tensor and element: pieces that overlap, differ in type or
 * dimensions, or are missing. `path` is for messages. Otherwise as dt_safetensors_open. Local. */
dt_status dt_pieces_join(dt_safetensors **f, const char *path, const dt_file_bytes *file,
                         size_t files) DT_MUST_CHECK;
/* The same of the portions in a folder; *f stays as it is if there are none. Local. */
dt_status dt_pieces_open(dt_safetensors **f, const char *folder) DT_MUST_CHECK;

/* Write the file of c->opts->portion: some rows of each tensor of c, and dtrain.portion "1 of 4".
 * The tensors are float32. Integers, which PyTorch cannot read in pieces, are left out, and what
 * has no row. DT_NUMERIC: a number of a model is not finite. Otherwise as dt_safetensors_put.
 * Local. */
typedef struct dt_portion {
    int rank, world;         /* of so many, which write one each; every number is in one of them */
    const dt_model *model;   /* NULL: all ranks have all of c */
    int parts;               /* neighbouring ranks among which the model's cut parameters are cut */
    const float *home, *cut; /* the rank's slabs: whole parameters, and its parts of cut ones */
} dt_portion;
dt_status dt_portion_put(const dt_target *t, const struct dt_safetensors_content *c,
                         dt_written *w) DT_MUST_CHECK;

void dt_extra_pieces(void);

#endif
