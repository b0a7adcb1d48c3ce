/* store_checkpoint.c - checkpoints: what is saved comes back in every bit; what is damaged is
 * never loaded, and the one before it is. */
#include "snapshot.h"

#include <float.h>
#include <math.h>

static const char *const files[] = {"model.safetensors", "momentum.safetensors", "options.yaml",
                                    "state.json", "MANIFEST"};
enum { FILES = sizeof files / sizeof *files };

/* ---- Round trip --------------------------------------------------------------------------- */

static void every_bit_comes_back(void **state)
{
    fixture *f = *state;
    float *slab = calloc(f->all, sizeof *slab);
    char path[PATH_MAX];
    dt_checkpoint *c = NULL;
    dt_progress at;

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
    assert_ok(dt_checkpoint_save(&f->d, &f->s, -1, path));
    assert_string_equal(path, step_path(f, "step-0000000123"));
    const dt_snapshot into = snapshot_of(f, slab);
    assert_ok(snapshot_load(path, &into, &at));
    for (size_t i = 0; i < dt_net_param_count(f->net); i++) {
        const dt_param *p = dt_net_param(f->net, i);
        assert_memory_equal(slab + p->offset, f->slab + p->offset, p->count * sizeof *slab);
        assert_memory_equal(slab + f->floats + p->offset, f->slab + f->floats + p->offset,
                            p->count * sizeof *slab);
    }
    assert_memory_equal(slab + 2 * f->floats, f->slab + 2 * f->floats,
                        2 * f->channels * sizeof *slab);
    assert_memory_equal(&at, &f->s.at, sizeof at);
    assert_ok(dt_checkpoint_open(&c, path));
    assert_string_equal(dt_checkpoint_data(c), f->s.data_digest);
    assert_string_equal(dt_checkpoint_class(c), "test, avx512");
    assert_string_equal(dt_checkpoint_option(c, "lr"), "0.01");
    assert_null(dt_checkpoint_option(c, "rl"));
    dt_checkpoint_close(c);
    free(slab);
}

