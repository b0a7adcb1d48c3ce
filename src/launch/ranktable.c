/* ranktable.c - the Ascend tutorial's rank table, a file from strangers. All numbers in it are
 * texts. */
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>

#include "launch.h"

enum { MOST_BYTES = 4 << 20 };

typedef struct table_reader {
    const char *path;
    dt_hosts *hosts;
    const char *before; /* the last server's id */
} table_reader;

/* In this server. */
#define table_fail(t, fmt, ...)                                                                    \
    dt_fail(DT_CONFIG, "%s: server_list[%d]: " fmt, (t)->path, (t)->hosts->count, __VA_ARGS__)

static bool is_number(const char *text, int64_t *n)
{
    const char *end = NULL;
    return dt_whole_parse(text, &end, n) && !*end && *n >= 0;
}

/* Ids and addresses of devices are for programs that have some: here they have to be there. */
static dt_status read_device(const table_reader *t, json_t *device, int expected)
{
    const char *unused, *rank;
    json_error_t error;
    int64_t n = 0;

    if (json_unpack_ex(device, &error, JSON_STRICT, "{s:s, s:s, s:s}", "device_id", &unused,
                       "device_ip", &unused, "rank_id", &rank) != 0)
        return table_fail(t, "the device of rank %d: %s", expected, error.text);
    if (!is_number(rank, &n) || n != expected)
        return table_fail(t,
                          "rank_id is '%.40s', expected '%d': they run from 0 without gaps, in the "
                          "lexical order of server_id",
                          rank, expected);
    return DT_OK;
}

static dt_status read_server(table_reader *t, json_t *server)
{
    const char *id;
    json_t *devices, *unused;
    json_error_t error;

    if (json_unpack_ex(server, &error, JSON_STRICT, "{s:s, s:o, s?o}", "server_id", &id, "device",
                       &devices, "host_nic_ip", &unused) != 0)
        return table_fail(t, "%s", error.text);
    if (t->before && strcmp(t->before, id) >= 0)
        return table_fail(t,
                          "server_id '%.80s' stands after '%.80s': servers stand in lexical order, "
                          "each once",
                          id, t->before);
    const size_t count = json_array_size(devices); /* 0: it is no array, too */
    if (count != 1 && count != 2 && count != 4 && count != 8)
        return table_fail(t, "'device' of '%.80s' is not a list of 1, 2, 4 or 8", id);
    for (size_t i = 0; i < count; i++)
        DT_TRY(read_device(t, json_array_get(devices, i), t->hosts->ranks + (int)i));
    t->before = id;
    const dt_status st = dt_hosts_add(t->hosts, id, strlen(id), (int64_t)count);
    if (st == DT_OK || st == DT_NOMEM)
        return st;
    return dt_fail_place(DT_CONFIG, "%s: server_list[%d]: ", t->path, t->hosts->count);
}

static dt_status read_root(table_reader *t, json_t *root)
{
    const char *version, *status, *count;
    json_t *servers, *unused;
    json_error_t error;
    int64_t n = 0;

    if (json_unpack_ex(root, &error, JSON_STRICT, "{s:s, s:s, s:s, s:o, s?o, s?o}", "version",
                       &version, "status", &status, "server_count", &count, "server_list", &servers,
                       "board_id", &unused, "group_count", &unused) != 0)
        return dt_fail(DT_CONFIG, "%s: %s", t->path, error.text);
    if (strcmp(version, "1.0") != 0 || strcmp(status, "completed") != 0)
        return dt_fail(DT_CONFIG, "%s: version '%.40s' and status '%.40s', not 1.0 and completed",
                       t->path, version, status);
    if (json_array_size(servers) == 0)
        return dt_fail(DT_CONFIG, "%s: server_list is not a list of servers", t->path);
    if (!is_number(count, &n) || (size_t)n != json_array_size(servers))
        return dt_fail(DT_CONFIG, "%s: server_count is '%.40s', but server_list has %zu", t->path,
                       count, json_array_size(servers));
    for (size_t i = 0; i < (size_t)n; i++)
        DT_TRY(read_server(t, json_array_get(servers, i)));
    return DT_OK;
}

dt_status dt_ranktable_read(dt_hosts *h, const char *path)
{
    table_reader t = {.path = path, .hosts = h};
    json_error_t error;
    char *text = NULL;
    size_t length = 0;

    dt_status st = dt_file_read(AT_FDCWD, path, MOST_BYTES, &text, &length);
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
