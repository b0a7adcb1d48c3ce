/* fold.c - types of values, kinds of leaves, and the one engine that adds them up. */
#include "fold.h"

/* ---- Types ----------------------------------------------------------------------- */

/* Elements do not depend on each other, also where `to` is an operand: without the
 * pragma compilers add one by one there. */
static void add_f32(void *to, const void *left, const void *right, size_t count)
{
    float *sum = to;
    const float *a = left, *b = right;

#pragma omp simd
    for (size_t i = 0; i < count; i++)
        sum[i] = a[i] + b[i];
}

static void add_f64(void *to, const void *left, const void *right, size_t count)
{
    double *sum = to;
    const double *a = left, *b = right;

    for (size_t i = 0; i < count; i++)
        sum[i] = a[i] + b[i];
}

static void add_moments(void *to, const void *left, const void *right, size_t count)
{
    dt_moment *sum = to;
    const dt_moment *a = left, *b = right;

    for (size_t i = 0; i < count; i++)
        sum[i] = dt_moment_merge(a[i], b[i]);
}

const dt_fold_type dt_fold_f32 = {sizeof(float), add_f32}, dt_fold_f64 = {sizeof(double), add_f64},
                   dt_fold_moments = {sizeof(dt_moment), add_moments};

void dt_add_f32(float *left, const float *right, size_t count)
{
    add_f32(left, left, right, count);
}

/* ---- Leaves ---------------------------------------------------------------------- */

/* dt_f32_to_bf16 without a branch. */
static uint32_t half_bits(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    const uint32_t nan = (bits >> 16) | 0x40u,
                   number = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return (bits & 0x7fffffffu) > 0x7f800000u ? nan : number;
}

void dt_halves_of_f32(dt_bf16 *to, const float *x, size_t count)
{
    enum { N = 64 }; /* at once, so that `to` may overtake nothing that is unread */
    dt_bf16 block[N];

    for (size_t at = 0; at < count; at += N) {
        const size_t n = DT_MIN(count - at, N);
        for (size_t i = 0; i < n; i++)
            block[i] = (dt_bf16)half_bits(x[at + i]);
        memcpy(to + at, block, n * sizeof *block);
    }
}

static void read_half(float *to, const void *from, size_t count)
{
    const dt_bf16 *x = from;

    for (size_t i = 0; i < count; i++)
        to[i] = dt_bf16_to_f32(x[i]);
}

static void read_rounded(float *to, const void *from, size_t count)
{
    const float *x = from;

#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = half_bits(x[i]) << 16;
        memcpy(&to[i], &bits, sizeof bits);
    }
}

/* NULL: an operand is read where it lies. */
static const struct {
    size_t bytes;
    void (*read)(float *to, const void *from, size_t count);
} leaf_table[DT_LEAVES] = {
    [DT_LEAF_HALF] = {sizeof(dt_bf16), read_half},
    [DT_LEAF_ROUNDED] = {sizeof(float), read_rounded},
};

/* ---- Folding --------------------------------------------------------------------- */

/* The counter, at work on one block of elements [at, at + count). */
typedef struct fold_stack {
    const dt_fold_type *type;
    size_t at, count;
    char *scratch;                      /* [depth][DT_FOLD_BYTES] */
    const void *held[DT_COUNTER_DEPTH]; /* the block of an operand or a sum */
    int operand[DT_COUNTER_DEPTH];      /* that it began with */
    int depth, next;
} fold_stack;

static void fold_push(fold_stack *s, const dt_operand *operand)
{
    const dt_operand *o = &operand[s->next];
    char *own = s->scratch + (size_t)s->depth * DT_FOLD_BYTES;

    s->operand[s->depth] = s->next++;
    if (leaf_table[o->leaf].read) {
        const char *from = (const char *)o->at + s->at * leaf_table[o->leaf].bytes;
        leaf_table[o->leaf].read((void *)own, from, s->count);
        s->held[s->depth++] = own;
    } else {
        s->held[s->depth++] = (const char *)o->at + s->at * s->type->bytes;
    }
}

static void fold_block(fold_stack *s, const dt_fold *f, const dt_operand *operand,
                       void *const *result)
{
    const size_t at = s->at * s->type->bytes;

    for (const dt_addition *add = f->add; add < f->add + f->additions; add++) {
        while (s->depth == 0 || s->operand[s->depth - 1] != add->right)
            fold_push(s, operand);
        const int left = --s->depth - 1;
        char *to = add->root >= 0 ? (char *)result[add->root] + at
                                  : s->scratch + (size_t)left * DT_FOLD_BYTES;
        s->type->add(to, s->held[left], s->held[left + 1], s->count);
        s->held[left] = to;
    }
    while (s->next < f->operands)
        fold_push(s, operand);
    for (int root = 0; root < f->roots; root++)
        if (s->held[root] != (char *)result[root] + at)
            memcpy((char *)result[root] + at, s->held[root], s->count * s->type->bytes);
}

void dt_fold_run(const dt_fold *f, const dt_fold_type *type, const dt_operand *operand,
                 void *const *result, size_t count, void *scratch)
{
    const size_t most = DT_FOLD_BYTES / type->bytes;

    for (size_t at = 0; at < count; at += most) {
        fold_stack s = {
            .type = type, .at = at, .count = DT_MIN(count - at, most), .scratch = scratch};
        fold_block(&s, f, operand, result);
    }
}
