/* packed.c - packed copies against the master weights: packed again into other memory, all bytes
 * compared. */
#include "check.h"
#include "model/plan.h"

#include <omp.h>

size_t dt_model_largest_pack(const dt_model *m)
{
    size_t largest = 0;

    for (int i = 0; i < m->packs; i++)
        largest = DT_MAX(largest, m->pack[i].bytes);
    return dt_align(largest, 64);
}

/* Own pieces are each rank's alone. */
static bool pack_in_part(const dt_model *m, const dt_pack *p, int part, int parts)
{
    const size_t all = m->packed_bytes[DT_SLAB_HOME];

    return p->kind != DT_SLAB_HOME ||
           (int)((p->offset + p->bytes / 2) * (size_t)parts / all) == part;
}

static bool repack_one(const dt_model *m, const dt_pack *p, char *room)
{
    memset(room, 0, p->bytes); /* as the slab was before its first packing */
    dt_pack_bytes(m, p, room, 0, p->bytes);
    return memcmp(room, dt_pack_at(m, p), p->bytes) == 0;
}

static dt_status repack_fail(const dt_model *m, const dt_pack *p, char *room, int64_t step)
{
    const unsigned char *is = (const unsigned char *)dt_pack_at(m, p);
    const unsigned char *want = (const unsigned char *)room;
    size_t i = 0;

    repack_one(m, p, room);
    while (i + 1 < p->bytes && is[i] == want[i])
        i++;
    return dt_fail(DT_CORRUPT,
                   "step %lld: the packed copy of '%s' (layout %s) differs from its "
                   "weights: byte %zu of %zu is %02x, packed again it is %02x: " DT_CORRUPT_REMEDY,
                   (long long)step, m->net->param[p->param].name, p->layout, i, p->bytes, is[i],
                   want[i]);
}

dt_status dt_model_check_packed(const dt_model *m, int part, int parts, int threads, void *room,
                                int64_t step)
{
    const size_t each = dt_model_largest_pack(m);
    int bad = INT_MAX;

#pragma omp parallel for num_threads(threads) schedule(dynamic) reduction(min : bad)
    for (int i = 0; i < m->packs; i++)
        if (pack_in_part(m, &m->pack[i], part, parts) &&
            !repack_one(m, &m->pack[i], (char *)room + (size_t)omp_get_thread_num() * each) &&
            i < bad)
            bad = i;
    return bad == INT_MAX ? DT_OK : repack_fail(m, &m->pack[bad], room, step);
}
