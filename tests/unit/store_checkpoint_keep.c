/* store_checkpoint_keep.c - which checkpoints stay, by table; the same step saved again; what is
 * somebody else's. */
#include "snapshot.h"

typedef struct saved {
    int64_t step;
    bool best;
} saved;

static void save_as(fixture *f, saved what)
{
    snapshot_fill(f, what.step);
    f->s.best = what.best;
    assert_ok(dt_checkpoint_save(&f->d, &f->s));
}

/* "1 5 10" of the checkpoints that are there; a generation as "5-2". */
static void assert_steps(const fixture *f, const char *want)
{
    char has[1000] = "";
    dt_checkpoint_name *list = NULL;
    dt_folder in;
    size_t count = 0, used = 0;

    assert_ok(dt_checkpoints_open(&in, f->d.folder, f->run));
    assert_ok(dt_checkpoint_list(&in, &list, &count));
    dt_folder_close(&in);
    for (size_t i = 0; i < count; i++) {
        used += (size_t)snprintf(has + used, sizeof has - used, "%s%lld", i ? " " : "",
                                 (long long)list[i].step);
        if (list[i].generation > 1)
            used += (size_t)snprintf(has + used, sizeof has - used, "-%d", list[i].generation);
    }
    free(list);
    assert_string_equal(has, want);
}

SNAPSHOT_TEST(rules_are_kept)
{
    static const struct {
        saved save[8]; /* ends with step 0 */
        dt_keep keep;
        const char *left;
    } cases[] = {
        {{{1, 0}}, {1, 0, false, false}, "1"},
        {{{1, 0}, {2, 0}, {3, 0}}, {1, 0, false, false}, "3"},
        {{{1, 0}, {2, 0}, {3, 0}}, {2, 0, false, false}, "2 3"},
        {{{1, 0}, {2, 0}, {3, 0}}, {9, 0, false, false}, "1 2 3"},
        {{{1, 0}, {2, 0}, {3, 0}}, {0, 0, false, false}, "3"}, /* never none */
        {{{3, 0}, {4, 0}, {8, 0}, {9, 0}, {10, 0}}, {1, 4, false, false}, "4 8 10"},
        {{{4, 0}, {8, 0}, {12, 0}}, {1, 4, false, false}, "4 8 12"},
        {{{1, 1}, {2, 0}, {3, 1}, {4, 0}, {5, 0}}, {1, 0, true, false}, "3 5"},
        {{{1, 1}, {2, 0}, {3, 1}, {4, 0}, {5, 0}}, {1, 0, false, false}, "5"},
        {{{1, 0}, {2, 0}}, {1, 0, true, false}, "2"},
        {{{1, 1}, {2, 0}, {3, 0}}, {2, 0, true, false}, "1 2 3"},
        {{{9, 0}, {10, 0}, {9999999999, 0}, {10000000000, 0}},
         {3, 0, false, false},
         "10 9999999999 10000000000"}, /* by number, not by text */
        {{{5, 0}, {5, 1}, {6, 0}}, {2, 0, false, false}, "5-2 6"},
        {{{5, 0}, {5, 1}, {6, 0}, {7, 0}}, {1, 0, true, false}, "5-2 7"},
        {{{5, 1}, {5, 0}, {6, 0}, {7, 0}}, {1, 0, true, false}, "5 7"},
        {{{5, 1}, {5, 0}, {5, 1}}, {1, 0, true, false}, "5-3"},
        {{{5, 0}, {5, 0}}, {1, 0, false, false}, "5-2"},        /* nothing is ever replaced */
        {{{1, 0}, {2, 0}, {3, 0}}, {1, 0, false, true}, "2 3"}, /* the newest may lead nowhere */
        {{{1, 0}, {2, 0}, {3, 0}}, {2, 0, false, true}, "2 3"},
        {{{4, 0}, {5, 0}, {6, 0}, {6, 1}}, {1, 0, false, true}, "5 6-2"},
    };
    char names[1000];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t last = 0;
        for (const saved *s = cases[i].save; s->step; s++) {
            save_as(f, *s);
            last = s->step;
        }
        assert_loads_step(f, f->d.last, last);
        for (int again = 0; again < 2; again++) { /* which changes nothing more */
            assert_ok(dt_checkpoint_prune(&f->d, last, &cases[i].keep));
            assert_steps(f, cases[i].left);
            assert_string_equal(names_in(f, ".", names), "");
        }
        folder_remove(f->checkpoints);
    }
}

/* Damaged ones are neither counted nor touched, nor are those that are newer than the one that was
 * just saved: a run that skipped them left them there. */
SNAPSHOT_TEST(damage_never_costs_the_last_valid_one)
{
    static const dt_keep one = {.last = 1}, two = {.last = 2};

    for (int64_t k = 1; k <= 5; k++)
        snapshot_save(f, k);
    folder_write(f->checkpoints, "step-0000000003/state.json", "", 0);
    assert_ok(dt_checkpoint_prune(&f->d, 4, &two));
    assert_steps(f, "2 3 4 5");
    assert_ok(dt_checkpoint_prune(&f->d, 4, &one));
    assert_steps(f, "3 4 5");
    unlink(step_path(f, "step-0000000004/MANIFEST"));
    assert_ok(dt_checkpoint_prune(&f->d, 5, &one));
    assert_steps(f, "3 4 5");
}

/* What a killed process has left goes; what only looks like it, and what is behind links, stays. */
SNAPSHOT_TEST(leftovers_are_swept_and_others_things_stay)
{
    static const dt_keep keep = {.last = 1};
    char names[1000], other[FOLDER_PATH];

    assert_ok(dt_checkpoint_prune(&f->d, 0, &keep)); /* no checkpoints yet */
    folder_make(other);
    for (int64_t k = 1; k <= 3; k++)
        snapshot_save(f, k);
    folder_write(f->checkpoints, "step-0000000002/thesis.txt", "x", 1);
    assert_int_equal(rename(step_path(f, "step-0000000001"), folder_path(other, "kept")), 0);
    assert_int_equal(symlink(folder_path(other, "kept"), step_path(f, "step-0000000001")), 0);
    assert_int_equal(symlink(folder_path(other, "kept"), step_path(f, ".trash-step-0000000007")),
                     0);
    assert_int_equal(symlink("nowhere", step_path(f, ".tmp-step-0000000002")), 0);
    static const char *const made[] = {".tmp-step-0000000009",
                                       ".trash-step-0000000008",
                                       ".tmp-mine",
                                       ".trash-and-more",
                                       "notes",
                                       "step-1"};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        assert_int_equal(mkdir(step_path(f, made[i]), 0755), 0);
    folder_write(f->checkpoints, ".tmp-step-0000000009/model.safetensors", "x", 1);
    folder_write(f->checkpoints, ".trash-step-0000000008/state.json", "x", 1);
    assert_ok(dt_checkpoint_prune(&f->d, 3, &keep));
    assert_string_equal(names_in(f, "", names),
                        ".tmp-mine .trash-and-more .trash-step-0000000002 notes step-0000000003 "
                        "step-1");
    assert_int_equal(access(step_path(f, ".trash-step-0000000002/thesis.txt"), F_OK), 0);
    assert_int_equal(access(folder_path(other, "kept/MANIFEST"), F_OK), 0);
    folder_remove(other);
}
