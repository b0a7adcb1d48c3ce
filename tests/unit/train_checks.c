/* train_checks.c - checks in a world of one: a bit that goes wrong in weights, momentum,
 * statistics or a packed copy between two steps is found before the next update and named; a
 * healthy run is let alone, with the same bits. Replicas need ranks: tests/mpi/checks.sh. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#include "check/check_internal.h"
#include "small_run.h"

static dt_comm *comm;

static dt_options small(const char *net, int64_t every)
{
    dt_options o = small_run(net);

    o.data = "synthetic:96";
    o.image_size = 32;
    o.shards = 4;
    o.precision = "auto";
    o.threads = 2;
    o.epochs = 100;
    o.check_every = every;
    return o;
}

static dt_status step(dt_run *r, int64_t i)
{
    dt_step_result result;
    return dt_run_step(r, i / r->steps_per_epoch, i % r->steps_per_epoch, false, &result);
}

static void flip(void *at)
{
    *(unsigned char *)at ^= 0x10;
}

/* The message that the agreement would print is looked at before it. */
static void found(dt_run *r, const char *first, const char *second)
{
    assert_int_equal(dt_replicas_local(r->checks), DT_CORRUPT);
    if (!strstr(dt_fail_text(), first) || !strstr(dt_fail_text(), second))
        fail_msg("want '%s' and '%s' in: %s", first, second, dt_fail_text());
    dt_fail_clear();
}

static dt_status packed_check(dt_run *r)
{
    return dt_model_check_packed(r->model, 0, 1, 2, r->check_room.mem, r->checks->step);
}

/* ---- Slices ------------------------------------------------------------------------------ */

static void slices_are_named(void **state)
{
    const dt_options o = small("resnet50", 1);
    dt_run r;

    (void)state;
    assert_ok(dt_run_open(&r, comm, &o, DT_FOR_TRAINING));
    assert_ok(step(&r, 0));
    assert_ok(step(&r, 1));
    assert_ok(dt_replicas_local(r.checks));

    /* every tensor, its last float */
    for (size_t i = 0; i < dt_net_param_count(r.net); i++) {
        const dt_param *p = dt_net_param(r.net, i);
        char floats[64];
        float *w = (float *)r.master.mem + p->offset + p->count - 1;
        float *m = (float *)r.momentum.mem + p->offset + p->count - 1;
        snprintf(floats, sizeof floats, "to %zu as they lie", p->count - 1);
        flip(w);
        found(&r, "weights: '", p->name);
        flip(w);
        flip(m);
        found(&r, "momentum: '", floats);
        flip(m);
    }
    float *var = (float *)r.running.mem + 2 * dt_net_norm_channels(r.net) - 1;
    flip(var);
    found(&r, "running variance: '", dt_net_norm(r.net, dt_net_norm_count(r.net) - 1)->name);
    flip(var);
    assert_ok(dt_replicas_local(r.checks));
    assert_ok(step(&r, 2));
    dt_run_close(&r);
}

/* A block of a large tensor is named by its own bounds. */
static void blocks_are_bounded(void **state)
{
    dt_options o = small("vgg11", 1);
    char floats[64];
    dt_run r;
    size_t large = 0;

    (void)state;
    o.width_divisor = 4;
    assert_ok(dt_run_open(&r, comm, &o, DT_FOR_TRAINING));
    assert_ok(step(&r, 0));
    while (dt_net_param(r.net, large)->count <= DT_CHECK_BLOCK)
        large++;
    float *w = (float *)r.master.mem + dt_net_param(r.net, large)->offset;
    flip(w + DT_CHECK_BLOCK);
    snprintf(floats, sizeof floats, "in floats %d to", (int)DT_CHECK_BLOCK);
    found(&r, dt_net_param(r.net, large)->name, floats);
    flip(w + DT_CHECK_BLOCK);
    flip(w + DT_CHECK_BLOCK - 1);
    snprintf(floats, sizeof floats, "in floats 0 to %d ", (int)DT_CHECK_BLOCK - 1);
    found(&r, dt_net_param(r.net, large)->name, floats);
    dt_run_close(&r);
}

/* Only the update before a due step is held on to; the step after it cannot tell. */
static void slices_are_looked_at_when_due(void **state)
{
    const dt_options o = small("vgg11", 3);
    dt_run r;

    (void)state;
    assert_ok(dt_run_open(&r, comm, &o, DT_FOR_TRAINING));
    assert_ok(step(&r, 0));
    flip(r.master.mem);
    assert_ok(step(&r, 1)); /* step 2 of the run */
    flip(r.momentum.mem);
    assert_int_equal(step(&r, 2), DT_CORRUPT); /* agreed and printed */
    dt_run_close(&r);
}

