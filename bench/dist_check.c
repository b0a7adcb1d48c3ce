/* dist_check.c - the program dtrain-dist-check: every collective of libdtrain-dist on every type,
 * compared bit for bit with a reference that is computed here, from the definition of the tree, and
 * the time of all_reduce. Columns: HCCL Test's.
 *
 * Numbers repeat after PERIOD places, so that the reference is short; PERIOD is prime, so that no
 * cut of the array falls on it. */
#include "lib/dist.h"

#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PERIOD = 1021, TYPES = DTD_F64 + 1, OPS = DTD_MAX + 1 };
static const char *const type_name[TYPES] = {"int8", "int32", "int64", "fp16",
                                             "bf16", "fp32",  "fp64"};
static const char *const op_name[OPS] = {"sum", "mean", "prod", "min", "max"};

/* ---- Numbers -------------------------------------------------------------------------- */

/* A number of any type: whole ones in n, others in d. */
typedef struct number {
    int64_t n;
    double d;
} number;

static bool is_whole(dtd_type t)
{
    return t <= DTD_I64;
}

/* The nearest number of `bits` bits that is a multiple of 2^lowest, ties to even. */
static double nearest(double x, int bits, int lowest)
{
    int e = 0;

    frexp(x, &e);
    const int unit = e - bits > lowest ? e - bits : lowest;
    return isfinite(x) ? ldexp(nearbyint(ldexp(x, -unit)), unit) : x;
}

static number rounded(number x, dtd_type t)
{
    const double most = t == DTD_F16 ? 65504 : 0x1.fep127;

    if (t == DTD_F16 || t == DTD_BF16) {
        x.d = t == DTD_F16 ? nearest(x.d, 11, -24) : nearest(x.d, 8, -133);
        if (fabs(x.d) > most)
            x.d = copysign((double)INFINITY, x.d);
    }
    return x;
}

static void write_number(void *to, dtd_type t, number x)
{
    const float f = (float)x.d;
    uint32_t bits;
    int e = 0;

    memcpy(&bits, &f, sizeof bits);
    uint32_t half = bits >> 16;
    if (t == DTD_F16) {
        const double m = fabs(x.d);
        frexp(m, &e);
        half = m < 0x1p-14 ? (uint32_t)ldexp(m, 24)
               : isinf(m)  ? 0x7c00
                           : ((uint32_t)(e + 14) << 10) + ((uint32_t)ldexp(m, 11 - e) - 1024);
        half |= signbit(x.d) ? 0x8000 : 0;
    }
    switch (dtd_size_of(t)) {
    case 1:
        memcpy(to, &(int8_t){(int8_t)x.n}, 1);
        break;
    case 2:
        memcpy(to, &(uint16_t){(uint16_t)half}, 2);
        break;
    case 4:
        memcpy(to, t == DTD_F32 ? (const void *)&f : &(int32_t){(int32_t)x.n}, 4);
        break;
    default:
        memcpy(to, t == DTD_F64 ? (const void *)&x.d : &x.n, 8);
    }
}

/* Leaf's number at a place: all bits of whole ones; others of both signs and some exponents. */
static number leaf_number(dtd_type t, int leaf, size_t place)
{
    uint64_t x = ((uint64_t)leaf + 1) * 0x9e3779b97f4a7c15u + place % PERIOD * 0xd1342543de82ef95u;

    x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9u;
    x ^= x >> 29;
    const double d = ldexp((double)(int64_t)(x >> 12) * 0x1p-52 - 0.5, (int)(x & 3));
    const number whole[] = {{(int8_t)x, 0}, {(int32_t)x, 0}, {(int64_t)x, 0}};
    if (is_whole(t))
        return whole[t];
    return rounded((number){0, t == DTD_F64 ? d : (double)(float)d}, t);
}

/* ---- The reference: docs/numerics.md, section 3 ------------------------------------------ */

static number combine(dtd_type t, dtd_op op, number a, number b)
{
    const uint64_t x = (uint64_t)a.n, y = (uint64_t)b.n;
    const bool less = is_whole(t) ? a.n < b.n : a.d < b.d || (a.d == b.d && signbit(a.d));

    if (op == DTD_MIN || op == DTD_MAX)
        return less == (op == DTD_MIN) ? a : b;
    if (is_whole(t)) {
        const uint64_t z = op == DTD_PROD ? x * y : x + y;
        const int64_t cut[] = {(int8_t)z, (int32_t)z, (int64_t)z};
        return (number){cut[t], 0};
    }
    const double d = op == DTD_PROD ? a.d * b.d : a.d + b.d;
    return (number){0, t == DTD_F64 ? d : (double)(float)d};
}

