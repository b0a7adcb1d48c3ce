/* store_checkpoint.c - checkpoints: what is saved comes back in every bit; what is damaged is
 * never loaded, and the one before it is. */
#include "snapshot.h"
#include "state_json.h"

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
    char path[PATH_MAX], text[100];
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
    assert_ok(dt_checkpoint_save(f->run, &f->s, -1, path));
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
    assert_memory_equal(&at.loss_sum, &f->s.at.loss_sum, sizeof at.loss_sum);
    assert_memory_equal(&at.best_accuracy, &f->s.at.best_accuracy, sizeof(double));
    assert_true(at.epoch == 17 && at.step == 4 && at.run_step == 123);
    assert_true(at.images == 128 && at.best_epoch == -5);
    assert_true(at.metrics_bytes == f->s.at.metrics_bytes);

    char want[DT_DIGEST_CHARS];
    dt_checkpoint *c = NULL;
    assert_ok(dt_checkpoint_open(&c, path));
    snapshot_hash(&f->s, &f->s.at, want);
    assert_ok(dt_checkpoint_text(c, "state_hash", text, sizeof text));
    assert_string_equal(text, want);
    assert_ok(dt_checkpoint_text(c, "data_digest", text, sizeof text));
    assert_string_equal(text, f->s.data_digest);
    assert_ok(dt_checkpoint_text(c, "class", text, sizeof text));
    assert_string_equal(text, "test, avx512");
    assert_ok(dt_checkpoint_text(c, "options.lr", text, sizeof text));
    assert_string_equal(text, "0.01");
    assert_fails(dt_checkpoint_text(c, "options.rl", text, sizeof text), DT_FORMAT, "options.rl");
    assert_fails(dt_checkpoint_text(c, "class", text, 5), DT_FORMAT, "12 characters");
    assert_true(dt_checkpoint_says(c, "options.lr") && !dt_checkpoint_says(c, "options.rl"));
    dt_checkpoint_close(c);
    free(slab);
}

static void doubles_of_all_kinds_come_back(void **state)
{
    fixture *f = *state;
    char path[PATH_MAX];
    dt_progress at;

    for (uint32_t i = 0; i < 40; i++) {
        uint32_t bits[4];
        snapshot_fill(f, i);
        dt_random(9, DT_STREAM_TEST, 0, i, 0, bits);
        memcpy(&f->s.at.loss_sum, bits, sizeof f->s.at.loss_sum);
        if (isnan(f->s.at.loss_sum) || i == 39)
            f->s.at.loss_sum = (double)INFINITY;
        const double loss = f->s.at.loss_sum;
        assert_ok(dt_checkpoint_save(f->run, &f->s, -1, path));
        assert_ok(snapshot_load(path, &f->s, &at));
        assert_memory_equal(&at.loss_sum, &loss, sizeof loss);
    }
}

static void data_text(const char *path, char text[100])
{
    dt_checkpoint *c = NULL;

    assert_ok(dt_checkpoint_open(&c, path));
    assert_ok(dt_checkpoint_text(c, "options.data", text, 100));
    dt_checkpoint_close(c);
}

/* A path need not be UTF-8, JSON must be, and messages must not command a terminal. */
static void odd_texts_do_not_stop_a_save(void **state)
{
    fixture *f = *state;
    char path[PATH_MAX], text[100];

    snapshot_fill(f, 1);
    f->options.data = "caf\xe9/\"x\"\n";
    assert_ok(dt_checkpoint_save(f->run, &f->s, -1, path));
    assert_ok(dt_checkpoint_verify(path));
    data_text(path, text);
    assert_string_equal(text, "caf?/\"x\"?");

    f->options.data = "caf\xc3\xa9 \x1b[2J\xc2\x9b";
    snapshot_fill(f, 2);
    assert_ok(dt_checkpoint_save(f->run, &f->s, -1, path));
    data_text(path, text);
    assert_string_equal(text, "caf\xc3\xa9 ?[2J??");
}

