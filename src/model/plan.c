/* plan.c - a plan: the network compiled for one batch size and mode. Passes, in order: fork, infer
 * shapes and types, cut (extra/split; then infer again), prepare kernels, lifetimes, placement,
 * fingerprint. */
#include "plan.h"
#include "kernels/kernel.h"

const struct dt_plan_split *dt_plan_split;

dt_cut dt_cut_of(int64_t channels, int part, int parts)
{
    /* An engine's bits depend on the place of a channel in its block. */
    enum { BLOCK = 32 };
    const int64_t unit = channels < (int64_t)BLOCK * parts && !dt_engine_text() ? 1 : BLOCK;
    const int64_t blocks = (channels + unit - 1) / unit;
    const int64_t first = blocks * part / parts * unit;
    const int64_t end = DT_MIN(blocks * (part + 1) / parts * unit, channels);

    return (dt_cut){first, end - first, channels};
}

/* ---- Forks where a value fans out -------------------------------------------------------- */

void dt_plan_insert(dt_plan *p, int at, const dt_node *n)
{
    memmove(&p->node[at + 1], &p->node[at], (size_t)(p->steps - at) * sizeof p->node[0]);
    p->steps++;
    p->node[at] = *n;
}

/* A value with two readers gets a fork right after its producer. A batch norm that adds needs none:
 * it makes a pass over its output's gradient in any case, and adds both there. Afterwards every
 * value has one reader, so backward writes and never adds. */
static dt_status plan_fork(dt_plan *p)
{
    for (int v = 0; v < p->values; v++) {
        int uses = 0, at = -1, *reader[2];
        for (int i = 0; i < p->steps; i++) {
            if (p->node[i].out == v)
                at = i;
            for (int k = 0; k < p->node[i].n_in; k++)
                if (p->node[i].in[k] == v && uses++ < 2)
                    reader[uses - 1] = &p->node[i].in[k];
        }
        if (uses < 2)
            continue;
        if (uses > 2 || p->steps == DT_MAX_NODES || p->values + 2 > DT_MAX_VALUES)
            return dt_fail(DT_BUG, "a value with %d readers in a plan of %d steps", uses, p->steps);
        if (at >= 0 && p->node[at].attr.add) {
            *reader[1] = p->node[at].second = p->values++;
            continue;
        }
        const int first = p->values++, second = p->values++;
        *reader[0] = first;
        *reader[1] = second;
        dt_plan_insert(p, at + 1,
                       &(dt_node){.op = &dt_op_fork,
                                  .in = {v, -1},
                                  .n_in = 1,
                                  .norm = -1,
                                  .out = first,
                                  .second = second,
                                  .stays = {[DT_FORWARD] = true}});
    }
    return DT_OK;
}

/* ---- Other passes ---------------------------------------------------------------------- */

static void plan_copy_nodes(dt_plan *p)
{
    const dt_net *net = p->model->net;
    memcpy(p->node, net->own->node, (size_t)net->own->nodes * sizeof p->node[0]);
    for (int i = 0; i < net->own->nodes; i++)
        p->node[i].cut = p->model->cut[i];
    p->steps = net->own->nodes;
    p->values = net->own->values;
    p->logits = net->own->logits;
}

/* A move or a fork leaves a value as it is; where it stays, its memory, too. */
static void infer_same(dt_plan *p, const dt_node *n)
{
    dt_value *in = &p->value[n->in[0]], *out = &p->value[n->out];

    if (n->out == p->logits)
        in->type = out->type;
    out->type = in->type;
    out->wants_grad = in->wants_grad;
    if (n->stays[DT_FORWARD])
        out->root = in->root;
}

