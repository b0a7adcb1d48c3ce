/* store_finite.c - NaN and infinities: seen in every area, type and place, named, never saved,
 * never read. */
#include "snapshot.h"

#include <float.h>

#include "format/tensors.h"

/* ---- Floats ------------------------------------------------------------------------------ */

enum { MANY = 40000 };

TEST(one_number_among_many_is_found)
{
    static const float good[] = {0.0f, -0.0f, FLT_MAX, -FLT_MAX, FLT_MIN, 1e-45f, -1e-45f};
    static const size_t place[] = {0, 1, 16383, 16384, 16385, 32768, MANY - 1};
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    float *x = calloc(MANY, sizeof *x);

    assert_non_null(x);
    for (size_t i = 0; i < MANY; i++)
        x[i] = good[i % (sizeof good / sizeof *good)];
    assert_int_equal(dt_finite_floats(x, MANY), MANY);
    assert_int_equal(dt_finite_floats(x, 0), 0);
    for (size_t i = 0; i < sizeof place / sizeof *place; i++) {
        const float kept = x[place[i]];
        x[place[i]] = bad[i % 4];
        assert_int_equal(dt_finite_floats(x, MANY), place[i]);
        assert_int_equal(dt_finite_floats(x, place[i]), place[i]); /* it lies behind these */
        x[place[i]] = kept;
    }
    free(x);
}

/* ---- Snapshots ----------------------------------------------------------------------------- */

typedef struct spoiled { /* a number of the fixture's slab, and what names it */
    size_t at;
    float value;
    const char *text;
} spoiled;
enum { SPOILED = 5 };

static void spoil(const fixture *f, spoiled out[SPOILED])
{
    const dt_param *first = &f->net->param[0];
    const dt_param *last = &f->net->param[f->net->params - 1];
    const dt_norm *norm = &f->net->norm[1];
    const spoiled all[SPOILED] = {
        {first->offset + 1, NAN, "weight features.0.weight[0][1][0][0] is nan"},
        {last->offset + 9, -INFINITY, "weight classifier.bias[9] is -inf"},
        {f->floats + last->offset, INFINITY, "momentum of classifier.bias[0] is inf"},
        {2 * f->floats + norm->offset, INFINITY, "running mean of features.5[0] is inf"},
        {2 * f->floats + f->channels + norm->offset + 1, NAN,
         "running variance of features.5[1] is nan"},
    };
    memcpy(out, all, sizeof all);
}

/* The last good one stays, however few are to be kept, and the saver goes on with the next. */
SNAPSHOT_TEST(nothing_else_is_saved)
{
    static const dt_keep one = {.last = 1};
    spoiled bad[SPOILED];
    dt_saver *v = NULL;
    char names[1000];

    spoil(f, bad);
    assert_ok(dt_saver_open(&v, &f->d, f->net, false, &one));
    snapshot_fill(f, 1);
    assert_ok(dt_saver_save(v, &f->s));
    for (size_t i = 0; i < SPOILED; i++) {
        snapshot_fill(f, 2 + (int64_t)i);
        f->slab[bad[i].at] = bad[i].value;
        assert_fails(dt_snapshot_finite(&f->s), DT_NUMERIC, bad[i].text);
        assert_fails(dt_saver_save(v, &f->s), DT_NUMERIC, bad[i].text);
        assert_ok(dt_saver_wait(v));
        assert_string_equal(names_in(f, "", names), "step-0000000001");
        assert_string_equal(f->d.last, folder_path(f->checkpoints, "step-0000000001"));
    }
    assert_loads_step(f, f->d.last, 1);
    snapshot_fill(f, 9);
    assert_ok(dt_snapshot_finite(&f->s));
    assert_ok(dt_saver_save(v, &f->s));
    dt_saver_close(v);
    assert_string_equal(names_in(f, "", names), "step-0000000001 step-0000000009");
    assert_ok(dt_saver_open(&v, &f->d, f->net, false, &one));
    f->s.proved = true; /* by a step or test: one is enough */
    assert_ok(dt_saver_save(v, &f->s));
    dt_saver_close(v);
    assert_string_equal(names_in(f, "", names), "step-0000000009-2");
}

