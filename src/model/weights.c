/* weights.c - a model and its numbers: initial values, running statistics, hash. */
#include "plan.h"

dt_status dt_model_create(dt_model **m, const dt_net *net, const dt_model_opts *opts)
{
    DT_TRY(dt_calloc(m, 1, sizeof **m, "the model"));
    (*m)->net = net;
    (*m)->opts = *opts;
    for (size_t i = 0; i < net->params; i++)
        (*m)->piece[i] = (dt_piece){.offset = net->param[i].offset, .count = net->param[i].count};
    (*m)->floats[DT_SLAB_HOME] = net->slab_floats;
    return dt_plan_split ? dt_plan_split->model(*m) : DT_OK;
}

void dt_model_destroy(dt_model *m)
{
    free(m);
}

const dt_net *dt_model_net(const dt_model *m)
{
    return m->net;
}

dt_piece dt_model_piece(const dt_model *m, size_t param)
{
    return m->piece[param];
}

size_t dt_model_floats(const dt_model *m, dt_slab_kind kind)
{
    return m->floats[kind];
}

void dt_model_bind(dt_model *m, const dt_weights *weights, void *packed)
{
    m->weights = *weights;
    m->packed = packed;
}

void dt_model_bind_cut(dt_model *m, float *master, float *by_input, void *packed)
{
    m->cut_master = master;
    m->by_input = by_input;
    m->cut_packed = packed;
}

/* ---- Numbers ------------------------------------------------------------------------------ */

/* Output channel by output channel. */
void dt_model_place(dt_model *m, size_t param, const float *file)
{
    const dt_piece x = dt_model_piece(m, param);
    dt_param own = m->net->param[param];

    if (!x.cut) {
        dt_param_from_file(&own, file, m->weights.master + x.offset);
        return;
    }
    file += own.count / (size_t)own.dim[0] * (size_t)x.out.first;
    own.dim[0] = x.out.count;
    own.count = x.count;
    dt_param_from_file(&own, file, m->cut_master + x.offset);
}

/* 1 in the middle of one input, 0 elsewhere (torch.nn.init.dirac_). */
static void init_dirac(const dt_param *p, float *file)
{
    const size_t outs = (size_t)p->dim[0], ins = (size_t)p->dim[1], pixels = (size_t)p->pixels;
    const size_t middle = (size_t)(p->dim[2] / 2 * p->dim[3] + p->dim[3] / 2);

    for (size_t i = 0; i < DT_MIN(outs, ins); i++) {
        memset(file + i * ins * pixels, 0, ins * pixels * sizeof *file);
        file[(i * ins + i) * pixels + middle] = 1;
    }
}

dt_status dt_model_init(dt_model *m, uint32_t seed)
{
    const dt_net *net = m->net;
    float *file = NULL;

    DT_TRY(dt_calloc(&file, net->largest, sizeof *file, "initial weights"));
    for (size_t i = 0; i < net->params; i++) {
        const dt_param *p = &net->param[i];
        const dt_init *init = &net->own->init[i];
        if (init->normal)
            dt_fill_normal(file, p->count, (double)init->low, seed, DT_STREAM_INIT, (uint32_t)i);
        else
            dt_fill_uniform(file, p->count, init->low, init->high, seed, DT_STREAM_INIT,
                            (uint32_t)i);
        if (init->dirac)
            init_dirac(p, file);
        dt_model_place(m, i, file);
    }
    free(file);
    for (size_t c = 0; c < net->norm_channels; c++) {
        m->weights.running_mean[c] = 0;
        m->weights.running_var[c] = 1;
    }
    dt_model_pack(m, 0, 1);
    return DT_OK;
}

void dt_model_update_running(dt_model *m, const dt_moment *moments)
{
    const dt_net *net = m->net;

    for (size_t i = 0; i < net->norms; i++) {
        const dt_norm *n = &net->norm[i];
        const double take = (double)n->momentum, keep = 1 - take;
        for (size_t c = n->offset; c < n->offset + n->channels; c++) {
            const dt_moment b = moments[c];
            const double var = b.count > 1 ? b.m2 / (b.count - 1) : b.m2;
            m->weights.running_mean[c] =
                (float)(keep * (double)m->weights.running_mean[c] + take * b.mean);
            m->weights.running_var[c] =
                (float)(keep * (double)m->weights.running_var[c] + take * var);
        }
    }
}

/* Memory order is HWIO, of linear layers, too. */
const char *dt_param_element(const dt_param *p, size_t i, char out[DT_ELEMENT_CHARS])
{
    const size_t o = (size_t)p->dim[0], in = (size_t)p->dim[1], w = (size_t)p->dim[3],
                 pixels = (size_t)p->pixels;

    if (p->rank == 4)
        snprintf(out, DT_ELEMENT_CHARS, "%s[%zu][%zu][%zu][%zu]", p->name, i % o, i / o % in,
                 i / (o * in) / w, i / (o * in) % w);
    else if (p->rank == 2)
        snprintf(out, DT_ELEMENT_CHARS, "%s[%zu][%zu]", p->name, i % o,
                 i / o % (in / pixels) * pixels + i / (o * (in / pixels)));
    else
        snprintf(out, DT_ELEMENT_CHARS, "%s[%zu]", p->name, i);
    return out;
}

const char *dt_norm_element(const dt_norm *n, size_t i, char out[DT_ELEMENT_CHARS])
{
    snprintf(out, DT_ELEMENT_CHARS, "%s[%zu]", n->name, i);
    return out;
}

dt_status dt_hash_slab(dt_hash *h, const dt_net *net, const float *slab)
{
    float *file = NULL;

    DT_TRY(dt_calloc(&file, net->largest, sizeof *file, "the weights hash"));
    for (size_t i = 0; i < net->params; i++) {
        const dt_param *p = &net->param[i];
        dt_param_to_file(p, slab + p->offset, file);
        dt_hash_update(h, file, p->count * sizeof *file);
    }
    free(file);
    return DT_OK;
}
