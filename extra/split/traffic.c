/* traffic.c - what a rank sends in a step where layers are cut over ranks: counted as grid.c has
 * the moves, without a run. */
#include "split.h"

/* The shards that ranks [from, from + ranks) have, and their images. */
typedef struct share {
    int64_t shards, images; /* shards without images are left out */
} share;

static share share_of(const dt_options *o, int world, int from, int ranks)
{
    int first, end, other;
    int64_t begin, after;

    dt_shards_of((int)o->shards, world, from, &first, &other);
    dt_shards_of((int)o->shards, world, from + ranks - 1, &other, &end);
    dt_shard_size(o->global_batch, (int)o->shards, first, &begin);
    dt_shard_size(o->global_batch, (int)o->shards, end, &after);
    return (share){DT_MIN(end, o->global_batch) - DT_MIN(first, o->global_batch), after - begin};
}

static uint64_t sent_by_move(const dt_move *m, int64_t batch, share group, share own, int part,
                             int parts)
{
    const int64_t cut = dt_cut_of(m->channels, part, parts).count;
    int64_t numbers = 0;

    if (m->to == DT_WHOLE)
        numbers =
            (m->from == DT_HOME ? own.images * m->channels : group.images * cut) * (parts - 1);
    else if (m->to == DT_CUT)
        numbers = own.images * (m->channels - cut);
    else
        numbers = (group.images - own.images) * cut;
    return (uint64_t)(numbers * (m->rows / batch)) * m->each;
}

uint64_t dt_traffic_row(const dt_plan *plan, int i, const dt_options *o, int world, int rank)
{
    const int parts = dt_options_parts(o, world), part = rank % parts;
    const share group = share_of(o, world, rank - part, parts), own = share_of(o, world, rank, 1);
    uint64_t bytes = 0;

    for (int way = 0; way < DT_WAYS; way++)
        if (plan->node[i].moves[way]) {
            const dt_move m = dt_plan_move(plan, i, (dt_way)way);
            bytes += sent_by_move(&m, plan->batch, group, own, part, parts);
        }
    return bytes;
}

dt_traffic dt_traffic_of(const dt_plan *plan, const dt_options *o, int world, int rank)
{
    const dt_model *model = plan->model;
    const dt_net *net = model->net;
    const int parts = dt_options_parts(o, world), part = rank % parts, groups = world / parts;
    const share group = share_of(o, world, rank - part, parts), own = share_of(o, world, rank, 1);
    const double all = (double)net->weight_total;
    double mine = 0, copy = 0;
    dt_traffic t = {0};

    for (int i = 0; i < plan->steps; i++)
        t.values += dt_traffic_row(plan, i, o, world, rank);
    for (size_t i = 0; i < net->norms; i++)
        if (model->norm_cut[i].whole > 0)
            t.values += (uint64_t)((group.shards - own.shards) *
                                   dt_cut_of((int64_t)net->norm[i].channels, part, parts).count) *
                        sizeof(dt_moment);
    for (size_t i = 0; i < net->params; i++) {
        const dt_param *p = &net->param[i];
        if (!dt_model_piece(model, i).cut)
            continue;
        const size_t column = p->count / (size_t)p->dim[0];
        const size_t piece = column * (size_t)dt_cut_of(p->dim[0], part, parts).count;
        mine += (double)piece;
        t.cut += p->count;
        if (p->kind == DT_WEIGHT) {
            const int64_t in = dt_cut_of(p->dim[1], part, parts).count;
            copy += (double)(p->count / (size_t)p->dim[1]) * (double)in;
            t.weights += sizeof(float) * piece / (size_t)p->dim[1] * (size_t)(p->dim[1] - in);
        }
    }
    const double home = all - (double)t.cut;
    t.gradients = 8 * (home * (world - 1) / world + mine * (groups - 1) / groups);
    t.gradients_uncut = 8 * all * (world - 1) / world;
    t.spared = 8 * ((double)t.cut - mine) - 4 * copy;
    return t;
}