/* Of a run that is on, pruning may take it while it is read. */
static void an_open_one_may_vanish(void **state)
{
    fixture *f = *state;
    char path[PATH_MAX], text[100];
    dt_checkpoint *c = NULL;
    dt_progress at;

    snapshot_fill(f, 4);
    assert_ok(dt_checkpoint_save(f->run, &f->s, -1, path));
    assert_ok(dt_checkpoint_open(&c, path));
    assert_false(dt_checkpoint_gone(path));
    folder_remove(path);
    assert_ok(dt_checkpoint_text(c, "options.lr", text, sizeof text));
    assert_string_equal(text, "0.01");
    assert_fails(dt_checkpoint_load(c, &f->s, &at), DT_IO, path);
    assert_true(dt_checkpoint_gone(path));
    dt_checkpoint_close(c);
    assert_fails(dt_checkpoint_open(&c, path), DT_NOINPUT, path);
    assert_null(c);
    dt_checkpoint_close(c);
}

static void another_network_is_refused(void **state)
{
    fixture *f = *state;
    const dt_net_spec spec = {.net = "vgg11", .classes = 10, .width_divisor = 32};
    dt_net *wider = NULL;
    dt_progress at;
    float *slab = NULL;

    snapshot_save(f, 1);
    f->options.normalize = "cifar";
    assert_fails(snapshot_load(step_path(f, "step-0000000001"), &f->s, &at), DT_FORMAT,
                 "this run has --normalize 'cifar'");
    assert_ok(dt_net_create(&wider, &spec));
    const size_t floats = dt_net_slab_floats(wider), channels = dt_net_norm_channels(wider);
    slab = calloc(2 * (floats + channels), sizeof *slab);
    assert_non_null(slab);
    const dt_snapshot into = {
        .model = {wider, slab, slab + 2 * floats, slab + 2 * floats + channels},
        .momentum = slab + floats};
    assert_fails(snapshot_load(step_path(f, "step-0000000001"), &into, &at), DT_FORMAT,
                 "'features.0.weight' is [1, 3, 3, 3]");
    free(slab);
    dt_net_destroy(wider);
}

/* ---- Damage --------------------------------------------------------------------------------- */

typedef struct bytes {
    unsigned char data[1 << 16];
    size_t count;
} bytes;

static void read_bytes(const char *folder, const char *name, bytes *b)
{
    FILE *f = fopen(folder_path(folder, name), "rb");
    assert_non_null(f);
    b->count = fread(b->data, 1, sizeof b->data, f);
    assert_true(b->count > 0 && b->count < sizeof b->data);
    fclose(f);
}

/* Never loaded, whatever the way in. */
static void assert_torn(fixture *f, const char *folder)
{
    dt_progress at;
    assert_int_equal(dt_checkpoint_verify(folder), DT_FORMAT);
    assert_non_null(strstr(dt_fail_text(), folder));
    dt_fail_clear();
    assert_int_equal(snapshot_load(folder, &f->s, &at), DT_FORMAT);
    dt_fail_clear();
}

/* Small files at every byte; of the large ones every seventh, and the whole of the header. */
static void any_flipped_bit_is_seen(void **state)
{
    fixture *f = *state;
    char folder[FOLDER_PATH + 64];
    bytes *b = calloc(1, sizeof *b);

    assert_non_null(b);
    snapshot_save(f, 2);
    snprintf(folder, sizeof folder, "%s", step_path(f, "step-0000000002"));
    for (size_t i = 0; i < FILES; i++) {
        read_bytes(folder, files[i], b);
        for (size_t at = 0; at < b->count; at += at < 3000 ? 1 : 7) {
            b->data[at] ^= (unsigned char)(1u << at % 8);
            folder_write(folder, files[i], b->data, b->count);
            assert_torn(f, folder);
            b->data[at] ^= (unsigned char)(1u << at % 8);
        }
        folder_write(folder, files[i], b->data, b->count);
        assert_ok(dt_checkpoint_verify(folder));
    }
    free(b);
}

