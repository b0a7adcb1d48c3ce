/* packed.c - the packed copies of weights that kernels compute with: registered by plans, packed
 * after each write to the master weights. */
#include "plan.h"

dt_status dt_model_add_pack(dt_model *m, const dt_step *s, bool by_input, const char *layout,
                            size_t bytes, dt_pack_func pack, const void *context, int *id_out)
{
    const int index = s->node->param[0];
    const dt_slab_kind kind = by_input ? DT_SLAB_BY_INPUT : s->cut ? DT_SLAB_CUT : DT_SLAB_HOME;
    size_t *end = &m->packed_bytes[kind];

    for (int i = 0; i < m->packs; i++)
        if (m->pack[i].param == index && strcmp(m->pack[i].layout, layout) == 0) {
            *id_out = i;
            return DT_OK;
        }
    if (m->packs == DT_MAX_PACKS)
        return dt_fail(DT_BUG, "more than %d packed copies", DT_MAX_PACKS);
    dt_pack *p = &m->pack[m->packs];
    *p = (dt_pack){.param = index,
                   .kind = kind,
                   .bytes = bytes,
                   .offset = *end,
                   .pack = pack,
                   .context = context};
    snprintf(p->layout, sizeof p->layout, "%s", layout);
    *end += dt_align(bytes, 64);
    *id_out = m->packs++;
    return DT_OK;
}

void dt_pack_bytes(const dt_model *m, const dt_pack *p, char *to, size_t first, size_t end)
{
    const dt_piece x = dt_model_piece(m, (size_t)p->param);
    const float *const of[] = {m->weights.master, m->cut_master, m->by_input};

    p->pack(p->context, of[p->kind] + (p->kind == DT_SLAB_BY_INPUT ? x.by_input : x.offset), to,
            first, end);
}

char *dt_pack_at(const dt_model *m, const dt_pack *p)
{
    if (p->kind == DT_SLAB_HOME)
        return m->packed + p->offset;
    return m->cut_packed + (p->kind == DT_SLAB_CUT ? 0 : m->packed_bytes[DT_SLAB_CUT]) + p->offset;
}

/* Copies lie one after the other: threads take as many bytes each, wherever tensors begin. */
static void pack_slab(dt_model *m, dt_slab_kind kind, int part, int parts)
{
    const int threads = m->opts.threads, units = parts * threads;
    const size_t bytes = m->packed_bytes[kind];

#pragma omp parallel for num_threads(threads) schedule(static)
    for (int u = part * threads; u < (part + 1) * threads; u++) {
        const size_t first = bytes * (size_t)u / (size_t)units;
        const size_t end = bytes * (size_t)(u + 1) / (size_t)units;
        for (const dt_pack *p = m->pack; p < m->pack + m->packs; p++)
            if (p->kind == kind && p->offset < end && first < p->offset + p->bytes)
                dt_pack_bytes(m, p, dt_pack_at(m, p), DT_MAX(first, p->offset) - p->offset,
                              DT_MIN(end - p->offset, p->bytes));
    }
}

void dt_model_pack(dt_model *m, int part, int parts)
{
    pack_slab(m, DT_SLAB_HOME, part, parts);
    if (m->packed_bytes[DT_SLAB_CUT] > 0)
        pack_slab(m, DT_SLAB_CUT, 0, 1);
}

void dt_model_pack_by_input(dt_model *m)
{
    pack_slab(m, DT_SLAB_BY_INPUT, 0, 1);
}

size_t dt_model_cut_packed_bytes(const dt_model *m)
{
    return m->packed_bytes[DT_SLAB_CUT] + m->packed_bytes[DT_SLAB_BY_INPUT];
}

size_t dt_model_packed_bytes(const dt_model *m)
{
    return m->packed_bytes[DT_SLAB_HOME];
}
