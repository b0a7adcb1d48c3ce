/* net.c - networks as data: the builder, the parameter table in both orders, and names. */
#include "net.h"

#include <stdarg.h>

static const dt_net_row *const net_table[] = {
#define X(name) &dt_net_row_##name,
    DT_NET_LIST(X)
#undef X
};

/* ---- Shapes that operations have in common ------------------------------------------- */

dt_status dt_infer_same(const dt_node *n, const dt_shape *in, dt_shape *out)
{
    if (n->n_in == 2 && memcmp(&in[0], &in[1], sizeof in[0]) != 0)
        return dt_fail(DT_SHAPE, "%s '%s': [%lld, %lld, %lld, %lld] and another shape", n->op->name,
                       n->name, (long long)in[1].n, (long long)in[1].h, (long long)in[1].w,
                       (long long)in[1].c);
    *out = in[0];
    return DT_OK;
}

dt_status dt_infer_window(const dt_node *n, const dt_shape *in, int64_t channels, dt_shape *out)
{
    const dt_attr *a = &n->attr;
    const int64_t size[2] = {in->h, in->w};
    int64_t to[2];

    for (int d = 0; d < 2; d++) {
        const int64_t room = size[d] + a->pad[d] + a->pad[d + 2] - a->kernel[d];
        if (room < 0)
            return dt_fail(DT_SHAPE,
                           "%s '%s': a %dx%d kernel does not fit into %lldx%lld pixels with "
                           "padding %d %d %d %d; take a larger --image-size",
                           n->op->name, n->name, a->kernel[0], a->kernel[1], (long long)in->h,
                           (long long)in->w, a->pad[0], a->pad[1], a->pad[2], a->pad[3]);
        to[d] = room / a->stride[d] + 1; /* an incomplete last window is left out */
    }
    *out = (dt_shape){in->n, to[0], to[1], channels};
    return DT_OK;
}

/* ---- Builder ------------------------------------------------------------------------ */

void dt_declare_param(dt_net *net, dt_node *n, const char *suffix, dt_param_kind kind, int rank,
                      const int64_t *dim, dt_init init)
{
    dt_param *p = &net->param[net->params];

    *p = (dt_param){.kind = kind, .rank = rank, .count = 1, .pixels = 1};
    snprintf(p->name, sizeof p->name, "%s.%s", n->name, suffix);
    for (int i = 0; i < rank; i++) {
        p->dim[i] = dim[i];
        p->count *= (size_t)dim[i];
        p->pixels *= i < 2 ? 1 : dim[i];
    }
    p->frozen = n->attr.frozen && n->n_param == 0;
    p->epochs = kind == DT_BIAS ? n->attr.bias_epochs : 0;
    net->own->init[net->params] = init;
    net->weight_total += p->count;
    net->largest = DT_MAX(net->largest, p->count);
    n->param[n->n_param++] = (int)net->params++;
}

void dt_declare_norm(dt_net *net, dt_node *n, int64_t channels)
{
    dt_norm *norm = &net->norm[net->norms];

    *norm = (dt_norm){
        .channels = (size_t)channels, .offset = net->norm_channels, .momentum = n->attr.momentum};
    snprintf(norm->name, sizeof norm->name, "%s", n->name);
    net->norm_channels += (size_t)channels;
    n->norm = (int)net->norms++;
}

static dt_status net_append(dt_net *net, dt_node *n)
{
    dt_shape in[DT_MAX_IN] = {{0, 0, 0, 0}};

    for (int i = 0; i < n->n_in; i++)
        in[i] = net->own->shape[n->in[i]];
    DT_TRY(n->op->infer(n, in, &net->own->shape[net->own->values]));
    if (n->op->declare)
        n->op->declare(net, n, in);
    n->out = net->own->values++;
    return DT_OK;
}

