/* train_resume.c - whether a checkpoint belongs to a run: one of an older version knows fewer
 * options, and its run did what is now their default. */
#include "state_json.h"

#include "train/session.h"

static dt_comm *comm;

static void run_open(dt_run *r)
{
    dt_options o;

    dt_options_init(&o);
    o.data = "synthetic:64";
    o.net = "vgg11";
    o.width_divisor = 32;
    o.shards = 1;
    o.threads = 1;
    o.resume = "auto";
    assert_ok(dt_run_open(r, comm, &o, DT_FOR_TRAINING));
}

/* The run's first checkpoint. */
static void save(const dt_run *r, const char *folder, char path[PATH_MAX])
{
    char data[DT_DIGEST_CHARS], class[DT_BITS_CLASS_CHARS];
    const dt_snapshot s = {.model = dt_run_weights(r),
                           .momentum = r->momentum.mem,
                           .options = &r->o,
                           .data_digest = data,
                           .bits_class = class};

    dt_digest_text(dt_source_digest(r->source), data);
    dt_bits_class(r, class);
    assert_ok(dt_checkpoint_save(folder, &s, -1, path));
}

/* As a version would have saved it that had no such option. */
static void forget(const char *path, const char *option)
{
    dt_checkpoint *c = NULL;

    assert_ok(dt_checkpoint_open(&c, path));
    assert_int_equal(json_object_del(json_object_get(c->root, "options"), option), 0);
    state_json_put(path, c);
    dt_checkpoint_close(c);
}

/* What the run finds to go on from, and says of it. */
static dt_status look(const dt_run *r, const char *folder, char text[4000])
{
    char path[PATH_MAX];
    dt_checkpoint *c = NULL;
    FILE *log = NULL;
    const int kept = folder_listen(&log);
    bool other_class = false;
    const dt_status st = dt_resume_find(r, folder, path, &c, &other_class);

    folder_heard(kept, log, text, 4000);
    assert_non_null(c);
    dt_checkpoint_close(c);
    return st;
}

static void an_unknown_option_had_its_default(void **state)
{
    char folder[FOLDER_PATH], path[PATH_MAX], text[4000];
    dt_run r;

    (void)state;
    folder_make(folder);
    run_open(&r);
    save(&r, folder, path);
    assert_ok(look(&r, folder, text));
    assert_string_equal(text, "");

    forget(path, "loss_epsilon"); /* its default is resolved as the run's is */
    forget(path, "lr");
    forget(path, "threads"); /* belongs to one start: nobody asks */
    assert_ok(look(&r, folder, text));
    assert_string_equal(text, "  lr: the checkpoint does not say; taken as '0.01'\n"
                              "  loss_epsilon: the checkpoint does not say; taken as '0'\n");

    r.o.lr = 0.5; /* and it is compared like any other */
    assert_fails(look(&r, folder, text), DT_CONFIG, "is of another run");
    assert_non_null(strstr(text, "  lr: the checkpoint has '0.01', now '0.5' (changes the run)\n"));
    dt_run_close(&r);
    folder_remove(folder);
}

/* Whatever is a reason to refuse is marked as one. */
static void other_data_are_marked(void **state)
{
    char folder[FOLDER_PATH], path[PATH_MAX], at[FOLDER_PATH + 64], text[4000];
    dt_checkpoint *c = NULL;
    dt_run r;

    (void)state;
    folder_make(folder);
    run_open(&r);
    save(&r, folder, path);
    snprintf(at, sizeof at, "%s/checkpoints/step-0000000000", folder);
    assert_ok(dt_checkpoint_open(&c, at));
    assert_int_equal(json_object_set_new(c->root, "data_digest", json_string("another")), 0);
    state_json_put(at, c);
    dt_checkpoint_close(c);
    assert_fails(look(&r, folder, text), DT_CONFIG, "the differences marked above");
    assert_non_null(strstr(text, "  data_digest: the checkpoint has 'another', now '"));
    assert_non_null(strstr(text, "' (changes the run)\n"));
    dt_run_close(&r);
    folder_remove(folder);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unknown_option_had_its_default),
        cmocka_unit_test(other_data_are_marked),
    };
    if (dt_comm_open(&comm, &argc, &argv) != DT_OK)
        return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    dt_comm_close(comm);
    return failed;
}
