/* checkpoint_open.c - one checkpoint: MANIFEST and state.json, read once. */
#include "store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "checkpoint_internal.h"

static dt_status check_folder(const char *path)
{
    struct stat info;

    const bool there = stat(path, &info) == 0;
    if (!there && errno == ENOENT && dt_path_taken(path))
        return dt_fail(DT_IO, "checkpoint %s is a link, and what it leads to is missing", path);
    if (!there)
        return dt_fail(dt_checkpoint_blame() == DT_IO ? DT_IO : DT_NOINPUT, "checkpoint %s: %s",
                       path, strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return dt_fail(DT_NOINPUT, "checkpoint %s is no folder", path);
    return DT_OK;
}

/* Of a newer format, or just damaged: then that is what is wrong. */
static dt_status newer_whole(const dt_checkpoint *c, dt_status st)
{
    char text[2 * PATH_MAX];

    snprintf(text, sizeof text, "%s", dt_fail_text());
    dt_fail_clear();
    DT_TRY(dt_checkpoint_bytes(c));
    return dt_fail(st, "%s", text);
}

dt_status dt_checkpoint_open(dt_checkpoint **out, const char *path)
{
    dt_checkpoint *c = NULL;
    dt_status st = DT_OK;

    *out = NULL;
    DT_TRY(check_folder(path));
    DT_TRY(dt_calloc(&c, 1, sizeof *c, "a checkpoint"));
    snprintf(c->path, sizeof c->path, "%s", path);
    DT_GO(st, dt_manifest_sizes(path, &c->manifest), out);
    st = dt_checkpoint_json_read(path, &c->manifest, &c->state, &c->root);
    if (st == DT_OK) {
        *out = c;
        return DT_OK;
    }
    if (st == DT_UNSUPPORTED)
        st = newer_whole(c, st);

out:
    dt_checkpoint_close(c);
    return st;
}

void dt_checkpoint_close(dt_checkpoint *c)
{
    if (c)
        json_decref(c->root);
    free(c);
}

/* ---- Texts ---------------------------------------------------------------------------- */

/* NULL: there is none. */
static const char *find_text(const dt_checkpoint *c, const char *key)
{
    static const char options[] = "options.";
    const size_t prefix = sizeof options - 1;
    const json_t *in = c->root;

    if (strncmp(key, options, prefix) == 0) {
        in = json_object_get(in, "options");
        key += prefix;
    }
    return json_string_value(json_object_get(in, key));
}

/* Messages show these texts, and terminals obey control characters: C0, DEL, and in UTF-8 C1. */
static void make_harmless(char *text)
{
    for (unsigned char *c = (unsigned char *)text; *c; c++) {
        const bool pair = *c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0;
        if (*c < 0x20 || *c == 0x7f || pair)
            *c = '?';
        if (pair)
            *++c = '?';
    }
}

bool dt_checkpoint_says(const dt_checkpoint *c, const char *key)
{
    return find_text(c, key) != NULL;
}

dt_status dt_checkpoint_text(const dt_checkpoint *c, const char *key, char *out, size_t size)
{
    const char *text = find_text(c, key);

    if (!text)
        return dt_fail(DT_FORMAT, "checkpoint %s: state.json has no text '%s'", c->path, key);
    if (strlen(text) >= size)
        return dt_fail(DT_FORMAT,
                       "checkpoint %s: state.json: '%s' has %zu characters, at "
                       "most %zu are read",
                       c->path, key, strlen(text), size - 1);
    make_harmless(memcpy(out, text, strlen(text) + 1));
    return DT_OK;
}
