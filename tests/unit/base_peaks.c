/* base_peaks.c - peaks are measured by the best loop that the instruction set allows. */
#include "test.h"

#include "base/peak_loops.h"
#include <math.h>

static void peaks_are_numbers(void **state)
{
    dt_peaks p;

    (void)state;
    assert_ok(dt_peaks_measure(&p, 2));
    for (int type = 0; type < DT_DTYPES; type++) {
        assert_true(isfinite(p.flops[type]) && p.flops[type] > 0);
        assert_non_null(p.flops_by[type]);
    }
    assert_true(isfinite(p.bytes_per_s) && p.bytes_per_s > 0);
}

/* Each set that this CPU has runs its loops; bf16 falls back on float32's. */
static void loops_by_instruction_set(void **state)
{
    const dt_isa best = dt_isa_current();
    _Alignas(64) const char zeros[DT_PEAK_OPERAND_BYTES] = {0};

    (void)state;
    for (int isa = (int)best; isa >= DT_ISA_PORTABLE; isa--) {
        dt_isa_limit((dt_isa)isa);
        const dt_peak_loop *f32 = dt_peak_loop_of(DT_F32), *bf16 = dt_peak_loop_of(DT_BF16);
        assert_true((int)f32->isa <= isa && f32->type == DT_F32);
        assert_true((int)bf16->isa <= isa);
        assert_int_equal(bf16->type == DT_BF16, isa >= DT_ISA_AVX512_BF16);
        assert_true(f32->run(zeros, 3) == 0);
        assert_true(bf16->run(zeros, 3) == 0);
    }
    dt_isa_limit(best);
}

/* Every round counts: a loop that a compiler shortened would say less. */
static void loops_add_up(void **state)
{
    float ones[DT_PEAK_OPERAND_BYTES / sizeof(float)];

    (void)state;
    for (size_t i = 0; i < DT_COUNT_OF(ones); i++)
        ones[i] = 1;
    const dt_peak_loop *l = dt_peak_loop_of(DT_F32);
    assert_true(l->run(ones, 20) == 2 * l->run(ones, 10));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(peaks_are_numbers),
                                       cmocka_unit_test(loops_by_instruction_set),
                                       cmocka_unit_test(loops_add_up)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
