/* split_search.c - the search finds what trying every strategy finds, keeps what is forced, and
 * where bytes are all that counts, each layer changes sides where a rule of thumb says. The graph
 * of a network has, under any strategy, the moves that a plan has, byte for byte. */
#include "net.h"

#include "split/split.h"

typedef struct graph {
    dt_search_costs c;
    int layers;
} graph;

static uint64_t drawn = 1;

static double draw(double low, double high) /* logarithmic */
{
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    return low * pow(high / low, (double)(drawn >> 40) / (double)(1 << 24));
}

static int add(graph *g, dt_search_kind kind, int in, int in1, double values)
{
    const bool layer = kind == DT_SEARCH_FREE;
    dt_search_node *n = &g->c.node[g->c.nodes];

    *n = (dt_search_node){.kind = kind,
                          .in = {in, in1},
                          .bytes = {2 * values, kind == DT_SEARCH_HOME && in < 0 ? 0 : 2 * values},
                          .floats = layer ? draw(1e3, 1e7) : 1e2};
    for (int way = 0; way < 2; way++) {
        n->seconds[0][way] = draw(layer ? 1e-4 : 1e-6, layer ? 1e-2 : 1e-4);
        n->seconds[1][way] = n->seconds[0][way] / g->c.parts * draw(1, 1.5);
    }
    g->layers += layer;
    for (int k = 0; k < 2; k++)
        if (n->in[k] >= 0)
            g->c.node[n->in[k]].readers++;
    return g->c.nodes++;
}

/* Layers in a row, and blocks with a way round as in residual networks, `layers` in all. */
static void make(graph *g, int parts, int layers)
{
    const double link = draw(1e7, 1e10);

    *g = (graph){.c = {.parts = parts,
                       .homes = 1 + (int)draw(1, 2),
                       .waves = 1,
                       .latency = draw(1e-6, 1e-3),
                       .per_byte = 1 / link,
                       .hides = 0.9,
                       .exchange = {8 * (parts - 1) / (link * parts), 1e-10},
                       .update = {3e-9, 3e-9}}};
    g->c.shards = parts * g->c.homes;
    int at = add(g, DT_SEARCH_HOME, -1, -1, draw(1e4, 1e6));
    while (g->layers < layers) {
        const double values = draw(1e3, 1e6);
        const int from = at, left = layers - g->layers;
        at = add(g, DT_SEARCH_FREE, at, -1, values);
        g->c.node[at].flat = draw(1, 10) < 1.5;
        at = add(g, DT_SEARCH_FOLLOWS, at, -1, values);
        if (left < 4 || draw(1, 10) < 4)
            continue;
        at = add(g, DT_SEARCH_FREE, at, -1, values);
        const int round = draw(1, 10) < 4 ? add(g, DT_SEARCH_FREE, from, -1, values) : from;
        at = add(g, DT_SEARCH_FOLLOWS, at, round, values);
    }
    add(g, DT_SEARCH_HOME, at, -1, 10);
}

static double by_trial(const graph *g)
{
    bool cut[DT_SEARCH_NODES] = {false};
    double least = HUGE_VAL;

    for (int set = 0; set < 1 << g->layers; set++) {
        int bit = 0;
        for (int i = 0; i < g->c.nodes; i++)
            if (dt_search_layer(&g->c.node[i]))
                cut[i] = set >> bit++ & 1;
        least = fmin(least, dt_search_time_of(&g->c, cut).seconds);
    }
    return least;
}

TEST(is_what_trial_finds)
{
    static graph g;
    bool cut[DT_SEARCH_NODES];
    int cuts = 0, layers = 0;

    for (int i = 0; i < 150; i++) {
        make(&g, 2 + i % 7, 4 + i % 9);
        const double found = dt_search_best(&g.c, cut).seconds, least = by_trial(&g);
        for (int k = 0; k < g.c.nodes; k++)
            cuts += dt_search_layer(&g.c.node[k]) && cut[k];
        layers += g.layers;
        if (found > least * (1 + 1e-12))
            fail_msg("graph %d of %d layers: %g s, but there is %g s", i, g.layers, found, least);
    }
    assert_true(6 * cuts > layers && 3 * cuts < 2 * layers); /* neither end is all */
}

TEST(keeps_what_is_forced)
{
    static graph g;
    bool free[DT_SEARCH_NODES], cut[DT_SEARCH_NODES];

    for (int i = 0; i < 50; i++) {
        make(&g, 4, 8);
        dt_search_best(&g.c, free);
        for (int k = 0; k < g.c.nodes; k++) /* against what it would do */
            if (dt_search_layer(&g.c.node[k]) && draw(1, 10) < 4)
                g.c.node[k].kind = free[k] ? DT_SEARCH_WHOLE : DT_SEARCH_CUT;
        dt_search_best(&g.c, cut);
        for (int k = 0; k < g.c.nodes; k++)
            if (g.c.node[k].kind == DT_SEARCH_WHOLE || g.c.node[k].kind == DT_SEARCH_CUT)
                assert_int_equal(cut[k], g.c.node[k].kind == DT_SEARCH_CUT);
    }
}

/* VGG-11's convolutions at 32 pixels on 8 ranks. With computing and latency 0 a layer is cut as
 * long as its activations are fewer bytes than its gradients: in bf16 below
 * 4 k^2 ci co / (h^2 (ci + co)) images. */
