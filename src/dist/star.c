/* star.c - receive buffer and sum of the exchanges around rank 0. */
#include "star.h"
#include "spans.h"

size_t dt_star_extra(const dt_exchange *x, int rank)
{
    const size_t received = (size_t)(x->fold.operands - dt_exchange_partials(x, 0));

    return rank == 0 ? received * dt_spans_longest(x->tensor, x->tensors) : 0;
}

void dt_star_sum(dt_exchange *x, dt_span tensor)
{
    void *sum = x->sum + tensor.first;

    for (int i = 0; i < x->fold.operands; i++)
        x->operand[i] = (dt_operand){
            .at = i < x->partials ? dt_exchange_partial(x, i) + tensor.first
                                  : x->extra + (size_t)(i - x->partials) * tensor.count};
    dt_fold_run(&x->fold, &dt_fold_f32, x->operand, &sum, tensor.count, x->scratch);
}
