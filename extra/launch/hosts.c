/* hosts.c - hosts and how many ranks each has, from the command line and from the Ascend tutorial's
 * rank table, a file from strangers. Names end up on mpirun's command line: their characters are
 * checked. */
#include <ctype.h>

#include "launch.h"

/* ---- Lists ----------------------------------------------------------------------------------- */

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
        return dt_fail(DT_USAGE, "'%.*s' is not a host name; users belong into ~/.ssh/config",
                       (int)DT_MIN(length, 64), name);
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
            return dt_fail(DT_USAGE, "--hosts: '%.80s' is not NAME:RANKS,... (no IPv6)", at);
        DT_TRY(dt_hosts_add(h, at, length, n));
        if (!*end)
            return DT_OK;
    }
}

/* ---- Rank tables ----------------------------------------------------------------------------- */

/* All numbers in it are texts. */
static bool is_number(const char *text, size_t n)
{
    char want[24];

    snprintf(want, sizeof want, "%zu", n);
    return strcmp(text, want) == 0;
}

/* before: the last server's id, or NULL. */
static dt_status read_server(dt_hosts *h, json_t *server, const char *before)
{
    const char *id, *rank;
    json_t *devices;
    json_error_t error;

    if (json_unpack_ex(server, &error, 0, "{s:s, s:o}", "server_id", &id, "device", &devices) != 0)
        return dt_fail(DT_CONFIG, "%s", error.text);
    if (strchr(id, '*'))
        return dt_fail(DT_CONFIG,
                       "server_id '%.80s' is a placeholder: replace it by this host's address", id);
    if (before && strcmp(before, id) >= 0)
        return dt_fail(DT_CONFIG,
                       "server_id '%.80s' stands after '%.80s': servers stand in lexical order, "
                       "each once",
                       id, before);
    const size_t count = json_array_size(devices); /* 0: it is no array, too */
    if (count != 1 && count != 2 && count != 4 && count != 8)
        return dt_fail(DT_CONFIG, "'device' of '%.80s' is not a list of 1, 2, 4 or 8", id);
    for (size_t i = 0; i < count; i++) {
        const size_t want = (size_t)h->ranks + i;
        json_t *device = json_array_get(devices, i);
        if (json_unpack_ex(device, &error, 0, "{s:s}", "rank_id", &rank) != 0)
            return dt_fail(DT_CONFIG, "the device of rank %zu: %s", want, error.text);
        if (!is_number(rank, want))
            return dt_fail(DT_CONFIG,
                           "rank_id is '%.40s', expected '%zu': they run from 0 without gaps, in "
                           "the lexical order of server_id",
                           rank, want);
    }
    return dt_hosts_add(h, id, strlen(id), (int64_t)count);
}

static dt_status read_root(dt_hosts *h, json_t *root)
{
    const char *version, *status, *count, *before = NULL;
    json_t *servers, *server;
    json_error_t error;
    size_t i;

    if (json_unpack_ex(root, &error, 0, "{s:s, s:s, s:s, s:o}", "version", &version, "status",
                       &status, "server_count", &count, "server_list", &servers) != 0)
        return dt_fail(DT_CONFIG, "%s", error.text);
    if (strcmp(version, "1.0") != 0 || strcmp(status, "completed") != 0)
        return dt_fail(DT_CONFIG, "version '%.40s' and status '%.40s', not 1.0 and completed",
                       version, status);
    if (json_array_size(servers) == 0)
        return dt_fail(DT_CONFIG, "server_list is not a list of servers");
    if (!is_number(count, json_array_size(servers)))
        return dt_fail(DT_CONFIG, "server_count is '%.40s', but server_list has %zu", count,
                       json_array_size(servers));
    json_array_foreach(servers, i, server)
    {
        const dt_status st = read_server(h, server, before);
        if (st != DT_OK)
            return dt_fail_place(st, "server_list[%zu]: ", i);
        before = json_string_value(json_object_get(server, "server_id"));
    }
    return DT_OK;
}

dt_status dt_ranktable_read(dt_hosts *h, const char *path)
{
    enum { MOST_BYTES = 4 << 20 };
    json_error_t error;
    char *text = NULL;
    size_t length = 0;

    dt_status st = dt_file_text(path, MOST_BYTES, &text, &length);
    if (st != DT_OK)
        return st == DT_FORMAT ? DT_CONFIG : st;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        st = dt_fail(DT_CONFIG, "%s:%d:%d: not JSON: %s", path, error.line, error.column,
                     error.text);
    else if ((st = read_root(h, root)) != DT_OK)
        st = dt_fail_place(st == DT_NOMEM ? st : DT_CONFIG, "%s: ", path);
    json_decref(root);
    free(text);
    return st;
}
