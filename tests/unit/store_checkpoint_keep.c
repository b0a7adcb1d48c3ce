/* store_checkpoint_keep.c - which checkpoints stay, by table; the same step saved again; going
 * back in time. */
#include "snapshot.h"

#include "store/checkpoint_internal.h"

typedef struct saved {
    int64_t step;
    bool best;
} saved;

static void save_as(fixture *f, saved what, char path[PATH_MAX])
{
    snapshot_fill(f, what.step);
    f->s.best = what.best;
    assert_ok(dt_checkpoint_save(f->run, &f->s, -1, path));
}

/* "1 5 10" of the folders that are there; a generation as "5-2". */
static void assert_steps(const fixture *f, const char *want)
{
    char has[1000] = "";
    dt_checkpoint_name *list = NULL;
    size_t count = 0, used = 0;

    assert_ok(dt_checkpoint_list(f->checkpoints, &list, &count));
    for (size_t i = 0; i < count; i++) {
        used += (size_t)snprintf(has + used, sizeof has - used, "%s%lld", i ? " " : "",
                                 (long long)list[i].step);
        if (list[i].generation > 1)
            used += (size_t)snprintf(has + used, sizeof has - used, "-%d", list[i].generation);
    }
    free(list);
    assert_string_equal(has, want);
}

static void rules_are_kept(void **state)
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
        {{{1, 0}, {2, 0}, {3, 0}}, {1, 0, false, true}, "2 3"}, /* the newest may lead nowhere */
        {{{1, 0}, {2, 0}, {3, 0}}, {2, 0, false, true}, "2 3"},
        {{{4, 0}, {5, 0}, {6, 0}, {6, 1}}, {1, 0, false, true}, "5 6-2"},
    };
    fixture *f = *state;
    char path[PATH_MAX], names[1000];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (const saved *s = cases[i].save; s->step; s++)
            save_as(f, *s, path);
        assert_ok(dt_checkpoint_prune(f->run, &cases[i].keep));
        assert_steps(f, cases[i].left);
        assert_string_equal(names_in(f, ".", names), "");
        assert_ok(dt_checkpoint_prune(f->run, &cases[i].keep)); /* changes nothing more */
        assert_steps(f, cases[i].left);
        folder_remove(f->checkpoints);
    }
}

