/* kernel.c - the kernel table: which row runs a pass, and which precision the rows can do. */
#include "kernel.h"

#include <inttypes.h>

static const dt_kernel *const kernel_table[] = {
#define X(name) &dt_kernel_##name,
    DT_KERNEL_LIST(X)
#undef X
};
enum { KERNEL_COUNT = DT_COUNT_OF(kernel_table) };

static const char *const kernel_pass_name[DT_PASS_COUNT] = {"forward", "data gradient",
                                                            "weight gradient"};

static const dt_kernel *kernel_find(const char *name, const dt_conv *c, dt_pass pass)
{
    for (int i = 0; i < KERNEL_COUNT; i++) {
        const dt_kernel *k = kernel_table[i];
        if ((strcmp(name, "auto") == 0 || strcmp(name, k->name) == 0) && k->supports(c, pass))
            return k;
    }
    return NULL;
}

dt_status dt_kernel_choose(const char *name, const dt_conv *c, dt_pass pass, const dt_kernel **k)
{
    const dt_kernel *found = kernel_find(name, c, pass);

    if (!found)
        return dt_fail(DT_UNSUPPORTED,
                       "kernels '%s' cannot run the %s of a %s convolution of %" PRId64
                       " images of %" PRId64 "x%" PRId64 " with %" PRId64
                       " channels on %s; take other --kernels (auto" DT_KERNEL_LIST(
                           DT_WORD) ") or --isa "
                                    "amx, a smaller batch, or a lower --width-divisor",
                       name, kernel_pass_name[pass], dt_dtype_name(c->type), c->n, c->ih, c->iw,
                       c->ic, dt_isa_name(dt_isa_current()));
    *k = found;
    return DT_OK;
}

/* Support depends on type and instruction set, not on the shape: ask with a small one.
 */
static bool kernel_can(const char *kernels, dt_dtype type)
{
    const dt_conv c = {.n = 1,
                       .ih = 1,
                       .iw = 1,
                       .ic = 1,
                       .oh = 1,
                       .ow = 1,
                       .oc = 1,
                       .kernel = {1, 1},
                       .stride = {1, 1},
                       .type = type,
                       .out_type = type,
                       .threads = 1};
    for (int pass = 0; pass < DT_PASS_COUNT; pass++)
        if (!kernel_find(kernels, &c, (dt_pass)pass))
            return false;
    return true;
}

bool dt_kernel_library(size_t i, const char **name, char *version, size_t size)
{
    if (i >= KERNEL_COUNT)
        return false;
    *name = kernel_table[i]->library;
    kernel_table[i]->version(version, size);
    return true;
}

dt_status dt_precision_choose(const char *name, const char *kernels, dt_dtype *type)
{
    const bool any = strcmp(name, "auto") == 0;
    const bool bf16 = strcmp(name, "bf16") == 0;

    if (bf16 && !kernel_can(kernels, DT_BF16))
        return dt_fail(DT_UNSUPPORTED,
                       "precision bf16: kernels '%s' have none for the instruction set %s (%s); "
                       "take --precision fp32, or --kernels auto --isa amx, which any CPU can, "
                       "if slowly",
                       kernels, dt_isa_name(dt_isa_bits()), dt_isa_origin());
    *type = (bf16 || any) && kernel_can(kernels, DT_BF16) ? DT_BF16 : DT_F32;
    return DT_OK;
}
