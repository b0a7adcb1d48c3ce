/* check_bits.c - checks in a world of one: a bit that goes wrong in weights, momentum,
 * statistics or a packed copy between two steps is found before the next update and named; a
 * healthy run is let alone, with the same bits. Replicas need ranks: tests/mpi/checks.sh. */
#include "test.h"

#include "check/check.h"
#include "compress/compress.h"
#include "flip_bit.h"
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

/* The message that the agreement would print is looked at before it. */
static void found(dt_run *r, const char *first, const char *second)
{
    assert_int_equal(dt_replicas_local(r->observed[0]), DT_CORRUPT);
    if (!strstr(dt_fail_text(), first) || !strstr(dt_fail_text(), second))
        fail_msg("want '%s' and '%s' in: %s", first, second, dt_fail_text());
    dt_fail_clear();
}

static dt_status packed_check(dt_run *r)
{
    return dt_model_check_packed(r->model, 0, 1, 2, r->check_room.mem, 1);
}

/* ---- Slices ------------------------------------------------------------------------------ */

/* One float, flipped, is found in the tensor and the range of floats given. */
static void flip_found(dt_run *r, float *at, const char *area, const char *tensor, size_t first,
                       size_t end)
{
    char want[200], floats[64];

    snprintf(want, sizeof want, "%s: '%s' changed", area, tensor);
    snprintf(floats, sizeof floats, "in floats %zu to %zu as", first, end - 1);
    flip_bit(at, 4);
    found(r, want, floats);
    flip_bit(at, 4);
}

/* Every tensor, its last float; and both sides of a bound between blocks of a large one. */
TEST(slices_are_named)
{
    dt_options o = small("vgg11", 1);
    dt_run r;
    size_t large = 0;

    o.width_divisor = 4;
    assert_ok(dt_run_open(&r, comm, &o, DT_FOR_TRAINING));
    assert_ok(step(&r, 0));
    assert_ok(step(&r, 1));
    assert_ok(dt_replicas_local(r.observed[0]));
    float *const slab[] = {r.domain[0].master.mem, r.domain[0].momentum.mem};
    for (size_t i = 0; i < r.net->params; i++) {
        const dt_param *p = &r.net->param[i];
        const size_t last = p->offset + p->count - 1;
        const size_t first = (p->count - 1) / DT_CHECK_BLOCK * DT_CHECK_BLOCK;
        flip_found(&r, slab[0] + last, "weights", p->name, first, p->count);
        flip_found(&r, slab[1] + last, "momentum", p->name, first, p->count);
        large = large > 0 || p->count <= DT_CHECK_BLOCK ? large : i;
    }
    const dt_param *p = &r.net->param[large];
    const size_t end = DT_MIN(p->count, (size_t)2 * DT_CHECK_BLOCK);
    float *w = slab[0] + p->offset + DT_CHECK_BLOCK;
    flip_found(&r, w, "weights", p->name, DT_CHECK_BLOCK, end);
    flip_found(&r, w - 1, "weights", p->name, 0, DT_CHECK_BLOCK);
    const dt_norm *norm = &r.net->norm[r.net->norms - 1];
    float *var = (float *)r.running.mem + 2 * r.net->norm_channels - 1;
    flip_found(&r, var, "running variance", norm->name, 0, norm->channels);
    assert_ok(dt_replicas_local(r.observed[0]));
    assert_ok(step(&r, 2));
    dt_run_close(&r);
}

/* ---- Packed copies ----------------------------------------------------------------------- */

