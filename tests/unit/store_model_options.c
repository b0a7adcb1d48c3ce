/* store_model_options.c - what a model file says of its network, as options. */
#include "model_files.h"

#include "store/store.h"

static int make(void **state)
{
    const dt_net_spec spec = {.net = "resnet50",
                              .variant = "torchvision",
                              .stem = "cifar",
                              .image_size = 32,
                              .classes = 10,
                              .width_divisor = 16};
    *state = model_files_make(&spec);
    return 0;
}

/* It fills the options that were not given, and no others: not those either that were given as
 * their default. */
TEST_OF_FIXTURE(make, model_files_release, a_file_fills_what_was_not_given)
{
    const dt_model_file_opts bad = {.names = "torchvision", .normalize = "square"};
    const dt_target target = path_target(f->file);
    dt_model_meta meta;
    dt_options o;

    model_save(&f->state, f->file, "torchvision", 0);
    dt_options_init(&o);
    assert_ok(dt_option_set(dt_option_find("normalize"), &o, "tutorial", "here", DT_USAGE));
    assert_ok(dt_option_set(dt_option_find("image_size"), &o, "64", "here", DT_USAGE));
    assert_ok(dt_options_from_model(f->file, &o, &meta));
    assert_string_equal(o.net, "resnet50");
    assert_string_equal(o.variant, "torchvision");
    assert_string_equal(o.stem, "cifar");
    assert_int_equal(o.width_divisor, 16);
    assert_string_equal(o.normalize, "tutorial");
    assert_int_equal(o.image_size, 64);

    assert_ok(dt_model_put(&f->state, &target, &bad, NULL));
    dt_options_init(&o);
    assert_fails(dt_options_from_model(f->file, &o, &meta), DT_FORMAT, "dtrain.normalize");
}

/* Of a run or a checkpoint, and of a file that lies in one. */
TEST_OF_FIXTURE(make, model_files_release, a_model_has_the_options_beside_it)
{
    char folder[PATH_MAX], beside[PATH_MAX], found[PATH_MAX];

    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(f->file, '/') - f->file), f->file);
    snprintf(beside, sizeof beside, "%.4000s/options.yaml", folder);
    assert_ok(dt_model_options(f->file, found));
    assert_string_equal(found, "");
    FILE *options = fopen(beside, "w");
    assert_non_null(options);
    assert_int_equal(fclose(options), 0);
    assert_ok(dt_model_options(f->file, found));
    assert_string_equal(found, beside);
    assert_ok(dt_model_options(folder, found));
    assert_string_equal(found, beside);
    assert_int_equal(unlink(beside), 0);
}
