/* model_list.h - what belongs in a model file; private to src/format. All functions are Local. */
#ifndef DT_MODEL_LIST_H
#define DT_MODEL_LIST_H
#include "tensors.h"

typedef struct dt_model_entry {
    char name[128]; /* in the list's naming */
    dt_param param; /* as it lies in memory; also statistics, of rank 1 */
    float *data;    /* borrowed; NULL: num_batches_tracked */
    bool head;      /* of the classifier */
    bool variance;  /* never negative */
    const dt_tensor *file; /* the tensor of a file that matches, borrowed; NULL: it is missing */
} dt_model_entry;

typedef struct dt_model_list {
    dt_model_entry *entry; /* [count], owned */
    dt_tensor *tensor;     /* [count] theirs in a file, owned */
    size_t count;
    int64_t steps; /* to write as num_batches_tracked */
} dt_model_list;

/* A network's tensors in a naming: parameters in the network's order, then each batch norm's
 * statistics, unless s has none. The list is to be released whatever the outcome. DT_CONFIG: the
 * network has no such naming; DT_NOMEM. */
dt_status dt_model_list_create(dt_model_list *list, const dt_weights *s,
                               const char *scheme) DT_MUST_CHECK;
void dt_model_list_release(dt_model_list *list);

/* The network's list in the naming that finds most of its tensors in the file. Words of PyTorch's
 * wrappers ("module", "_orig_mod") are passed over. Where no naming finds any, words that all names
 * begin with ("model.net.") go. Otherwise as dt_model_list_create. */
dt_status dt_model_list_match(dt_model_list *list, const dt_weights *s,
                              dt_safetensors *f) DT_MUST_CHECK;

#endif
