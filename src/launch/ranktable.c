/* ranktable.c - the Ascend tutorial's rank table, a file from strangers. All numbers in it are
 * texts. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>

#include "launch.h"

enum { DEVICES = 8, MOST_BYTES = 4 << 20 };

typedef struct table_reader {
    const char *path;
    dt_hosts *hosts;
    json_t *addresses;  /* a set: the devices' */
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

static bool fits_a_server(int64_t devices)
{
    return devices == 1 || devices == 2 || devices == 4 || devices == DEVICES;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* ids: of the server's devices before this one, as bits. */
static dt_status read_device(table_reader *t, json_t *device, unsigned *ids)
{
    const char *id, *address, *rank;
    unsigned char binary[16];
    json_error_t error;
    int64_t k = 0, n = 0;

    if (json_unpack_ex(device, &error, JSON_STRICT, "{s:s, s:s, s:s}", "device_id", &id,
                       "device_ip", &address, "rank_id", &rank) != 0)
        return table_fail(t, "the device of rank %d: %s", t->ranks, error.text);
    if (!is_number(id, &k) || k >= DEVICES || *ids >> k & 1)
        return table_fail(t, "device_id '%.40s': a server's are from 0 to %d, each once", id,
                          DEVICES - 1);
    *ids |= 1u << k;
    if (inet_pton(AF_INET, address, binary) != 1 && inet_pton(AF_INET6, address, binary) != 1)
        return table_fail(t, "device_ip '%.60s' is not an address", address);
    if (json_object_get(t->addresses, address))
        return table_fail(t, "device_ip %s is another device's, too", address);
    if (json_object_set_new(t->addresses, address, json_true()) != 0)
        return dt_fail(DT_NOMEM, "no memory for the rank table");
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
    unsigned ids = 0;

    if (json_unpack_ex(server, &error, JSON_STRICT, "{s:s, s:o, s?o}", "server_id", &id, "device",
                       &devices, "host_nic_ip", &unused) != 0)
        return table_fail(t, "%s", error.text);
    if (t->before && strcmp(t->before, id) >= 0)
        return table_fail(t,
                          "server_id '%.80s' stands after '%.80s': servers stand in lexical order, "
                          "each once",
                          id, t->before);
    if (!json_is_array(devices) || !fits_a_server((int64_t)json_array_size(devices)))
        return table_fail(t, "'device' of '%.80s' is not a list of 1, 2, 4 or 8", id);
    for (size_t i = 0; i < json_array_size(devices); i++)
        DT_TRY(read_device(t, json_array_get(devices, i), &ids));
    t->before = id;
    const dt_status st = dt_hosts_add(t->hosts, id, strlen(id), (int64_t)json_array_size(devices));
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
    if (strcmp(version, "1.0") != 0)
        return dt_fail(DT_CONFIG, "%s: version is '%.40s', not '1.0'", t->path, version);
    if (strcmp(status, "completed") != 0)
        return dt_fail(DT_CONFIG, "%s: status is '%.40s', not 'completed'", t->path, status);
    if (!json_is_array(servers) || json_array_size(servers) == 0)
        return dt_fail(DT_CONFIG, "%s: server_list is not a list of servers", t->path);
    if (!is_number(count, &n) || (size_t)n != json_array_size(servers))
        return dt_fail(DT_CONFIG, "%s: server_count is '%.40s', but server_list has %zu", t->path,
                       count, json_array_size(servers));
    for (; t->server < (int)n; t->server++)
        DT_TRY(read_server(t, json_array_get(servers, (size_t)t->server)));
    return DT_OK;
}

dt_status dt_ranktable_read(dt_hosts *h, const char *path)
{
    table_reader t = {.path = path, .hosts = h, .addresses = json_object()};
    json_error_t error;
    char *text = NULL;
    size_t length = 0;
    json_t *root = NULL;

    *h = (dt_hosts){.host = NULL};
    dt_status st = dt_file_read(AT_FDCWD, path, MOST_BYTES, &text, &length);
    if (st == DT_FORMAT)
        st = DT_CONFIG;
    if (st == DT_OK) {
        root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
        st = root ? read_root(&t, root)
                  : dt_fail(DT_CONFIG, "%s:%d:%d: not JSON: %s", path, error.line, error.column,
                            error.text);
    }
    json_decref(root);
    json_decref(t.addresses);
    free(text);
    if (st != DT_OK)
        dt_hosts_release(h);
    return st;
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* Nothing here uses a device's address: any that is its own will do. */
static void print_address(FILE *f, int rank)
{
    const int n = rank + 1;

    fprintf(f, "10.%d.%d.%d", n >> 16 & 255, n >> 8 & 255, n & 255);
}

dt_status dt_ranktable_write(FILE *f, const dt_hosts *h)
{
    int rank = 0;

    for (int i = 0; i < h->count; i++) {
        if (!fits_a_server(h->host[i].slots))
            return dt_fail(DT_USAGE, "host '%s': %d ranks; a rank table has 1, 2, 4 or 8",
                           h->host[i].name, h->host[i].slots);
        if (i > 0 && strcmp(h->host[i - 1].name, h->host[i].name) >= 0)
            return dt_fail(DT_USAGE,
                           "host '%s' stands after '%s': a rank table has them in "
                           "lexical order",
                           h->host[i].name, h->host[i - 1].name);
    }
    fprintf(f, "{\n  \"version\": \"1.0\",\n  \"server_count\": \"%d\",\n  \"server_list\": [",
            h->count);
    for (int i = 0; i < h->count; i++) {
        fprintf(f, "%s\n    {\n      \"server_id\": \"%s\",\n      \"device\": [", i ? "," : "",
                h->host[i].name);
        for (int k = 0; k < h->host[i].slots; k++, rank++) {
            fprintf(f, "%s\n        {\"device_id\": \"%d\", \"device_ip\": \"", k ? "," : "", k);
            print_address(f, rank);
            fprintf(f, "\", \"rank_id\": \"%d\"}", rank);
        }
        fprintf(f, "\n      ],\n      \"host_nic_ip\": \"reserve\"\n    }");
    }
    fprintf(f, "\n  ],\n  \"status\": \"completed\"\n}\n");
    return DT_OK;
}