/* Values are in the model's precision, but logits and losses in float32. Shapes are whole. */
static dt_status plan_infer(dt_plan *p)
{
    const int64_t size = p->model->net->spec.image_size;
    const dt_dtype type = p->model->opts.precision;

    for (int v = 0; v < p->values; v++)
        p->value[v] = (dt_value){.type = type,
                                 .producer = -1,
                                 .root = v,
                                 .wants_grad = v != 0,
                                 .block = DT_NO_BLOCK,
                                 .grad_block = DT_NO_BLOCK};
    p->value[0].shape = (dt_shape){p->batch, size, size, 3};
    p->value[p->logits].type = DT_F32;

    for (int i = 0; i < p->steps; i++) {
        const dt_node *n = &p->node[i];
        dt_value *out = &p->value[n->out];
        dt_shape in[DT_MAX_IN] = {{0, 0, 0, 0}};
        for (int k = 0; k < n->n_in; k++)
            in[k] = p->value[n->in[k]].shape;
        DT_TRY(n->op->infer(n, in, &out->shape));
        out->producer = i;
        if (n->op == &dt_op_softmax_xent)
            out->type = DT_F32;
        if (n->op->moves || n->op == &dt_op_fork)
            infer_same(p, n);
        if (n->second)
            p->value[n->second] = *out;
    }
    return DT_OK;
}

/* From shapes alone, before any kernel is opened: libraries fail in ways of their own, or
 * not at all, at sizes that cannot be. What a step reads and writes lives at one time. In
 * double: the batch is the user's, and its product with an image may not fit int64. */
static dt_status plan_check_room(const dt_plan *p)
{
    const double gib = 1024.0 * 1024.0 * 1024.0;
    const double libraries = 64 << 20; /* what they take for themselves and their code */
    const uint64_t available = dt_memory_available();

    for (int i = 0; available > 0 && i < p->steps; i++) {
        const dt_node *n = &p->node[i];
        double bytes = libraries;
        for (int k = -1; k < n->n_in; k++) {
            const dt_value *v = &p->value[k < 0 ? n->out : n->in[k]];
            bytes += (double)v->shape.n * (double)v->shape.h * (double)v->shape.w *
                     (double)v->shape.c * (double)dt_dtype_bytes(v->type);
        }
        if (bytes > (double)available)
            return dt_fail(DT_NOMEM,
                           "%lld images at a time need %.2f GiB and more ('%s'), but %.2f GiB "
                           "are available; lower --batch or --image-size, or take more --shards",
                           (long long)p->batch, bytes / gib, n->name, (double)available / gib);
    }
    return DT_OK;
}

/* The shapes that a step sees, and its own channels. */
static void prepare_shapes(const dt_plan *p, dt_step *s)
{
    const dt_node *n = s->node;
    const bool product = n->op->weights != NULL;
    const int part = n->cut ? p->model->opts.part : 0, parts = n->cut ? p->model->opts.parts : 1;

    s->out_shape = p->value[n->out].shape;
    s->out_cut = dt_cut_of(s->out_shape.c, part, parts);
    if (!product)
        s->out_shape.c = s->out_cut.count;
    for (int k = 0; k < n->n_in; k++) {
        s->in_shape[k] = p->value[n->in[k]].shape;
        s->in_cut = dt_cut_of(s->in_shape[k].c, part, parts);
        if (!product)
            s->in_shape[k].c = s->in_cut.count;
    }
    s->cut = n->cut;
    s->idle = n->cut && s->out_cut.count == 0 && !product;
}

static void plan_steps(dt_plan *p)
{
    for (int i = 0; i < p->steps; i++) {
        const dt_node *n = &p->node[i];
        dt_step *s = &p->step[i];
        *s = (dt_step){.op = n->op,
                       .node = n,
                       .attr = n->attr,
                       .mode = p->mode,
                       .threads = p->model->opts.threads,
                       .saves = n->op->saves,
                       .grad_type = p->model->opts.precision,
                       .pack = {-1, -1},
                       .feeds = {-1, -1, -1},
                       .fed_by = {-1, -1},
                       .label_smoothing = p->model->opts.label_smoothing,
                       .loss_epsilon = p->model->opts.loss_epsilon,
                       .logit_scale = p->model->opts.logit_scale,
                       .out_type = p->value[n->out].type};
        for (int k = 0; k < n->n_in; k++) {
            s->in_type[k] = p->value[n->in[k]].type;
            s->wants_d_in[k] = p->mode == DT_TRAIN && p->value[n->in[k]].wants_grad;
        }
        prepare_shapes(p, s);
    }
}

