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

/* The first rank that differs from rank 0, and both values; the same record on all. */
static dt_status same_failed(dt_comm *c, const dt_field *field, uint64_t key)
{
    struct {
        char host[DT_HOST_CHARS], value[1024];
    } zero, other;
    uint64_t first = key;

    dt_host_name(zero.host);
    snprintf(zero.value, sizeof zero.value, "%s", field->value);
    other = zero;
    DT_TRY(dt_comm_bcast(c, &first, sizeof first, 0));
    first = first == key ? (uint64_t)c->world : (uint64_t)c->rank;
    DT_TRY(dt_comm_min_u64(c, &first, 1));
    DT_TRY(dt_comm_bcast(c, &zero, sizeof zero, 0));
    DT_TRY(dt_comm_bcast(c, &other, sizeof other, (int)first));
    return dt_fail(DT_MISMATCH,
                   "ranks disagree on %s: rank 0 on %s has '%s', rank %d on %s has "
                   "'%s'; start all ranks with the same program, options and data",
                   field->name, zero.host, zero.value, (int)first, other.host, other.value);
}

static dt_status keys_equal(dt_comm *c, uint64_t key, bool *equal)
{
    uint64_t x[2] = {key, ~key};

    DT_TRY(dt_comm_min_u64(c, x, 2));
    *equal = x[0] == ~x[1];
    return DT_OK;
}

dt_status dt_comm_same(dt_comm *c, const dt_field *fields, size_t count)
{
    uint64_t all = 0;
    bool equal = true;

    for (size_t i = 0; i < count; i++)
        all = key_of(key_of(all, fields[i].name), fields[i].value);
    DT_TRY(keys_equal(c, all, &equal));
    if (equal)
        return DT_OK;

    for (size_t i = 0; i < count; i++) {
        const uint64_t key = key_of(0, fields[i].value);
        DT_TRY(keys_equal(c, key, &equal));
        if (!equal)
            return dt_comm_agree(c, same_failed(c, &fields[i], key));
    }
    return dt_comm_agree(c, dt_fail(DT_BUG, "ranks compare fields of different names"));
}
