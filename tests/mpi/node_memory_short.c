/* A node whose backing directory has no room: private memory, and one line says so. */
#include "ranks.h"

#include "capture.h"

static void private_and_said_once(void **state)
{
    (void)state;
    enum { BYTES = 100000 };
    const bool alone = dt_comm_node_ranks(comm) == 1;
    const unsigned char mark = (unsigned char)(1 + dt_comm_rank(comm));
    dt_node_mem *m = NULL;
    void *memory = NULL;
    bool shared = false;
    capture c;

    capture_begin(&c);
    const dt_status st =
        dt_node_mem_create(&m, comm, BYTES, "the data", &memory, &shared);
    const int lines = capture_end(&c);
    assert_int_equal(st, DT_OK);
    assert_int_equal(shared, alone);
    assert_int_equal(lines, !alone && dt_comm_rank(comm) == 0);
    if (lines == 1) {
        assert_non_null(strstr(c.text, "the data: 0.1 MB do not fit into /proc "));
        assert_non_null(strstr(c.text, "osc_sm_backing_directory"));
    }

    assert_int_equal((uintptr_t)memory % 64, 0);
    assert_int_equal(((unsigned char *)memory)[BYTES - 1], 0);
    memset(memory, mark, BYTES);
    assert_ok(dt_comm_barrier(comm));
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(((unsigned char *)memory)[i], mark);
    dt_node_mem_destroy(m);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(private_and_said_once)};
    setenv("OMPI_MCA_osc_sm_backing_directory", "/proc", 1); /* 0 bytes free, always */
    ranks_open(argc, argv);
    return ranks_close(cmocka_run_group_tests(tests, NULL, NULL));
}