/* ---- Packed copies ----------------------------------------------------------------------- */

static void packed_copies_are_named(void **state)
{
    const dt_options o = small("resnet50", 2);
    dt_run r;
    size_t copies = 0;

    (void)state;
    assert_ok(dt_run_open(&r, comm, &o, DT_FOR_TRAINING));
    assert_ok(step(&r, 0));
    assert_ok(packed_check(&r));
    for (size_t i = 0; i < dt_net_param_count(r.net); i++) {
        size_t bytes = 0;
        char *copy = dt_model_packed_copy(r.model, i, &bytes);
        if (!copy)
            continue;
        copies++;
        flip(copy + bytes - 1);
        assert_int_equal(packed_check(&r), DT_CORRUPT);
        assert_non_null(strstr(dt_fail_text(), dt_net_param(r.net, i)->name));
        assert_non_null(strstr(dt_fail_text(), "layout"));
        dt_fail_clear();
        flip(copy + bytes - 1);
    }
    assert_true(copies > 50);
    assert_ok(packed_check(&r));

    size_t bytes = 0; /* in one of three parts, whichever it is */
    flip(dt_model_packed_copy(r.model, 0, &bytes));
    int seen = 0;
    for (int part = 0; part < 3; part++)
        seen += dt_model_check_packed(r.model, part, 3, 1, r.check_room.mem, 1) == DT_CORRUPT;
    assert_int_equal(seen, 1);
    dt_fail_clear();
    assert_int_equal(step(&r, 1), DT_CORRUPT);
    dt_run_close(&r);
}

/* ---- Replay ------------------------------------------------------------------------------ */

/* Every shard comes round, is run again, and has the same bits; uneven batches and empty
 * shards included. And the bits of the run are those of a run without checks. */
static void healthy_runs_are_left_alone(void **state)
{
    char text[3][DT_DIGEST_CHARS];

    (void)state;
    for (int i = 0; i < 3; i++) {
        dt_options o = small("resnet50", i == 0 ? 0 : 1);
        dt_digest digest;
        dt_run r;
        o.data = "synthetic:18"; /* batches of 16 and 2: two shards of the last are empty */
        o.batch = 0;
        o.global_batch = 16;
        o.drop_remainder = false;
        o.replay_every = i == 2 ? 1 : 0;
        o.grad_dtype = "bf16";
        assert_ok(dt_run_open(&r, comm, &o, DT_FOR_TRAINING));
        assert_int_equal(r.checks != NULL, i > 0);
        for (int64_t k = 0; k < 12; k++)
            assert_ok(step(&r, k));
        if (r.checks)
            assert_ok(dt_checks_now(r.checks));
        const dt_weights s = dt_run_weights(&r);
        assert_ok(dt_state_hash(&s, r.momentum.mem, 0, 0, &digest));
        dt_digest_text(digest, text[i]);
        dt_run_close(&r);
    }
    assert_string_equal(text[0], text[1]);
    assert_string_equal(text[0], text[2]);
}