/* Torn ones are neither counted nor, when they are newer than the valid one, touched. */
static void damage_never_costs_the_last_valid_one(void **state)
{
    static const dt_keep one = {.last = 1}, two = {.last = 2};
    fixture *f = *state;

    for (int64_t k = 1; k <= 5; k++)
        snapshot_save(f, k);
    folder_write(f->checkpoints, "step-0000000003/state.json", "", 0);
    /* of the right length: only reading every byte tells */
    FILE *file = fopen(step_path(f, "step-0000000005/model.safetensors"), "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 5000, SEEK_SET), 0);
    assert_int_equal(fputs("damage", file) >= 0 && fclose(file) == 0, true);
    assert_ok(dt_checkpoint_prune(f->run, &two));
    assert_steps(f, "2 4 5");
    assert_ok(dt_checkpoint_prune(f->run, &one));
    assert_steps(f, "4 5");
    unlink(step_path(f, "step-0000000004/MANIFEST"));
    assert_ok(dt_checkpoint_prune(f->run, &one)); /* nothing valid: nothing goes */
    assert_steps(f, "4 5");
}

static void leftovers_are_swept(void **state)
{
    static const dt_keep keep = {.last = 1};
    fixture *f = *state;
    char names[1000];

    assert_ok(dt_checkpoint_prune(f->run, &keep)); /* no checkpoints yet */
    snapshot_save(f, 1);
    snapshot_save(f, 2);
    assert_int_equal(mkdir(step_path(f, ".tmp-step-0000000009"), 0755), 0);
    folder_write(f->checkpoints, ".tmp-step-0000000009/model.safetensors", "x", 1);
    assert_int_equal(mkdir(step_path(f, ".trash-step-0000000001"), 0755), 0);
    folder_write(f->checkpoints, ".trash-step-0000000001/state.json", "x", 1);
    assert_int_equal(mkdir(step_path(f, "notes"), 0755), 0); /* not ours */
    assert_ok(dt_checkpoint_prune(f->run, &keep));
    assert_string_equal(names_in(f, "", names), "notes step-0000000002");
    rmdir(step_path(f, "notes"));
}

/* Leftovers and checkpoints that are links: their own names go, and nothing behind them. */
static void links_are_not_followed(void **state)
{
    static const dt_keep keep = {.last = 1};
    fixture *f = *state;
    char names[1000], other[FOLDER_PATH];
    struct stat info;

    folder_make(other);
    snapshot_save(f, 1);
    assert_int_equal(rename(step_path(f, "step-0000000001"), folder_path(other, "step-0000000001")),
                     0);
    assert_int_equal(
        symlink(folder_path(other, "step-0000000001"), step_path(f, "step-0000000001")), 0);
    assert_int_equal(
        symlink(folder_path(other, "step-0000000001"), step_path(f, ".trash-step-0000000007")), 0);
    assert_int_equal(symlink("nowhere", step_path(f, ".tmp-step-0000000002")), 0);
    snapshot_save(f, 2);
    assert_ok(dt_checkpoint_prune(f->run, &keep));
    assert_string_equal(names_in(f, "", names), "step-0000000002");
    assert_int_equal(stat(folder_path(other, "step-0000000001/MANIFEST"), &info), 0);
    assert_ok(dt_checkpoint_verify(folder_path(other, "step-0000000001")));
    folder_remove(other);
}

/* A save that died left its folder under the very name. */
static void a_dead_save_is_no_obstacle(void **state)
{
    fixture *f = *state;
    char names[1000];

    snapshot_save(f, 1);
    assert_int_equal(mkdir(step_path(f, ".tmp-step-0000000002"), 0755), 0);
    folder_write(f->checkpoints, ".tmp-step-0000000002/old", "x", 1);
    snapshot_save(f, 2);
    assert_string_equal(names_in(f, "", names), "step-0000000001 step-0000000002");
    assert_loads_step(f, step_path(f, "step-0000000002"), 2);
}

static void the_same_step_again(void **state)
{
    fixture *f = *state;
    char path[PATH_MAX], names[1000];
    struct stat before, after;

    save_as(f, (saved){7, false}, path);
    assert_int_equal(stat(path, &before), 0);
    save_as(f, (saved){7, false}, path); /* the same content: the same folder */
    assert_int_equal(stat(step_path(f, "step-0000000007"), &after), 0);
    assert_true(before.st_ino == after.st_ino);
    assert_string_equal(path, step_path(f, "step-0000000007"));
    assert_string_equal(names_in(f, "", names), "step-0000000007");

    save_as(f, (saved){7, true}, path); /* other content: both, and the later counts */
    assert_string_equal(path, step_path(f, "step-0000000007-2"));
    assert_steps(f, "7 7-2");
    assert_ok(dt_checkpoint_find(f->run, path));
    assert_string_equal(path, step_path(f, "step-0000000007-2"));
    assert_loads_step(f, path, 7);

    folder_write(f->checkpoints, "step-0000000007-2/state.json", "{",
                 1);                    /* torn: the one before counts */
    save_as(f, (saved){7, true}, path); /* and the same content is saved anew */
    assert_steps(f, "7 7-2 7-3");
    assert_loads_step(f, path, 7);
}

static void going_back_sets_aside_what_is_newer(void **state)
{
    fixture *f = *state;
    char names[1000], found[PATH_MAX], text[2000];
    FILE *log = NULL;

    for (int64_t k = 1; k <= 4; k++)
        snapshot_save(f, k);
    unlink(step_path(f, "step-0000000004/MANIFEST"));
    assert_ok(dt_checkpoint_rewind(step_path(f, "step-0000000004"))); /* none is newer */
    assert_steps(f, "1 2 3 4");
    int kept = folder_listen(&log);
    dt_status st = dt_checkpoint_rewind(step_path(f, "step-0000000002"));
    folder_heard(kept, log, text, sizeof text);
    assert_ok(st);
    assert_non_null(strstr(text, "step-0000000003 is newer"));
    assert_string_equal(names_in(f, "", names), ".undone-step-0000000003 .undone-step-0000000004 "
                                                "step-0000000001 step-0000000002");
    assert_ok(dt_checkpoint_find(f->run, found));
    assert_string_equal(found, step_path(f, "step-0000000002"));
    assert_ok(dt_checkpoint_verify(step_path(f, ".undone-step-0000000003")));

    snapshot_save(f, 3); /* and back again, over the older remains */
    kept = folder_listen(&log);
    st = dt_checkpoint_rewind(step_path(f, "step-0000000001"));
    folder_heard(kept, log, text, sizeof text);
    assert_ok(st);
    assert_steps(f, "1");
    assert_ok(dt_checkpoint_prune(f->run, &(dt_keep){.last = 1}));
    assert_string_equal(names_in(f, ".undone-", names),
                        ".undone-step-0000000002 .undone-step-0000000003 "
                        ".undone-step-0000000004");
    snapshot_save(f, 3); /* as far again as two of them, and further */
    assert_ok(dt_checkpoint_prune(f->run, &(dt_keep){.last = 1}));
    assert_string_equal(names_in(f, "", names), ".undone-step-0000000004 step-0000000003");
    assert_int_equal(mkdir(step_path(f, ".undone-mine"), 0755), 0); /* no name of ours */
    snapshot_save(f, 5);
    assert_ok(dt_checkpoint_prune(f->run, &(dt_keep){.last = 1}));
    assert_string_equal(names_in(f, "", names), ".undone-mine step-0000000005");
}

/* What only looks like a checkpoint, or like what is left of one, is somebody's. */
static void others_things_stay(void **state)
{
    static const dt_keep keep = {.last = 1};
    fixture *f = *state;
    char names[1000];

    snapshot_save(f, 1);
    snapshot_save(f, 2);
    assert_int_equal(unlink(step_path(f, "step-0000000002/MANIFEST")), 0);
    assert_int_equal(mkdir(step_path(f, "step-0000000003"), 0755), 0);
    folder_write(f->checkpoints, "step-0000000003/thesis.txt", "x", 1);
    assert_int_equal(rename(step_path(f, "step-0000000001"), step_path(f, ".tmp-mine")), 0);
    assert_int_equal(mkdir(step_path(f, ".trash-and-more"), 0755), 0);
    snapshot_save(f, 4);
    assert_ok(dt_checkpoint_prune(f->run, &keep));
    assert_string_equal(names_in(f, "", names),
                        ".tmp-mine .trash-and-more step-0000000003 step-0000000004");
    assert_int_equal(access(step_path(f, "step-0000000003/thesis.txt"), F_OK), 0);
    assert_int_equal(access(step_path(f, ".tmp-mine/MANIFEST"), F_OK), 0);
}

/* Folders that somebody, or a file browser, put into checkpoints; and what cannot be removed
 * (by root, either: a folder too deep) keeps nothing else. */
static void folders_within_are_no_obstacle(void **state)
{
    static const dt_keep keep = {.last = 1};
    fixture *f = *state;
    char names[1000], deep[FOLDER_PATH + 200];
    struct stat info;

    for (int64_t k = 1; k <= 3; k++)
        snapshot_save(f, k);
    assert_int_equal(mkdir(step_path(f, "step-0000000001/notes"), 0755), 0);
    assert_int_equal(mkdir(step_path(f, "step-0000000001/notes/old"), 0755), 0);
    folder_write(f->checkpoints, "step-0000000001/notes/old/text", "x", 1);
    assert_int_equal(symlink(f->run, step_path(f, "step-0000000001/notes/link")), 0);
    assert_ok(dt_checkpoint_prune(f->run, &keep));
    assert_string_equal(names_in(f, "", names), "step-0000000003");
    assert_int_equal(stat(f->run, &info), 0); /* what the link leads to */

    snprintf(deep, sizeof deep, "%s", step_path(f, ".trash-step-0000000077"));
    for (int i = 0; i < 20; i++) {
        assert_int_equal(mkdir(deep, 0755), 0);
        snprintf(deep + strlen(deep), sizeof deep - strlen(deep), "/d");
    }
    for (int i = 0; i < 3; i++) {
        const char *one[] = {".tmp-step-0000000070", ".trash-step-0000000071",
                             ".tmp-step-0000000072"};
        assert_int_equal(mkdir(step_path(f, one[i]), 0755), 0);
    }
    assert_fails(dt_checkpoint_prune(f->run, &keep), DT_IO, ".trash-step-0000000077");
    assert_string_equal(names_in(f, "", names), ".trash-step-0000000077 step-0000000003");
}

/* ---- state.json ------------------------------------------------------------------------------ */

static void state_is_read_strictly(void **state)
{
    static const struct {
        const char *from, *to, *message;
    } cases[] = {
        {"\"format\": 1", "\"format\": 1.0", "'format' is not a whole number"},
        {"\"format\": 1,", "", "'format' is missing"},
        {"\"format\": 1", "\"format\": 0", "'format' is not a whole number in its range"},
        {"\"step\": 5", "\"step\": -5", "'step' is not a whole number in its range"},
        {"\"step\": 5", "\"step\": \"5\"", "'step' is not a whole number"},
        {"\"run_step\": 5", "\"other\": 5", "'run_step' is missing"},
        {"\"images\"", "\"step\"", "not JSON"}, /* twice */
        {"\"loss_sum\": \"0x", "\"loss_sum\": \"1x", "'loss_sum' is not the text"},
        {"\"best_accuracy\": \"", "\"best_accuracy\": \" ", "'best_accuracy' is not"},
        {"\"best\": false", "\"best\": 0", "'best' is neither"},
        {"\"class\": \"test, avx512\"", "\"class\": null", "'class' is not a text"},
        {"\"lr\": \"0.01\"", "\"lr\": 0.01", "'options' is not an object of texts"},
        {"\"format\": 1", "\"format\": 1, \"more\": 1", "has 16 members, not 15"},
        {"{", "[", "not JSON"},
    };
    fixture *f = *state;
    dt_checkpoint_state s;
    char text[8000], edited[8200];

    snapshot_save(f, 5);
    char folder[FOLDER_PATH + 64];
    snprintf(folder, sizeof folder, "%s", step_path(f, "step-0000000005"));
    FILE *file = fopen(folder_path(folder, "state.json"), "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    assert_ok(dt_checkpoint_json_read(folder, NULL, &s, NULL));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *at = strstr(text, cases[i].from);
        if (!at)
            fail_msg("state.json has no %s", cases[i].from);
        snprintf(edited, sizeof edited, "%.*s%s%s", (int)(at - text), text, cases[i].to,
                 at + strlen(cases[i].from));
        folder_write(folder, "state.json", edited, strlen(edited));
        assert_fails(dt_checkpoint_json_read(folder, NULL, &s, NULL), DT_FORMAT, cases[i].message);
    }
    folder_write(folder, "state.json", "[1]", 3);
    assert_fails(dt_checkpoint_json_read(folder, NULL, &s, NULL), DT_FORMAT, "not an object");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, snapshot_make, snapshot_release)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rules_are_kept),
        TEST(damage_never_costs_the_last_valid_one),
        TEST(leftovers_are_swept),
        TEST(links_are_not_followed),
        TEST(a_dead_save_is_no_obstacle),
        TEST(the_same_step_again),
        TEST(going_back_sets_aside_what_is_newer),
        TEST(others_things_stay),
        TEST(folders_within_are_no_obstacle),
        TEST(state_is_read_strictly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
