/* base_affinity.c - where a rank's threads keep to, on machines that hwloc makes up. */
#include "test.h"

#include "base/topology.h"
#include <omp.h>

enum { ALL = -1 };

/* Of the first `cpus` CPUs that the process was started on (ALL: all). */
static void home_on(dt_affinity *h, const char *machine, dt_seat seat, int cpus)
{
    hwloc_topology_t t;

    assert_int_equal(hwloc_topology_init(&t), 0);
    assert_int_equal(hwloc_topology_set_synthetic(t, machine), 0);
    assert_int_equal(hwloc_topology_load(t), 0);
    const int has = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PU);
    CPU_ZERO(&seat.cpus);
    for (int cpu = 0; cpu < (cpus == ALL ? has : cpus); cpu++)
        CPU_SET((size_t)cpu, &seat.cpus);
    dt_affinity_on(h, t, &seat);
    hwloc_topology_destroy(t);
}

TEST(ranks_get_equal_shares)
{
    static const char two[] = "package:2 [numa] core:4 pu:1",
                      four[] = "package:2 numa:2 core:2 pu:2";
    static const struct {
        const char *machine;
        int rank, ranks, threads, cpus, quota;
        bool bound;
        const char *text;
        int first, count; /* CPUs of the share */
    } rows[] = {
        {two, 0, 2, 4, ALL, 0, false, "NUMA node 0", 0, 4},
        {two, 1, 2, 4, ALL, 0, false, "NUMA node 1", 4, 4},
        {two, 1, 2, 4, ALL, 8, false, "NUMA node 1", 4, 4},
        {"package:2 core:4 pu:1", 1, 2, 4, ALL, 0, false, "package 1", 4, 4},
        {four, 2, 4, 4, ALL, 0, false, "NUMA node 2", 8, 4},
        {four, 1, 2, 8, ALL, 0, false, "NUMA nodes 2 to 3", 8, 8},
        {two, 0, 1, 4, ALL, 0, false, "no: one rank", 0, 0},
        {two, 1, 4, 2, ALL, 0, false, "NUMA node 0", 0, 4}, /* two ranks on each */
        {two, 2, 4, 2, ALL, 0, false, "NUMA node 1", 4, 4},
        {four, 5, 6, 2, ALL, 0, false, "package 1", 8, 8}, /* three on each */
        {two, 1, 4, 3, ALL, 0, false, "no: packages", 0, 0},
        {two, 1, 3, 2, ALL, 0, false, "no: packages", 0, 0},
        {two, 0, 2, 5, ALL, 0, false, "no: packages", 0, 0},
        {two, 0, 2, 4, ALL, 0, true, "no: OMP_PROC_BIND", 0, 0},
        {two, 0, 2, 4, 4, 0, false, "no: the launcher", 0, 0},
        {two, 0, 2, 4, 0, 0, false, "no: the launcher", 0, 0},
        {two, 0, 2, 3, ALL, 6, false, "no: its quota", 0, 0},
        {"package:1 [numa] core:8 pu:1", 0, 2, 4, ALL, 0, false, "no: packages", 0, 0},
    };

    for (size_t i = 0; i < DT_COUNT_OF(rows); i++) {
        const dt_seat seat = {.rank = rows[i].rank,
                              .ranks = rows[i].ranks,
                              .threads = rows[i].threads,
                              .quota = rows[i].quota,
                              .bound = rows[i].bound};
        dt_affinity h;
        home_on(&h, rows[i].machine, seat, rows[i].cpus);
        assert_memory_equal(h.text, rows[i].text, strlen(rows[i].text));
        assert_int_equal(h.kind != NULL, rows[i].count > 0);
        assert_int_equal(CPU_COUNT(&h.cpus), rows[i].count);
        for (int k = 0; k < rows[i].count; k++)
            assert_true(CPU_ISSET((size_t)(rows[i].first + k), &h.cpus));
    }
}

/* Shares are the same or have no CPU in common, leave none out, and have a CPU for each rank. */
TEST(shares_cover_the_machine)
{
    static const char *const machine[] = {"package:2 [numa] core:6 pu:2",
                                          "package:3 numa:4 core:2 pu:1", "numa:6 core:4 pu:1",
                                          "package:12 core:2 pu:1"};

    for (size_t m = 0; m < DT_COUNT_OF(machine); m++)
        for (int ranks = 2; ranks <= 12; ranks++) {
            cpu_set_t seen, both, before;
            dt_affinity h;
            int same = 0;
            CPU_ZERO(&seen);
            CPU_ZERO(&before);
            for (int rank = 0; rank < ranks; rank++) {
                home_on(&h, machine[m], (dt_seat){.rank = rank, .ranks = ranks, .threads = 1}, ALL);
                same = CPU_EQUAL(&h.cpus, &before) ? same + 1 : 1;
                before = h.cpus;
                CPU_AND(&both, &seen, &h.cpus);
                assert_int_equal(CPU_COUNT(&both), same > 1 ? CPU_COUNT(&h.cpus) : 0);
                assert_true(!h.kind || CPU_COUNT(&h.cpus) >= same);
                CPU_OR(&seen, &seen, &h.cpus);
            }
            assert_int_equal(CPU_COUNT(&seen), h.kind ? 24 : 0);
        }
}

static void masks(cpu_set_t mask[2]) /* of each thread */
{
#pragma omp parallel num_threads(2)
    (void)sched_getaffinity(0, sizeof *mask, &mask[omp_get_thread_num()]);
}

TEST(threads_enter_and_leave)
{
    dt_affinity home = {.kind = "NUMA node"}, none = {.kind = NULL};
    cpu_set_t all, mask[2];

    masks(mask); /* libgomp's thread is there before */
    dt_machine_cpus(&all);
    dt_affinity_enter(&none, 2);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&home.cpus) == 0; cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &home.cpus);
    for (int k = 0; k < 2; k++) {
        dt_affinity *h = k == 0 ? &home : &none;
        dt_affinity_enter(h, 2);
        masks(mask);
        assert_true(CPU_EQUAL(&mask[0], k == 0 ? &home.cpus : &all));
        assert_true(CPU_EQUAL(&mask[1], k == 0 ? &home.cpus : &all));
        dt_machine_cpus(&mask[0]); /* as it was started */
        assert_true(CPU_EQUAL(&mask[0], &all));
    }
    CPU_ZERO(&home.cpus);
    CPU_SET(CPU_SETSIZE - 1, &home.cpus); /* the system refuses a CPU that it does not have */
    dt_affinity_enter(&home, 2);
    assert_null(home.kind);
}