static void doubles_of_all_kinds_come_back(void **state)
{
    fixture *f = *state;
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
static void odd_texts_do_not_stop_a_save(void **state)
{
    fixture *f = *state;
    char path[PATH_MAX];
    dt_checkpoint *c = NULL;

    snapshot_fill(f, 1);
    f->options.data = "caf\xe9/\"x\"\n\x1b[2J";
    assert_ok(dt_checkpoint_save(&f->d, &f->s, -1, path));
    assert_ok(dt_checkpoint_open(&c, path));
    assert_string_equal(dt_checkpoint_option(c, "data"), "caf?/\"x\"??[2J");
    dt_checkpoint_close(c);
}

/* Of a live run, pruning may take it while it is read. */
static void an_open_one_may_vanish(void **state)
{
    fixture *f = *state;
    dt_checkpoint *c = NULL;
    dt_progress at;

    snapshot_save(f, 4);
    const char *path = step_path(f, "step-0000000004");
    assert_ok(dt_checkpoint_open(&c, path));
    folder_remove(path);
    assert_string_equal(dt_checkpoint_option(c, "lr"), "0.01");
    assert_fails(dt_checkpoint_load(c, &f->s, &at), DT_FORMAT, "options.yaml");
    dt_checkpoint_close(c);
}

static void another_network_is_refused(void **state)
{
    fixture *f = *state;
    const dt_net_spec spec = {.net = "vgg11", .classes = 10, .width_divisor = 32};
    dt_net *wider = NULL;
    dt_progress at;

    snapshot_save(f, 1);
    assert_ok(dt_net_create(&wider, &spec));
    const size_t floats = dt_net_slab_floats(wider), channels = dt_net_norm_channels(wider);
    float *slab = calloc(2 * (floats + channels), sizeof *slab);
    assert_non_null(slab);
    float *mean = slab + 2 * floats;
    const dt_snapshot into = {.model = {wider, slab, mean, mean + channels},
                              .momentum = slab + floats};
    assert_fails(snapshot_load(step_path(f, "step-0000000001"), &into, &at), DT_FORMAT,
                 "'features.0.weight' is [1, 3, 3, 3]");
    free(slab);
    dt_net_destroy(wider);
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
    dt_progress at;

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

static void cut(fixture *f, file *b)
{
    for (size_t length = 0; length < b->count; length += length < 600 ? 1 : 97) {
        put(b, length);
        assert_torn(f, b);
    }
}

static void append(fixture *f, file *b)
{
    static const size_t more[] = {1, 4096, 1 << 20};

    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        put(b, b->count);
        assert_int_equal(truncate(folder_path(b->folder, b->name), (off_t)(b->count + more[i])), 0);
        assert_torn(f, b);
    }
}

static void take_away(fixture *f, file *b)
{
    assert_int_equal(unlink(folder_path(b->folder, b->name)), 0);
    assert_torn(f, b);
}

/* What would be waited for, and the right content elsewhere. */
static void replace_kind(fixture *f, file *b)
{
    const char *path = folder_path(b->folder, b->name);

    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_torn(f, b);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_torn(f, b);
    assert_int_equal(rmdir(path), 0);
    folder_write(f->run, "elsewhere", b->data, b->count);
    assert_int_equal(symlink(folder_path(f->run, "elsewhere"), path), 0);
    assert_torn(f, b);
}

/* Another checkpoint's file is whole, but not this one's. */
static void swap(fixture *f, file *b)
{
    file other = file_of(step_path(f, "step-0000000001"), b->name);
    const bool same = other.count == b->count && memcmp(other.data, b->data, b->count) == 0;

    assert_true(!same || strcmp(b->name, "options.yaml") == 0);
    if (!same && strcmp(b->name, "MANIFEST") != 0) {
        folder_write(b->folder, b->name, other.data, other.count);
        assert_torn(f, b);
    }
    free(other.data);
}

static void no_damage_is_loaded(void **state)
{
    static void (*const damage[])(fixture *, file *) = {flip_bits, cut,          append,
                                                        take_away, replace_kind, swap};
    fixture *f = *state;
    char folder[FOLDER_PATH + 64];
    dt_progress at;

    snapshot_save(f, 1);
    snapshot_save(f, 2);
    snprintf(folder, sizeof folder, "%s", step_path(f, "step-0000000002"));
    for (size_t i = 0; i < FILES; i++) {
        file b = file_of(folder, files[i]);
        for (size_t k = 0; k < sizeof damage / sizeof *damage; k++) {
            damage[k](f, &b);
            put(&b, b.count);
            assert_ok(snapshot_load(folder, &f->s, &at));
        }
        free(b.data);
    }
}

/* ---- Forged: a MANIFEST that is right in itself, but says what cannot be --------------------- */

static void manifest_sizes_are_not_believed(void **state)
{
    static const char *const sizes[] = {"18446744073709551615", "99999999999999999999",
                                        "                  -1", "                   0"};
    fixture *f = *state;
    char text[600], hash[DT_DIGEST_CHARS], folder[FOLDER_PATH + 64];

    snapshot_save(f, 1);
    snprintf(folder, sizeof folder, "%s", step_path(f, "step-0000000001"));
    file b = file_of(folder, "MANIFEST");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t n = b.count - 42; /* the last line: 32 digits, blank, MANIFEST, newline */
        memcpy(text, b.data, n);
        memcpy(text + 20 + 33, sizes[i], 20); /* first line 20, hash and blank 33 */
        dt_digest_text(dt_hash_bytes(text, n), hash);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s MANIFEST\n", hash);
        folder_write(b.folder, "MANIFEST", text, n);
        assert_torn(f, &(file){.folder = b.folder, .name = files[0]});
    }
    free(b.data);
}

