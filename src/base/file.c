/* file.c - what several folders do with descriptors. */
#include "base.h"

#include <errno.h>
#include <unistd.h>

int64_t dt_read_until(int fd, void *to, size_t bytes)
{
    size_t have = 0;

    for (ssize_t n = 1; n != 0 && have < bytes;) {
        n = read(fd, (char *)to + have, bytes - have);
        if (n < 0 && errno != EINTR)
            return -1;
        have += n > 0 ? (size_t)n : 0;
    }
    return (int64_t)have;
}
