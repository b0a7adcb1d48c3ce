/* hosts.c - names of hosts and how many ranks each has. Names end up on mpirun's command line:
 * what is none is refused. */
#include <ctype.h>
#include <stdlib.h>

#include "launch_internal.h"

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
        return dt_fail(DT_USAGE, "'%s' is no name of a host", shown);
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

static dt_status parse_one(dt_hosts *h, const char *text, size_t length, int slots,
                           const char *what)
{
    const char *colon = memchr(text, ':', length), *end = NULL;
    int64_t n = slots;

    if (colon && (!dt_whole_parse(colon + 1, &end, &n) || end != text + length))
        return dt_fail(DT_USAGE, "%s: '%.*s' is not NAME:RANKS", what, (int)length, text);
    return dt_hosts_add(h, text, colon ? (size_t)(colon - text) : length, n);
}

dt_status dt_hosts_parse(dt_hosts *h, const char *text, int slots, const char *what)
{
    *h = (dt_hosts){.host = NULL};
    for (const char *at = text;; at++) {
        const size_t length = strcspn(at, ",");
        const dt_status st = parse_one(h, at, length, slots, what);
        if (st != DT_OK) {
            dt_hosts_release(h);
            return st;
        }
        at += length;
        if (!*at)
            return DT_OK;
    }
}

/* ---- A file ------------------------------------------------------------------------------- */

static dt_status read_line(dt_hosts *h, char *line, int slots)
{
    static const char blank[] = " \t\r";
    int64_t n = slots;

    line[strcspn(line, "#")] = '\0';
    for (size_t k = strlen(line); k > 0 && strchr(blank, line[k - 1]); k--)
        line[k - 1] = '\0';
    const char *name = line + strspn(line, blank);
    const size_t length = strcspn(name, blank);
    const char *rest = name + length + strspn(name + length, blank), *end = NULL;
    if (length == 0)
        return DT_OK;
    if (*rest && (strncmp(rest, "slots=", 6) != 0 || !dt_whole_parse(rest + 6, &end, &n) || *end))
        return dt_fail(DT_CONFIG, "want 'NAME slots=N', got '%.80s'", name);
    return dt_hosts_add(h, name, length, n);
}

static dt_status read_lines(dt_hosts *h, char *text, size_t bytes, int slots, const char *path)
{
    char *const behind = text + bytes;
    int number = 1;

    for (char *line = text, *end; line < behind; line = end + 1, number++) {
        char *newline = memchr(line, '\n', (size_t)(behind - line));
        end = newline ? newline : behind;
        *end = '\0';
        const dt_status st = strlen(line) < (size_t)(end - line)
                                 ? dt_fail(DT_CONFIG, "the line holds a zero byte")
                                 : read_line(h, line, slots);
        if (st != DT_OK)
            return dt_fail_place(st == DT_USAGE ? DT_CONFIG : st, "%s:%d: ", path, number);
    }
    return h->count > 0 ? DT_OK : dt_fail(DT_CONFIG, "%s names no host", path);
}

dt_status dt_hosts_read(dt_hosts *h, const char *path, int slots)
{
    char *text = NULL;
    size_t bytes = 0;

    *h = (dt_hosts){.host = NULL};
    dt_status st = dt_text_read(path, &text, &bytes);
    if (st == DT_OK)
        st = read_lines(h, text, bytes, slots, path);
    free(text);
    if (st != DT_OK)
        dt_hosts_release(h);
    return st;
}
