/* store_checkpoint.c - checkpoints: what is saved comes back in every bit; what is damaged is
 * never loaded, and the one before it is. */
#include "snapshot.h"

#include <float.h>

static const char *const files[] = {"model.safetensors", "momentum.safetensors", "options.yaml",
                                    "state.json", "MANIFEST"};

/* ---- Round trip --------------------------------------------------------------------------- */

SNAPSHOT_TEST(every_bit_comes_back)
{
    float *slab = calloc(f->all, sizeof *slab);
    dt_checkpoint *c = NULL;
    dt_position at;

    assert_non_null(slab);
    snapshot_fill(f, 123);
    f->s.at.loss_sum = 0.1 + 0.2; /* no short decimal form */
    f->s.at.best_accuracy = nextafter(0.7, 1);
    f->s.at.best_epoch = -5;
    f->s.at.metrics_bytes = INT64_C(1) << 53 | 1; /* no double */
    f->s.model.running_mean[0] = -FLT_MAX;
    f->s.model.running_var[0] = -0.0f;
    f->s.model.running_var[1] = 1e-45f;
    f->options.names = "cs744";
    assert_ok(dt_checkpoint_save(&f->d, &f->s));
    assert_string_equal(f->d.last, step_path(f, "step-0000000123"));
    const dt_snapshot into = snapshot_of(f, slab);
    assert_ok(snapshot_load(f->d.last, &into, &at));
    for (size_t i = 0; i < f->net->params; i++) {
        const dt_param *p = &f->net->param[i];
        assert_memory_equal(slab + p->offset, f->slab + p->offset, p->count * sizeof *slab);
        assert_memory_equal(slab + f->floats + p->offset, f->slab + f->floats + p->offset,
                            p->count * sizeof *slab);
    }
    assert_memory_equal(slab + 2 * f->floats, f->slab + 2 * f->floats,
                        2 * f->channels * sizeof *slab);
    assert_memory_equal(&at, &f->s.at, sizeof at);
    assert_ok(dt_checkpoint_open(&c, NULL, f->d.last));
    assert_string_equal(dt_checkpoint_text(c, "data_digest"), f->s.data_digest);
    assert_string_equal(dt_checkpoint_text(c, "class"), "test, avx512");
    assert_string_equal(dt_checkpoint_text(c, "lr"), "0.01");
    assert_null(dt_checkpoint_text(c, "rl"));
    dt_checkpoint_close(c);
    free(slab);
}

SNAPSHOT_TEST(doubles_of_all_kinds_come_back)
{
    char *text = NULL;
    size_t length = 0;

    snapshot_fill(f, 1);
    for (uint32_t i = 0; i < 2000; i++) {
        dt_checkpoint c = {.root = NULL};
        uint32_t bits[4];
        dt_random(9, DT_STREAM_TEST, 0, i, 0, bits);
        memcpy(&f->s.at.loss_sum, bits, sizeof f->s.at.loss_sum);
        if (!isfinite(f->s.at.loss_sum)) /* the run has ended before */
            f->s.at.loss_sum = i % 2 ? -0.0 : DBL_MIN / 3;
        assert_ok(dt_checkpoint_state_text(&f->s, &text, &length));
        assert_ok(dt_checkpoint_state_parse(&c, text, length));
        assert_memory_equal(&c.at.loss_sum, &f->s.at.loss_sum, sizeof(double));
        json_decref(c.root);
        free(text);
    }
}

/* A path need not be UTF-8, JSON must be, and messages must not command a terminal. */
SNAPSHOT_TEST(odd_texts_do_not_stop_a_save)
{
    dt_checkpoint *c = NULL;

    snapshot_fill(f, 1);
    f->options.data = "caf\xe9/\"x\"\n\x1b[2J";
    assert_ok(dt_checkpoint_save(&f->d, &f->s));
    assert_ok(dt_checkpoint_open(&c, NULL, f->d.last));
    assert_string_equal(dt_checkpoint_text(c, "data"), "caf?/\"x\"??[2J");
    dt_checkpoint_close(c);
}

