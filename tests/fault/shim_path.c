/* shim_path.c - which file below the root; see shim.h. */
#include "shim.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char shim_root[PATH_MAX]; /* "": nothing is followed */

__attribute__((constructor)) static void shim_begin(void)
{
    const char *root = getenv("RECORD_ROOT");

    if (root && !realpath(root, shim_root)) /* it may come to be */
        snprintf(shim_root, sizeof shim_root, "%s", root[0] == '/' ? root : "");
    shim_start();
}

/* An absolute path becomes one below the root, in place. */
static bool below_root(char path[PATH_MAX])
{
    const size_t n = strlen(shim_root);

    const char *name = strrchr(path, '/');

    if (n == 0 || strncmp(path, shim_root, n) != 0 || (path[n] && path[n] != '/'))
        return false;
    if (name && strcmp(name, "/progress") == 0) /* where ranks are: no power cut is to keep it */
        return false;
    memmove(path, path + n + (path[n] == '/'), strlen(path + n + (path[n] == '/')) + 1);
    return true;
}

/* A file that has no name any more is in no state after a power cut. */
bool shim_fd_path(int fd, char path[PATH_MAX])
{
    static const char gone[] = " (deleted)";
    char link[64];

    if (shim_root[0] == '\0' || fd < 0)
        return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, PATH_MAX - 1);
    if (n <= 0)
        return false;
    path[n] = '\0';
    if ((size_t)n > sizeof gone && strcmp(path + n + 1 - sizeof gone, gone) == 0)
        return false;
    return below_root(path);
}

/* Links in the folder part are followed, the last part is taken as it stands. */
bool shim_name_path(int folder, const char *name, char path[PATH_MAX])
{
    char whole[PATH_MAX], base[PATH_MAX] = ".", link[64];

    if (shim_root[0] == '\0' || !name || strlen(name) + 2 > PATH_MAX)
        return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    if (name[0] != '/' && folder != AT_FDCWD) {
        const ssize_t n = readlink(link, base, sizeof base - 1);
        if (n <= 0)
            return false;
        base[n] = '\0';
    }
    if (name[0] == '/')
        snprintf(whole, sizeof whole, "%s", name);
    else if (snprintf(whole, sizeof whole, "%s/%s", base, name) >= PATH_MAX)
        return false;
    size_t n = strlen(whole);
    while (n > 1 && whole[n - 1] == '/')
        whole[--n] = '\0';
    char *slash = strrchr(whole, '/');
    if (slash == whole)
        return false; /* an entry of the root of the system */
    *slash = '\0';
    if (!realpath(whole, path))
        return false;
    const size_t room = PATH_MAX - strlen(path);
    if ((size_t)snprintf(path + strlen(path), room, "/%s", slash + 1) >= room)
        return false;
    return below_root(path);
}