static void any_other_length_is_seen(void **state)
{
    fixture *f = *state;
    char folder[FOLDER_PATH + 64];
    bytes *b = calloc(1, sizeof *b);

    assert_non_null(b);
    snapshot_save(f, 2);
    snprintf(folder, sizeof folder, "%s", step_path(f, "step-0000000002"));
    for (size_t i = 0; i < FILES; i++) {
        read_bytes(folder, files[i], b);
        for (size_t length = 0; length < b->count; length += length < 600 ? 1 : 97) {
            folder_write(folder, files[i], b->data, length);
            assert_torn(f, folder);
        }
        b->data[b->count] = 0; /* garbage behind the end */
        folder_write(folder, files[i], b->data, b->count + 1);
        assert_torn(f, folder);
        memset(b->data + b->count, 'x', 4096);
        folder_write(folder, files[i], b->data, b->count + 4096);
        assert_torn(f, folder);
        unlink(folder_path(folder, files[i]));
        assert_torn(f, folder);
        folder_write(folder, files[i], b->data, b->count);
        assert_ok(dt_checkpoint_verify(folder));
    }
    free(b);
}

/* Files swapped with those of another checkpoint are whole, but not these. */
static void mixed_checkpoints_are_seen(void **state)
{
    fixture *f = *state;
    char one[FOLDER_PATH + 64], two[FOLDER_PATH + 64];
    bytes *a = calloc(1, sizeof *a), *b = calloc(1, sizeof *b);

    assert_true(a && b);
    snapshot_save(f, 1);
    snapshot_save(f, 2);
    snprintf(one, sizeof one, "%s", step_path(f, "step-0000000001"));
    snprintf(two, sizeof two, "%s", step_path(f, "step-0000000002"));
    for (size_t i = 0; i < FILES; i++) {
        read_bytes(one, files[i], a);
        read_bytes(two, files[i], b);
        if (a->count == b->count && memcmp(a->data, b->data, a->count) == 0)
            continue; /* options.yaml */
        folder_write(two, files[i], a->data, a->count);
        assert_torn(f, two);
        folder_write(two, files[i], b->data, b->count);
    }
    assert_ok(dt_checkpoint_verify(two));
    free(a);
    free(b);
}

static void what_is_no_file_is_refused(void **state)
{
    fixture *f = *state;
    char folder[FOLDER_PATH + 64], aside[FOLDER_PATH + 96];

    snapshot_save(f, 1);
    snprintf(folder, sizeof folder, "%s", step_path(f, "step-0000000001"));
    for (size_t i = 0; i < FILES; i++) {
        const char *path = folder_path(folder, files[i]);
        snprintf(aside, sizeof aside, "%s.aside", path);
        assert_int_equal(rename(path, aside), 0);
        assert_int_equal(mkfifo(path, 0600), 0); /* nobody writes: must not wait */
        assert_torn(f, folder);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(symlink(aside, path), 0); /* the right content elsewhere */
        assert_int_not_equal(dt_checkpoint_verify(folder), DT_OK);
        dt_fail_clear();
        assert_int_equal(unlink(path), 0);
        assert_int_equal(rename(aside, path), 0);
    }
    assert_ok(dt_checkpoint_verify(folder));
}

