/* extra.c - the commands and formats of extra/convert. */
#include "convert.h"
#include "formats.h"

#include <stdlib.h>

bool dt_tensor_put(dt_message *m, unsigned field, const dt_safetensors_content *c, size_t i)
{
    const dt_tensor *t = &c->tensor[i];
    const dt_tensor_type *type = dt_tensor_type_find("F32", false);
    uint64_t bytes = 0;

    if (strcmp(t->dtype, type->name) != 0 || !dt_tensor_bytes(type, t->rank, t->shape, &bytes))
        return false;
    float *data = malloc(bytes); /* in a message it may begin anywhere; fill wants floats */
    m->failed = m->failed || !data || c->fill(c->context, i, data) != DT_OK;
    dt_message_bytes(m, field, data, data ? bytes : 0);
    free(data);
    return true;
}

static const dt_format formats[] = {
    {.name = "onnx", .put = dt_onnx_put},
    {.name = "onnx-raw", .put = dt_onnx_put},
    {.name = "ckpt", .end = ".ckpt", .put = dt_ckpt_put, .read = dt_ckpt_read},
};

/* The mean of one model is that model: convert is average. */
/* clang-format off */
static const dt_command commands[] = {
    {.name = "average", .help = "A B... --out FILE: mean of the weights of models or checkpoints",
     .lead = dt_average, .operands = "A B... --out FILE", .options = " out names", .least = 1,
     .most = INT_MAX},
    {.name = "convert", .help = "A --out FILE: a model in another naming or format (.onnx, .ckpt)",
     .lead = dt_average, .operands = "A --out FILE [--names SCHEME] [--to FORMAT]",
     .options = " out names", .least = 1, .most = 1},
    {.name = "merge", .help = "CHECKPOINT|FILE... --out FILE: what --save-shards wrote as one file",
     .lead = dt_merge, .operands = "CHECKPOINT|FILE... --out FILE | --shards N --out DIR",
     .options = " out names shards", .least = 1, .most = INT_MAX},
};
/* clang-format on */

void dt_extra_convert(void)
{
    dt_formats_add(formats, DT_COUNT_OF(formats));
    dt_commands_add(commands, DT_COUNT_OF(commands));
}
