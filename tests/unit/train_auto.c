/* train_auto.c - the search's graph of a network: under any strategy it has the moves that a plan
 * has, byte for byte. */
#include "net.h"

#include <math.h>

#include "train/costs.h"

static const struct {
    const char *net, *strategy;
} cases[] = {{"vgg11", "all=out"},
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

    for (size_t i = 0; i < dt_plan_row_count(p); i++)
        for (int way = 0; way < DT_WAYS; way++) {
            if (!dt_plan_moves(p, i, (dt_way)way))
                continue;
            const dt_move m = dt_plan_move(p, i, (dt_way)way);
            bytes += (double)(m.rows * m.channels) * (double)m.each * (parts - 1) /
                     (m.to == DT_WHOLE ? parts : parts * parts);
        }
    return bytes;
}

static void check(const char *name, const char *strategy, int parts, dt_dtype type)
{
    dt_net *net = NULL;
    const dt_net_spec spec = {.net = name,
                              .variant = "torchvision",
                              .stem = "cifar",
                              .image_size = 32,
                              .classes = 10,
                              .width_divisor = 4};
    static dt_search_node node[DT_SEARCH_NODES];
    bool cuts[DT_SEARCH_NODES], cut[DT_SEARCH_NODES] = {false};
    double bytes = 0;

    assert_ok(dt_net_create(&net, &spec));
    assert_ok(dt_strategy_cuts(net, strategy, cuts));
    for (int k = 0; k < 2; k++) {
        const dt_model_opts opts = {
            .strategy = strategy, .parts = k ? parts : 1, .precision = type, .threads = 1};
        dt_model *m = NULL;
        dt_plan *p = NULL;
        assert_ok(dt_model_create(&m, net, &opts));
        assert_ok(dt_plan_create(&p, m, 3, DT_TRAIN));
        if (k == 0)
            dt_costs_graph(net, p, 2, type, node);
        else
            bytes = moved(p, parts);
        dt_plan_destroy(p);
        dt_model_destroy(m);
    }
    memcpy(cut + 1, cuts, net->ops * sizeof *cuts);
    const dt_search_costs c = {
        .node = node, .nodes = (int)net->ops + 2, .parts = parts, .shards = 1, .waves = 1};
    const double sent = dt_search_time_of(&c, cut).sent;
    if (fabs(sent - 2 * bytes) > 1e-9 * bytes || bytes == 0)
        fail_msg("%s, %s over %d ranks: %.0f bytes, the plan has %.0f", name, strategy, parts, sent,
                 2 * bytes);
    dt_net_destroy(net);
}

TEST(moves_are_those_of_plans)
{
    for (size_t i = 0; i < DT_COUNT_OF(cases); i++)
        for (int parts = 2; parts <= 5; parts++)
            check(cases[i].net, cases[i].strategy, parts, DT_F32);
}
