/* search.c - the time of a step under a strategy, and the strategy of least time. */
#include "split.h"

enum { NEIGHBOURS = 6 }; /* layers of which any change sides together */

/* A step that is being added up. */
typedef struct step_sum {
    const dt_search_costs *c;
    bool cut[DT_SEARCH_NODES]; /* where the values of nodes lie */
    dt_search_time time;
    double floats[2];             /* of all ranks' parameters, of own pieces */
    double compute[2], hidden[2]; /* forward, backward: of computing, what hides moves already */
} step_sum;

/* The value of node `from` on its way to `to`, or back; `whole`: to every rank of the group. All
 * shards' moves begin when the last is computed, and while a cut step computes one shard, those of
 * the next ones arrive. */
static void add_move(step_sum *s, int from, int to, int way, bool whole)
{
    const dt_search_costs *c = s->c;
    const double m = c->parts, bytes = c->node[from].bytes[way] * (m - 1) / (whole ? m : m * m);
    const dt_search_node *reader = &c->node[way == 0 ? to : from];
    const double each = c->latency + bytes * c->per_byte, others = c->shards - 1;
    const double computes = s->cut[reader - c->node] ? reader->seconds[1][way] * c->hides : 0;
    const double hidden = DT_MIN(computes, each) * others;

    if (bytes == 0)
        return;
    s->time.sent += c->shards * bytes;
    s->time.moves += c->shards * each - hidden;
    s->hidden[way] += hidden;
}

/* Between home and cut. A cut layer's own move, which gathers its output's gradient, brings the
 * value home, too, if that has one reader. */
static void add_turn(step_sum *s, int in, int i)
{
    const bool own = dt_search_layer(&s->c->node[in]) && s->cut[in] && s->c->node[in].readers == 1;

    add_move(s, in, i, 0, false);
    if (!own)
        add_move(s, in, i, 1, false);
}

/* The moves of an input, as bring() in plan_cut.c inserts them. */
static void add_input(step_sum *s, int in, int i)
{
    const dt_search_node *n = &s->c->node[i];

    if (!dt_search_layer(n) || !s->cut[i]) {
        if (s->cut[in] != s->cut[i])
            add_turn(s, in, i);
        return;
    }
    if (n->flat && s->cut[in])
        add_turn(s, in, i);
    add_move(s, in, i, 0, true);
    if (n->flat || !s->cut[in])
        add_move(s, in, i, 1, false);
}

/* Gradients travel behind what of backward does not hide moves. Weights that are turned travel
 * during forward, but share the network with its moves, which come later for it: measured at
 * 1 Gbit/s, a step is nearer to their being hidden by nothing. */
static void add_parameters(step_sum *s)
{
    const dt_search_costs *c = s->c;
    const double *floats = s->floats;
    const double turned = 4 * floats[1] * (c->parts - 1) / c->parts;
    const double hides = DT_MAX(0, c->hides * s->compute[1] / c->waves - s->hidden[1]);
    dt_search_time *r = &s->time;

    r->exchange = DT_MAX(0, floats[0] * c->exchange[0] + floats[1] * c->exchange[1] - hides);
    r->turn = floats[1] > 0 ? c->latency + turned * c->per_byte : 0;
    r->update = floats[0] * c->update[0] + floats[1] * c->update[1];
}

static void add_node(step_sum *s, int i, const bool *layer)
{
    const dt_search_node *n = &s->c->node[i];
    const bool follows = n->kind == DT_SEARCH_FOLLOWS && s->cut[n->in[0]];
    const bool cut = s->cut[i] = dt_search_layer(n) ? layer[i] : follows;

    for (int way = 0; way < 2; way++)
        s->compute[way] += n->seconds[cut][way] * (cut ? s->c->shards : s->c->homes);
    for (int k = 0; k < 2 && n->in[k] >= 0; k++)
        add_input(s, n->in[k], i);
    if (dt_search_layer(n) && cut)
        add_move(s, i, i, 1, true);
    s->floats[cut] += n->floats / (cut ? s->c->parts : 1);
}

dt_search_time dt_search_time_of(const dt_search_costs *c, const bool *cut)
{
    step_sum s = {.c = c};

    for (int i = 0; i < c->nodes; i++)
        add_node(&s, i, cut);
    add_parameters(&s);
    s.time.compute = s.compute[0] + s.compute[1];
    s.time.seconds = s.time.compute + s.time.moves + s.time.exchange + s.time.turn + s.time.update;
    return s.time;
}

/* ---- The search ---------------------------------------------------------------------------- */

typedef struct climb { /* from one strategy to better ones */
    const dt_search_costs *c;
    int layer[DT_SEARCH_NODES], layers; /* nodes that may be cut or not */
    bool cut[DT_SEARCH_NODES];
    dt_search_time time;
} climb;

/* The layers of `set`, from the first on, change sides if that is sooner. */
static bool try_set(climb *x, int first, int set)
{
    climb now = *x;

    for (int i = first; set > 0; i++, set >>= 1)
        now.cut[now.layer[i]] ^= set & 1;
    now.time = dt_search_time_of(now.c, now.cut);
    const bool sooner = now.time.seconds < x->time.seconds;
    if (sooner)
        *x = now;
    return sooner;
}

/* Round and round, until no change from any layer on is sooner. */
static void climb_up(climb *x)
{
    x->time = dt_search_time_of(x->c, x->cut);
    for (int first = 0, still = 0; still < x->layers; first = (first + 1) % x->layers, still++)
        for (int set = 1; set < 1 << DT_MIN(NEIGHBOURS, x->layers - first); set += 2)
            if (try_set(x, first, set))
                still = -1;
}

dt_search_time dt_search_best(const dt_search_costs *c, bool *cut)
{
    climb best = {.c = c};

    for (int all = 0; all < 2; all++) {
        climb x = {.c = c};
        for (int i = 0; i < c->nodes && c->parts > 1; i++) {
            const bool free = c->node[i].kind == DT_SEARCH_FREE;
            x.cut[i] = free ? all == 1 : c->node[i].kind == DT_SEARCH_CUT;
            if (free)
                x.layer[x.layers++] = i;
        }
        climb_up(&x);
        if (all == 0 || x.time.seconds < best.time.seconds)
            best = x;
    }
    memcpy(cut, best.cut, (size_t)c->nodes * sizeof *cut);
    return best.time;
}
