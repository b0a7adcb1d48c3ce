/* A training step allocates nothing: calls to malloc and its kin from dtrain's own objects
 * are counted through the linker's --wrap (libraries keep theirs: oneDNN makes a few small
 * ones per execute), and resident memory stays flat over 50 steps. */
#include "test.h"

#include <stdatomic.h>
#include <unistd.h>

#include "../../src/train/run.h"

static atomic_long calls;

#define WRAP(type, name, params, args)                                                 \
    type __real_##name params;                                                         \
    type __wrap_##name params;                                                         \
    type __wrap_##name params                                                          \
    {                                                                                  \
        atomic_fetch_add(&calls, 1);                                                   \
        return __real_##name args;                                                     \
    }
WRAP(void *, malloc, (size_t n), (n))
WRAP(void *, calloc, (size_t n, size_t m), (n, m))
WRAP(void *, realloc, (void *p, size_t n), (p, n))
WRAP(void *, aligned_alloc, (size_t a, size_t n), (a, n))
WRAP(int, posix_memalign, (void **p, size_t a, size_t n), (p, a, n))
WRAP(void *, mmap, (void *a, size_t n, int p, int f, int d, long o), (a, n, p, f, d, o))

static long resident_pages(void)
{
    long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld %ld", &size, &resident), 2);
    fclose(f);
    return resident;
}

static void steps_allocate_nothing(const char *net, const char *precision,
                                   const char *bn)
{
    dt_comm *c = NULL;
    dt_options o;
    dt_run r;
    dt_step_result result;
    int argc = 0;
    char **argv = NULL;

    dt_options_init(&o);
    o.data = "synthetic:96"; /* the last batch is uneven: a second plan runs too */
    o.net = net;
    o.image_size = 32;
    o.width_divisor = 16;
    o.batch = 4;
    o.shards = 8;
    o.drop_remainder = false;
    o.precision = precision;
    o.threads = 2;
    o.epochs = 1000;
    o.bn = bn;
    o.replay_every = strcmp(bn, "local") == 0 ? 20 : 0; /* replays one shard alone */
    assert_ok(dt_comm_open(&c, &argc, &argv));
    assert_ok(dt_run_open(&r, c, &o, DT_FOR_TRAINING));

    int64_t step = 0;
    for (; step < 12; step++) /* libraries and pages settle */
        assert_ok(dt_run_step(&r, step / r.steps_per_epoch, step % r.steps_per_epoch,
                             false, &result));
    const long before = atomic_load(&calls), pages = resident_pages();
    assert_true(before > 0); /* the counter counts */
    for (; step < 62; step++)
        assert_ok(dt_run_step(&r, step / r.steps_per_epoch, step % r.steps_per_epoch,
                             false, &result));
    assert_int_equal(atomic_load(&calls) - before, 0);
    const long grown_kib = (resident_pages() - pages) * (sysconf(_SC_PAGESIZE) / 1024);
    assert_true(grown_kib < 1024); /* allocator slack inside libraries */
    dt_run_close(&r);
    dt_comm_close(c);
}

static void vgg11_fp32(void **state)
{
    (void)state;
    steps_allocate_nothing("vgg11", "fp32", "local");
}

static void resnet50_auto(void **state)
{
    (void)state;
    steps_allocate_nothing("resnet50", "auto", "local");
}

static void resnet50_together(void **state)
{
    (void)state;
    steps_allocate_nothing("resnet50", "auto", "group:3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vgg11_fp32),
        cmocka_unit_test(resnet50_auto),
        cmocka_unit_test(resnet50_together),
    };
    return cmocka_run_group_tests_name("allocation", tests, NULL, NULL);
}