/* The step that writes the value, or its gradient; -1: none. A move passes it on, and makes *moved
 * true unless it stays where it is. */
static int plan_writer(const dt_plan *p, int value, dt_way way, bool *moved)
{
    for (int i = 0; i < p->steps; i++) {
        const dt_node *n = &p->node[i];
        const bool reads = n->in[0] == value || (n->n_in > 1 && n->in[1] == value);
        if (way == DT_FORWARD ? n->out != value : !reads)
            continue;
        if (!n->op->moves)
            return i;
        *moved |= !n->stays[way];
        return plan_writer(p, way == DT_FORWARD ? n->in[0] : n->out, way, moved);
    }
    return -1;
}

/* A batch norm behind a convolution sums over rows in the order in which that finishes them; and
 * backward, if it adds and so writes the gradient anew, in the order of the data gradient that it
 * reads. Where nothing is moved between them, the convolution calls the sums. */
static void plan_feed(dt_plan *p, int i, dt_way way)
{
    const dt_node *n = &p->node[i];
    const dt_pass pass = way == DT_FORWARD ? DT_PASS_FORWARD : DT_PASS_DATA;
    bool moved = false;

    if (way == DT_BACKWARD && !n->attr.add)
        return;
    const int from = plan_writer(p, way == DT_FORWARD ? n->in[0] : n->out, way, &moved);
    if (from < 0 || p->node[from].op != &dt_op_conv2d)
        return;
    p->step[i].rows[way] = dt_conv2d_rows(&p->step[from], pass);
    if (p->step[i].rows[way].width > 0 && !moved && p->node[from].cut == n->cut) {
        p->step[i].fed_by[way] = from;
        p->step[from].feeds[pass] = i;
    }
}

static dt_status plan_prepare(dt_plan *p)
{
    for (int i = 0; i < p->steps && p->mode == DT_TRAIN; i++)
        for (int way = 0; way < DT_WAYS && p->node[i].op == &dt_op_batchnorm; way++)
            plan_feed(p, i, (dt_way)way);
    for (int i = 0; i < p->steps; i++) {
        dt_step *s = &p->step[i];
        if (s->op->prepare && !s->idle && (s->cut || !p->remote))
            DT_TRY(s->op->prepare(s, p->model));
        p->scratch_bytes = DT_MAX(p->scratch_bytes, s->scratch_bytes);
    }
    return DT_OK;
}

/* The floats that lie before every parameter of the steps that are still to come. */
static void plan_final(dt_plan *p)
{
    size_t final[] = {dt_model_floats(p->model, DT_SLAB_HOME),
                      dt_model_floats(p->model, DT_SLAB_CUT)};

    for (int i = 0; i < p->steps; i++) {
        memcpy(p->final[i], final, sizeof final);
        for (int k = 0; k < p->node[i].n_param; k++) {
            const dt_piece x = dt_model_piece(p->model, (size_t)p->node[i].param[k]);
            final[x.cut] = DT_MIN(final[x.cut], x.offset);
        }
    }
}

/* ---- Lifetimes: forward of step i is time i, its backward 2 * steps - 1 - i --------------- */

static int backward_time(const dt_plan *p, int step)
{
    return 2 * p->steps - 1 - step;
}

static int plan_new_block(dt_plan *p, size_t bytes, int first, int last)
{
    p->block[p->blocks] = (dt_block){.bytes = bytes, .first = first, .last = last};
    return (int)p->blocks++;
}

static void block_extend(dt_plan *p, int block, int time)
{
    if (block == DT_NO_BLOCK)
        return;
    dt_block *b = &p->block[block];
    b->last = DT_MAX(b->last, time);
    b->first = DT_MIN(b->first, time);
}

