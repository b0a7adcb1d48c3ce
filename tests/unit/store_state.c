/* store_state.c - the state hash: the bytes it promises, in the promised order, and nothing
 * else. */
#include "snapshot.h"

/* Append a slab in state_dict order, OIHW, by the definition of the slab's order. */
static float *put_slab(float *to, const dt_net *net, const float *slab)
{
    for (size_t n = 0; n < net->params; n++) {
        const dt_param *p = &net->param[n];
        const int64_t in = p->rank > 1 ? p->dim[1] : 1;
        const int64_t pixels = p->rank == 4 ? p->dim[2] * p->dim[3] : 1;
        for (int64_t o = 0; o < p->dim[0]; o++)
            for (int64_t i = 0; i < in; i++)
                for (int64_t k = 0; k < pixels; k++)
                    *to++ = slab[(int64_t)p->offset + (k * in + i) * p->dim[0] + o];
    }
    return to;
}

SNAPSHOT_TEST(the_bytes_are_those_promised)
{
    const size_t count = 2 * f->net->weight_total + 2 * f->channels;
    const int64_t position[] = {3, 777};
    float *all = calloc(count + 4, sizeof *all); /* two int64 at the end */
    dt_digest got;

    assert_non_null(all);
    snapshot_fill(f, 1);
    float *at = put_slab(all, f->net, f->s.model.master);
    at = put_slab(at, f->net, f->s.momentum);
    memcpy(at, f->s.model.running_mean, f->channels * sizeof *at);
    memcpy(at + f->channels, f->s.model.running_var, f->channels * sizeof *at);
    at += 2 * f->channels;
    assert_true(at == all + count);
    memcpy(at, position, sizeof position);
    const dt_digest want = dt_hash_bytes(all, (count + 4) * sizeof *all);
    f->s.at = (dt_position){.epoch = 3, .step = 777};
    assert_ok(dt_snapshot_hash(&f->s, NULL, &got));
    assert_true(got.low == want.low && got.high == want.high);
    free(all);
}

static dt_digest hash_of(const fixture *f, int64_t epoch, int64_t step)
{
    dt_snapshot s = f->s;
    dt_digest d;
    s.at = (dt_position){.epoch = epoch, .step = step};
    assert_ok(dt_snapshot_hash(&s, NULL, &d));
    return d;
}

static bool same(dt_digest a, dt_digest b)
{
    return a.low == b.low && a.high == b.high;
}

SNAPSHOT_TEST(every_part_counts_and_padding_does_not)
{
    snapshot_fill(f, 1);
    const dt_digest before = hash_of(f, 1, 2);
    const size_t inside = f->net->param[0].offset;
    float *const parts[] = {f->s.model.master + inside, f->s.momentum + inside,
                            f->s.model.running_mean, f->s.model.running_var + f->channels - 1};

    assert_true(same(hash_of(f, 1, 2), before));
    assert_false(same(hash_of(f, 1, 3), before));
    assert_false(same(hash_of(f, 2, 2), before));
    assert_false(same(hash_of(f, 2, 1), before));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const float old = *parts[i];
        *parts[i] += 0.5f;
        assert_false(same(hash_of(f, 1, 2), before));
        *parts[i] = old;
    }
    size_t padding = 0;
    for (size_t n = 0; n < f->net->params; n++) {
        const dt_param *p = &f->net->param[n];
        for (size_t k = p->count; k < dt_align(p->count, 16); k++, padding++)
            f->s.model.master[p->offset + k] = f->s.momentum[p->offset + k] = -1;
    }
    assert_true(padding > 0);
    assert_true(same(hash_of(f, 1, 2), before));
}
