/* call.c - how a call begins and ends, and the comparison of what ranks called with. */
#include "lib.h"

#define X(name) "dtd_" #name,
const char *const dtd_call_name[DTD_CALLS] = {DTD_CALL_LIST(X)};
#undef X

static dtd_call current; /* of the one thread that calls */

int dtd_leave(dt_status st)
{
    dt_activity_layer(-1);
    if (st != DT_OK && dt_fail_text()[0] == '\0')
        st = dt_fail(st, "%s: %s", dtd_call_name[current], dt_status_text(st));
    return dt_status_exit_code(st);
}

const char *dtd_error(void)
{
    return dt_fail_text();
}

void dtd_call_begin(dtd_call call)
{
    static int64_t calls;

    dt_fail_clear();
    current = call;
    dt_activity_step(++calls);
    dt_activity_layer((int)call);
}

/* ---- Comparing --------------------------------------------------------------------- */

/* A walk over a call's arguments: it makes a key of them, or compares them one by one; then the
 * first that differs ends it, on all ranks. */
typedef struct comparison {
    const dtd_group *g;
    uint64_t key;
    bool each; /* one by one */
} comparison;

/* text NULL: the value is compared, and shown. */
static dt_status same(comparison *c, const char *what, int64_t value, const char *text)
{
    const uint64_t odd = 0x9e3779b97f4a7c15u; /* 2^64 / golden ratio */
    char name[256], number[32];

    const dt_digest digest =
        text ? dt_hash_bytes(text, strlen(text)) : dt_hash_bytes(&value, sizeof value);
    c->key = c->key * odd + digest.low;
    if (!c->each)
        return DT_OK;
    snprintf(number, sizeof number, "%lld", (long long)value);
    text = text ? text : number;
    snprintf(name, sizeof name, "%s of %s in group '%s'", what, dtd_call_name[current], c->g->name);
    return dt_comm_same(c->g->comm, &(dt_field){name, text}, 1);
}

static dt_status compare(comparison *c, const dtd_args *a)
{
    char what[64];

    for (size_t i = 0; i < a->args; i++)
        DT_TRY(same(c, a->arg[i].name, a->arg[i].value, a->arg[i].text));
    DT_TRY(same(c, "the number of tensors", (int64_t)a->tensors, NULL));
    for (size_t i = 0; i < a->tensors; i++) {
        const dtd_tensor *t = &a->list[i];
        snprintf(what, sizeof what, "the name of tensor %zu", i);
        DT_TRY(same(c, what, 0, t->name ? t->name : ""));
        snprintf(what, sizeof what, "the count of tensor %zu", i);
        DT_TRY(same(c, what, (int64_t)t->count, NULL));
        snprintf(what, sizeof what, "the type of tensor %zu", i);
        DT_TRY(same(c, what, 0, dtd_type_name(t->type)));
    }
    for (int r = 0; a->counts && r < c->g->comm->world; r++) {
        snprintf(what, sizeof what, "counts[%d]", r);
        DT_TRY(same(c, what, (int64_t)a->counts[r], NULL));
    }
    return DT_OK;
}

dt_status dtd_compare(dtd_group *g, dt_status local, const dtd_args *a)
{
    static const dtd_args none;
    comparison c = {.g = g, .key = (uint64_t)current};
    a = a && local == DT_OK ? a : &none;
    DT_TRY(compare(&c, a));
    const int64_t key = (int64_t)c.key;
    int64_t x[] = {local != DT_OK, key, ~key}; /* the largest complement is the smallest key's */

    DT_TRY(dt_comm_max_i64(g->comm, x, DT_COUNT_OF(x)));
    if (x[0])
        return dt_comm_agree(g->comm, local);
    if (x[1] == ~x[2])
        return DT_OK;
    c.each = true;
    DT_TRY(dt_comm_same(g->comm, &(dt_field){"the call", dtd_call_name[current]}, 1));
    return compare(&c, a);
}

/* ---- Types ------------------------------------------------------------------------- */

size_t dtd_size_of(dtd_type type)
{
    return (unsigned)type < DTD_TYPES ? dt_numbers[type].bytes : 0;
}

const char *dtd_type_name(dtd_type type)
{
    return (unsigned)type < DTD_TYPES ? dt_numbers[type].name : "no type";
}

/* ---- Checks ------------------------------------------------------------------------ */

dt_status dtd_check_rank(const dtd_group *g, const char *what, int rank)
{
    if (rank >= 0 && rank < g->comm->world)
        return DT_OK;
    return dt_fail(DT_USAGE, "%s: %s is %d, but the group '%s' has ranks 0 to %d",
                   dtd_call_name[current], what, rank, g->name, g->comm->world - 1);
}

dt_status dtd_check_data(const void *data, size_t count, const char *what)
{
    if (count > PTRDIFF_MAX / sizeof(double))
        return dt_fail(DT_USAGE, "%s: %s of %zu numbers", dtd_call_name[current], what, count);
    if (data || count == 0)
        return DT_OK;
    return dt_fail(DT_USAGE, "%s: %s of %zu numbers is NULL", dtd_call_name[current], what, count);
}

dt_status dtd_check_counts(const size_t *counts, const dtd_group *g, size_t *total)
{
    DT_TRY(dtd_check_data(counts, 1, "counts"));
    *total = 0;
    for (int r = 0; r < g->comm->world; r++) {
        DT_TRY(dtd_check_data(counts, counts[r], "a rank's part"));
        *total += counts[r];
        DT_TRY(dtd_check_data(counts, *total, "all ranks' parts"));
    }
    return DT_OK;
}

dt_status dtd_check_type(dtd_type type)
{
    if (dtd_size_of(type) > 0)
        return DT_OK;
    return dt_fail(DT_USAGE, "%s: there is no type %d", dtd_call_name[current], (int)type);
}

dt_status dtd_check_list(const dtd_tensor *list, size_t count, bool data)
{
    size_t total = 0; /* they lie at multiples of 16 numbers */

    DT_TRY(dtd_check_data(list, count, "the list"));
    for (size_t i = 0; i < count; i++) {
        DT_TRY(dtd_check_type(list[i].type));
        DT_TRY(dtd_check_data(data ? list[i].data : list, list[i].count,
                              list[i].name ? list[i].name : "a tensor"));
        total = dt_align(total + list[i].count, 16);
        DT_TRY(dtd_check_data(list, total, "all tensors"));
    }
    return DT_OK;
}