/* A MANIFEST that is right in itself, but says what cannot be. */
static void a_manifest_is_believed_in_nothing(void **state)
{
    fixture *f = *state;
    char folder[FOLDER_PATH + 64], text[600], hash[DT_DIGEST_CHARS];
    bytes *b = calloc(1, sizeof *b);
    static const char *const sizes[] = {"18446744073709551615", "99999999999999999999",
                                        "                  -1", "                   0"};

    assert_non_null(b);
    snapshot_save(f, 1);
    snprintf(folder, sizeof folder, "%s", step_path(f, "step-0000000001"));
    read_bytes(folder, "MANIFEST", b);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t n = b->count - 42; /* the last line: 32 digits, blank, MANIFEST, newline */
        memcpy(text, b->data, n);
        memcpy(text + 20 + 33, sizes[i], 20); /* first line 20, hash and blank 33 */
        dt_digest_text(dt_hash_bytes(text, n), hash);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s MANIFEST\n", hash);
        folder_write(folder, "MANIFEST", text, n);
        assert_torn(f, folder);
    }
    memcpy(text, b->data, b->count);
    text[18] = '7';
    folder_write(folder, "MANIFEST", text, b->count);
    assert_fails(dt_checkpoint_verify(folder), DT_FORMAT, "format 7, this program reads 1");
    dt_digest_text(dt_hash_bytes(text, b->count - 42), hash);
    memcpy(text + b->count - 42, hash, 32);
    folder_write(folder, "MANIFEST", text, b->count);
    assert_fails(dt_checkpoint_verify(folder), DT_UNSUPPORTED, "format 7, this program reads 1");
    free(b);
}

/* Whole, but of a program to come: passed over, the run would begin anew. */
static void a_newer_format_is_not_passed_over(void **state)
{
    static const char message[] =
        "format 2, this program reads 1: take the program that wrote it; or move it away";
    const dt_keep keep = {.last = 1};
    fixture *f = *state;
    char found[PATH_MAX], folder[FOLDER_PATH + 64];
    bytes *b = calloc(1, sizeof *b);
    dt_checkpoint *c = NULL;

    assert_non_null(b);
    snapshot_save(f, 1);
    snprintf(folder, sizeof folder, "%s", step_path(f, "step-0000000001"));
    assert_ok(dt_checkpoint_open(&c, folder));
    json_object_set_new(c->root, "format", json_integer(2));
    state_json_put(folder, c);
    dt_checkpoint_close(c);
    assert_fails(dt_checkpoint_find(f->run, found), DT_UNSUPPORTED, message);
    snapshot_save(f, 2);
    assert_ok(dt_checkpoint_prune(f->run, &keep));
    assert_fails(dt_checkpoint_verify(folder), DT_UNSUPPORTED, "format 2, this program reads 1");
    read_bytes(folder, "momentum.safetensors", b); /* not whole: damaged, like any other */
    b->data[b->count - 1] ^= 1;
    folder_write(folder, "momentum.safetensors", b->data, b->count);
    assert_fails(dt_checkpoint_verify(folder), DT_FORMAT, "momentum.safetensors is damaged");
    free(b);
}

/* ---- Which ----------------------------------------------------------------------------------- */

static void find_step(fixture *f, const char *path, const char *want, const char *warned)
{
    char found[PATH_MAX], text[4000];

    assert_ok(snapshot_find(path, found, text));
    if (want)
        assert_string_equal(found, step_path(f, want));
    else
        assert_string_equal(found, "");
    if (warned && !strstr(text, warned))
        fail_msg("'%s' does not hold '%s'", text, warned);
    if (!warned)
        assert_string_equal(text, "");
}

static void the_newest_valid_one_is_found(void **state)
{
    fixture *f = *state;
    char found[PATH_MAX];

    find_step(f, f->run, NULL, NULL); /* no folder of checkpoints yet */
    for (int64_t k = 9; k <= 12; k++)
        snapshot_save(f, k);
    find_step(f, f->run, "step-0000000012", NULL);
    assert_int_equal(rename(step_path(f, "step-0000000012"), step_path(f, ".trash-x")), 0);
    assert_int_equal(mkdir(step_path(f, ".tmp-step-0000000013"), 0755), 0);
    assert_int_equal(mkdir(step_path(f, "step-14"), 0755), 0); /* no name of ours */
    find_step(f, f->run, "step-0000000011", NULL);
    folder_write(f->checkpoints, "step-0000000011/state.json", "{}", 2);
    find_step(f, f->run, "step-0000000010", "step-0000000011: state.json has 2 bytes");
    unlink(step_path(f, "step-0000000010/MANIFEST"));
    find_step(f, f->run, "step-0000000009", "step-0000000010: MANIFEST: No such file");
    assert_loads_step(f, step_path(f, "step-0000000009"), 9);
    unlink(step_path(f, "step-0000000009/options.yaml"));
    find_step(f, f->run, NULL, "step-0000000009: options.yaml");

    /* a path that is itself a checkpoint has no other to fall back to */
    assert_fails(dt_checkpoint_find(step_path(f, "step-0000000009"), found), DT_FORMAT,
                 "options.yaml");
    assert_fails(dt_checkpoint_find(step_path(f, "step-0000000099"), found), DT_NOINPUT,
                 "step-0000000099");
    assert_string_equal(found, "");
}

