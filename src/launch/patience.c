/* patience.c - how long a child's connections wait for a host that is gone.
 *
 * Keep-alive, which mpirun sets by itself, finds out only where nothing is under way. Bytes that
 * nobody acknowledges are sent again for a quarter of an hour (tcp(7), tcp_retries2), unless
 * TCP_USER_TIMEOUT bounds it, for which mpirun has no option. A process may set it for its
 * descendants (pidfd_getfd(2), Linux 5.6), unless the system forbids that: then they wait. */
#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "meet.h"

static void bound(int process, int number)
{
    const unsigned patience_ms = 1000 * DT_PATIENCE_S;
    const int fd = pidfd_getfd(process, number, 0);

    if (fd < 0)
        return;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms, sizeof patience_ms);
    close(fd);
}

void dt_patience_bound(pid_t child)
{
    char path[64], to[16];
    const char *end = NULL;
    int64_t number = 0;

    snprintf(path, sizeof path, "/proc/%ld/fd", (long)child);
    DIR *dir = opendir(path);
    const int process = dir ? pidfd_open(child, 0) : -1;
    for (struct dirent *e = process < 0 ? NULL : readdir(dir); e; e = readdir(dir))
        if (readlinkat(dirfd(dir), e->d_name, to, sizeof to) > 0 &&
            strncmp(to, "socket:", 7) == 0 && dt_whole_parse(e->d_name, &end, &number))
            bound(process, (int)number);
    if (process >= 0)
        close(process);
    if (dir)
        closedir(dir);
}
