/* A node's memory: one block, aligned and zeroed, that all its ranks see. */
#include "ranks.h"

static void one_block_for_all(void **state)
{
    (void)state;
    static const size_t bytes[] = {1, 100, 4096, 5000001};
    enum { BLOCKS = sizeof bytes / sizeof *bytes };
    dt_node_mem *block[BLOCKS];
    unsigned char *memory[BLOCKS];
    const bool leads = dt_comm_node_rank(comm) == 0;

    for (size_t k = 0; k < BLOCKS; k++) {
        void *p = NULL;
        bool shared = false;
        assert_ok(dt_node_mem_create(&block[k], comm, bytes[k], "test", &p, &shared));
        assert_true(shared);
        assert_int_equal((uintptr_t)p % 64, 0);
        memory[k] = p;
        for (size_t i = 0; i < bytes[k]; i++)
            if (memory[k][i] != 0)
                fail_msg("byte %zu of %zu is not zero", i, bytes[k]);
    }
    assert_ok(dt_comm_barrier(comm));
    for (size_t k = 0; k < BLOCKS && leads; k++)
        for (size_t i = 0; i < bytes[k]; i++)
            memory[k][i] = (unsigned char)(i * 31 + k);
    assert_ok(dt_comm_barrier(comm));
    for (size_t k = 0; k < BLOCKS; k++)
        for (size_t i = 0; i < bytes[k]; i++)
            if (memory[k][i] != (unsigned char)(i * 31 + k))
                fail_msg("block %zu, byte %zu", k, i);
    for (size_t k = 0; k < BLOCKS; k++)
        dt_node_mem_destroy(block[k]);
    dt_node_mem_destroy(NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_block_for_all)};
    ranks_open(argc, argv);
    return ranks_close(cmocka_run_group_tests(tests, NULL, NULL));
}
