/* model_net.c - networks: published parameter counts and multiply-adds, names, orders, forks. */
#include "net.h"

static const dt_net_spec vgg = {.net = "vgg11", .classes = 10, .width_divisor = 1};

static dt_net_spec resnet(const char *variant, const char *stem, int size)
{
    return (dt_net_spec){.net = "resnet50",
                         .variant = variant,
                         .stem = stem,
                         .image_size = size,
                         .classes = 10,
                         .width_divisor = 1};
}

static dt_net_spec wide(int size, int classes)
{
    return (dt_net_spec){.net = "vgg11",
                         .variant = "wide",
                         .image_size = size,
                         .classes = classes,
                         .width_divisor = 1};
}

static test_plan make_plan(const dt_net_spec *spec)
{
    const dt_model_opts opts = {.precision = DT_F32, .threads = 1};
    return test_plan_create(spec, &opts, 1, DT_TRAIN);
}

/* reference: torchvision and kuangliu models, mindspore-ai/docs r1.3; MACs of the
 * convolutions per image as published in networks of the same definition. */
TEST(counts)
{
    const struct {
        dt_net_spec spec;
        size_t weights, tensors;
        double mega_macs;
    } want[] = {
        {resnet("mindspore", "imagenet", 224), 23528522, 161, 3856},
        {resnet("torchvision", "imagenet", 224), 23528522, 161, 4087},
        {resnet("torchvision", "imagenet", 32), 23528522, 161, 83},
        {resnet("torchvision", "cifar", 32), 23520842, 161, 1298},
        {resnet("mindspore", "cifar", 32), 23520842, 161, 1222},
        {vgg, 9231114, 34, 152.8},
        {{.net = "resnet9", .classes = 10, .width_divisor = 1}, 6573120, 25, 379.3},
        {{.net = "airbench", .classes = 10, .width_divisor = 1}, 1972792, 21, 118.1},
        {wide(32, 10), 28149514, 38, 171.7},
        {wide(224, 1000), 132868840, 38, 7609}, /* torchvision's vgg11_bn */
        {{.net = "mlp", .classes = 10, .width_divisor = 1}, 1640330, 6, 1.64},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        test_plan t = make_plan(&want[i].spec);
        const dt_plan *p = t.plan;
        double macs = 0;
        for (int k = 0; k < p->steps; k++) { /* each pixel meets each weight */
            const dt_shape *out = &p->value[p->node[k].out].shape;
            if (p->node[k].op->weights)
                macs += (double)(out->n * out->h * out->w) * 1e-6 *
                        (double)t.n.net->param[p->node[k].param[0]].count;
        }
        assert_int_equal(t.n.net->weight_total, want[i].weights);
        assert_int_equal(t.n.net->params, want[i].tensors);
        assert_true(macs > want[i].mega_macs * 0.99 - 0.5);
        assert_true(macs < want[i].mega_macs * 1.01 + 0.5);
        test_plan_close(&t);
    }
}

TEST(bad_specs)
{
    dt_net *net = NULL;
    dt_net_spec s = vgg;
    s.net = "vgg12";
    assert_fails(dt_net_create(&net, &s), DT_CONFIG, "vgg12");
    s = vgg;
    s.image_size = 16;
    assert_fails(dt_net_create(&net, &s), DT_CONFIG, "16");
    dt_net_destroy(net);
    s = resnet("wide", "cifar", 32);
    assert_fails(dt_net_create(&net, &s), DT_CONFIG, "resnet50 has no variant 'wide'");
    dt_net_destroy(net);
}

TEST(backward_order)
{
    const dt_net_spec s = resnet("torchvision", "cifar", 32);
    test_plan t = make_plan(&s);
    const dt_plan *p = t.plan;
    size_t covered = 0;

    /* disjoint, aligned, and the classifier first */
    for (size_t i = 0; i < t.n.net->params; i++) {
        const dt_param *a = &t.n.net->param[i];
        assert_int_equal(a->offset % 16, 0);
        covered += dt_align(a->count, 16);
        for (size_t k = 0; k < i; k++) {
            const dt_param *b = &t.n.net->param[k];
            assert_true(a->offset + a->count <= b->offset || b->offset + b->count <= a->offset);
        }
    }
    assert_int_equal(covered, t.n.net->slab_floats);
    for (size_t i = 1; i < t.n.net->params; i++)
        assert_true(t.n.net->param[t.n.net->params - i].offset <
                    t.n.net->param[t.n.net->params - 1 - i].offset);
    assert_string_equal(t.n.net->param[0].name, "conv1.weight");
    assert_string_equal(t.n.net->param[160].name, "fc.bias");
    assert_true(t.n.net->param[160].offset < 10 * 2048 + 16);

    /* the mark never falls, ends at the whole slab, and passes no pending tensor */
    size_t mark = 0;
    for (int i = p->steps; i-- > 0;) {
        assert_true(p->final[i][0] >= mark);
        mark = p->final[i][0];
        for (int j = 0; j < i; j++)
            for (int k = 0; k < p->node[j].n_param; k++)
                assert_true(t.n.net->param[(size_t)p->node[j].param[k]].offset >= mark);
    }
    assert_int_equal(mark, t.n.net->slab_floats);
    test_plan_close(&t);
}