TEST(packed_copies_are_named)
{
    const dt_options o = small("resnet50", 2);
    dt_run r;
    size_t copies = 0;

    assert_ok(dt_run_open(&r, comm, &o, DT_FOR_TRAINING));
    assert_ok(step(&r, 0));
    assert_ok(packed_check(&r));
    for (size_t i = 0; i < r.net->params; i++) {
        size_t bytes = 0;
        char *copy = packed_copy(r.model, i, &bytes);
        if (!copy)
            continue;
        copies++;
        flip_bit(copy + bytes - 1, 4);
        assert_int_equal(packed_check(&r), DT_CORRUPT);
        assert_non_null(strstr(dt_fail_text(), r.net->param[i].name));
        assert_non_null(strstr(dt_fail_text(), "layout"));
        dt_fail_clear();
        flip_bit(copy + bytes - 1, 4);
    }
    assert_true(copies > 50);
    assert_ok(packed_check(&r));

    size_t bytes = 0; /* in one of three parts, whichever it is */
    flip_bit(packed_copy(r.model, 0, &bytes), 4);
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
TEST(healthy_runs_are_left_alone)
{
    char text[3][DT_DIGEST_CHARS];

    for (int i = 0; i < 3; i++) {
        dt_options o = small("resnet50", i == 0 ? 0 : 1);
        dt_digest digest;
        dt_run r;
        o.data = "synthetic:18"; /* batches of 16 and 2: two shards of the last are empty */
        o.batch = 0;
        o.global_batch = 16;
        o.drop_remainder = false;
        o.replay_every = i == 2 ? 1 : 0;
        o.grad_compress = "bf16";
        assert_ok(dt_run_open(&r, comm, &o, DT_FOR_TRAINING));
        assert_int_equal(r.observed[0] != NULL, i > 0);
        for (int64_t k = 0; k < 12; k++)
            assert_ok(step(&r, k));
        if (r.observed[0])
            assert_ok(dt_run_observers[0]->check(r.observed[0], DT_CHECK_END));
        const dt_snapshot s = dt_run_snapshot(&r);
        assert_ok(dt_snapshot_hash(&s, NULL, &digest));
        dt_digest_text(digest, text[i]);
        dt_run_close(&r);
    }
    assert_string_equal(text[0], text[1]);
    assert_string_equal(text[0], text[2]);
}

/* What tests/support/flip.c damages, and when: (kind, step) -> the step that ends the run; 0:
 * none. */
TEST(flips_are_found)
{
    static const struct {
        const char *flip;
        int64_t every, replay, end;
    } cases[] = {
        {"weight 0 4 features.4.weight 22", 1, 0, 4},
        {"weight 0 4 features.4.weight 22", 4, 0, 4},
        {"weight 0 4 features.4.weight 22", 3, 0, 0}, /* gone over by the update of step 4 */
        {"momentum 0 1 features.4.weight 0", 1, 0, 1},
        {"packed 0 5 features.4.weight 22", 5, 0, 5},
        {"packed 0 4 features.4.weight 22", 5, 0, 0},
        {"gradient 0 4 features.4.weight 0", 1, 0, 0},
        {"gradient 0 4 features.4.weight 0", 0, 1, 4}, /* shard 4 % 4 = 0: the rank's first */
        {"gradient 0 3 features.4.weight 0", 0, 1, 0},
        {"images 0 4 features.4.weight 22", 0, 1, 4},
        {"images 0 8 features.4.weight 22", 0, 2, 8},
        {"images 0 5 features.4.weight 22", 0, 1, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dt_options o = small("vgg11", cases[i].every);
        dt_run r;
        int64_t end = 0;
        o.replay_every = cases[i].replay;
        assert_int_equal(setenv("FLIP", cases[i].flip, 1), 0);
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
    unsetenv("FLIP");
}

/* ---- Words ---------------------------------------------------------------------------------- */

/* Indices are those of the file's tensor: dt_param_to_file says where a float goes. */
TEST(elements_have_the_file_s_indices)
{
    const dt_options o = small("resnet50", 1);
    dt_run r;

    assert_ok(dt_run_open(&r, comm, &o, DT_FOR_TRAINING));
    for (size_t i = 0; i < r.net->params; i += 3) {
        const dt_param *p = &r.net->param[i];
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
        dt_param_element(p, at, got);
        assert_string_equal(want, got);
        free(slab);
        free(file);
    }
    dt_run_close(&r);
}

int main(void)
{
    int argc = 0;
    char **argv = NULL;
    if (dt_comm_open(&comm, dt_comm_launched(), &argc, &argv) != DT_OK)
        return 1;
    dt_extra_check();
    dt_extra_compress();
    const int failed = tests_run(NULL, NULL);
    dt_comm_close(comm);
    return failed;
}
