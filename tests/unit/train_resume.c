/* train_resume.c - which checkpoint a run resumes from, and whether it belongs to the run. */
#include "train/session.h"

#include "small_run.h"
#include "snapshot.h"

static dt_comm *comm;

typedef struct running {
    dt_run r;
    dt_rundir d;
    char folder[FOLDER_PATH];
} running;

static void running_open(running *t)
{
    dt_options o = small_run("vgg11");

    o.shards = 1;
    o.resume = "auto";
    assert_ok(dt_run_open(&t->r, comm, &o, DT_FOR_TRAINING));
    folder_make(t->folder);
    t->d = (dt_rundir){.folder = open(t->folder, O_RDONLY | O_DIRECTORY), .lock = -1};
    snprintf(t->d.path, sizeof t->d.path, "%s", t->folder);
    t->d.resumed = true;
}

static void running_close(running *t)
{
    dt_rundir_close(&t->d);
    dt_run_close(&t->r);
    folder_remove(t->folder);
}

static void save(running *t, int64_t step, char path[PATH_MAX])
{
    dt_snapshot s = {.model = t->r.weights,
                     .momentum = t->r.domain[0].momentum.mem,
                     .at = {.run_step = step},
                     .options = &t->r.o};

    dt_digest_text(dt_source_digest(t->r.source), s.data_digest);
    dt_bits_class(&t->r, s.bits_class);
    assert_ok(dt_checkpoint_save(&t->d, &s));
    memcpy(path, t->d.last, PATH_MAX);
}

typedef struct resumed {
    char path[PATH_MAX];
    dt_position at;
} resumed;

/* What the run finds to resume from, and says of it. */
static dt_status look(running *t, resumed *to, char text[4000])
{
    capture c;

    capture_begin(&c);
    const dt_status st = dt_resume(&t->r, &t->d, to->path, &to->at);
    capture_end(&c);
    snprintf(text, 4000, "%.3999s", c.text);
    return st;
}

TEST(differences_are_named)
{
    static const struct {
        const char *from, *to, *line;
        bool refused;
    } cases[] = {
        {"\"lr\": \"0.01\"", "\"lr\": \"0.5\"",
         "  lr: the checkpoint has '0.5', now '0.01' (changes the run)\n", true},
        {"\"net\": \"vgg11\",", "",
         "  net: the checkpoint has 'resnet50', now 'vgg11' (changes the run)\n", true},
        {"\"data_digest\": \"", "\"data_digest\": \"f", "  data_digest: the checkpoint has 'f",
         true},
        {"\"class\": \"", "\"class\": \"old ", "  class: the checkpoint has 'old ", false},
        {"\"threads\": \"", "\"threads\": \"9", "", false}, /* belongs to one start */
        {"\"lr\": \"0.01\",", "", "", false},               /* saved before there was the option */
    };
    char saved[PATH_MAX], text[4000];
    resumed to;
    running t;

    running_open(&t);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[FOLDER_PATH + 64];
        save(&t, 0, saved);
        snprintf(path, sizeof path, "%s/checkpoints/step-0000000000", t.folder);
        assert_ok(look(&t, &to, text));
        assert_string_equal(text, "");
        snapshot_edit(path, DT_CHECKPOINT_STATE, cases[i].from, cases[i].to);
        const dt_status st = look(&t, &to, text);
        if (cases[i].refused)
            assert_fails(st, DT_CONFIG, "is of another run: the differences above");
        else
            assert_ok(st);
        assert_true(strncmp(text, cases[i].line, strlen(cases[i].line)) == 0);
        assert_int_equal(strstr(text, "(changes the run)") != NULL, cases[i].refused);
        t.r.o.resume_force = true;
        assert_ok(look(&t, &to, text));
        t.r.o.resume_force = false;
        assert_int_equal(strstr(text, "another build") != NULL, i == 3);
        folder_remove(folder_path(t.folder, "checkpoints"));
    }
    running_close(&t);
}

TEST(a_run_resumes_from_its_newest)
{
    char one[PATH_MAX], two[PATH_MAX], text[4000];
    resumed to;
    running t;

    running_open(&t);
    assert_ok(look(&t, &to, text)); /* killed before its first checkpoint: it begins anew */
    assert_string_equal(to.path, "");
    t.r.o.resume = t.folder;
    assert_fails(look(&t, &to, text), DT_NOINPUT, "--resume auto begins at the first step");
    folder_write(t.folder, "model.safetensors", "", 0);
    assert_fails(look(&t, &to, text), DT_CANTCREATE, "holds a finished model and no checkpoint");
    save(&t, 1, one);
    save(&t, 2, two);
    assert_ok(look(&t, &to, text));
    assert_string_equal(to.path, two);
    assert_int_equal(to.at.run_step, 2);
    t.r.o.resume = two;
    assert_ok(look(&t, &to, text));
    t.r.o.resume = one;
    assert_fails(look(&t, &to, text), DT_CANTCREATE, "with --out NEW");
    t.d.resumed = false; /* in another folder it may begin with any */
    assert_ok(look(&t, &to, text));
    assert_string_equal(to.path, one);
    t.d.resumed = true;
    assert_int_equal(unlink(folder_path(t.folder, "checkpoints/step-0000000002/MANIFEST")), 0);
    assert_ok(look(&t, &to, text)); /* now it is the newest that is valid */
    assert_non_null(strstr(text, "skipped"));
    t.r.o.resume = "auto";
    assert_int_equal(unlink(folder_path(t.folder, "checkpoints/step-0000000001/state.json")), 0);
    assert_fails(look(&t, &to, text), DT_FORMAT, "none of the 2 checkpoints in ");
    t.d.resumed = false;
    t.r.o.resume = "/tmp";
    assert_fails(look(&t, &to, text), DT_NOINPUT, "--resume /tmp: there is no checkpoint");
    running_close(&t);
}

int main(int argc, char **argv)
{
    if (dt_comm_open(&comm, dt_comm_launched(), &argc, &argv) != DT_OK)
        return 1;
    const int failed = tests_run(NULL, NULL);
    dt_comm_close(comm);
    return failed;
}
