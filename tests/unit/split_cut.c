/* split_cut.c - layers that are cut: whose channels are whose, what strategies say, what each part
 * has of the parameters, and that every step of a plan finds its values in the layout it needs. */
#include "net.h"
#include "split/split.h"

static const char *const nets[] = {"vgg11", "resnet50", "resnet9", "airbench", "mlp"};
static const char *const strategies[] = {"all=out", "classifier=out fc=out linear=out output=out",
                                         "features.{4,15}=out layer*.conv2=out *conv1=out",
                                         "all=out *.0=batch layer3*=batch", "all=batch"};
enum { MOST_PARTS = 5 };

static dt_status try_create(dt_model **m, const dt_net *net, const char *strategy, int part,
                            int parts)
{
    const dt_model_opts opts = {
        .strategy = strategy, .part = part, .parts = parts, .precision = DT_F32, .threads = 1};
    return dt_model_create(m, net, &opts);
}

static dt_net *net_of(const char *name)
{
    const dt_net_spec spec = {name, "torchvision", "cifar", 32, 10, 4};
    dt_net *net = NULL;

    assert_ok(dt_net_create(&net, &spec));
    return net;
}

TEST(parts_follow_each_other)
{
    static const int64_t channels[] = {1, 3, 10, 31, 64, 100, 512, 4096};

    for (size_t i = 0; i < DT_COUNT_OF(channels); i++)
        for (int parts = 1; parts < 40; parts++) {
            int64_t end = 0;
            for (int part = 0; part < parts; part++) {
                const dt_cut c = dt_cut_of(channels[i], part, parts);
                assert_int_equal(c.first, end);
                assert_int_equal(c.whole, channels[i]);
                assert_true(c.count >= 0 && (c.first % 32 == 0 || channels[i] < 32 * parts));
                end += c.count;
            }
            assert_int_equal(end, channels[i]);
        }
}

TEST(wrong_words_are_refused)
{
    static const struct {
        const char *strategy, *says;
    } cases[] = {
        {"classifier", "want OPERATION=out"},
        {"classifier=in", "'classifier=in': want OPERATION=out, or OPERATION=batch"},
        {"clasifier=out",
         "'clasifier' is no operation of vgg11; did you mean classifier? `dtrain plan`"},
        {"features.1=out", "'features.1' is a batchnorm, which follows its input"},
        {"all=out featuers.*=batch", "'featuers.*' is no operation"},
        {"nothing=out", "'nothing' is no operation of vgg11; `dtrain plan` lists them"},
        {"features.{1,2=out", "'features.{1,2' is no operation"},
    };
    dt_net *net = net_of("vgg11");

    for (size_t i = 0; i < DT_COUNT_OF(cases); i++)
        for (int parts = 1; parts <= 2; parts++) { /* one rank, too */
            dt_model *m = NULL;
            assert_fails(try_create(&m, net, cases[i].strategy, 0, parts), DT_CONFIG,
                         cases[i].says);
            dt_model_destroy(m);
        }
    dt_net_destroy(net);
}

/* Home on all parts, or each number on one part, in slabs without overlap, backward order. */
static void check_pieces(const dt_net *net, dt_model *const *m, int parts)
{
    for (int part = 0; part < parts; part++) {
        size_t end[2] = {0, 0};
        for (size_t i = net->params; i-- > 0;) {
            const dt_piece x = dt_model_piece(m[part], i);
            assert_true(x.offset % 16 == 0 && x.offset >= end[x.cut]);
            end[x.cut] = x.offset + x.count;
        }
        assert_true(end[0] <= dt_model_floats(m[part], DT_SLAB_HOME));
        assert_true(end[1] <= dt_model_floats(m[part], DT_SLAB_CUT));
    }
    for (size_t i = 0; i < net->params; i++) {
        size_t count = 0;
        for (int part = 0; part < parts; part++)
            count += dt_model_piece(m[part], i).count;
        assert_int_equal(count,
                         net->param[i].count * (size_t)(dt_model_piece(*m, i).cut ? 1 : parts));
    }
}