static number tree(dtd_type t, dtd_op op, int a, int b, size_t place)
{
    int half = 1;

    if (b - a == 1)
        return leaf_number(t, a, place);
    while (2 * half < b - a)
        half *= 2;
    return combine(t, op, tree(t, op, a, a + half, place), tree(t, op, a + half, b, place));
}

/* One period of what `leaves` leaves give. */
static void reference(char *to, dtd_type t, dtd_op op, int leaves)
{
    for (size_t i = 0; i < PERIOD; i++) {
        number x = tree(t, op, 0, leaves, i);
        if (op == DTD_MEAN)
            x.d = t == DTD_F64 ? x.d / leaves : (double)((float)x.d / (float)leaves);
        write_number(to + i * dtd_size_of(t), t, rounded(x, t));
    }
}

/* ---- Arrays ----------------------------------------------------------------------------- */

static int rank, world;
static char *mine, *want; /* one period of this rank's leaf, and of the result */
static char *x;           /* the array */

/* Places [from, from + count) of an array that repeats `period`. */
static void fill(char *to, const char *period, size_t each, size_t from, size_t count)
{
    for (size_t n; count > 0; from += n, to += n * each, count -= n) {
        n = PERIOD - from % PERIOD < count ? PERIOD - from % PERIOD : count;
        memcpy(to, period + from % PERIOD * each, n * each);
    }
}

static bool equals(const char *got, const char *period, size_t each, size_t from, size_t count)
{
    bool equal = true;

    for (size_t n; count > 0; from += n, got += n * each, count -= n) {
        n = PERIOD - from % PERIOD < count ? PERIOD - from % PERIOD : count;
        equal = equal && memcmp(got, period + from % PERIOD * each, n * each) == 0;
    }
    return equal;
}

static void fill_leaf(char *period, dtd_type t, int leaf)
{
    for (size_t i = 0; i < PERIOD; i++)
        write_number(period + i * dtd_size_of(t), t, leaf_number(t, leaf, i));
}

