/* spans.c - buckets and slices of the gradient slab. */
#include "fold.h"

/* Where bucket number i begins if it begins with tensor i. */
static size_t span_start(const dt_exchange_opts *o, size_t tensor)
{
    if (tensor == 0)
        return 0;
    return tensor < o->tensors ? o->tensor[tensor].first : o->floats;
}

size_t dt_spans_buckets(const dt_exchange_opts *o, dt_span *bucket)
{
    const size_t middle = (o->bucket_bytes + sizeof(float) - 1) / sizeof(float);
    const size_t outer_bytes = o->outer_bytes ? o->outer_bytes : 1 << 20;
    const size_t outer = DT_MIN(middle, (outer_bytes + sizeof(float) - 1) / sizeof(float));
    size_t limit = outer, last = middle == 0 ? 0 : o->tensors - 1, begin = 0, n = 0;

    while (last > 0 && o->floats - span_start(o, last) < outer)
        last--;
    for (size_t i = 1; i <= last; i++) {
        const size_t end = span_start(o, i);
        if (end - begin < limit && i < last)
            continue;
        bucket[n++] = (dt_span){begin, end - begin};
        begin = end;
        limit = middle;
    }
    bucket[n++] = (dt_span){begin, o->floats - begin};
    return n;
}

static size_t span_cut(size_t count, int k, int parts)
{
    return k == parts ? count : count * (size_t)k / (size_t)parts / 16 * 16;
}

dt_span dt_spans_slice(dt_span s, int k, int parts)
{
    const size_t from = span_cut(s.count, k, parts), to = span_cut(s.count, k + 1, parts);
    return (dt_span){s.first + from, to - from};
}