/* Another folder that has taken the name is neither written nor pruned. */
SNAPSHOT_TEST(a_folder_that_has_taken_the_name_is_left_alone)
{
    char own[PATH_MAX], moved[PATH_MAX];

    snapshot_fill(f, 1);
    assert_ok(dt_checkpoint_save(&f->d, &f->s));
    snprintf(own, sizeof own, "%.4000s/checkpoints", f->d.path);
    snprintf(moved, sizeof moved, "%.4000s/moved", f->d.path);
    assert_int_equal(rename(own, moved), 0);
    assert_int_equal(symlink(moved, own), 0); /* the same folder by another way */
    assert_ok(dt_checkpoint_save(&f->d, &f->s));
    assert_int_equal(unlink(own), 0);
    assert_int_equal(mkdir(own, 0755), 0);
    assert_fails(dt_checkpoint_save(&f->d, &f->s), DT_CANTCREATE, "left alone");
    assert_fails(dt_checkpoint_prune(&f->d, f->s.at.run_step, &(dt_keep){.last = 1}), DT_CANTCREATE,
                 "left alone");
    assert_int_equal(rmdir(own), 0);
    assert_ok(dt_checkpoint_save(&f->d, &f->s)); /* made anew: again the run's */
    folder_remove(own);
    assert_int_equal(mkdir(own, 0755), 0); /* if the old one is not held, of its inode number */
    assert_fails(dt_checkpoint_save(&f->d, &f->s), DT_CANTCREATE, "left alone");
}

/* By a link: another run's folder is refused, also by a copy of the run; one of its own may lie
 * anywhere, and what was there before the run came is not pruned. */
SNAPSHOT_TEST(what_a_link_leads_to_may_be_another_runs)
{
    char other[FOLDER_PATH], link[2 * FOLDER_PATH];
    dt_rundir copy = {.lock = -1};

    folder_make(other);
    snprintf(link, sizeof link, "%.500s/checkpoints", f->run);
    assert_int_equal(mkdir(folder_path(other, "big"), 0755), 0);
    folder_write(other, "options.yaml", "", 0);
    assert_int_equal(symlink(folder_path(other, "big"), link), 0);
    snapshot_fill(f, 1);
    assert_fails(dt_checkpoints_check(&f->d), DT_CANTCREATE, "another run's folder");
    assert_fails(dt_checkpoint_save(&f->d, &f->s), DT_CANTCREATE, "another run's");
    assert_fails(dt_checkpoint_prune(&f->d, 1, &(dt_keep){.last = 1}), DT_CANTCREATE, "another");
    assert_int_equal(unlink(folder_path(other, "options.yaml")), 0);

    folder_write(other, "big/options.yaml", "", 0); /* a run itself */
    assert_fails(dt_checkpoints_check(&f->d), DT_CANTCREATE, "another run's folder");
    assert_int_equal(unlink(folder_path(other, "big/options.yaml")), 0);

    assert_int_equal(mkdir(folder_path(other, "copy"), 0755), 0);
    assert_int_equal(symlink("../big", folder_path(other, "copy/checkpoints")), 0);
    snprintf(copy.path, sizeof copy.path, "%s/copy", other);
    copy.folder = open(copy.path, O_RDONLY | O_DIRECTORY);
    assert_true(copy.folder >= 0);
    assert_ok(dt_checkpoint_save(&copy, &f->s));
    assert_fails(dt_checkpoints_check(&f->d), DT_CANTCREATE, "its link .run says otherwise");
    assert_int_equal(unlink(folder_path(other, "big/.run")), 0);
    const struct timespec before[2] = {{0}}; /* by more than a tick of the file system's clock */
    assert_int_equal(utimensat(AT_FDCWD, folder_path(other, "big/step-0000000001"), before, 0), 0);
    for (int64_t k = 2; k <= 3; k++) {
        snapshot_fill(f, k);
        assert_ok(dt_checkpoint_save(&f->d, &f->s));
    }
    assert_ok(dt_checkpoint_prune(&f->d, 3, &(dt_keep){.last = 1}));
    assert_int_equal(access(folder_path(other, "big/step-0000000001/MANIFEST"), F_OK), 0);
    assert_int_equal(access(folder_path(other, "big/step-0000000002"), F_OK), -1);
    assert_int_equal(access(folder_path(other, "big/step-0000000003/MANIFEST"), F_OK), 0);
    close(copy.folder);
    folder_remove(other);
}

