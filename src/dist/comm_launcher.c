/* comm_launcher.c - the process that starts a rank: whether there is one, and its death.
 *
 * mpirun ends its ranks when it ends, but not when it is killed. Ranks of Open MPI then notice
 * that their connection is broken, most of the time: under Open MPI 5 one may stay behind, the
 * only one of -np 1 every second time. So the kernel is asked to say it (prctl(2),
 * PR_SET_PDEATHSIG). It says it of the thread that started this process, too, which may end
 * long before the launcher does: then the parent is still the same. */
#include "comm.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Without a launcher Open MPI would start a daemon of its own, which takes half a
 * second and fails where it finds no ssh: a world of one needs no MPI at all. */
bool dt_comm_launched(void)
{
    static const char *const sign[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_FD"};

    for (size_t i = 0; i < DT_COUNT_OF(sign); i++)
        if (getenv(sign[i]))
            return true;
    return false;
}

static pid_t launcher;

static void parent_changed(int number)
{
    static const char text[] =
        "dtrain: the process that started this rank was killed: the rank ends, what it "
        "has saved stands\n";

    (void)number;
    if (getppid() == launcher)
        return;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(dt_status_exit_code(DT_COMM));
}

void dt_comm_follow(void)
{
    struct sigaction action = {.sa_flags = SA_RESTART};

    action.sa_handler = parent_changed;
    launcher = getppid();
    if (sigaction(SIGRTMAX, &action, NULL) == 0)
        prctl(PR_SET_PDEATHSIG, SIGRTMAX, 0, 0, 0);
}
