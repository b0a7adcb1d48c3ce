/* onnx.c - a network as an ONNX model: its layers as nodes, its tensors as initializers.
 *
 * The fields are those of onnx.proto, IR version 7; the operators of opset 13. Images are NCHW.
 * Batch norms stay nodes of their own, so each tensor is one of model.safetensors. */
#include "data/data.h"
#include "formats.h"
#include "model/plan.h"

enum { IR_VERSION = 7, OPSET = 13, FLOAT = 1, NAME_CHARS = 128 };
enum { MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_GRAPH = 7, MODEL_OPSET = 8, MODEL_METADATA = 14 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTRIBUTE = 5 };
enum { ATTR_NAME = 1, ATTR_F = 2, ATTR_I = 3, ATTR_INTS = 8, ATTR_TYPE = 20 };
enum { ATTR_IS_FLOAT = 1, ATTR_IS_INT = 2, ATTR_IS_INTS = 7 };
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9 };

typedef struct graph {
    dt_message at;
    const dt_safetensors_content *content;
    const char *images; /* the value that the first operation reads */
    const char *scores; /* what the last one writes, value `last` */
    int last;
    dt_status st; /* sticky */
} graph;

/* ---- Nodes ----------------------------------------------------------------------- */

static void put_ints(dt_message *node, const char *name, int type, const int *x, int count)
{
    dt_message a = {.at = NULL};

    dt_message_text(&a, ATTR_NAME, name);
    for (int i = 0; i < count; i++)
        dt_message_int(&a, type == ATTR_IS_INT ? ATTR_I : ATTR_INTS, x[i]);
    dt_message_int(&a, ATTR_TYPE, type);
    dt_message_inner(node, NODE_ATTRIBUTE, &a);
}

/* Begin a node of a layer; `first` is the value that it reads first. */
static dt_message node_begin(const char *op, const char *layer, const char *first)
{
    dt_message n = {.at = NULL};
    char name[NAME_CHARS];

    snprintf(name, sizeof name, "%s/%s", layer, op);
    dt_message_text(&n, NODE_NAME, name);
    dt_message_text(&n, NODE_OP, op);
    dt_message_text(&n, NODE_INPUT, first);
    return n;
}

static void node_end(graph *g, dt_message *n, const char *out)
{
    dt_message_text(n, NODE_OUTPUT, out);
    dt_message_inner(&g->at, GRAPH_NODE, n);
}

/* The layer's tensor as the node's next input, in the naming of the file. */
static void node_tensor(graph *g, dt_message *n, const dt_node *l, const char *which)
{
    char name[NAME_CHARS], renamed[NAME_CHARS] = "";

    snprintf(name, sizeof name, "%s.%s", l->name, which);
    if (g->st == DT_OK)
        g->st =
            dt_net_rename(g->content->net, g->content->opts->names, name, renamed, sizeof renamed);
    dt_message_text(n, NODE_INPUT, renamed);
}

static const char *value_name(const graph *g, int value, char out[NAME_CHARS])
{
    const char *known = value == 0 ? g->images : value == g->last ? g->scores : NULL;

    snprintf(out, NAME_CHARS, known ? "%s" : "%s%d", known ? known : "x", value);
    return out;
}

/* An initializer but for its numbers. */
static dt_message tensor_begin(const dt_tensor *t)
{
    dt_message m = {.at = NULL};

    for (int i = 0; i < t->rank; i++)
        dt_message_int(&m, TENSOR_DIMS, t->shape[i]);
    dt_message_int(&m, TENSOR_TYPE, FLOAT);
    dt_message_text(&m, TENSOR_NAME, t->name);
    return m;
}

/* A node of a value and a constant. */
static void put_constant(graph *g, const char *op, const dt_tensor *t, const float *x, size_t count,
                         const char *in, const char *out)
{
    dt_message n = node_begin(op, t->name, in), m = tensor_begin(t);

    dt_message_text(&n, NODE_INPUT, t->name);
    node_end(g, &n, out);
    dt_message_bytes(&m, TENSOR_RAW, x, count * sizeof *x);
    dt_message_inner(&g->at, GRAPH_INITIALIZER, &m);
}

/* ---- Layers: each as one node or a few ----------------------------------------------- */

static void node_weights(graph *g, dt_message *n, const dt_node *l)
{
    node_tensor(g, n, l, "weight");
    if (l->attr.bias)
        node_tensor(g, n, l, "bias");
}

