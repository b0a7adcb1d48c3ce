/* start_mpi.c - what the program sees to around MPI's start: that this rank ends with its
 * launcher, and that MPI's own buffers have room.
 *
 * Open MPI's ranks of a machine pass messages through files that they map, of 4 MB each in
 * /dev/shm, whose pages it takes as it comes to use them: when something else has filled the file
 * system by then, the rank dies of SIGBUS in the middle of a run. So the pages are taken as soon
 * as MPI has started. Of ranks that are killed together with mpirun these files stay for ever. */
#include "cli.h"
#include <glob.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <time.h>

static pid_t launcher;

/* The kernel says it of the thread that started this process, too, which may end long before
 * the launcher does: then the parent is still the same. */
static void parent_changed(int number)
{
    static const char text[] = "dtrain: the process that started this rank was killed: the rank "
                               "ends, what it has saved stands\n";

    (void)number;
    if (getppid() == launcher)
        return;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(dt_status_exit_code(DT_COMM));
}

/* mpirun ends its ranks when it ends, but not when it is killed. Most ranks of Open MPI then
 * notice a broken connection; under Open MPI 5 one may stay behind. So the kernel is asked to
 * signal the launcher's death. */
static void follow_launcher(void)
{
    const struct sigaction action = {.sa_handler = parent_changed, .sa_flags = SA_RESTART};

    launcher = getppid();
    if (sigaction(SIGRTMAX, &action, NULL) == 0)
        prctl(PR_SET_PDEATHSIG, SIGRTMAX, 0, 0, 0);
}

/* Remove one that belongs to ranks that were killed: the kernel grants a read lease only on a file
 * that no process has open or mapped for writing. A file that is made right now may not be mapped
 * yet; ranks map all files of their host when MPI starts, and none later. */
static dt_status remove_dead(const char *path, int fd, const struct stat *info)
{
    enum { YOUNG_S = 10 };

    if (time(NULL) - info->st_mtime > YOUNG_S && fcntl(fd, F_SETLEASE, F_RDLCK) == 0)
        unlink(path);
    return DT_OK;
}

/* Take the pages of a file that holds live data: fallocate leaves it alone. */
static dt_status reserve(const char *path, int fd, const struct stat *info)
{
    int error = 0;

    if (info->st_size > 0)
        do
            error = fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, info->st_size) ? errno : 0;
        while (error == EINTR);
    if (error != ENOSPC && error != EDQUOT && error != ENOMEM)
        return DT_OK;
    return dt_fail(DT_NOMEM,
                   "no room for MPI's own buffers, %.1f MB per rank in %s: %s; make room in "
                   "/dev/shm or enlarge it (docker run --shm-size)",
                   (double)info->st_size * 1e-6, path, strerror(error));
}

/* Those of this user, on this host. One that cannot be opened is of a run that has ended. A lease
 * needs a descriptor for reading alone. */
static dt_status each_segment(dt_status (*act)(const char *path, int fd, const struct stat *info),
                              int access)
{
    char host[DT_HOST_CHARS], pattern[DT_HOST_CHARS + 64];
    dt_status st = DT_OK;
    glob_t found = {.gl_pathc = 0};
    struct stat info;

    dt_host_name(host);
    snprintf(pattern, sizeof pattern, "/dev/shm/*_segment.%.*s*.%u.*", (int)strcspn(host, "."),
             host, (unsigned)getuid());
    if (glob(pattern, 0, NULL, &found) != 0)
        return DT_OK;
    for (size_t i = 0; i < found.gl_pathc && st == DT_OK; i++) {
        const int fd = open(found.gl_pathv[i], access | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
        if (fd < 0)
            continue;
        if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == getuid())
            st = act(found.gl_pathv[i], fd, &info);
        close(fd);
    }
    globfree(&found);
    return st;
}

dt_status dt_start_mpi(dt_comm **c, int *argc, char ***argv)
{
    struct iovec own = {.iov_base = &own, .iov_len = 1};

    *c = NULL;
    if (dt_comm_launched() || dt_comm_mpirun()) /* mpirun's only rank, too */
        follow_launcher();
    if (!dt_comm_launched())
        return dt_comm_open(c, false, argc, argv);
    /* Open MPI 5 makes segments four times as large as Open MPI 4, which five ranks do not find
     * in a container's 64 MB. The old size is enough, unless somebody chose. */
    if (!getenv("OMPI_MCA_btl_vader_segment_size")) /* the older name of the same */
        setenv("OMPI_MCA_btl_sm_segment_size", "4194304", 0);
    /* Where containers forbid it, or an emulator lacks it, MPI tries and fails each time. */
    if (process_vm_readv(getpid(), &own, 1, &own, 1, 0) < 0) {
        setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
        setenv("OMPI_MCA_smsc", "^cma", 0); /* Open MPI 5 */
        setenv("UCX_TLS", "^cma", 0);       /* MPICH's UCX, which ends the rank */
    }
    DT_TRY(each_segment(remove_dead, O_RDONLY));
    DT_TRY(dt_comm_open(c, true, argc, argv));
    return dt_comm_agree(*c, each_segment(reserve, O_RDWR));
}