static void a_renamed_checkpoint_is_not_taken_for_another(void **state)
{
    fixture *f = *state;
    char found[PATH_MAX], elsewhere[FOLDER_PATH + 32];

    snapshot_save(f, 3);
    snapshot_save(f, 5);
    assert_int_equal(rename(step_path(f, "step-0000000003"), step_path(f, "step-0000000008")), 0);
    find_step(f, f->run, "step-0000000005", "it was renamed");
    assert_int_equal(symlink("step-0000000005", step_path(f, "step-0000000009")), 0);
    find_step(f, f->run, "step-0000000005", "step-0000000009: state.json has run_step 5");
    snprintf(elsewhere, sizeof elsewhere, "%s/my-backup", f->run);
    assert_int_equal(rename(step_path(f, "step-0000000008"), elsewhere), 0);
    assert_ok(dt_checkpoint_find(elsewhere, found));
    assert_loads_step(f, elsewhere, 3);
}

/* Every byte is as MANIFEST says, and yet they are not the numbers that were saved. */
static void other_numbers_are_passed_over(void **state)
{
    static const char other[] = "0123456789abcdef0123456789abcdef";
    fixture *f = *state;
    char found[PATH_MAX], path[FOLDER_PATH + 64];
    dt_checkpoint *c = NULL;

    snapshot_save(f, 3);
    snapshot_save(f, 5);
    snprintf(path, sizeof path, "%s/step-0000000005", f->checkpoints);
    assert_ok(dt_checkpoint_open(&c, path));
    assert_int_equal(json_object_set_new(c->root, "state_hash", json_string(other)), 0);
    state_json_put(path, c);
    dt_checkpoint_close(c);
    assert_ok(dt_checkpoint_verify(path));
    find_step(f, f->run, "step-0000000003", "step-0000000005 was saved with state_hash 0123");
    assert_ok(dt_newest_model(f->run, found)); /* of other commands, too */
    assert_string_equal(found, step_path(f, "step-0000000003"));
    assert_fails(dt_checkpoint_find(path, found), DT_FORMAT,
                 "not those that the run had; name another");
}

static void runs_are_told_from_paths(void **state)
{
    fixture *f = *state;
    char run[PATH_MAX], real[PATH_MAX];

    snapshot_save(f, 3);
    assert_non_null(realpath(f->run, real));
    assert_ok(dt_checkpoint_run(f->run, run));
    assert_string_equal(run, f->run);
    assert_ok(dt_checkpoint_run(step_path(f, "step-0000000003"), run));
    assert_string_equal(run, real);
    assert_ok(dt_checkpoint_run(step_path(f, "step-0000000003/"), run));
    assert_string_equal(run, real);
    assert_ok(dt_checkpoint_run("/tmp", run));
    assert_string_equal(run, "");
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
        TEST(any_flipped_bit_is_seen),
        TEST(any_other_length_is_seen),
        TEST(mixed_checkpoints_are_seen),
        TEST(what_is_no_file_is_refused),
        TEST(a_manifest_is_believed_in_nothing),
        TEST(a_newer_format_is_not_passed_over),
        TEST(the_newest_valid_one_is_found),
        TEST(a_renamed_checkpoint_is_not_taken_for_another),
        TEST(other_numbers_are_passed_over),
        TEST(runs_are_told_from_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
