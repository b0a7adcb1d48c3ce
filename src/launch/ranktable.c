/* ranktable.c - the Ascend tutorial's rank table, a file from strangers. All numbers in it are
 * texts. */
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>

#include "launch.h"

enum { DEVICES = 8, MOST_BYTES = 4 << 20 };

typedef struct table_reader {
    const char *path;
    dt_hosts *hosts;
    const char *before; /* the last server's id */
    int server, ranks;  /* this server's place; devices before this one */
} table_reader;

/* In this server. */
#define table_fail(t, fmt, ...)                                                                    \
    dt_fail(DT_CONFIG, "%s: server_list[%d]: " fmt, (t)->path, (t)->server, __VA_ARGS__)

static bool is_number(const char *text, int64_t *n)
{
    const char *end = NULL;
    return dt_whole_parse(text, &end, n) && !*end && *n >= 0;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Ids and addresses of devices are for programs that have some: here they have to be there. */
static dt_status read_device(table_reader *t, json_t *device)
{
    const char *unused, *rank;
    json_error_t error;
    int64_t n = 0;

    if (json_unpack_ex(device, &error, JSON_STRICT, "{s:s, s:s, s:s}", "device_id", &unused,
                       "device_ip", &unused, "rank_id", &rank) != 0)
        return table_fail(t, "the device of rank %d: %s", t->ranks, error.text);
    if (!is_number(rank, &n) || n != t->ranks)
        return table_fail(t,
                          "rank_id is '%.40s', expected '%d': they run from 0 without gaps, in the "
                          "lexical order of server_id",
                          rank, t->ranks);
    t->ranks++;
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
    if (count != 1 && count != 2 && count != 4 && count != DEVICES)
        return table_fail(t, "'device' of '%.80s' is not a list of 1, 2, 4 or 8", id);
    for (size_t i = 0; i < count; i++)
        DT_TRY(read_device(t, json_array_get(devices, i)));
    t->before = id;
    const dt_status st = dt_hosts_add(t->hosts, id, strlen(id), (int64_t)count);
    if (st == DT_OK || st == DT_NOMEM)
        return st;
    return dt_fail_place(DT_CONFIG, "%s: server_list[%d]: ", t->path, t->server);
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
    for (; t->server < (int)n; t->server++)
        DT_TRY(read_server(t, json_array_get(servers, (size_t)t->server)));
    return DT_OK;
}

/* Into h, which is empty where it fails. */
static dt_status read_table(dt_hosts *h, json_t *root, const char *path)
{
    table_reader t = {.path = path, .hosts = h};

    *h = (dt_hosts){.host = NULL};
    const dt_status st = read_root(&t, root);
    if (st != DT_OK)
        dt_hosts_release(h);
    return st;
}

dt_status dt_ranktable_read(dt_hosts *h, const char *path)
{
    json_error_t error;
    char *text = NULL;
    size_t length = 0;

    *h = (dt_hosts){.host = NULL};
    dt_status st = dt_file_read(AT_FDCWD, path, MOST_BYTES, &text, &length);
    if (st != DT_OK)
        return st == DT_FORMAT ? DT_CONFIG : st;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    st = root ? read_table(h, root, path)
              : dt_fail(DT_CONFIG, "%s:%d:%d: not JSON: %s", path, error.line, error.column,
                        error.text);
    json_decref(root);
    free(text);
    return st;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static json_t *device_of(int k, int rank)
{
    const int n = rank + 1; /* nothing here uses a device's address: any that is its own will do */

    return json_pack("{s:o, s:o, s:o}", "device_id", json_sprintf("%d", k), "device_ip",
                     json_sprintf("10.%d.%d.%d", n >> 16 & 255, n >> 8 & 255, n & 255), "rank_id",
                     json_sprintf("%d", rank));
}

dt_status dt_ranktable_write(FILE *f, const dt_hosts *h)
{
    json_t *servers = json_array(), *device;
    dt_hosts same;
    int rank = 0;

    for (int i = 0; i < h->count; i++) {
        device = json_array();
        for (int k = 0; k < h->host[i].slots; k++)
            (void)json_array_append_new(device, device_of(k, rank++));
        (void)json_array_append_new(servers,
                                    json_pack("{s:s, s:o, s:s}", "server_id", h->host[i].name,
                                              "device", device, "host_nic_ip", "reserve"));
    }
    json_t *root =
        json_pack("{s:s, s:o, s:o, s:s}", "version", "1.0", "server_count",
                  json_sprintf("%d", h->count), "server_list", servers, "status", "completed");
    dt_status st = read_table(&same, root, "a rank table of these hosts");
    dt_hosts_release(&same);
    if (st == DT_CONFIG)
        st = DT_USAGE;
    else if (json_dumpf(root, f, JSON_INDENT(2)) != 0 || fputc('\n', f) == EOF)
        st = dt_fail(DT_IO, "cannot write the rank table");
    json_decref(root);
    return st;
}
