/* mpi_memory.c - the room of MPI's own buffers.
 *
 * Open MPI's ranks of a machine pass messages through mapped files, in /dev/shm by default,
 * whose pages it takes as it comes to use them: when something else has filled the file
 * system by then, the rank dies of SIGBUS in the middle of a run. So the pages are taken when
 * MPI has started; and while it starts, SIGBUS becomes a message. */
#include "comm.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void start_failed(int signal, siginfo_t *info, void *context)
{
    static const char text[] =
        "dtrain: MPI cannot start: its shared memory (/dev/shm, unless it was told "
        "otherwise) has become full; make room there or enlarge it (docker run "
        "--shm-size)\n";

    (void)signal;
    (void)context;
    if (info->si_code == BUS_ADRERR)
        (void)!write(STDERR_FILENO, text, sizeof text - 1);
    dt_comm_abort(NULL, dt_status_exit_code(DT_NOMEM));
}

/* Open MPI 5 makes these files four times as large as Open MPI 4, 16 MB per rank, which five
 * ranks do not find in a container's 64 MB. The old size is enough, unless somebody chose. */
static void bound_buffers(void)
{
    if (!getenv("OMPI_MCA_btl_vader_segment_size")) /* the older name of the same */
        setenv("OMPI_MCA_btl_sm_segment_size", "4194304", 0);
}

dt_status dt_comm_init_mpi(int *argc, char ***argv)
{
    struct sigaction mine = {.sa_sigaction = start_failed, .sa_flags = SA_SIGINFO}, old;
    int threads = 0;

    bound_buffers();
    sigaction(SIGBUS, &mine, &old);
    const int code = MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &threads);
    sigaction(SIGBUS, &old, NULL);
    if (code != MPI_SUCCESS)
        return dt_comm_error(code, "MPI_Init_thread");
    if (threads < MPI_THREAD_FUNNELED)
        return dt_fail(DT_UNSUPPORTED, "%s was built without threads; use another MPI library",
                       dt_comm_version());
    return DT_OK;
}

/* Those of the file behind one mapping, which holds live data: fallocate leaves it alone. */
static dt_status reserve(const char *path, uint64_t offset, uint64_t bytes)
{
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    int error = 0;

    if (fd < 0)
        return DT_OK; /* deleted, or not ours to judge */
    do
        error = fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes) ? errno : 0;
    while (error == EINTR);
    close(fd);
    if (error != ENOSPC && error != EDQUOT && error != ENOMEM)
        return DT_OK; /* no file system that takes pages later */
    return dt_fail(DT_NOMEM,
                   "no room for MPI's own buffers, %.1f MB per rank in %s: %s; make "
                   "room there or enlarge it (docker run --shm-size)",
                   (double)bytes * 1e-6, path, strerror(error));
}

dt_status dt_comm_reserve(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char *line = NULL;
    size_t room = 0;
    dt_status st = DT_OK;

    while (maps && st == DT_OK && getline(&line, &room, maps) > 0) {
        uint64_t from, to, offset;
        char mode[8];
        int path = 0;

        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %*s %n", &from, &to, mode,
                   &offset, &path) < 4 ||
            strcmp(mode, "rw-s") != 0 || line[path] != '/')
            continue;
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line + path, "/dev/", 5) != 0 || strncmp(line + path, "/dev/shm/", 9) == 0)
            st = reserve(line + path, offset, to - from);
    }
    free(line);
    if (maps)
        fclose(maps);
    return st;
}