static void numbers_and_states_are_not_believed(void **state)
{
    static const struct {
        const char *from, *to, *message;
    } cases[] = {
        {"\"step\": 5", "\"step\": -5", "a count is negative"},
        {"\"step\": 5", "\"step\": 5.0", "Expected integer, got real"},
        {"\"step\": 5", "\"step\": \"5\"", "Expected integer, got string"},
        {"\"step\": 5", "\"step\": 99999999999999999999", "not JSON"},
        {"\"run_step\": 5", "\"other\": 5", "run_step"},
        {"\"run_step\": 5", "\"run_step\": 6", "the folder's name another"},
        {"\"images\"", "\"step\"", "not JSON"}, /* twice */
        {"\"loss_sum\": 1", "\"loss_sum\": 1e999, \"x\": 1", "not JSON"},
        {"\"best\": false", "\"best\": 0", "Expected true or false"},
        {"\"class\": \"test, avx512\"", "\"class\": null", "Expected string"},
        {"\"class\": \"test, ", "\"class\": \"\\u001b[2J", "'class' is no text"},
        {"\"class\": \"test, ", "\"class\": \"\xc2\x9b", "'class' is no text"},
        {"\"lr\": \"0.01\"", "\"lr\": 0.01", "'lr' is no text"},
        {"\"options\": {", "\"options\": 1, \"more\": {", "left unpacked"},
        {"\"state_hash\": \"", "\"state_hash\": \"0", "they are not those that the run had"},
        {"{", "[", "not JSON"},
        {"{", "[{}]\n{", "not JSON"},
    };
    fixture *f = *state;
    char folder[FOLDER_PATH + 64];
    dt_progress at;

    snprintf(folder, sizeof folder, "%s", step_path(f, "step-0000000005"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snapshot_save(f, 5);
        snapshot_edit(folder, DT_CHECKPOINT_STATE, cases[i].from, cases[i].to);
        assert_fails(snapshot_load(folder, &f->s, &at), DT_FORMAT, cases[i].message);
        assert_fails(snapshot_check(folder, &at), DT_FORMAT, cases[i].message);
        folder_remove(folder);
    }
    snapshot_save(f, 5);
    char *text = calloc(1, 100001);
    assert_non_null(text);
    memset(text, 'x', 100000);
    snapshot_edit(folder, DT_CHECKPOINT_STATE, "test, avx512", text);
    assert_fails(snapshot_load(folder, &f->s, &at), DT_FORMAT,
                 "'class' is no text of at most 4095");
    free(text);
    snapshot_forge(folder, DT_CHECKPOINT_STATE, "[1]");
    assert_fails(snapshot_load(folder, &f->s, &at), DT_FORMAT, "Expected object");
}

/* ---- Which one ------------------------------------------------------------------------------ */

/* What the search finds, its outcome, and what stderr or the failure says. */
static void find_step(const fixture *f, const char *path, dt_status want, const char *name,
                      const char *text)
{
    char found[PATH_MAX], heard[4000];
    const dt_status st = snapshot_find(path, found, heard);

    assert_string_equal(found[0] ? strrchr(found, '/') + 1 : "", name);
    if (want != DT_OK)
        assert_fails(st, want, text);
    else
        assert_ok(st);
    if (want == DT_OK && !strstr(heard, text))
        fail_msg("no '%s' in: %s", text, heard);
    (void)f;
}

static void the_newest_valid_one_is_found(void **state)
{
    fixture *f = *state;
    char found[PATH_MAX], path[FOLDER_PATH + 64];

    find_step(f, f->run, DT_OK, "", "");
    assert_fails(dt_checkpoint_find("/dev/null/none", &(dt_take){.end = 1}, found), DT_NOINPUT,
                 "/dev/null/none");
    for (int64_t k = 3; k <= 6; k++)
        snapshot_save(f, k);
    find_step(f, f->run, DT_OK, "step-0000000006", "");
    assert_ok(dt_checkpoint_newest(&f->d, &(dt_take){.first = 4, .end = 6}, found));
    assert_string_equal(found, step_path(f, "step-0000000005"));
    assert_ok(dt_checkpoint_newest(&f->d, &(dt_take){.first = 7, .end = 9}, found));
    assert_string_equal(found, "");
    folder_write(f->checkpoints, "step-0000000006/state.json", "{", 1);
    unlink(step_path(f, "step-0000000005/MANIFEST"));
    find_step(f, f->run, DT_OK, "step-0000000004", "step-0000000006: state.json has 1 bytes");
    find_step(f, f->run, DT_OK, "step-0000000004", "step-0000000005: MANIFEST: No such file");
    snprintf(path, sizeof path, "%s", step_path(f, "step-0000000005"));
    find_step(f, path, DT_FORMAT, "", "MANIFEST: No such file");
    find_step(f, step_path(f, "step-0000000003"), DT_OK, "step-0000000003", "");
    assert_int_equal(symlink("nowhere", step_path(f, "step-0000000009")), 0);
    find_step(f, f->run, DT_IO, "", "what it leads to is missing");
    unlink(step_path(f, "step-0000000009"));
    folder_write(f->checkpoints, "step-0000000009", "mine", 4); /* somebody's file */
    find_step(f, f->run, DT_OK, "step-0000000004", "step-0000000009: Not a directory; skipped");
    for (int64_t k = 3; k <= 4; k++) {
        snprintf(path, sizeof path, "%s/step-%010d/MANIFEST", f->checkpoints, (int)k);
        unlink(path);
    }
    find_step(f, f->run, DT_FORMAT, "", "none of the 5 checkpoints in ");
}

/* A whole one of a program to come: without it, the run would resume from an older one. */
static void a_newer_format_is_not_passed_over(void **state)
{
    fixture *f = *state;
    char hash[DT_DIGEST_CHARS], folder[FOLDER_PATH + 64];

    snapshot_save(f, 1);
    snapshot_save(f, 2);
    snprintf(folder, sizeof folder, "%s", step_path(f, "step-0000000002"));
    file b = file_of(folder, "MANIFEST");
    b.data[18] = '7';
    put(&b, b.count);
    find_step(f, f->run, DT_OK, "step-0000000001", "MANIFEST is damaged");
    dt_digest_text(dt_hash_bytes(b.data, b.count - 42), hash);
    memcpy(b.data + b.count - 42, hash, 32);
    put(&b, b.count);
    find_step(f, f->run, DT_UNSUPPORTED, "", "format 7, this program reads 1");
    free(b.data);
}

static void a_renamed_checkpoint_is_not_taken_for_another(void **state)
{
    fixture *f = *state;

    snapshot_save(f, 3);
    snapshot_save(f, 5);
    assert_int_equal(rename(step_path(f, "step-0000000003"), step_path(f, "step-0000000007")), 0);
    find_step(f, f->run, DT_OK, "step-0000000005", "run_step 3, the folder's name another");
    assert_int_equal(rename(step_path(f, "step-0000000007"), folder_path(f->run, "kept")), 0);
    find_step(f, folder_path(f->run, "kept"), DT_OK, "kept", ""); /* no checkpoint's name */
    assert_int_equal(symlink("../kept", step_path(f, "step-0000000009")), 0);
    find_step(f, f->run, DT_OK, "step-0000000005", "is a link to another; skipped");
}

static void runs_are_told_from_paths(void **state)
{
    fixture *f = *state;
    char run[PATH_MAX], real[PATH_MAX];

    snapshot_save(f, 3);
    assert_non_null(realpath(f->run, real));
    assert_ok(dt_checkpoint_run(step_path(f, "step-0000000003"), run));
    assert_string_equal(run, ""); /* without options.yaml it is no run folder */
    folder_write(f->run, "options.yaml", "", 0);
    assert_ok(dt_checkpoint_run(f->run, run));
    assert_string_equal(run, f->run);
    assert_ok(dt_checkpoint_run(step_path(f, "step-0000000003/"), run));
    assert_string_equal(run, real);
    assert_fails(dt_checkpoint_run("/dev/null/none", run), DT_NOINPUT, "/dev/null/none");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, snapshot_make, snapshot_release)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_bit_comes_back),
        TEST(doubles_of_all_kinds_come_back),
        TEST(odd_texts_do_not_stop_a_save),
        TEST(an_open_one_may_vanish),
        TEST(another_network_is_refused),
        TEST(no_damage_is_loaded),
        TEST(manifest_sizes_are_not_believed),
        TEST(numbers_and_states_are_not_believed),
        TEST(the_newest_valid_one_is_found),
        TEST(a_newer_format_is_not_passed_over),
        TEST(a_renamed_checkpoint_is_not_taken_for_another),
        TEST(runs_are_told_from_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
