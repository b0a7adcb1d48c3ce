/* ranktable.c - the Ascend tutorial's rank table: read by strangers' hands, so every member is
 * looked at. All numbers in it are texts. */
#include <arpa/inet.h>
#include <jansson.h>
#include <stdlib.h>

#include "launch_internal.h"

enum { DEVICES = 8 };

typedef struct table_reader {
    const char *path;
    char *text; /* of the file; owned */
    dt_hosts *hosts;
    char (*address)[INET6_ADDRSTRLEN]; /* [addresses] of devices seen; owned */
    int addresses, ranks;
    const char *before; /* the last server's id */
} table_reader;

/* ---- Places ---------------------------------------------------------------------------------- */

/* jansson forgets where a value stood: the line of the n-th time that the key comes, from 0. */
static int line_of(const table_reader *t, const char *key, int n)
{
    char quoted[64];
    int line = 1;

    snprintf(quoted, sizeof quoted, "\"%s\"", key);
    const char *found = strstr(t->text, quoted);
    while (found && n-- > 0)
        found = strstr(found + 1, quoted);
    for (const char *at = t->text; found && at < found; at++)
        line += *at == '\n';
    return line;
}

#define table_fail(t, key, n, fmt, ...)                                                            \
    dt_fail(DT_CONFIG, "%s:%d: " fmt, (t)->path, line_of(t, key, n), __VA_ARGS__)

/* A member's text; *text is borrowed. n: as in line_of. */
static dt_status member(const table_reader *t, const json_t *of, const char *key, int n,
                        const char **text)
{
    *text = json_string_value(json_object_get(of, key));
    if (*text && strlen(*text) == json_string_length(json_object_get(of, key)))
        return DT_OK;
    return table_fail(t, key, n, "'%s' is %s", key,
                      json_object_get(of, key) ? "not a text in quotes" : "missing");
}

static dt_status number(const table_reader *t, const json_t *of, const char *key, int n,
                        int64_t *value)
{
    const char *text = NULL, *end = NULL;

    DT_TRY(member(t, of, key, n, &text));
    if (!dt_whole_parse(text, &end, value) || *end || *value < 0)
        return table_fail(t, key, n, "'%s' is '%.40s', not a whole number in quotes", key, text);
    return DT_OK;
}

/* Members that nobody reads may be meant to do something. */
static dt_status only(const table_reader *t, json_t *of, const char *what, const char *const *known)
{
    const char *key;
    json_t *value;

    if (!json_is_object(of))
        return dt_fail(DT_CONFIG, "%s: %s is not an object", t->path, what);
    json_object_foreach (of, key, value) {
        int k = 0;
        while (known[k] && strcmp(known[k], key) != 0)
            k++;
        if (!known[k])
            return table_fail(t, key, 0, "%s has an unknown member '%.40s'", what, key);
    }
    return DT_OK;
}

/* ---- Devices and servers --------------------------------------------------------------------- */

static dt_status read_address(table_reader *t, const json_t *device, int n)
{
    const char *text = NULL;
    unsigned char binary[16];

    DT_TRY(member(t, device, "device_ip", n, &text));
    if (inet_pton(AF_INET, text, binary) != 1 && inet_pton(AF_INET6, text, binary) != 1)
        return table_fail(t, "device_ip", n, "device_ip '%.60s' is no address", text);
    for (int i = 0; i < t->addresses; i++)
        if (strcmp(t->address[i], text) == 0)
            return table_fail(t, "device_ip", n, "device_ip %s is another device's, too", text);
    char(*more)[INET6_ADDRSTRLEN] = realloc(t->address, ((size_t)t->addresses + 1) * sizeof *more);
    if (!more)
        return dt_fail(DT_NOMEM, "no memory for the rank table");
    t->address = more;
    snprintf(t->address[t->addresses++], INET6_ADDRSTRLEN, "%s", text);
    return DT_OK;
}

static dt_status read_device(table_reader *t, json_t *device, unsigned *ids)
{
    static const char *const known[] = {"device_id", "device_ip", "rank_id", NULL};
    const int n = t->ranks;
    int64_t id = 0, rank = 0;

    DT_TRY(only(t, device, "a device", known));
    DT_TRY(number(t, device, "device_id", n, &id));
    if (id >= DEVICES || *ids >> id & 1)
        return table_fail(t, "device_id", n,
                          "device_id %lld: a server's are from 0 to %d, each once", (long long)id,
                          DEVICES - 1);
    *ids |= 1u << id;
    DT_TRY(read_address(t, device, n));
    DT_TRY(number(t, device, "rank_id", n, &rank));
    if (rank != n)
        return table_fail(t, "rank_id", n,
                          "rank_id is %lld, want %d: they run from 0 without gaps, in the lexical "
                          "order of server_id",
                          (long long)rank, n);
    t->ranks++;
    return DT_OK;
}

