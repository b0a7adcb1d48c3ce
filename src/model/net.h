/* net.h - a network's definition: nodes and value ids; private to src/model and to extras.
 *
 * How to be a network: write one file net_<name>.c that defines dt_net_row_<name>, and add
 * one row to DT_NET_LIST (model.h). The builder functions return value ids and keep the
 * first error, so a definition reads as a list of layers and checks once, at its end. */
#ifndef DT_NET_H
#define DT_NET_H
#include "op.h"

enum { DT_MAX_NODES = 320, DT_MAX_PARAMS = DT_MAX_PARAM * DT_MAX_NODES };

/* In `scheme`, the first `from` in a name becomes `to`; NULL: the scheme has no such tensor. Rows
 * apply in order, each to the result of the last. */
typedef struct dt_rename {
    const char *scheme, *from, *to;
} dt_rename;

typedef struct dt_net_row {
    const char *name;
    const char *schemes;     /* namings of files, " " before each */
    const dt_rename *rename; /* optional; ends with {NULL} */
    int size, least, most;   /* sides of images: where none is given; allowed, most 0: all */
    const char *why;         /* of `least`, behind the name: " halves the image three times" */
    /* Optional: check the spec's names, and make them static. Without it they mean nothing. */
    dt_status (*resolve)(dt_net_spec *spec);
    /* From the images' value to the logits' value. */
    int (*build)(dt_net *net, int images);
} dt_net_row;
#define X(name) extern const dt_net_row dt_net_row_##name;
DT_NET_LIST(X)
#undef X

struct dt_net_own {
    const dt_net_row *row; /* spec's strings are those of the rows: static */
    dt_node node[DT_MAX_NODES];
    int nodes;
    dt_shape shape[DT_MAX_NODES + 1]; /* of each value, for a batch of 1 */
    int values;
    int logits;                    /* value id */
    dt_param param[DT_MAX_PARAMS]; /* state_dict order */
    dt_init init[DT_MAX_PARAMS];   /* of param */
    dt_norm norm[DT_MAX_NODES];    /* state_dict order */
    dt_status status;              /* sticky */
};

/* Append a node; in1 is -1 when absent. The name is a printf format. */
int dt_net_add(dt_net *net, const dt_op *op, dt_attr attr, int in0, int in1, const char *name, ...)
    DT_PRINTF(6, 7);
/* The batch norm that makes `value` adds `other` before its ReLU, and becomes the last node. */
void dt_net_join(dt_net *net, int value, int other);
int64_t dt_net_width(const dt_net *net, int64_t channels); /* after width_divisor */
/* A convolution of k x k pixels, padded to the image's size where k is odd, or a linear layer (k 0)
 * that reads value x. Weight and bias begin as in PyTorch: U(+-1/sqrt(fan in)). */
dt_attr dt_net_affine(const dt_net *net, int x, int64_t out, int k, bool bias);
/* A max pool of the whole image, then "linear" without bias. Returns the logits. */
int dt_net_pool_linear(dt_net *net, int x);

#endif