static size_t value_bytes(const dt_value *v, dt_dtype type)
{
    return (size_t)dt_shape_count(&v->shape) * dt_dtype_bytes(type);
}

/* A value, or its gradient, as this context has it; a remote shard has none that is home. */
static int layout_block(dt_plan *p, int value, dt_way way, int time)
{
    const dt_value *v = &p->value[value];
    const dt_layout as = p->layout[value][way];
    const int64_t c = v->shape.c;
    size_t bytes = value_bytes(v, way == DT_FORWARD ? v->type : p->model->opts.precision);

    if (p->remote && as == DT_HOME)
        return DT_NO_BLOCK;
    if (as == DT_CUT)
        bytes = bytes / (size_t)c *
                (size_t)dt_cut_of(c, p->model->opts.part, p->model->opts.parts).count;
    return plan_new_block(p, bytes, time, time);
}

static void value_extend(dt_plan *p, int value, int time)
{
    block_extend(p, p->value[p->value[value].root].block, time);
}

static void plan_value_lives(dt_plan *p)
{
    const int end = p->mode == DT_TRAIN ? 2 * p->steps - 1 : p->steps - 1;

    for (int v = 0; v < p->values; v++) {
        dt_value *x = &p->value[v];
        if (x->root == v) /* no alias */
            x->block = layout_block(p, v, DT_FORWARD, DT_MAX(x->producer, 0));
    }
    value_extend(p, p->logits, end);
    for (int i = 0; i < p->steps; i++) {
        const dt_node *n = &p->node[i];
        const unsigned saves = p->mode == DT_TRAIN ? p->step[i].saves : 0;
        for (int k = 0; k < n->n_in; k++)
            value_extend(p, n->in[k], i);
        if (saves & DT_SAVE_IN0)
            value_extend(p, n->in[0], backward_time(p, i));
        if (saves & DT_SAVE_OUT)
            value_extend(p, n->out, backward_time(p, i));
        if (n->moves[DT_FORWARD]) { /* under way during the next step */
            value_extend(p, n->in[0], i + 1);
            value_extend(p, n->out, i + 1);
        }
    }
}

/* A gradient is written by its reader's backward and read by its producer's. That of what a batch
 * norm adds is made of its output's, number by number, in the same memory. */
static void plan_grad_lives(dt_plan *p)
{
    for (int i = p->steps; i-- > 0;)
        for (int k = 0; k < p->node[i].n_in; k++) {
            const dt_node *n = &p->node[i];
            const int last = p->value[n->out].grad_block;
            const bool same = n->stays[DT_BACKWARD] || (k == 1 && n->op == &dt_op_batchnorm);
            dt_value *x = &p->value[n->in[k]];
            if (!x->wants_grad)
                continue;
            x->grad_block = same && last != DT_NO_BLOCK
                                ? last
                                : layout_block(p, n->in[k], DT_BACKWARD, backward_time(p, i));
            block_extend(p, x->grad_block, backward_time(p, x->producer));
            if (n->moves[DT_BACKWARD]) { /* under way during the next step */
                block_extend(p, last, backward_time(p, i) + 1);
                block_extend(p, x->grad_block, backward_time(p, i) + 1);
            }
        }
}

/* What a step keeps from forward to backward; the sums of a batch norm, until it has read them. */
static void plan_step_lives(dt_plan *p, int i)
{
    const dt_step *s = &p->step[i];

    p->saved_block[i] = DT_NO_BLOCK;
    if (s->saved_bytes)
        p->saved_block[i] =
            plan_new_block(p, s->saved_bytes, i, p->mode == DT_TRAIN ? backward_time(p, i) : i);
    for (int way = 0; way < DT_WAYS; way++) {
        const int from = s->fed_by[way] >= 0 ? s->fed_by[way] : i;
        const bool back = way == DT_BACKWARD;
        p->sums_block[i][way] = DT_NO_BLOCK;
        if (s->sums_bytes[way])
            p->sums_block[i][way] =
                plan_new_block(p, s->sums_bytes[way], back ? backward_time(p, from) : from,
                               back ? backward_time(p, i) : i);
    }
}

