/* hosts.c - names of hosts and how many ranks each has. Names end up on mpirun's command line, so
 * their characters are checked. */
#include <ctype.h>
#include <stdlib.h>

#include "launch.h"

void dt_hosts_release(dt_hosts *h)
{
    free(h->host);
    *h = (dt_hosts){.host = NULL};
}

static bool is_name(const char *name, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr(".-_", name[i]))
            return false;
    return length > 0 && length < DT_HOST_NAME && name[0] != '-' && name[0] != '.';
}

dt_status dt_hosts_add(dt_hosts *h, const char *name, size_t length, int64_t slots)
{
    char shown[80];

    snprintf(shown, sizeof shown, "%.*s", (int)DT_MIN(length, 64), name);
    if (!is_name(name, length))
        return dt_fail(DT_USAGE, "'%s' is not a host name", shown);
    if (slots < 1 || slots > DT_MOST_SLOTS)
        return dt_fail(DT_USAGE, "host '%s': %lld ranks; from 1 to %d fit", shown, (long long)slots,
                       (int)DT_MOST_SLOTS);
    for (int i = 0; i < h->count; i++)
        if (strlen(h->host[i].name) == length && memcmp(h->host[i].name, name, length) == 0)
            return dt_fail(DT_USAGE, "host '%s' is named twice", shown);
    if (h->count == DT_MOST_HOSTS)
        return dt_fail(DT_USAGE, "more than %d hosts", (int)DT_MOST_HOSTS);
    if (h->count % 64 == 0) {
        dt_host *more = realloc(h->host, (size_t)(h->count + 64) * sizeof *more);
        if (!more)
            return dt_fail(DT_NOMEM, "no memory for the names of hosts");
        h->host = more;
    }
    dt_host *host = &h->host[h->count++];
    *host = (dt_host){.slots = (int)slots};
    memcpy(host->name, name, length);
    h->ranks += host->slots;
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