/* ---- Damage --------------------------------------------------------------------------------- */

typedef struct file {
    const char *folder, *name;
    char *data; /* owned */
    size_t count;
} file;

static file file_of(const char *folder, const char *name)
{
    file b = {.folder = folder, .name = name};
    assert_ok(dt_file_read(AT_FDCWD, folder_path(folder, name), 1 << 20, &b.data, &b.count));
    assert_true(b.count > 0);
    return b;
}

/* Never loaded, and the message names folder and file. */
static void assert_torn(fixture *f, const file *b)
{
    dt_position at;

    assert_int_equal(snapshot_load(b->folder, &f->s, &at), DT_FORMAT);
    if (!strstr(dt_fail_text(), b->folder) || !strstr(dt_fail_text(), b->name))
        fail_msg("no word of %s: %s", b->name, dt_fail_text());
    dt_fail_clear();
}

static void put(const file *b, size_t bytes)
{
    folder_write(b->folder, b->name, b->data, bytes);
}

/* Small files at every byte; of the large ones the header's, then every seventh. */
static void flip_bits(fixture *f, file *b)
{
    for (size_t at = 0; at < b->count; at += at < 3000 ? 1 : 7) {
        b->data[at] ^= (char)(1 << at % 8);
        put(b, b->count);
        assert_torn(f, b);
        b->data[at] ^= (char)(1 << at % 8);
    }
}

/* Cut short, and with zeros behind the end. */
static void resize(fixture *f, file *b)
{
    static const size_t more[] = {1, 4096, 1 << 20};

    for (size_t length = 0; length < b->count; length += length < 600 ? 1 : 97) {
        put(b, length);
        assert_torn(f, b);
    }
    for (size_t i = 0; i < DT_COUNT_OF(more); i++) {
        put(b, b->count);
        assert_int_equal(truncate(folder_path(b->folder, b->name), (off_t)(b->count + more[i])), 0);
        assert_torn(f, b);
    }
}

/* Another checkpoint's file is whole, but not this one's. */
static void swap(fixture *f, file *b)
{
    file other = file_of(step_path(f, "step-0000000001"), b->name);

    if (strcmp(b->name, "options.yaml") != 0 && strcmp(b->name, "MANIFEST") != 0) {
        folder_write(b->folder, b->name, other.data, other.count);
        assert_torn(f, b);
    }
    free(other.data);
}

/* Files that are missing, links and pipes are in tests/cli/verify.sh. */
SNAPSHOT_TEST(no_damage_is_loaded)
{
    static void (*const damage[])(fixture *, file *) = {flip_bits, resize, swap};
    char folder[FOLDER_PATH + 64];
    dt_position at;

    snapshot_save(f, 1);
    snapshot_save(f, 2);
    snprintf(folder, sizeof folder, "%s", step_path(f, "step-0000000002"));
    for (size_t i = 0; i < DT_COUNT_OF(files); i++) {
        file b = file_of(folder, files[i]);
        for (size_t k = 0; k < DT_COUNT_OF(damage); k++) {
            damage[k](f, &b);
            put(&b, b.count);
            assert_ok(snapshot_load(folder, &f->s, &at));
        }
        free(b.data);
    }
}

/* ---- Forged: what MANIFEST confirms, but cannot be -------------------------------------- */