static dt_status plan_memory(dt_plan *p)
{
    const int end = p->mode == DT_TRAIN ? 2 * p->steps - 1 : p->steps - 1;

    DT_TRY(dt_calloc(&p->block, 2 * DT_MAX_VALUES + 3 * DT_MAX_NODES + 1, sizeof *p->block,
                     "memory planning"));
    plan_value_lives(p);
    if (p->mode == DT_TRAIN)
        plan_grad_lives(p);
    for (int i = 0; i < p->steps; i++)
        plan_step_lives(p, i);
    p->labels_block = plan_new_block(p, (size_t)p->batch * sizeof(int32_t), 0, end);
    return dt_arena_place(p->block, p->blocks, &p->arena_bytes);
}

/* ---- Public -------------------------------------------------------------------------------- */

const char *dt_step_title(const dt_step *s)
{
    if (s->attr.relu)
        return s->attr.add ? "batchnorm+add+relu" : "batchnorm+relu";
    return s->op->name;
}

static void plan_fingerprint(dt_plan *p)
{
    dt_hash h;
    char line[256];

    dt_hash_init(&h);
    for (int i = 0; i < p->steps; i++) {
        const dt_step *s = &p->step[i];
        const dt_value *v = &p->value[s->node->out];
        const dt_block *b = dt_plan_own_block(p, s->node->out);
        size_t at[2] = {b ? b->offset : 0, s->saved_bytes};
        if (dt_model_is_cut(p->model)) /* what all ranks have in common */
            at[0] = at[1] = (size_t)s->node->cut;
        const int n =
            snprintf(line, sizeof line, "%s|%s|[%lld, %lld, %lld, %lld] %s|%zu|%zu|%zu\n",
                     dt_step_title(s), s->node->name, (long long)v->shape.n, (long long)v->shape.h,
                     (long long)v->shape.w, (long long)v->shape.c, dt_dtype_name(v->type), at[0],
                     at[1], b ? value_bytes(v, v->type) : 0);
        dt_hash_update(&h, line, n < (int)sizeof line ? (size_t)n : sizeof line - 1);
    }
    p->digest = dt_hash_digest(&h);
}

dt_status dt_plan_create(dt_plan **out, dt_model *m, int64_t batch, dt_mode mode, bool remote)
{
    dt_plan *p = NULL;
    dt_status st = DT_OK;

    DT_TRY(dt_calloc(&p, 1, sizeof *p, "a plan"));
    p->model = m;
    p->batch = batch;
    p->mode = mode;
    p->remote = remote;
    plan_copy_nodes(p);
    DT_GO(st, plan_fork(p), out);
    DT_GO(st, plan_infer(p), out);
    if (dt_model_is_cut(m)) {
        DT_GO(st, dt_plan_split->plan(p), out);
        DT_GO(st, plan_infer(p), out);
    }
    DT_GO(st, plan_check_room(p), out);
    plan_steps(p);
    DT_GO(st, plan_prepare(p), out);
    plan_final(p);
    DT_GO(st, plan_memory(p), out);
    plan_fingerprint(p);
    *out = p;
    p = NULL;

out:
    dt_plan_destroy(p);
    return st;
}

void dt_plan_destroy(dt_plan *p)
{
    if (!p)
        return;
    for (int i = 0; i < p->steps; i++)
        for (int pass = 0; pass < DT_PASS_COUNT; pass++)
            dt_kernel_close(p->step[i].tiles[pass]);
    free(p->block);
    free(p);
}

dt_plan_facts dt_plan_ask(const dt_plan *p)
{
    return (dt_plan_facts){p->batch, p->arena_bytes, p->scratch_bytes, p->digest};
}
