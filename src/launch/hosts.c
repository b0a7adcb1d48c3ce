/* hosts.c - lists of hosts and how many ranks each has, as mpirun's command line wants them: the
 * characters of names are checked. */
#include <ctype.h>
#include <stdlib.h>

#include "launch.h"

static bool is_name(const char *name, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr(".-_", name[i]))
            return false;
    return length > 0 && length < DT_HOST_NAME && name[0] != '-' && name[0] != '.';
}

dt_status dt_hosts_add(dt_hosts *h, const char *name, size_t length, int64_t slots)
{
    char *list = NULL;

    if (!is_name(name, length))
        return dt_fail(DT_USAGE, "'%.*s' is not a host name", (int)DT_MIN(length, 64), name);
    if (slots < 1 || slots > DT_MOST_SLOTS || h->count == DT_MOST_HOSTS)
        return dt_fail(DT_USAGE, "host '%.*s': %lld ranks; at most %d hosts with 1 to %d ranks fit",
                       (int)DT_MIN(length, 64), name, (long long)slots, (int)DT_MOST_HOSTS,
                       (int)DT_MOST_SLOTS);
    if (asprintf(&list, "%s%s%.*s:%d", h->list ? h->list : "", h->list ? "," : "", (int)length,
                 name, (int)slots) < 0)
        return dt_fail(DT_NOMEM, "no memory for the names of hosts");
    free(h->list);
    h->list = list;
    h->count++;
    h->ranks += (int)slots;
    return DT_OK;
}

dt_status dt_hosts_parse(dt_hosts *h, const char *text, int slots)
{
    for (const char *at = text, *end;; at = end + 1) {
        const size_t length = strcspn(at, ":,");
        int64_t n = slots;
        end = at + length;
        if ((*end == ':' && !dt_whole_parse(end + 1, &end, &n)) || (*end && *end != ','))
            return dt_fail(DT_USAGE, "--hosts: '%.80s' does not begin with NAME or NAME:RANKS", at);
        DT_TRY(dt_hosts_add(h, at, length, n));
        if (!*end)
            return DT_OK;
    }
}