SNAPSHOT_TEST(numbers_and_states_are_not_believed)
{
    static const struct {
        const char *from, *to, *message;
    } cases[] = {
        {"\"step\": 5", "\"step\": -5", "a count is negative"},
        {"\"step\": 5", "\"step\": 5.0", "Expected integer, got real"},
        {"\"step\": 5", "\"step\": \"5\"", "Expected integer, got string"},
        {"\"step\": 5", "\"step\": 99999999999999999999", "not JSON"},
        {"\"run_step\": 5", "\"other\": 5", "run_step"},
        {"\"images\"", "\"step\"", "not JSON"}, /* twice */
        {"\"loss_sum\": 1", "\"loss_sum\": 1e999, \"x\": 1", "not JSON"},
        {"\"best\": false", "\"best\": 0", "Expected true or false"},
        {"\"class\": \"test, avx512\"", "\"class\": null", "Expected string"},
        {"\"options\": {", "\"options\": 1, \"more\": {", "left unpacked"},
        {"\"state_hash\": \"", "\"state_hash\": \"0", "they differ from the run's"},
        {"{", "[", "not JSON"},
        {"{", "[{}]\n{", "not JSON"},
    };
    char folder[FOLDER_PATH + 64];
    dt_position at;

    snprintf(folder, sizeof folder, "%s", step_path(f, "step-0000000005"));
    for (size_t i = 0; i < DT_COUNT_OF(cases); i++) {
        snapshot_save(f, 5);
        snapshot_edit(folder, DT_CHECKPOINT_STATE, cases[i].from, cases[i].to);
        assert_fails(snapshot_load(folder, &f->s, &at), DT_FORMAT, cases[i].message);
        assert_fails(snapshot_check(folder, &at), DT_FORMAT, cases[i].message);
        folder_remove(folder);
    }
    snapshot_save(f, 5);
    snapshot_forge(folder, DT_CHECKPOINT_STATE, "[1]");
    assert_fails(snapshot_load(folder, &f->s, &at), DT_FORMAT, "Expected object");
}

/* ---- Which one ------------------------------------------------------------------------------ */

/* What the search in the run finds, its outcome, and what stderr or the failure says. */
static void find_step(const fixture *f, dt_status want, const char *name, const char *text)
{
    char found[PATH_MAX];
    capture heard;
    const dt_status st = snapshot_find(f->run, found, &heard);

    assert_string_equal(found[0] ? strrchr(found, '/') + 1 : "", name);
    if (want != DT_OK)
        assert_fails(st, want, text);
    else
        assert_ok(st);
    if (want == DT_OK && !strstr(heard.text, text))
        fail_msg("no '%s' in: %s", text, heard.text);
}

/* What is damaged or somebody's; tests/cli/run_folder.sh has the rest. */
SNAPSHOT_TEST(the_newest_valid_one_is_found)
{
    char found[PATH_MAX];

    for (int64_t k = 3; k <= 6; k++)
        snapshot_save(f, k);
    assert_ok(
        dt_checkpoint_newest(f->d.folder, f->d.path, &(dt_query){.first = 4, .end = 6}, found));
    assert_string_equal(found, step_path(f, "step-0000000005"));
    assert_ok(
        dt_checkpoint_newest(f->d.folder, f->d.path, &(dt_query){.first = 7, .end = 9}, found));
    assert_string_equal(found, "");
    folder_write(f->checkpoints, "step-0000000006/state.json", "{", 1);
    unlink(step_path(f, "step-0000000005/MANIFEST"));
    find_step(f, DT_OK, "step-0000000004", "step-0000000006: state.json has 1 bytes");
    find_step(f, DT_OK, "step-0000000004", "step-0000000005: MANIFEST: No such file");
    assert_int_equal(symlink("nowhere", step_path(f, "step-0000000009")), 0);
    find_step(f, DT_IO, "", "what it leads to is missing");
    folder_write(f->checkpoints, "step-0000000009", "mine", 4); /* somebody's file */
    find_step(f, DT_OK, "step-0000000004", "step-0000000009: Not a directory; skipped");
}

/* A whole one of a program to come: without it, the run would resume from an older one. */
SNAPSHOT_TEST(a_newer_format_is_not_passed_over)
{
    char hash[DT_DIGEST_CHARS], folder[FOLDER_PATH + 64];

    snapshot_save(f, 1);
    snapshot_save(f, 2);
    snprintf(folder, sizeof folder, "%s", step_path(f, "step-0000000002"));
    file b = file_of(folder, "MANIFEST");
    b.data[18] = '7';
    put(&b, b.count);
    find_step(f, DT_OK, "step-0000000001", "MANIFEST is damaged");
    dt_digest_text(dt_hash_bytes(b.data, b.count - 42), hash);
    memcpy(b.data + b.count - 42, hash, 32);
    put(&b, b.count);
    find_step(f, DT_UNSUPPORTED, "", "format 7, this program reads 2");
    free(b.data);
}