TEST(changes_sides_by_the_rule)
{
    static const struct {
        int in, out, side;
    } layers[] = {{3, 64, 32},   {64, 128, 16}, {128, 256, 8}, {256, 256, 8},
                  {256, 512, 4}, {512, 512, 4}, {512, 512, 2}, {512, 512, 2}};
    enum { PARTS = 8, LAYERS = DT_COUNT_OF(layers) };
    double last[LAYERS] = {0};
    static graph g;
    bool cut[DT_SEARCH_NODES];

    for (double batch = 1e-2; batch < 1e5; batch *= 1.02) {
        g = (graph){.c = {.parts = PARTS,
                          .homes = 1,
                          .waves = 1,
                          .shards = PARTS,
                          .per_byte = 1e-9,
                          .exchange = {8e-9 * (PARTS - 1) / PARTS}}};
        const double n = batch / PARTS;
        int at = add(&g, DT_SEARCH_HOME, -1, -1, n * 3 * 32 * 32);
        for (int i = 0; i < LAYERS; i++) {
            const double side = layers[i].side, next = i + 1 < LAYERS ? layers[i + 1].side : 1;
            at = add(&g, DT_SEARCH_FREE, at, -1, n * layers[i].out * side * side);
            g.c.node[at].floats = 9.0 * layers[i].in * layers[i].out;
            at = add(&g, DT_SEARCH_FOLLOWS, at, -1, n * layers[i].out * next * next);
        }
        add(&g, DT_SEARCH_HOME, at, -1, n * 10);
        for (int i = 0; i < g.c.nodes; i++)
            memset(g.c.node[i].seconds, 0, sizeof g.c.node[i].seconds);
        dt_search_best(&g.c, cut);
        for (int i = 0; i < LAYERS; i++)
            if (cut[1 + 2 * i])
                last[i] = batch;
    }
    for (int i = 0; i < LAYERS; i++) {
        const double in = layers[i].in, out = layers[i].out, side = layers[i].side;
        const double rule = 4 * 9 * in * out / (side * side * (in + out));
        printf("%d to %d at %d: until %.1f images, the rule says %.1f\n", layers[i].in,
               layers[i].out, layers[i].side, last[i], rule);
        assert_true(last[i] > 0.75 * rule && last[i] < 1.25 * rule);
    }
}

static const struct {
    const char *net, *strategy;
} networks[] = {{"vgg11", "all=out"},
                {"vgg11", "features.{4,15}=out"},
                {"vgg11", "all=out features.8=batch classifier=batch"},
                {"vgg11", "features.0=out classifier=out"},
                {"resnet50", "all=out"},
                {"resnet50", "layer*.conv2=out"},
                {"resnet50", "layer{1,3}*=out fc=out"},
                {"resnet50", "*downsample.0=out layer2.0.conv1=out"},
                {"resnet50", "all=out layer*.conv3=batch layer4.0.downsample.0=batch"},
                {"resnet9", "all=out"},
                {"resnet9", "*conv=out"}};

/* What a rank sends for a shard of the group. */
static double moved(const dt_plan *p, int parts)
{
    double bytes = 0;

    for (int i = 0; i < p->steps; i++)
        for (int way = 0; way < DT_WAYS; way++) {
            if (!p->node[i].moves[way])
                continue;
            const dt_move m = dt_plan_move(p, i, (dt_way)way);
            bytes += (double)(m.rows * m.channels) * (double)m.each * (parts - 1) /
                     (m.to == DT_WHOLE ? parts : parts * parts);
        }
    return bytes;
}

static void check_network(const char *name, const char *strategy, int parts)
{
    const dt_net_spec spec = {name, "torchvision", "cifar", 32, 10, 4};
    bool cut[DT_SEARCH_NODES] = {false};
    double bytes = 0;
    dt_search_costs c = {.parts = parts, .shards = 1, .waves = 1};

    for (int k = 0; k < 2; k++) {
        const dt_model_opts opts = {
            .strategy = strategy, .parts = k ? parts : 1, .precision = DT_F32, .threads = 1};
        test_net t;
        dt_plan *p = NULL;
        test_net_create(&t, &spec, &opts);
        assert_ok(dt_plan_create(&p, t.model, 3, DT_TRAIN, false));
        assert_ok(dt_strategy_cuts(t.net, strategy, cut + 1));
        if (k == 0)
            dt_costs_graph(&c, t.net, 2 * 3, DT_F32);
        else
            bytes = moved(p, parts);
        dt_plan_destroy(p);
        test_net_close(&t);
    }
    const double sent = dt_search_time_of(&c, cut).sent;
    if (fabs(sent - 2 * bytes) > 1e-9 * bytes || bytes == 0)
        fail_msg("%s, %s over %d ranks: %.0f bytes, the plan has %.0f", name, strategy, parts, sent,
                 2 * bytes);
}

TEST(moves_are_those_of_plans)
{
    for (size_t i = 0; i < 4 * DT_COUNT_OF(networks); i++)
        check_network(networks[i / 4].net, networks[i / 4].strategy, 2 + (int)i % 4);
}

int main(void)
{
    dt_extra_split();
    return tests_run(NULL, NULL);
}
