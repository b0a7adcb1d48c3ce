/* auto.c - --strategy auto: which layers to cut, and over how many ranks, by what was measured. No
 * bit depends on it. Rank 0 decides for all. */
#include "split.h"

typedef struct candidate {
    int parts, layers; /* 1: none are cut */
    dt_search_time time;
    bool fits; /* in memory */
    bool cut[DT_SEARCH_NODES];
} candidate;

typedef struct choice {
    dt_search_costs costs;
    candidate whole, best; /* nothing cut; the quickest that fits */
    double measured_s, searched_s;
    int layers; /* of the network */
    bool must;  /* some layer is to be cut */
} choice;

static void write_words(const dt_net *net, const candidate *x, int layers,
                        const dt_search_node *node, char words[DT_OPTION_CHARS])
{
    const bool most = 2 * x->layers > layers;
    size_t at = (size_t)snprintf(words, DT_OPTION_CHARS, "%s", most ? "all=out" : "");

    for (size_t i = 0; i < net->ops && x->layers > 0; i++)
        if (dt_search_layer(&node[i + 1]) && x->cut[i + 1] != most && at + 100 < DT_OPTION_CHARS)
            at += (size_t)snprintf(words + at, DT_OPTION_CHARS - at, "%s%s=%s", at ? " " : "",
                                   net->own->node[i].name, most ? "batch" : "out");
}

/* What --strategy auto says of a layer stays: it is the same after all=out and after all=batch. */
static dt_status force(const dt_run *r, choice *x)
{
    char words[DT_OPTION_CHARS + 16];
    bool in[2][DT_SEARCH_NODES];

    for (int k = 0; k < 2; k++) {
        snprintf(words, sizeof words, "all=%s %s", k ? "out" : "batch", r->o.strategy);
        DT_TRY(dt_strategy_cuts(r->net, words, in[k]));
    }
    x->must = r->comm->world > r->o.shards; /* nothing cut: some ranks would have no work */
    for (size_t i = 0; i < r->net->ops; i++)
        if (dt_search_layer(&x->costs.node[i + 1])) {
            x->layers++;
            x->must |= in[0][i];
            if (in[0][i] == in[1][i])
                x->costs.node[i + 1].kind = in[0][i] ? DT_SEARCH_CUT : DT_SEARCH_WHOLE;
        }
    return DT_OK;
}

static void consider(const dt_run *r, choice *x)
{
    candidate c = {.parts = x->costs.parts};
    const double began = dt_seconds(), free = (double)dt_memory_available();

    c.time = dt_search_best(&x->costs, c.cut);
    x->searched_s += dt_seconds() - began;
    for (int i = 0; i < x->costs.nodes; i++)
        c.layers += dt_search_layer(&x->costs.node[i]) && c.cut[i];
    c.fits = free <= 0 || x->costs.bytes * r->comm->node_ranks < free;
    /* Cutting is to be worth more than what the prediction may be wrong by. */
    const double margin = x->best.parts == 1 ? 0.9 : 1;
    const bool better =
        c.fits != x->best.fits ? c.fits : c.time.seconds < margin * x->best.time.seconds;
    if (c.parts == 1)
        x->whole = x->best = c;
    else if (c.layers > 0 && ((x->must && x->best.parts == 1) || better))
        x->best = c;
}

static void tell(const dt_run *r, const choice *x, dt_choice *to)
{
    const candidate *best = &x->best;
    char what[80] = "nothing is cut";

    if (best->layers > 0)
        snprintf(what, sizeof what, "%d of %d layers over %d ranks", best->layers, x->layers,
                 best->parts);
    *to = (dt_choice){
        .parts = best->parts, .seconds = best->time.seconds, .whole_s = x->whole.time.seconds};
    write_words(r->net, best, x->layers, x->costs.node, to->strategy);
    snprintf(to->text, sizeof to->text,
             "auto: %s; predicted %.3g s a step (compute %.3g, moves %.3g, gradients %.3g), "
             "data-parallel %.3g; found in %.0f ms, costs in %.1f s",
             what, best->time.seconds, best->time.compute, best->time.moves, best->time.exchange,
             x->whole.time.seconds, 1e3 * x->searched_s, x->measured_s);
}

static dt_status measure_all(dt_run *r, choice *x)
{
    const double began = dt_seconds();
    const int64_t only = DT_MIN(r->o.tensor_parallel, r->comm->world);

    for (int64_t parts = 1, most = r->comm->world; parts <= most; parts++) {
        if (r->comm->world % parts != 0 || (parts > 1 && only && parts != only))
            continue;
        DT_TRY(dt_costs_measure(r, (int)parts, &x->costs));
        const bool first = r->comm->rank == 0 && parts == 1;
        DT_TRY(dt_comm_agree(r->comm, first ? force(r, x) : DT_OK));
        if (r->comm->rank == 0 && (parts == 1 || r->comm->world / parts <= r->o.shards))
            consider(r, x);
        const bool alone = r->comm->nodes == 1 && r->o.shards >= r->comm->world;
        if (alone && x->best.fits && !x->must) /* no network to spare, and work for all */
            most = 1;
        DT_TRY(dt_comm_bcast(r->comm, &most, sizeof most, 0));
    }
    x->measured_s = dt_seconds() - began - x->searched_s;
    return DT_OK;
}

dt_status dt_auto_choose(dt_run *r)
{
    choice x = {.must = false};
    dt_status st = DT_OK;

    r->o.searches = false;
    if (r->comm->world == 1)
        return DT_OK;
    DT_TRY(measure_all(r, &x));
    if (r->comm->rank == 0)
        tell(r, &x, &r->choice);
    DT_TRY(dt_comm_bcast(r->comm, &r->choice, sizeof r->choice, 0));
    if (r->comm->world / r->choice.parts > r->o.shards)
        st = dt_fail(DT_CONFIG,
                     "--strategy auto: %d ranks for %lld shards: some would have no work, and "
                     "what is given lets no layer be cut over ranks enough; start at most "
                     "%lld ranks",
                     r->comm->world, (long long)r->o.shards, (long long)r->o.shards);
    DT_TRY(dt_comm_agree(r->comm, st));
    r->o.strategy = r->choice.strategy;
    r->o.tensor_parallel = r->choice.parts;
    dt_record_restart();
    dt_activity_phase(DT_AT_begin);
    return DT_OK;
}