/* One that has the layer's weights, second value and window, where the layer has them. */
static void emit_node(graph *g, const dt_node *l, const char *op, const char *in, const char *out)
{
    dt_message n = node_begin(op, l->name, in);
    char other[NAME_CHARS];

    if (strcmp(op, "Conv") == 0)
        node_weights(g, &n, l);
    if (l->n_in == 2)
        dt_message_text(&n, NODE_INPUT, value_name(g, l->in[1], other));
    if (l->attr.kernel[0] > 0) {
        put_ints(&n, "kernel_shape", ATTR_IS_INTS, l->attr.kernel, 2);
        put_ints(&n, "strides", ATTR_IS_INTS, l->attr.stride, 2);
        put_ints(&n, "pads", ATTR_IS_INTS, l->attr.pad, 4);
    }
    node_end(g, &n, out);
}

/* The norm, the sum with the second value, ReLU: of each what the layer has. */
static void emit_batchnorm(graph *g, const dt_node *l, const char *op, const char *in,
                           const char *out)
{
    static const char *const tensors[] = {"weight", "bias", "running_mean", "running_var"};
    const bool adds = l->n_in == 2;
    dt_message n = node_begin(op, l->name, in), epsilon = {.at = NULL};
    char norm[NAME_CHARS + 8], sum[NAME_CHARS + 8], other[NAME_CHARS];

    snprintf(norm, sizeof norm, "%s.norm", out);
    snprintf(sum, sizeof sum, "%s.sum", out);
    for (size_t i = 0; i < DT_COUNT_OF(tensors); i++)
        node_tensor(g, &n, l, tensors[i]);
    dt_message_text(&epsilon, ATTR_NAME, "epsilon");
    dt_message_float(&epsilon, ATTR_F, l->attr.eps);
    dt_message_int(&epsilon, ATTR_TYPE, ATTR_IS_FLOAT);
    dt_message_inner(&n, NODE_ATTRIBUTE, &epsilon);
    node_end(g, &n, adds || l->attr.relu ? norm : out);
    if (adds) {
        n = node_begin("Add", l->name, norm);
        dt_message_text(&n, NODE_INPUT, value_name(g, l->in[1], other));
        node_end(g, &n, l->attr.relu ? sum : out);
    }
    if (l->attr.relu) {
        n = node_begin("Relu", l->name, adds ? sum : norm);
        node_end(g, &n, out);
    }
}

static void emit_linear(graph *g, const dt_node *l, const char *op, const char *in, const char *out)
{
    static const int transposed = 1;
    dt_message n = node_begin("Flatten", l->name, in);
    char flat[NAME_CHARS + 8];

    snprintf(flat, sizeof flat, "%s.flat", out);
    node_end(g, &n, flat);
    n = node_begin(op, l->name, flat);
    node_weights(g, &n, l);
    put_ints(&n, "transB", ATTR_IS_INT, &transposed, 1);
    node_end(g, &n, out);
}

/* x (0.5 + 0.5 erf(x sqrt(0.5))) */
static void emit_gelu(graph *g, const dt_node *l, const char *op, const char *in, const char *out)
{
    static const struct {
        const char *op;
        float x; /* 0: no constant */
    } parts[] = {{"Mul", 0.70710678f}, {"Erf", 0}, {"Mul", 0.5f}, {"Add", 0.5f}};
    char from[NAME_CHARS], to[NAME_CHARS], name[NAME_CHARS];

    snprintf(from, sizeof from, "%s", in);
    for (size_t i = 0; i < DT_COUNT_OF(parts); i++) {
        snprintf(to, sizeof to, "%.40s.part%zu", out, i);
        snprintf(name, sizeof name, "%s.%zu", l->name, i);
        dt_message n = {.at = NULL};
        if (parts[i].x > 0)
            put_constant(g, parts[i].op, &(dt_tensor){.name = name}, &parts[i].x, 1, from, to);
        else
            n = node_begin(op, l->name, from), node_end(g, &n, to);
        memcpy(from, to, sizeof from);
    }
    dt_message n = node_begin("Mul", l->name, in);
    dt_message_text(&n, NODE_INPUT, from);
    node_end(g, &n, out);
}

static const struct {
    const char *op, *onnx;
    void (*emit)(graph *g, const dt_node *l, const char *op, const char *in, const char *out);
} forms[] = {{"conv2d", "Conv", emit_node},
             {"maxpool", "MaxPool", emit_node},
             {"globalavgpool", "GlobalAveragePool", emit_node},
             {"add", "Add", emit_node},
             {"relu", "Relu", emit_node},
             {"gelu", "Erf", emit_gelu},
             {"batchnorm", "BatchNormalization", emit_batchnorm},
             {"linear", "Gemm", emit_linear}};

static dt_status put_layer(graph *g, const dt_node *l)
{
    char in[NAME_CHARS], out[NAME_CHARS];

    for (size_t i = 0; i < DT_COUNT_OF(forms); i++)
        if (strcmp(forms[i].op, l->op->name) == 0) {
            forms[i].emit(g, l, forms[i].onnx, value_name(g, l->in[0], in),
                          value_name(g, l->out, out));
            return g->st;
        }
    return dt_fail(DT_UNSUPPORTED, "layer '%s': %s is not written as ONNX; use --to safetensors",
                   l->name, l->op->name);
}