static dt_status check_server(const table_reader *t, const char *id, int n, size_t devices)
{
    if (t->before && strcmp(t->before, id) >= 0)
        return table_fail(
            t, "server_id", n,
            "server_id '%.80s' stands behind '%.80s': servers stand in lexical order, "
            "each once",
            id, t->before);
    if (devices != 1 && devices != 2 && devices != 4 && devices != 8)
        return table_fail(t, "server_id", n, "server '%.80s' has %zu devices, not 1, 2, 4 or 8", id,
                          devices);
    return DT_OK;
}

static dt_status read_server(table_reader *t, json_t *server, int n)
{
    static const char *const known[] = {"server_id", "device", "host_nic_ip", NULL};
    const char *id = NULL;
    unsigned ids = 0;

    DT_TRY(only(t, server, "a server", known));
    DT_TRY(member(t, server, "server_id", n, &id));
    json_t *devices = json_object_get(server, "device");
    if (!json_is_array(devices))
        return table_fail(t, "server_id", n, "server '%.80s' has no list 'device'", id);
    DT_TRY(check_server(t, id, n, json_array_size(devices)));
    for (size_t i = 0; i < json_array_size(devices); i++)
        DT_TRY(read_device(t, json_array_get(devices, i), &ids));
    t->before = id;
    const dt_status st = dt_hosts_add(t->hosts, id, strlen(id), (int64_t)json_array_size(devices));
    if (st == DT_OK)
        return DT_OK;
    return dt_fail_place(st == DT_USAGE ? DT_CONFIG : st, "%s:%d: ", t->path,
                         line_of(t, "server_id", n));
}

/* ---- The table ------------------------------------------------------------------------------- */

static dt_status read_root(table_reader *t, json_t *root)
{
    static const char *const known[] = {"version",  "server_count", "server_list", "status",
                                        "board_id", "group_count",  NULL};
    const char *text = NULL;
    int64_t count = 0;

    DT_TRY(only(t, root, "the rank table", known));
    DT_TRY(member(t, root, "version", 0, &text));
    if (strcmp(text, "1.0") != 0)
        return table_fail(t, "version", 0, "version is '%.40s', not '1.0'", text);
    DT_TRY(member(t, root, "status", 0, &text));
    if (strcmp(text, "completed") != 0)
        return table_fail(t, "status", 0, "status is '%.40s', not 'completed'", text);
    DT_TRY(number(t, root, "server_count", 0, &count));
    json_t *servers = json_object_get(root, "server_list");
    if (!json_is_array(servers) || json_array_size(servers) == 0)
        return table_fail(t, "server_list", 0, "'%s' is no list of servers", "server_list");
    if ((size_t)count != json_array_size(servers))
        return table_fail(t, "server_count", 0, "server_count is %lld, but server_list has %zu",
                          (long long)count, json_array_size(servers));
    for (int i = 0; i < (int)count; i++)
        DT_TRY(read_server(t, json_array_get(servers, (size_t)i), i));
    return DT_OK;
}

dt_status dt_ranktable_read(dt_hosts *h, const char *path)
{
    table_reader t = {.path = path, .hosts = h};
    json_error_t error;
    json_t *root = NULL;
    size_t length = 0;

    *h = (dt_hosts){.host = NULL};
    dt_status st = dt_text_read(path, &t.text, &length);
    if (st == DT_OK) {
        root = json_loadb(t.text, length, JSON_REJECT_DUPLICATES, &error);
        st = root ? read_root(&t, root)
                  : dt_fail(DT_CONFIG, "%s:%d:%d: not JSON: %s", path, error.line, error.column,
                            error.text);
    }
    json_decref(root);
    free(t.text);
    free(t.address);
    if (st != DT_OK)
        dt_hosts_release(h);
    return st;
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* Nobody sends to a device's address here: any that is its own will do. */
static void print_address(FILE *f, int rank)
{
    const int n = rank + 1;

    fprintf(f, "10.%d.%d.%d", n >> 16 & 255, n >> 8 & 255, n & 255);
}

dt_status dt_ranktable_write(FILE *f, const dt_hosts *h)
{
    int rank = 0;

    for (int i = 0; i < h->count; i++) {
        const int n = h->host[i].slots;
        if (n != 1 && n != 2 && n != 4 && n != 8)
            return dt_fail(DT_USAGE, "host '%s': %d ranks; a rank table has 1, 2, 4 or 8",
                           h->host[i].name, n);
        if (i > 0 && strcmp(h->host[i - 1].name, h->host[i].name) >= 0)
            return dt_fail(DT_USAGE,
                           "host '%s' stands behind '%s': a rank table has them in "
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
