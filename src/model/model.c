/* A model: a network with its slabs, and the packed copies its kernels compute with. */
#include "plan.h"

#include <stdio.h>
#include <stdlib.h>

dt_status dt_model_create(dt_model **out, const dt_net *net, const dt_model_opts *opts)
{
    dt_model *m = NULL;

    DT_TRY(dt_calloc(&m, 1, sizeof *m, "the model"));
    m->net = net;
    m->opts = *opts;
    *out = m;
    return DT_OK;
}

void dt_model_destroy(dt_model *m)
{
    free(m);
}

const dt_net *dt_model_net(const dt_model *m)
{
    return m->net;
}

size_t dt_model_packed_bytes(const dt_model *m)
{
    return m->packed_bytes;
}

void dt_model_bind(dt_model *m, const dt_model_slabs *slabs)
{
    m->slabs = *slabs;
}

/* ---- Packed copies ----------------------------------------------------------------------- */

const char *dt_env_kernels(const dt_env *env)
{
    return env->model->opts.kernels;
}

dt_status dt_env_pack(dt_env *env, const dt_step *s, int param, const char *layout,
                      size_t bytes, dt_pack_func pack, const void *context, int *id_out)
{
    dt_model *m = env->model;
    const int index = s->node->param[param];

    for (int i = 0; i < m->packs; i++)
        if (m->pack[i].param == index && strcmp(m->pack[i].layout, layout) == 0) {
            *id_out = i;
            return DT_OK;
        }
    if (m->packs == DT_MAX_PACKS)
        return dt_fail(DT_BUG, "more than %d packed copies", DT_MAX_PACKS);
    dt_pack *p = &m->pack[m->packs];
    *p = (dt_pack){.param = index, .bytes = bytes, .offset = m->packed_bytes,
                   .pack = pack, .context = context};
    snprintf(p->layout, sizeof p->layout, "%s", layout);
    m->packed_bytes += dt_align(bytes, 64);
    *id_out = m->packs++;
    return DT_OK;
}

static void model_pack_one(const dt_model *m, const dt_pack *p)
{
    char *packed = m->slabs.packed;

    p->pack(p->context, m->slabs.master + m->net->param[p->param].offset, packed + p->offset);
}

void dt_model_pack(dt_model *m, size_t first, size_t count)
{
#pragma omp parallel for num_threads(m->opts.threads) schedule(dynamic)
    for (int i = 0; i < m->packs; i++) {
        const dt_param *w = &m->net->param[m->pack[i].param];
        if (w->offset < first + count && first < w->offset + w->count)
            model_pack_one(m, &m->pack[i]);
    }
}

int dt_pack_part(const dt_model *m, const dt_pack *p, int parts)
{
    return (int)((p->offset + p->bytes / 2) * (size_t)parts / m->packed_bytes);
}

void dt_model_pack_part(dt_model *m, int part, int parts)
{
#pragma omp parallel for num_threads(m->opts.threads) schedule(dynamic)
    for (int i = 0; i < m->packs; i++)
        if (dt_pack_part(m, &m->pack[i], parts) == part)
            model_pack_one(m, &m->pack[i]);
}

/* ---- State -------------------------------------------------------------------------------- */

static size_t largest_param(const dt_net *net)
{
    size_t largest = 0;
    for (size_t i = 0; i < net->params; i++)
        if (net->param[i].count > largest)
            largest = net->param[i].count;
    return largest;
}

dt_status dt_model_init(dt_model *m, uint32_t seed)
{
    const dt_net *net = m->net;
    float *file = NULL;

    DT_TRY(dt_calloc(&file, largest_param(net), sizeof *file, "initial weights"));
    for (size_t i = 0; i < net->params; i++) {
        const dt_param *p = &net->param[i];
        const dt_init *init = &net->init[i];
        if (init->kind == DT_INIT_NORMAL)
            dt_fill_normal(file, p->count, init->a, seed, DT_STREAM_INIT, (uint32_t)i);
        else
            dt_fill_uniform(file, p->count, (float)init->a, (float)init->b, seed,
                            DT_STREAM_INIT, (uint32_t)i);
        dt_param_from_file(p, file, m->slabs.master + p->offset);
    }
    free(file);
    for (size_t c = 0; c < net->norm_channels; c++) {
        m->slabs.running_mean[c] = 0;
        m->slabs.running_var[c] = 1;
    }
    dt_model_pack(m, 0, net->slab_floats);
    return DT_OK;
}

void dt_model_update_running(dt_model *m, const dt_moment *moments)
{
    const dt_net *net = m->net;

    for (size_t i = 0; i < net->norms; i++) {
        const double keep = 1.0 - (double)net->norm_momentum[i];
        const double take = (double)net->norm_momentum[i];
        for (size_t k = 0; k < net->norm[i].channels; k++) {
            const size_t c = net->norm[i].offset + k;
            const dt_moment b = moments[c];
            const double var = b.count > 1 ? b.m2 / (b.count - 1) : b.m2;
            m->slabs.running_mean[c] =
                (float)(keep * (double)m->slabs.running_mean[c] + take * b.mean);
            m->slabs.running_var[c] =
                (float)(keep * (double)m->slabs.running_var[c] + take * var);
        }
    }
}

dt_status dt_model_weights_hash(const dt_model *m, dt_digest *out)
{
    const dt_net *net = m->net;
    float *file = NULL;
    dt_hash *h = NULL;
    dt_status st = DT_OK;

    DT_GO(st, dt_calloc(&file, largest_param(net), sizeof *file, "the weights hash"), out);
    DT_GO(st, dt_hash_open(&h), out);
    for (size_t i = 0; i < net->params; i++) {
        const dt_param *p = &net->param[i];
        dt_param_to_file(p, m->slabs.master + p->offset, file);
        dt_hash_update(h, file, p->count * sizeof *file);
    }
    *out = dt_hash_digest(h);

out:
    dt_hash_close(h);
    free(file);
    return st;
}
