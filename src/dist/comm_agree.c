/* comm_agree.c - one outcome, one message and one set of values for all ranks. */
#include "comm.h"

#include <stdio.h>

/* What the lowest failed rank tells the others; as long as a record can be. */
typedef struct failure {
    int32_t status;
    char host[DT_HOST_CHARS], text[8192];
} failure;

/* Alike on all ranks <=> the smallest key is the largest; the largest is found as the
 * smallest complement, in the same message as whatever else is asked. */
static uint64_t key_of(uint64_t seed, const char *text)
{
    const uint64_t odd = 0x9e3779b97f4a7c15u; /* 2^64 / golden ratio */
    return seed * odd + dt_hash_bytes(text, strlen(text)).low;
}

/* An empty text on all ranks: an inner agreement has printed it already. */
static void failure_print(const failure *f, uint64_t rank, bool alike)
{
    if (!alike)
        dt_note("dtrain: rank %d on %s: %s", (int)rank, f->host,
                f->text[0] ? f->text : dt_status_text((dt_status)f->status));
    else if (f->text[0])
        dt_note("dtrain: %s", f->text);
}

dt_status dt_comm_agree(dt_comm *c, dt_status local)
{
    const char *text = local == DT_OK ? "" : dt_fail_text();
    const uint64_t key = key_of((uint64_t)local, text), world = (uint64_t)c->world;
    uint64_t x[3] = {local == DT_OK ? world : (uint64_t)c->rank, key, ~key};
    failure f = {.status = (int32_t)local};

    DT_TRY(dt_comm_min_u64(c, x, 3));
    if (x[0] == world) {
        dt_fail_clear();
        return DT_OK;
    }
    snprintf(f.text, sizeof f.text, "%s", text);
    dt_host_name(f.host);
    DT_TRY(dt_comm_bcast(c, &f, sizeof f, (int)x[0]));
    failure_print(&f, x[0], x[1] == ~x[2]);
    dt_fail_clear();
    return (dt_status)f.status;
}

/* The first rank whose value is not rank 0's, or the world. */
static dt_status same_first(dt_comm *c, const char *value, uint64_t *rank)
{
    const uint64_t mine = key_of(0, value);
    uint64_t zero = mine;

    DT_TRY(dt_comm_bcast(c, &zero, sizeof zero, 0));
    *rank = (uint64_t)(mine == zero ? c->world : c->rank);
    return dt_comm_min_u64(c, rank, 1);
}

/* Both values; the same record on all. */
static dt_status same_failed(dt_comm *c, const dt_field *field, int rank)
{
    struct {
        char host[DT_HOST_CHARS], value[1024];
    } zero, other;

    dt_host_name(zero.host);
    snprintf(zero.value, sizeof zero.value, "%s", field->value);
    other = zero;
    DT_TRY(dt_comm_bcast(c, &zero, sizeof zero, 0));
    DT_TRY(dt_comm_bcast(c, &other, sizeof other, rank));
    return dt_fail(DT_MISMATCH,
                   "ranks disagree on %s: rank 0 on %s has '%s', rank %d on %s has "
                   "'%s'; start all ranks with the same program, options and data",
                   field->name, zero.host, zero.value, rank, other.host, other.value);
}

dt_status dt_comm_same(dt_comm *c, const dt_field *fields, size_t count)
{
    uint64_t all = 0, x[2], rank = 0;

    for (size_t i = 0; i < count; i++)
        all = key_of(key_of(all, fields[i].name), fields[i].value);
    x[0] = all;
    x[1] = ~all;
    DT_TRY(dt_comm_min_u64(c, x, 2));
    for (size_t i = 0; i < count && x[0] != ~x[1]; i++) {
        DT_TRY(same_first(c, fields[i].value, &rank));
        if (rank < (uint64_t)c->world)
            return dt_comm_agree(c, same_failed(c, &fields[i], (int)rank));
    }
    return x[0] == ~x[1] ? DT_OK : dt_comm_agree(c, dt_fail(DT_BUG, "ranks compare other fields"));
}