/* ---- The graph ----------------------------------------------------------------------- */

/* An input or output of float32; its first dimension is free. */
static void put_value(graph *g, unsigned field, const char *name, const int64_t *dim, int rank)
{
    enum { VALUE_NAME = 1, VALUE_TYPE, TYPE_TENSOR = 1, TYPE_ELEMENT = 1, TYPE_SHAPE, DIM = 1 };
    enum { DIM_VALUE = 1, DIM_PARAM };
    dt_message shape = {.at = NULL}, tensor = shape, type = shape, value = shape, free = shape;

    dt_message_text(&free, DIM_PARAM, "batch");
    dt_message_inner(&shape, DIM, &free);
    for (int i = 0; i < rank; i++) {
        dt_message d = {.at = NULL};
        dt_message_int(&d, DIM_VALUE, dim[i]);
        dt_message_inner(&shape, DIM, &d);
    }
    dt_message_int(&tensor, TYPE_ELEMENT, FLOAT);
    dt_message_inner(&tensor, TYPE_SHAPE, &shape);
    dt_message_inner(&type, TYPE_TENSOR, &tensor);
    dt_message_text(&value, VALUE_NAME, name);
    dt_message_inner(&value, VALUE_TYPE, &type);
    dt_message_inner(&g->at, field, &value);
}

static dt_status put_graph(graph *g)
{
    const dt_net *net = g->content->net;
    const dt_net_spec *spec = &net->spec;
    const dt_model_file_opts *o = g->content->opts;
    const dt_tensor mean = {.name = "mean", .rank = 4, .shape = {1, 3, 1, 1}};
    const dt_tensor std = {.name = "std", .rank = 4, .shape = {1, 3, 1, 1}};
    const int64_t image[] = {3, spec->image_size, spec->image_size}, classes = spec->classes;
    const float scale = (float)o->logit_scale;
    const bool scales = scale > 0 && scale != 1;
    float x[2][3];

    g->last = net->own->logits;
    g->scores = scales ? "scores" : "logits";
    dt_message_text(&g->at, GRAPH_NAME, spec->net);
    put_value(g, GRAPH_INPUT, "image", image, 3);
    put_value(g, GRAPH_OUTPUT, "logits", &classes, 1);
    /* (image - mean) / std for each channel, unless the input is normalised already. */
    if (strcmp(o->format, "onnx") == 0 && dt_normalize_find(o->normalize, x[0], x[1])) {
        put_constant(g, "Sub", &mean, x[0], 3, "image", "image.centred");
        put_constant(g, "Div", &std, x[1], 3, "image.centred", "image.normalised");
        g->images = "image.normalised";
    }
    for (size_t i = 0; i < net->ops; i++)
        DT_TRY(put_layer(g, &net->own->node[i]));
    if (scales)
        put_constant(g, "Mul", &(dt_tensor){.name = "logit_scale"}, &scale, 1, "scores", "logits");
    for (size_t i = 0; i < g->content->tensors; i++) {
        dt_message m = tensor_begin(&g->content->tensor[i]);
        if (dt_tensor_put(&m, TENSOR_RAW, g->content, i))
            dt_message_inner(&g->at, GRAPH_INITIALIZER, &m);
        dt_message_release(&m);
    }
    return DT_OK;
}

/* ---- The file ------------------------------------------------------------------------ */

dt_status dt_onnx_put(const dt_target *t, const dt_safetensors_content *c, dt_written *w)
{
    enum { OPSET_VERSION = 2, ENTRY_KEY = 1, ENTRY_VALUE };
    graph g = {.content = c, .images = "image"};
    dt_message m = {.at = NULL}, opset = m;
    const dt_status st = put_graph(&g);

    dt_message_int(&m, MODEL_IR, IR_VERSION);
    dt_message_text(&m, MODEL_PRODUCER, "dtrain");
    dt_message_int(&opset, OPSET_VERSION, OPSET);
    dt_message_inner(&m, MODEL_OPSET, &opset);
    for (size_t i = 0; i < c->fields; i++) {
        dt_message entry = {.at = NULL};
        if (!c->metadata[i].value || strncmp(c->metadata[i].name, "dtrain.", 7) != 0)
            continue;
        dt_message_text(&entry, ENTRY_KEY, c->metadata[i].name);
        dt_message_text(&entry, ENTRY_VALUE, c->metadata[i].value);
        dt_message_inner(&m, MODEL_METADATA, &entry);
    }
    dt_message_inner(&m, MODEL_GRAPH, &g.at);
    if (st == DT_OK)
        return dt_message_put(&m, t, w);
    dt_message_release(&m);
    return st;
}
