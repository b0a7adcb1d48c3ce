/* node_memory.c - a node's memory: one block, aligned, zeroed and reserved, that all its ranks see.
 * */
#include "ranks.h"

#include <sys/mman.h>
#include <unistd.h>

/* A page that is not there yet would be a SIGBUS where it cannot be had. */
static void all_is_there(unsigned char *memory, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (bytes + page - 1) / page;
    unsigned char *there = calloc(pages, 1);

    assert_non_null(there);
    assert_int_equal((uintptr_t)memory % page, 0);
    assert_int_equal(mincore(memory, bytes, there), 0);
    for (size_t i = 0; i < pages; i++)
        if (!(there[i] & 1))
            fail_msg("page %zu of %zu is not reserved", i, pages);
    free(there);
}

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
        const char *why = NULL;
        assert_ok(dt_node_mem_create(&block[k], comm, bytes[k], "test", &p, &why));
        assert_null(why);
        assert_int_equal((uintptr_t)p % 64, 0);
        memory[k] = p;
        if (dt_comm_node_ranks(comm) > 1)
            all_is_there(p, bytes[k]);
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