/* What the option damages, and when: (kind, step) -> the step that ends the run; 0: none. */
static void flips_are_found(void **state)
{
    static const struct {
        const char *flip;
        int64_t every, replay, end;
    } cases[] = {
        {"weight:0:4:features.4.weight", 1, 0, 4},
        {"weight:0:4:features.4.weight", 4, 0, 4},
        {"weight:0:4:features.4.weight", 3, 0, 0}, /* gone over by the update of step 4 */
        {"momentum:0:1:features.4.weight:0", 1, 0, 1},
        {"packed:0:5:features.4.weight", 5, 0, 5},
        {"packed:0:4:features.4.weight", 5, 0, 0},
        {"gradient:0:4:features.4.weight:0", 1, 0, 0},
        {"gradient:0:4:features.4.weight:0", 0, 1, 4}, /* shard 4 % 4 = 0: the rank's first */
        {"gradient:0:3:features.4.weight:0", 0, 1, 0},
        {"activation:0:4:features.4.weight", 0, 1, 4},
        {"activation:0:8:features.4.weight", 0, 2, 8},
        {"activation:0:5:features.4.weight", 0, 1, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dt_options o = small("vgg11", cases[i].every);
        dt_run r;
        int64_t end = 0;
        o.flip = cases[i].flip;
        o.replay_every = cases[i].replay;
        assert_ok(dt_run_open(&r, comm, &o, DT_FOR_TRAINING));
        for (int64_t k = 0; k < 9 && end == 0; k++) {
            const dt_status st = step(&r, k);
            if (st != DT_OK) {
                assert_int_equal(st, DT_CORRUPT);
                end = k + 1;
            }
        }
        if (end != cases[i].end)
            fail_msg("%s: check %lld, replay %lld: ended at %lld, not %lld", cases[i].flip,
                     (long long)cases[i].every, (long long)cases[i].replay, (long long)end,
                     (long long)cases[i].end);
        dt_run_close(&r);
    }
}

/* ---- Words ---------------------------------------------------------------------------------- */

/* Indices are those of the file's tensor: dt_param_to_file says where a float goes. */
static void elements_have_the_file_s_indices(void **state)
{
    const dt_options o = small("resnet50", 1);
    dt_run r;

    (void)state;
    assert_ok(dt_run_open(&r, comm, &o, DT_FOR_TRAINING));
    for (size_t i = 0; i < dt_net_param_count(r.net); i += 3) {
        const dt_param *p = dt_net_param(r.net, i);
        float *slab = calloc(p->count, sizeof *slab), *file = calloc(p->count, sizeof *file);
        const size_t at = p->count * 5 / 7;
        assert_true(slab && file);
        slab[at] = 1;
        dt_param_to_file(p, slab, file);
        size_t to = 0;
        while (file[to] != 1)
            to++;
        char want[DT_ELEMENT_CHARS], got[DT_ELEMENT_CHARS], index[90] = "";
        size_t inner = p->count;
        for (int d = 0; d < p->rank; d++) {
            inner /= (size_t)p->dim[d];
            const size_t used = strlen(index);
            snprintf(index + used, sizeof index - used, "[%zu]", to / inner % (size_t)p->dim[d]);
        }
        snprintf(want, sizeof want, "%s%s", p->name, index);
        dt_block_element(&(dt_check_block){.param = p}, at, got);
        assert_string_equal(want, got);
        free(slab);
        free(file);
    }
    dt_run_close(&r);
}

static void refused(const char *flip_text, const char *words)
{
    const dt_options o = small("vgg11", 1);
    dt_flip f = {0};
    dt_run r;

    assert_ok(dt_run_open(&r, comm, &o, DT_FOR_TRAINING));
    r.o.flip = flip_text;
    dt_checks c = {.s = dt_run_subject(&r)};
    assert_int_equal(dt_flip_open(&c, &f), DT_CONFIG);
    if (!strstr(dt_fail_text(), words))
        fail_msg("want '%s' in: %s", words, dt_fail_text());
    dt_fail_clear();
    dt_run_close(&r);
}

static void bad_flips_are_refused(void **state)
{
    (void)state;
    refused("weigth:0:1:features.0.weight", "weight packed momentum gradient activation");
    refused("weight", "want WHAT:RANK:STEP");
    refused("weight:1:1:features.0.weight", "RANK is 1, and there are 1 ranks");
    refused("weight:-1:1:features.0.weight", "RANK counts from 0");
    refused("weight:0:0:features.0.weight", "STEP counts from 1");
    refused("weight:0:1x:features.0.weight", "STEP counts from 1");
    refused("weight:0:1:features.0.weight:32", "BIT is below 32");
    refused("weight:0:1:features.0.weight:3:4", "want WHAT:RANK:STEP");
    refused("weight:0:1:features.99.weight", "no weight of tensor 'features.99.weight'");
    refused("packed:0:1:features.0.bias", "no packed of tensor 'features.0.bias'");
}

static void replay_wants_local_batch_norm(void **state)
{
    dt_options o = small("vgg11", 1);
    dt_replay p = {0};
    dt_run r;

    (void)state;
    assert_ok(dt_run_open(&r, comm, &o, DT_FOR_TRAINING));
    r.o.replay_every = 2;
    r.o.bn = "group:2";
    r.bn_group = 2;
    dt_checks c = {.s = dt_run_subject(&r)};
    assert_int_equal(dt_replay_open(&c, &p), DT_CONFIG);
    assert_non_null(strstr(dt_fail_text(), "--bn group:2"));
    dt_fail_clear();
    dt_run_close(&r);
}

int main(void)
{
    int argc = 0;
    char **argv = NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_are_named),
        cmocka_unit_test(blocks_are_bounded),
        cmocka_unit_test(slices_are_looked_at_when_due),
        cmocka_unit_test(packed_copies_are_named),
        cmocka_unit_test(healthy_runs_are_left_alone),
        cmocka_unit_test(flips_are_found),
        cmocka_unit_test(elements_have_the_file_s_indices),
        cmocka_unit_test(bad_flips_are_refused),
        cmocka_unit_test(replay_wants_local_batch_norm),
    };
    if (dt_comm_open(&comm, &argc, &argv) != DT_OK)
        return 1;
    const int failed = cmocka_run_group_tests_name("checks", tests, NULL, NULL);
    dt_comm_close(comm);
    return failed;
}
