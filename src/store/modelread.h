/* modelread.h - a model file with the network that it is of; private to src/store. All
 * functions are Local. */
#ifndef DT_MODELREAD_H
#define DT_MODELREAD_H
#include "store.h"

typedef struct dt_model_read {
    dt_options o; /* given ones, and what the file says; texts borrowed from meta */
    dt_model_meta meta;
    dt_net *net;      /* owned */
    float *slab;      /* owned: what state points to, and momentum */
    dt_weights state; /* filled by dt_model_load */
    float *momentum;  /* [dt_net_slab_floats], zeros */
} dt_model_read;

/* Build the network that the metadata name; what they leave open is as `given` says, the
 * number of classes as the classifier's shape. r is to be closed whatever the outcome, and
 * must not be moved. Errors as dt_model_describe, dt_net_create; DT_NOMEM. */
dt_status dt_model_read_open(dt_model_read *r, const char *path,
                             const dt_options *given) DT_MUST_CHECK;
void dt_model_read_close(dt_model_read *r);
/* num_batches_tracked of the first batch norm in the file, or the metadata's dtrain.steps where
 * the naming has no such tensor; 0 where there is neither. DT_FORMAT: no number of steps. */
dt_status dt_model_read_steps(const char *path, int64_t *steps) DT_MUST_CHECK;

#endif
