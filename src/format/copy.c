/* copy.c - the tensors of a file as another file: whole, or some rows of each. */
#include "tensors.h"

#include <stdio.h>
#include <stdlib.h>

static dt_status copy_fill(const void *context, size_t i, void *data)
{
    const dt_safetensors *f = context;
    return dt_safetensors_read(f, &f->tensor[i], data);
}

/* Metadata but that of pieces. */
static dt_status copy_metadata(const dt_safetensors *f, dt_field **field, size_t *fields)
{
    const json_t *header = f->parts > 0 ? f->part[0]->header : f->header;
    json_t *all = json_object_get(header, "__metadata__");
    const char *key;
    json_t *value;

    DT_TRY(dt_calloc(field, json_object_size(all) + 1, sizeof **field, "metadata"));
    json_object_foreach (all, key, value)
        if (strncmp(key, "DCP_", 4) != 0 && strcmp(key, "dtrain.portion") != 0)
            (*field)[(*fields)++] = (dt_field){key, json_string_value(value)};
    return DT_OK;
}

dt_status dt_safetensors_copy(const dt_safetensors *f, const dt_target *t, int taker, int takers)
{
    dt_safetensors_content c = {.tensors = f->count, .fill = copy_fill, .context = f};
    char portion[40];
    dt_tensor *tensor = NULL;
    dt_field *field = NULL;
    dt_status st = DT_OK;

    DT_GO(st, dt_calloc(&tensor, f->count + 1, sizeof *tensor, "the list of tensors"), out);
    for (size_t i = 0; i < f->count; i++) {
        tensor[i] = f->tensor[i];
        tensor[i].taker = taker;
        tensor[i].takers = takers;
        if (dt_tensor_type_find(tensor[i].dtype, false)->widen)
            tensor[i].dtype = "F32";
    }
    DT_GO(st, copy_metadata(f, &field, &c.fields), out);
    snprintf(portion, sizeof portion, "%d of %d", taker, takers);
    if (takers > 0)
        field[c.fields++] = (dt_field){"dtrain.portion", portion};
    c.tensor = tensor;
    c.metadata = field;
    st = dt_safetensors_put(t, &c, NULL);

out:
    free(field);
    free(tensor);
    return st;
}