static int count_op(const dt_plan *p, const dt_op *op)
{
    int n = 0;
    for (int i = 0; i < p->steps; i++)
        n += p->node[i].op == op;
    return n;
}

TEST(forks)
{
    const dt_net_spec s = resnet("mindspore", "imagenet", 64);
    test_plan t = make_plan(&s);
    const dt_plan *p = t.plan;

    assert_int_equal(count_op(p, &dt_op_batchnorm), 53);
    assert_int_equal(count_op(p, &dt_op_conv2d), 53);
    assert_int_equal(count_op(p, &dt_op_fork), 1); /* the others: batch norms that add */
    for (int i = 0; i < p->steps; i++)             /* inputs are made before they are read */
        for (int k = 0; k < p->node[i].n_in; k++)
            assert_true(p->value[p->node[i].in[k]].producer < i);
    test_plan_close(&t);
}

TEST(names)
{
    dt_net *net;
    char out[80];
    const dt_net_spec s = resnet("torchvision", "cifar", 32);

    assert_ok(dt_net_create(&net, &s));
    assert_ok(
        dt_net_rename(net, "kuangliu", "layer1.0.downsample.1.running_mean", out, sizeof out));
    assert_string_equal(out, "layer1.0.shortcut.1.running_mean");
    assert_ok(dt_net_rename(net, "kuangliu", "fc.weight", out, sizeof out));
    assert_string_equal(out, "linear.weight");
    assert_fails(dt_net_rename(net, "cs744", "fc.weight", out, sizeof out), DT_CONFIG, "cs744");
    dt_net_destroy(net);

    assert_ok(dt_net_create(&net, &vgg));
    assert_ok(dt_net_rename(net, "cs744", "features.28.weight", out, sizeof out));
    assert_string_equal(out, "layers.28.weight");
    assert_ok(dt_net_rename(net, "cs744", "classifier.bias", out, sizeof out));
    assert_string_equal(out, "fc1.bias");
    assert_string_equal(net->param[0].name, "features.0.weight");
    assert_string_equal(net->param[33].name, "classifier.bias");
    assert_string_equal(net->norm[7].name, "features.26");
    dt_net_destroy(net);
}

TEST(file_order)
{
    const dt_param p = {.rank = 4, .dim = {5, 3, 2, 4}, .count = 120, .pixels = 8};
    float file[120], slab[120], back[120];

    for (int i = 0; i < 120; i++)
        file[i] = (float)i;
    dt_param_from_file(&p, file, slab);
    for (int o = 0; o < 5; o++) /* OIHW to HWIO, spelled out */
        for (int i = 0; i < 3; i++)
            for (int h = 0; h < 2; h++)
                for (int w = 0; w < 4; w++)
                    assert_true(slab[((h * 4 + w) * 3 + i) * 5 + o] ==
                                file[((o * 3 + i) * 2 + h) * 4 + w]);
    dt_param_to_file(&p, slab, back);
    assert_memory_equal(file, back, sizeof file);

    /* a linear layer over an image is a convolution with one kernel over all of it */
    const dt_param flat = {.name = "fc", .rank = 2, .dim = {5, 24}, .count = 120, .pixels = 8};
    float again[120];
    char element[DT_ELEMENT_CHARS], want[DT_ELEMENT_CHARS];
    dt_param_from_file(&flat, file, again);
    assert_memory_equal(slab, again, sizeof slab);
    for (size_t i = 0; i < 120; i++) {
        snprintf(want, sizeof want, "fc[%d][%d]", (int)slab[i] / 24, (int)slab[i] % 24);
        assert_string_equal(dt_param_element(&flat, i, element), want);
    }
}