static void check_value(const dt_plan *p, int value, dt_layout forward, dt_layout backward)
{
    if (p->layout[value][DT_FORWARD] != forward || p->layout[value][DT_BACKWARD] != backward)
        fail_msg("value %d of step '%s': layouts %d, %d, not %d, %d", value,
                 p->node[p->value[value].producer].name, (int)p->layout[value][DT_FORWARD],
                 (int)p->layout[value][DT_BACKWARD], (int)forward, (int)backward);
}

static void check_plan(const dt_plan *p)
{
    for (int i = 0; i < p->steps; i++) {
        const dt_node *n = &p->node[i];
        const dt_layout own = n->cut ? DT_CUT : DT_HOME;
        const bool sums = n->op->weights != NULL;

        if (n->op->moves) {
            assert_true(p->node[i].second == 0);
            continue;
        }
        for (int k = 0; k < n->n_in; k++)
            check_value(p, n->in[k], sums && n->cut ? DT_WHOLE : own, own);
        check_value(p, n->out, own, sums && n->cut ? DT_WHOLE : own);
        assert_true(n->op != &dt_op_softmax_xent || !n->cut);
        if (p->remote && !n->cut) /* takes no memory */
            assert_int_equal(p->value[n->out].block, DT_NO_BLOCK);
    }
    assert_int_equal(p->layout[p->logits][DT_FORWARD], DT_HOME);
}

TEST(steps_find_their_layouts)
{
    for (size_t i = 0; i < DT_COUNT_OF(nets) * DT_COUNT_OF(strategies); i++) {
        dt_net *net = net_of(nets[i % DT_COUNT_OF(nets)]);
        const char *strategy = strategies[i / DT_COUNT_OF(nets)];
        const int parts = 2 + (int)i % (MOST_PARTS - 1);
        dt_model *m[MOST_PARTS];
        int made = 0;
        for (; made < parts; made++) {
            dt_plan *p[2];
            if (try_create(&m[made], net, strategy, made, parts) != DT_OK) {
                dt_model_destroy(m[made]);
                break; /* another network's names */
            }
            assert_ok(dt_plan_create(&p[0], m[made], 3, made % 2 ? DT_TRAIN : DT_EVAL, false));
            assert_ok(dt_plan_create(&p[1], m[made], 3, p[0]->mode, true));
            check_plan(p[0]);
            check_plan(p[1]);
            assert_int_equal(p[0]->steps, p[1]->steps);
            dt_plan_destroy(p[0]);
            dt_plan_destroy(p[1]);
        }
        if (made == parts)
            check_pieces(net, m, parts);
        else
            dt_fail_clear();
        while (made > 0)
            dt_model_destroy(m[--made]);
        dt_net_destroy(net);
    }
}

int main(void)
{
    dt_extra_split();
    return tests_run(NULL, NULL);
}

/* A mode is taken off the words behind it. */
TEST(modes_and_words)
{
    static const struct {
        const char *strategy, *words, *refused; /* by four ranks */
        bool searches;
        int parts, shards; /* 0: auto */
    } cases[] = {
        {"fc=out", "fc=out", NULL, false, 0, 0},
        {"auto", "", NULL, true, 0, 0},
        {"auto_parallel  fc=out", "fc=out", NULL, true, 0, 0},
        {"data_parallel", "", NULL, false, 0, 0},
        {"stand_alone", NULL, "4 ranks would train apart", false, 0, 0},
        {"data all=out", NULL, "--strategy data cuts no layers, but 'all=out'", false, 0, 0},
        {"semi_auto", NULL, "write --strategy all=out, or @FILE", false, 0, 0},
        {"hybrid_parallel all=out", "all=out", NULL, false, 0, 0},
        {"auto", NULL, "--tensor-parallel 3: 4 ranks are no multiple of it", true, 3, 0},
        {"all=out", NULL, "at most 2 ranks, or give a new run --shards 2 or more", false, 2, 1},
    };

    dt_options_mode = dt_mode_take;
    for (size_t i = 0; i < DT_COUNT_OF(cases); i++) {
        dt_options o;
        dt_options_init(&o);
        o.strategy = cases[i].strategy;
        o.tensor_parallel = cases[i].parts;
        o.shards = cases[i].shards;
        const dt_status st = dt_options_check(&o, 4);
        if (cases[i].refused)
            assert_fails(st, DT_CONFIG, cases[i].refused);
        else
            assert_string_equal(o.strategy, cases[i].words);
        assert_int_equal(o.searches, cases[i].searches);
    }
}
