/* cmd_version.c - dtrain version: what exactly is running. */
#include "cli.h"
#include "commit.h"

static dt_status version_run(dt_comm *c, const dt_settings *s)
{
    (void)s;
    if (dt_comm_rank(c) != 0)
        return DT_OK;
    printf("dtrain %s (git %s)\n", DTRAIN_VERSION, DTRAIN_COMMIT);
    printf("  %-10s %s\n", "build", DTRAIN_BUILD);
    printf("  %-10s %s\n", "compiler", DTRAIN_COMPILER);
    for (const dt_field *f = dt_library_versions() + 1; f->name; f++) /* [0] is dtrain */
        printf("  %-10s %s\n", f->name, f->value);
    return DT_OK;
}

const dt_command dt_command_version = {.name = "version", .run = version_run, .bare = true};