/* Whether all ranks say so; a call that failed says why. */
static bool all_say(bool good, int code)
{
    int32_t least = good && code == 0;

    if (code != 0)
        fprintf(stderr, "rank %d: %s\n", rank, dtd_error());
    return dtd_all_reduce(&least, 1, DTD_I32, DTD_MIN, NULL) == 0 && least;
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- all_reduce: a row ------------------------------------------------------------------- */

static bool row(dtd_type t, dtd_op op, size_t bytes, int rounds)
{
    const size_t each = dtd_size_of(t), count = bytes / each > 0 ? bytes / each : 1;
    double took = 0;
    bool good = true;

    for (int i = 0; i < rounds && good; i++) {
        fill(x, mine, each, 0, count);
        dtd_barrier(NULL);
        took -= seconds();
        const int code = dtd_all_reduce(x, count, t, op, NULL);
        took += seconds();
        good = all_say(equals(x, want, each, 0, count), code);
    }
    took /= rounds;
    if (rank == 0)
        printf("%16zu %16.2f %20.5f %14s\n", count * each, 1e6 * took,
               1e-9 * (double)(count * each) / took, good ? "success" : "failed");
    return good;
}

/* ---- The other calls: small arrays, an uneven part for each rank ---------------------------- */

enum { MOST = 3000 }; /* of a part */
static size_t counts[1024], first[1024 + 1];

/* Each fills x and checks it; `each` bytes a number. */
static bool check_broadcast(dtd_type t, size_t each)
{
    const dtd_tensor list[] = {{x, 5, t, "a"}, {x + 5 * each, MOST, t, "b"}};

    fill_leaf(want, t, world - 1);
    fill(x, mine, each, 0, MOST + 5);
    const int code = dtd_broadcast(list, 2, world - 1, NULL);
    return all_say(equals(x, want, each, 0, MOST + 5), code);
}

static bool check_reduce(dtd_type t, size_t each)
{
    const int root = world / 2;

    fill(x, mine, each, 0, 9 * MOST);
    const int code = dtd_reduce(x, 9 * MOST, t, DTD_SUM, root, NULL);
    return all_say(equals(x, rank == root ? want : mine, each, 0, 9 * MOST), code);
}

static bool check_reduce_scatter(dtd_type t, size_t each)
{
    char *part = x + first[world] * each;

    fill(x, mine, each, 0, first[world]);
    const int code = dtd_reduce_scatter(part, x, counts, t, DTD_SUM, NULL);
    return all_say(equals(part, want, each, first[rank], counts[rank]), code);
}

/* Gathers are checked by numbers that follow each other from rank to rank. */
static bool check_gathers(dtd_type t, size_t each)
{
    char *part = x + first[world] * each;
    bool good = true;

    for (int root = -1; root < world && root < 2; root++) { /* -1: all_gather */
        memset(x, 0, first[world] * each);
        fill(part, want, each, first[rank], counts[rank]);
        const int code = root < 0 ? dtd_all_gather(x, part, counts, t, NULL)
                                  : dtd_gather(x, part, counts, t, root, NULL);
        const bool has = root < 0 || root == rank;
        good = all_say(!has || equals(x, want, each, 0, first[world]), code) && good;
    }
    return good;
}

static bool check_scatter(dtd_type t, size_t each)
{
    char *part = x + first[world] * each;

    fill(x, rank == 0 ? want : mine, each, 0, first[world]);
    memset(part, 0, counts[rank] * each);
    const int code = dtd_scatter(part, x, counts, t, 0, NULL);
    return all_say(equals(part, want, each, first[rank], counts[rank]), code);
}

/* In a ring. */
static bool check_messages(dtd_type t, size_t each)
{
    dtd_request *r[2] = {NULL, NULL};
    char *from = x + MOST * each;

    if (world == 1)
        return true;
    fill(from, mine, each, 0, MOST);
    fill_leaf(want, t, (rank + world - 1) % world);
    int code = dtd_irecv(&r[0], x, MOST, t, (rank + world - 1) % world, NULL);
    if (code == 0)
        code = dtd_isend(&r[1], from, MOST, t, (rank + 1) % world, NULL);
    for (int i = 0; i < 2 && code == 0; i++)
        code = dtd_wait(r[i]);
    return all_say(equals(x, want, each, 0, MOST), code);
}

/* Leaves are dealt in turn, the last first; all on the last rank in the second round. */
static bool check_sum(dtd_type t, size_t each)
{
    const int leaves = 2 * world + 3;
    const dtd_tensor shape[] = {{NULL, 7, t, "a"}, {NULL, MOST, t, "b"}};
    const void *leaf[] = {x, x + 7 * each};
    void *sum[] = {x, x + 7 * each};
    char *period = x + 2 * MOST * each;
    dtd_sum *s = NULL;
    int code = dtd_sum_new(&s, leaves, shape, 2, NULL);
    bool good = true;

    reference(want, t, DTD_SUM, leaves);
    for (int turn = 0; turn < 2 && code == 0; turn++) {
        for (int i = leaves - 1; i >= 0 && code == 0; i--) {
            if ((turn ? world - 1 : i % world) != rank)
                continue;
            fill_leaf(period, t, i);
            fill(x, period, each, 0, MOST + 7);
            code = dtd_sum_leaf(s, i, leaf);
        }
        if (code == 0)
            code = dtd_sum_finish(s, sum);
        good = all_say(equals(x, want, each, 0, MOST + 7), code) && good;
    }
    dtd_sum_free(s);
    return good && code == 0;
}

static const struct {
    const char *name;
    bool (*run)(dtd_type t, size_t each);
} calls[] = {
    {"broadcast", check_broadcast},
    {"reduce", check_reduce},
    {"reduce_scatter", check_reduce_scatter},
    {"gathers", check_gathers},
    {"scatter", check_scatter},
    {"messages", check_messages},
    {"exact sum", check_sum},
};

/* ---- The program -------------------------------------------------------------------------- */

static struct {
    int type, op, rounds; /* -1: all */
    size_t begin, end, factor;
} opts = {DTD_F32, DTD_SUM, 3, 8, 64 << 20, 2};

static bool check_type(dtd_type t)
{
    const size_t each = dtd_size_of(t);
    bool good = true;

    fill_leaf(mine, t, rank);
    for (int op = 0; op < OPS; op++) {
        if (opts.op >= 0 && op != opts.op)
            continue;
        if (op == DTD_MEAN && is_whole(t)) {
            good = dtd_all_reduce(x, 1, t, DTD_MEAN, NULL) == DTD_UNSUPPORTED && good;
            continue;
        }
        reference(want, t, (dtd_op)op, world);
        if (rank == 0)
            printf("all_reduce, %s, %s, %d ranks\n%16s %16s %20s %14s\n", type_name[t], op_name[op],
                   world, "data_size(Bytes)", "aveg_time(us)", "alg_bandwidth(GB/s)",
                   "check_result");
        for (size_t bytes = opts.begin, next = 1; next > 0; bytes = next) {
            next = bytes <= opts.end / opts.factor ? bytes * opts.factor : 0;
            good = row(t, (dtd_op)op, bytes, opts.rounds) && good;
        }
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        reference(want, t, DTD_SUM, world);
        const bool passed = calls[i].run(t, each);
        good = good && passed;
        if (rank == 0)
            printf("%s, %s: %s\n", calls[i].name, type_name[t], passed ? "success" : "failed");
    }
    return good;
}

/* The index of a word; -1: all; -2: none. */
static int word_of(const char *word, const char *const *words, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    return strcmp(word, "all") == 0 ? -1 : -2;
}

/* A whole number above 0, of digits and perhaps a unit, at most `most`; else 0, which no option
 * takes. */
static size_t size_of(const char *text, size_t most)
{
    static const char units[] = "KMGT";
    const size_t digits = strspn(text, "0123456789");
    const char *unit = text[digits] ? strchr(units, text[digits]) : NULL;
    const int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    const unsigned long long n = strtoull(text, NULL, 10); /* the largest where it is beyond */

    if (digits == 0 || text[digits + (unit != NULL)] || n > most >> shift)
        return 0;
    return (size_t)n << shift;
}

static bool parse(int argc, char **argv)
{
    for (int c; (c = getopt(argc, argv, "d:o:b:e:f:n:")) != -1;) {
        if (c == 'd')
            opts.type = word_of(optarg, type_name, TYPES);
        else if (c == 'o')
            opts.op = word_of(optarg, op_name, OPS);
        else if (c == 'n')
            opts.rounds = (int)size_of(optarg, INT_MAX);
        else if (c == '?')
            return false;
        else
            *(c == 'b' ? &opts.begin : c == 'e' ? &opts.end : &opts.factor) =
                size_of(optarg, PTRDIFF_MAX / 2);
    }
    return opts.type > -2 && opts.op > -2 && opts.begin > 0 && opts.begin <= opts.end &&
           opts.factor > 1 && opts.rounds > 0 && optind == argc;
}

static const char usage[] =
    "usage: mpirun -np N dtrain-dist-check [OPTION...]\n"
    "  -d TYPE   int8 int32 int64 fp16 bf16 fp32 fp64 or all (fp32)\n"
    "  -o OP     sum mean prod min max or all (sum)\n"
    "  -b BYTES  the smallest size (8; 64K, 1M, 1G and 1T are sizes, too)\n"
    "  -e BYTES  the largest size, not below it (64M)\n"
    "  -f N      each size is N times the one before (2)\n"
    "  -n N      calls of each row, of which the time is the mean (3)\n";

int main(int argc, char **argv)
{
    bool good = true;

    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return fputs(usage, stdout) < 0;
    const int code = dtd_init(&argc, &argv);
    if (code != 0) {
        fprintf(stderr, "dtrain-dist-check: %s\n", dtd_error());
        return code;
    }
    rank = dtd_rank(NULL);
    world = dtd_size(NULL);
    if (!parse(argc, argv) || world > 1024) {
        if (rank == 0)
            fputs(usage, stderr);
        return DTD_USAGE;
    }
    for (int r = 0; r < world; r++) {
        counts[r] = (size_t)(r * 37 % 5) * MOST / 8;
        first[r + 1] = first[r] + counts[r];
    }
    const size_t others = 8 * (first[world] + 10 * MOST);
    x = malloc((opts.end > others ? opts.end : others) + 8);
    mine = malloc(2 * 8 * PERIOD);
    want = mine ? mine + 8 * PERIOD : NULL;
    const bool memory = all_say(x && mine, 0);
    for (int t = 0; t < TYPES && memory; t++)
        if (opts.type < 0 || t == opts.type)
            good = check_type((dtd_type)t) && good;
    if (!memory && rank == 0)
        fprintf(stderr, "dtrain-dist-check: no memory for %zu bytes on each rank\n", opts.end);
    free(x);
    free(mine);
    dtd_finalize();
    return !memory ? DTD_NOMEM : good ? 0 : 1;
}