int dt_net_add(dt_net *net, const dt_op *op, dt_attr attr, int in0, int in1, const char *name, ...)
{
    if (net->own->status != DT_OK)
        return 0;
    if (net->own->nodes == DT_MAX_NODES) {
        net->own->status = dt_fail(DT_BUG, "more than %d nodes", DT_MAX_NODES);
        return 0;
    }
    dt_node *n = &net->own->node[net->own->nodes++];
    *n = (dt_node){.op = op, .attr = attr, .in = {in0, in1}, .norm = -1, .n_in = in1 < 0 ? 1 : 2};
    va_list args;
    va_start(args, name);
    vsnprintf(n->name, sizeof n->name, name, args);
    va_end(args);
    net->own->status = net_append(net, n);
    return n->out;
}

void dt_net_join(dt_net *net, int value, int other)
{
    dt_node *last = &net->own->node[net->own->nodes - 1];

    for (dt_node *n = net->own->node; net->own->status == DT_OK && n <= last; n++)
        if (n->out == value) {
            dt_node norm = *n;
            norm.attr.add = true;
            norm.in[1] = other;
            norm.n_in = 2;
            memmove(n, n + 1, (size_t)(last - n) * sizeof *n);
            *last = norm;
            return;
        }
}

int64_t dt_net_width(const dt_net *net, int64_t channels)
{
    const int64_t w = channels / net->spec.width_divisor;
    return w < 1 ? 1 : w;
}

dt_attr dt_net_affine(const dt_net *net, int x, int64_t out, int k, bool bias)
{
    const dt_shape *s = &net->own->shape[x];
    const int64_t pixels = k > 0 ? k * k : s->h * s->w;
    const float bound = (float)(1.0 / sqrt((double)(pixels * s->c)));
    const int pad = (k - 1) / 2;

    return (dt_attr){.out = out,
                     .kernel = {k, k},
                     .stride = {1, 1},
                     .pad = {pad, pad, pad, pad},
                     .bias = bias,
                     .init_weight = {-bound, bound},
                     .init_bias = {-bound, bound}};
}

int dt_net_pool_linear(dt_net *net, int x)
{
    const int side = (int)net->own->shape[x].h;
    x = dt_net_add(net, &dt_op_maxpool, (dt_attr){.kernel = {side, side}, .stride = {side, side}},
                   x, -1, "pool");
    return dt_net_add(net, &dt_op_linear, dt_net_affine(net, x, net->spec.classes, 0, false), x, -1,
                      "linear");
}

/* ---- Creation ------------------------------------------------------------------------- */

/* Backward order: the last parameters first. */
static void net_assign_offsets(dt_net *net)
{
    for (size_t i = net->params; i-- > 0;) {
        net->param[i].offset = net->slab_floats;
        net->slab_floats += dt_align(net->param[i].count, 16);
    }
}

static const dt_net_row *net_find(const char *name)
{
    for (size_t i = 0; i < DT_COUNT_OF(net_table); i++)
        if (strcmp(net_table[i]->name, name) == 0)
            return net_table[i];
    return NULL;
}

static dt_status net_resolve(const dt_net_row *row, dt_net_spec *spec)
{
    spec->net = row->name;
    if (row->resolve)
        DT_TRY(row->resolve(spec));
    else
        spec->variant = spec->stem = "";
    spec->image_size = spec->image_size ? spec->image_size : row->size;
    if (spec->image_size < row->least)
        return dt_fail(DT_CONFIG, "%s%s: image size %d, want at least %d", row->name, row->why,
                       spec->image_size, row->least);
    if (row->most && spec->image_size > row->most)
        return dt_fail(DT_CONFIG, "%s: image size %d, want at most %d", row->name, spec->image_size,
                       row->most);
    return DT_OK;
}

