/* describe.c - threads of a rank, and what the program is made of. */
#include "run.h"

#include "commit.h"

int dt_threads_auto(const dt_comm *c)
{
    dt_machine m;

    dt_machine_describe(&m);
    const int share = dt_comm_node_cpus(c) / dt_comm_node_ranks(c);
    const int threads = share < m.cores_allowed ? share : m.cores_allowed;
    return threads < 1 ? 1 : threads;
}

enum { MAX_LIBRARIES = 8, VERSION_CHARS = 96 };

/* Filled with the same texts at every call: libraries do not change under a process. */
const dt_field *dt_library_versions(void)
{
    static dt_field field[MAX_LIBRARIES];
    static char version[MAX_LIBRARIES][VERSION_CHARS];
    const char *name = NULL;
    size_t n = 0;

    field[n++] = (dt_field){"dtrain", DTRAIN_VERSION " " DTRAIN_COMMIT " " DTRAIN_BUILD};
    for (; n + 2 < MAX_LIBRARIES && dt_kernel_library(n - 1, &name, version[n], VERSION_CHARS); n++)
        field[n] = (dt_field){name, version[n]};
    field[n++] = (dt_field){"MPI", dt_comm_version()};
    field[n] = (dt_field){NULL, NULL};
    return field;
}