/* The writer itself does not look: the copy that it writes was checked. */
SNAPSHOT_TEST(others_are_passed_over)
{
    spoiled bad[SPOILED];
    char found[PATH_MAX];
    dt_position at;
    capture heard;

    spoil(f, bad);
    for (size_t i = 0; i < SPOILED; i++) {
        snapshot_save(f, 1);
        snapshot_fill(f, 2);
        f->slab[bad[i].at] = bad[i].value;
        assert_ok(dt_checkpoint_save(&f->d, &f->s));
        assert_fails(snapshot_check(f->d.last, &at), DT_FORMAT, "is not a finite number");
        assert_fails(snapshot_load(f->d.last, &f->s, &at), DT_FORMAT, "is not a finite number");
        assert_ok(snapshot_find(f->run, found, &heard));
        assert_string_equal(found, folder_path(f->checkpoints, "step-0000000001"));
        assert_non_null(strstr(heard.text, "step-0000000002"));
        assert_non_null(strstr(heard.text, "is not a finite number; skipped"));
        assert_loads_step(f, found, 1);
        folder_remove(f->checkpoints);
    }
}

/* ---- Files ------------------------------------------------------------------------------- */

/* A file of one tensor of 2^20 + 3 elements of `size` bytes, of which one is `bits`. */
static void put_tensor(const char *folder, const char *dtype, size_t size, size_t at, uint64_t bits)
{
    enum { HEADER = 100 }; /* padded with blanks */
    const size_t count = (1 << 20) + 3, bytes = 8 + HEADER + count * size;
    char *data = calloc(1, bytes);

    assert_non_null(data);
    const int n = snprintf(data + 8, HEADER + 1,
                           "{\"x\":{\"dtype\":\"%s\",\"shape\":[%zu],\"data_offsets\":[0,%zu]}}",
                           dtype, count, count * size);
    memset(data + 8 + n, ' ', HEADER - (size_t)n);
    data[0] = HEADER;
    memcpy(data + 8 + HEADER + at * size, &bits, size);
    folder_write(folder, "x.safetensors", data, bytes);
    free(data);
}

/* The first element that is not finite. */
static size_t look_at_file(const fixture *f, const char *dtype, size_t size, size_t at,
                           uint64_t bits)
{
    const size_t count = (1 << 20) + 3;
    float *x = calloc(count, sizeof *x);
    dt_safetensors *file = NULL;

    assert_non_null(x);
    put_tensor(f->run, dtype, size, at, bits);
    assert_ok(dt_safetensors_open(&file, folder_path(f->run, "x.safetensors"), NULL, 0));
    assert_ok(dt_safetensors_read(file, &file->tensor[0], x));
    const size_t bad = dt_finite_floats(x, count);
    dt_safetensors_close(file);
    free(x);
    return bad;
}

SNAPSHOT_TEST(every_type_is_looked_at)
{
    static const struct {
        const char *dtype;
        size_t size;
        uint64_t infinity, largest;
    } rows[] = {
        {"F32", 4, 0xff800000u, 0x7f7fffffu},
        {"F16", 2, 0x7c00u, 0xfbffu},
        {"BF16", 2, 0xff80u, 0x7f7fu},
    };
    static const size_t place[] = {0, 1 << 17, (1 << 20) - 1, (1 << 20) + 2};

    for (size_t i = 0; i < DT_COUNT_OF(rows); i++) {
        const char *dtype = rows[i].dtype;
        const size_t size = rows[i].size;
        const uint64_t sign = (uint64_t)1 << (8 * size - 1);
        const uint64_t bad[] = {rows[i].infinity, rows[i].infinity | 1, rows[i].infinity ^ sign};
        for (size_t k = 0; k < DT_COUNT_OF(place) * DT_COUNT_OF(bad); k++) {
            const size_t at = place[k / DT_COUNT_OF(bad)];
            assert_int_equal(look_at_file(f, dtype, size, at, bad[k % DT_COUNT_OF(bad)]), at);
        }
        assert_int_equal(look_at_file(f, dtype, size, 5, rows[i].largest), (1 << 20) + 3);
        assert_int_equal(look_at_file(f, dtype, size, 5, rows[i].largest ^ sign), (1 << 20) + 3);
    }
}
