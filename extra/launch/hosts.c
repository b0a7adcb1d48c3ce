/* hosts.c - hosts and how many ranks each has, from the command line and from the Ascend tutorial's
 * rank table, a file from strangers. Names end up on mpirun's command line: their characters are
 * checked. */
#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>

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

typedef struct table_reader {
    const char *path;
    dt_hosts *hosts;
    const char *before; /* the last server's id */
} table_reader;

/* In this server. */
#define table_fail(t, fmt, ...)                                                                    \
    dt_fail(DT_CONFIG, "%s: server_list[%d]: " fmt, (t)->path, (t)->hosts->count, __VA_ARGS__)

/* All numbers in it are texts. */
static bool is_number(const char *text, size_t n)
{
    char want[24];

    snprintf(want, sizeof want, "%zu", n);
    return strcmp(text, want) == 0;
}

static dt_status read_device(const table_reader *t, json_t *device, size_t expected)
{
    const char *rank;
    json_error_t error;

    if (json_unpack_ex(device, &error, 0, "{s:s}", "rank_id", &rank) != 0)
        return table_fail(t, "the device of rank %zu: %s", expected, error.text);
    if (!is_number(rank, expected))
        return table_fail(t,
                          "rank_id is '%.40s', expected '%zu': they run from 0 without gaps, in "
                          "the lexical order of server_id",
                          rank, expected);
    return DT_OK;
}

static dt_status read_server(table_reader *t, json_t *server)
{
    const char *id;
    json_t *devices;
    json_error_t error;

    if (json_unpack_ex(server, &error, 0, "{s:s, s:o}", "server_id", &id, "device", &devices) != 0)
        return table_fail(t, "%s", error.text);
    if (strchr(id, '*'))
        return table_fail(
            t, "server_id '%.80s' is a placeholder: replace it by this host's address", id);
    if (t->before && strcmp(t->before, id) >= 0)
        return table_fail(t,
                          "server_id '%.80s' stands after '%.80s': servers stand in lexical order, "
                          "each once",
                          id, t->before);
    const size_t count = json_array_size(devices); /* 0: it is no array, too */
    if (count != 1 && count != 2 && count != 4 && count != 8)
        return table_fail(t, "'device' of '%.80s' is not a list of 1, 2, 4 or 8", id);
    for (size_t i = 0; i < count; i++)
        DT_TRY(read_device(t, json_array_get(devices, i), (size_t)t->hosts->ranks + i));
    t->before = id;
    const dt_status st = dt_hosts_add(t->hosts, id, strlen(id), (int64_t)count);
    if (st == DT_OK || st == DT_NOMEM)
        return st;
    return dt_fail_place(DT_CONFIG, "%s: server_list[%d]: ", t->path, t->hosts->count);
}

static dt_status read_root(table_reader *t, json_t *root)
{
    const char *version, *status, *count;
    json_t *servers;
    json_error_t error;

    if (json_unpack_ex(root, &error, 0, "{s:s, s:s, s:s, s:o}", "version", &version, "status",
                       &status, "server_count", &count, "server_list", &servers) != 0)
        return dt_fail(DT_CONFIG, "%s: %s", t->path, error.text);
    if (strcmp(version, "1.0") != 0 || strcmp(status, "completed") != 0)
        return dt_fail(DT_CONFIG, "%s: version '%.40s' and status '%.40s', not 1.0 and completed",
                       t->path, version, status);
    if (json_array_size(servers) == 0)
        return dt_fail(DT_CONFIG, "%s: server_list is not a list of servers", t->path);
    if (!is_number(count, json_array_size(servers)))
        return dt_fail(DT_CONFIG, "%s: server_count is '%.40s', but server_list has %zu", t->path,
                       count, json_array_size(servers));
    for (size_t i = 0; i < json_array_size(servers); i++)
        DT_TRY(read_server(t, json_array_get(servers, i)));
    return DT_OK;
}

dt_status dt_ranktable_read(dt_hosts *h, const char *path)
{
    table_reader t = {.path = path, .hosts = h};
    enum { MOST_BYTES = 4 << 20 };
    json_error_t error;
    char *text = NULL;
    size_t length = 0;

    dt_status st = dt_file_text(path, MOST_BYTES, &text, &length);
    if (st != DT_OK)
        return st == DT_FORMAT ? DT_CONFIG : st;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    st = root ? read_root(&t, root)
              : dt_fail(DT_CONFIG, "%s:%d:%d: not JSON: %s", path, error.line, error.column,
                        error.text);
    json_decref(root);
    free(text);
    return st;
}

dt_status dt_ranktable(int argc, char **argv, int *code)
{
    const bool help = argc == 1 && strcmp(argv[0], "--help") == 0;
    dt_hosts h = {.list = NULL};

    (void)code;
    if (help)
        printf("Usage: dtrain ranktable FILE\n");
    if (help || argc != 1)
        return help ? DT_OK : dt_fail(DT_USAGE, "usage: dtrain ranktable FILE");
    const dt_status st = dt_ranktable_read(&h, argv[0]);
    if (st == DT_OK)
        printf("ok   %s: %d ranks on %d host%s: %s\n", argv[0], h.ranks, h.count,
               h.count == 1 ? "" : "s", h.list);
    free(h.list);
    return st;
}
