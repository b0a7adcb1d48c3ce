/* golden_airbench.c - airbench with the loss and optimizer of its program: GELU, smoothed labels,
 * Nesterov's momentum, numbers that are not trained, 64 times the rate for batch norm's biases, a
 * decay that no rate scales. */
#include "golden.h"
#include "train/optim.h"

/* The options are those of proofs/golden.py. */
static void update(golden *g)
{
    dt_options o;
    dt_optim x;

    dt_options_init(&o);
    o.lr = json_number_value(golden_get(g, "lr"));
    o.momentum = 0.85;
    o.nesterov = true;
    o.weight_decay = 0.002;
    o.decay = "decoupled";
    o.norm_bias_rate = 64;
    assert_ok(dt_optim_open(&x, g->n.model, DT_SLAB_HOME, &o, g->n.master.mem, g->momentum.mem, 1));
    dt_optim_step(&x, (dt_span){0, g->floats}, g->grad.mem, o.lr, 0);
    dt_optim_close(&x);
    dt_model_pack(g->n.model, 0, 1);
}
#define GOLDEN_UPDATE update
#include "golden_check.h"

int main(void)
{
    static golden_case cases[] = {{"airbench-real", DT_F32}, {"airbench-real", DT_BF16}};

    return golden_main(cases, DT_COUNT_OF(cases));
}