dt_status dt_net_create(dt_net **out, const dt_net_spec *spec)
{
    struct {
        dt_net net;
        struct dt_net_own own;
    } *all = NULL;
    const dt_net_row *row = net_find(spec->net);

    if (!row)
        return dt_fail(DT_CONFIG, "unknown network '%s'; there are:%s", spec->net,
                       DT_NET_LIST(DT_WORD));
    if (spec->classes < 2 || spec->width_divisor < 1)
        return dt_fail(DT_CONFIG, "%d classes and width divisor %d: want >= 2 and >= 1",
                       spec->classes, spec->width_divisor);
    DT_TRY(dt_calloc(&all, 1, sizeof *all, "the network"));
    dt_net *net = *out = &all->net;
    net->own = &all->own;
    net->own->row = row;
    net->schemes = row->schemes;
    net->param = all->own.param;
    net->norm = all->own.norm;
    net->spec = *spec;
    DT_TRY(net_resolve(row, &net->spec));

    const int64_t size = net->spec.image_size;
    net->own->shape[0] = (dt_shape){1, size, size, 3};
    net->own->values = 1;
    net->own->logits = row->build(net, 0);
    dt_net_add(net, &dt_op_softmax_xent, (dt_attr){0}, net->own->logits, -1, "loss");
    DT_TRY(net->own->status);
    net_assign_offsets(net);
    net->ops = (size_t)net->own->nodes - 1; /* all but the last, the loss */
    return DT_OK;
}

void dt_net_destroy(dt_net *net)
{
    free(net);
}

/* ---- Access ---------------------------------------------------------------------------- */

bool dt_net_is_head(const dt_net *net, size_t i)
{
    const dt_node *head = &net->own->node[net->ops - 1];

    return i + (size_t)head->n_param >= net->params;
}

dt_status dt_net_rename(const dt_net *net, const char *scheme, const char *name, char *out,
                        size_t out_size)
{
    if (!dt_words_have(net->schemes, scheme))
        return dt_fail(DT_CONFIG, "network %s has no names of '%s'; choose from:%s",
                       net->own->row->name, scheme, net->schemes);
    snprintf(out, out_size, "%s", name);
    for (const dt_rename *r = net->own->row->rename; r && r->scheme; r++) {
        char *at = strcmp(r->scheme, scheme) == 0 ? strstr(out, r->from) : NULL;
        char rest[128];
        if (at && !r->to) {
            out[0] = '\0';
        } else if (at) {
            snprintf(rest, sizeof rest, "%s", at + strlen(r->from));
            snprintf(at, out_size - (size_t)(at - out), "%s%s", r->to, rest);
        }
    }
    return DT_OK;
}

/* ---- Orders: files hold OIHW, the slab [kh][kw][ci][co] ---------------------------------- */

/* One line of the cache holds LINE output channels of one weight; going through the slab a
 * line at a time reads each of them once. */
enum { LINE = 16 };

static inline void param_move(const dt_param *p, const float *from, float *to, bool to_file,
                              size_t first, size_t end)
{
    const size_t outs = (size_t)p->dim[0], pixels = (size_t)p->pixels;
    const size_t ins = p->count / pixels / DT_MAX(outs, 1); /* a piece may be empty */

    for (size_t line = first; line < end; line += LINE)
        for (size_t i = 0; i < ins; i++)
            for (size_t k = 0; k < pixels; k++)
                for (size_t o = line; o < DT_MIN(line + LINE, end); o++) {
                    const size_t file = (o * ins + i) * pixels + k, slab = (k * ins + i) * outs + o;
                    to[to_file ? file : slab] = from[to_file ? slab : file];
                }
}

void dt_param_to_file(const dt_param *p, const float *slab, float *file)
{
    dt_param_rows_to_file(p, slab, file, 0, (size_t)p->dim[0]);
}

void dt_param_rows_to_file(const dt_param *p, const float *slab, float *file, size_t first,
                           size_t end)
{
    param_move(p, slab, file, true, first, end);
}

void dt_param_from_file(const dt_param *p, const float *file, float *slab)
{
    param_move(p, file, slab, false, 0, (size_t)p->dim[0]);
}
