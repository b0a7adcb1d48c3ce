/* checkpoint_read.c - one checkpoint: MANIFEST says what each file must be; each is read once. */
#include "checkpoint_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- MANIFEST --------------------------------------------------------------------------- */

static const char heading[] = "dtrain checkpoint ";
enum { VERSION = 1, SMALL = 1 << 20 /* bytes of a file of text */ };

const char *const dt_checkpoint_file_name[DT_CHECKPOINT_FILES] = {
#define X(name, text) text,
    DT_CHECKPOINT_FILE_LIST(X)
#undef X
};

size_t dt_manifest_text(const dt_manifest *m, char out[DT_MANIFEST_CHARS])
{
    char hash[DT_DIGEST_CHARS];
    size_t used = (size_t)snprintf(out, DT_MANIFEST_CHARS, "%s%d\n", heading, VERSION);

    for (size_t i = 0; i < DT_CHECKPOINT_FILES; i++) { /* at most 80 characters each */
        if (m->file[i].bytes == 0)
            continue;
        dt_digest_text(m->file[i].digest, hash);
        used += (size_t)snprintf(out + used, DT_MANIFEST_CHARS - used, "%s %20" PRIu64 " %s\n",
                                 hash, m->file[i].bytes, dt_checkpoint_file_name[i]);
    }
    dt_digest_text(dt_hash_bytes(out, used), hash);
    return used + (size_t)snprintf(out + used, DT_MANIFEST_CHARS - used, "%s MANIFEST\n", hash);
}

/* Whether the last line has the hash of all before it. */
static bool is_hashed(const char *text, size_t length)
{
    enum { LAST = DT_DIGEST_CHARS - 1 + sizeof " MANIFEST\n" - 1 };
    char last[DT_DIGEST_CHARS + sizeof " MANIFEST\n"];

    if (length < LAST)
        return false;
    dt_digest_text(dt_hash_bytes(text, length - LAST), last);
    memcpy(last + DT_DIGEST_CHARS - 1, " MANIFEST\n", sizeof " MANIFEST\n");
    return memcmp(text + length - LAST, last, LAST) == 0;
}

dt_status dt_manifest_parse(const char *path, const char *text, size_t length, dt_manifest *m)
{
    const bool hashed = is_hashed(text, length);
    const char *at = text;
    int version = 0, used = 0;

    *m = (dt_manifest){0};
    bool good = hashed && sscanf(at, "dtrain checkpoint %9d\n%n", &version, &used) == 1 && used > 0;
    if (good && version > VERSION)
        return dt_fail(DT_UNSUPPORTED,
                       "checkpoint %s: MANIFEST has format %d, this program reads %d: use the "
                       "program that wrote it",
                       path, version, VERSION);
    for (size_t i = 0; i < DT_CHECKPOINT_FILES && good; i++) {
        dt_written *w = &m->file[i];
        char name[32];
        at += used;
        if (i == DT_CHECKPOINT_TRAINED && !strstr(at, dt_checkpoint_file_name[i]))
            break;
        good = sscanf(at, "%16" SCNx64 "%16" SCNx64 " %20" SCNu64 " %31s\n%n", &w->digest.high,
                      &w->digest.low, &w->bytes, name, &used) == 4 &&
               strcmp(name, dt_checkpoint_file_name[i]) == 0;
    }
    return good ? DT_OK : dt_fail(DT_FORMAT, "checkpoint %s: MANIFEST is damaged", path);
}

/* ---- Files ------------------------------------------------------------------------------ */

/* The failure of reading one of its files. A file that is missing or not regular means damage; what
 * the system does not let us read may be whole. */
static dt_status file_failed(const dt_checkpoint *c, const char *name, dt_status st)
{
    if (st == DT_NOINPUT)
        st = faccessat(c->in.fd, name, R_OK, 0) != 0 && errno == EACCES ? DT_IO : DT_FORMAT;
    return st == DT_OK ? st : dt_fail_place(st, "checkpoint %s: ", c->in.path);
}

/* All of a file of at most `most` bytes, if it is what MANIFEST says; *text is freed by free(). */
static dt_status read_file(const dt_checkpoint *c, dt_checkpoint_file which, size_t most,
                           char **text, size_t *length)
{
    const dt_written *want = &c->manifest.file[which];
    const char *name = dt_checkpoint_file_name[which];

    *text = NULL;
    DT_TRY(file_failed(c, name, dt_file_read(c->in.fd, name, most, text, length)));
    const dt_digest has = dt_hash_bytes(*text, *length);
    if (*length == want->bytes && has.high == want->digest.high && has.low == want->digest.low)
        return DT_OK;
    free(*text);
    *text = NULL;
    return dt_fail(DT_FORMAT,
                   "checkpoint %s: %s is damaged: its %zu bytes do not have the hash in MANIFEST",
                   c->in.path, name, *length);
}

static dt_status read_manifest(dt_checkpoint *c)
{
    char *text = NULL;
    size_t length = 0;

    DT_TRY(file_failed(c, "MANIFEST",
                       dt_file_read(c->in.fd, "MANIFEST", DT_MANIFEST_CHARS, &text, &length)));
    const dt_status st = dt_manifest_parse(c->in.path, text, length, &c->manifest);
    free(text);
    return st;
}

/* Without reading them. */
static dt_status check_sizes(const dt_checkpoint *c)
{
    for (int i = 0; i < DT_CHECKPOINT_FILES; i++) {
        const char *name = dt_checkpoint_file_name[i];
        int64_t bytes = 0;
        int fd = -1;
        if (i == DT_CHECKPOINT_TRAINED && c->manifest.file[i].bytes == 0)
            continue;
        DT_TRY(file_failed(c, name, dt_file_open(c->in.fd, name, &fd, &bytes)));
        close(fd);
        if ((uint64_t)bytes != c->manifest.file[i].bytes)
            return dt_fail(DT_FORMAT, "checkpoint %s: %s has %lld bytes, MANIFEST says %llu: torn",
                           c->in.path, name, (long long)bytes,
                           (unsigned long long)c->manifest.file[i].bytes);
    }
    return DT_OK;
}

static dt_status read_state(dt_checkpoint *c)
{
    char *text = NULL;
    size_t length = 0;

    DT_TRY(read_file(c, DT_CHECKPOINT_STATE, SMALL, &text, &length));
    const dt_status st = dt_checkpoint_state_parse(c, text, length);
    free(text);
    return st;
}

/* ---- One checkpoint --------------------------------------------------------------------- */

dt_status dt_checkpoint_open(dt_checkpoint **out, const dt_folder *in, const char *name)
{
    dt_checkpoint *c = NULL;
    dt_status st = DT_OK;

    DT_TRY(dt_calloc(&c, 1, sizeof *c, "a checkpoint"));
    DT_GO(st, dt_folder_open(&c->in, in ? in->fd : AT_FDCWD, in ? in->path : "", name), out);
    DT_GO(st, read_manifest(c), out);
    DT_GO(st, check_sizes(c), out);
    DT_GO(st, read_state(c), out);
    *out = c;
    c = NULL;

out:
    dt_checkpoint_close(c);
    return st;
}

void dt_checkpoint_close(dt_checkpoint *c)
{
    if (!c)
        return;
    dt_folder_close(&c->in);
    json_decref(c->root);
    free(c);
}

const char *dt_checkpoint_path(const dt_checkpoint *c)
{
    return c->in.path;
}

const char *dt_checkpoint_text(const dt_checkpoint *c, const char *name)
{
    const json_t *option = json_object_get(json_object_get(c->root, "options"), name);
    return json_string_value(option ? option : json_object_get(c->root, name));
}

/* ---- Its numbers ------------------------------------------------------------------------ */

static dt_status load_file(const dt_checkpoint *c, dt_checkpoint_file which, const dt_weights *into,
                           const char *normalize)
{
    /* The numbers of the network and a header: no more memory, whatever a file claims. */
    const size_t most = DT_TENSOR_MAX_HEADER + 1024 +
                        4 * (into->net->weight_total + 2 * into->net->norm_channels) +
                        8 * into->net->norms;
    char path[PATH_MAX], *text = NULL;
    size_t length = 0;

    DT_TRY(dt_path_join(path, c->in.path, dt_checkpoint_file_name[which]));
    DT_TRY(read_file(c, which, most, &text, &length));
    const dt_status st = dt_model_load_bytes(into, path, text, length, normalize);
    free(text);
    return st;
}

dt_status dt_checkpoint_load(const dt_checkpoint *c, const dt_snapshot *into, dt_progress *at)
{
    const char *normalize = into->options ? into->options->normalize : NULL;
    const dt_weights momentum = {.net = into->model.net, .master = into->momentum};
    const bool trains = c->manifest.file[DT_CHECKPOINT_TRAINED].bytes > 0;
    dt_snapshot loaded = *into;
    char now[DT_DIGEST_CHARS], *text = NULL;
    size_t length = 0;
    dt_digest d;

    loaded.at = c->at;
    if (trains != (into->trained.net != NULL))
        return dt_fail(DT_CONFIG, "checkpoint %s is of a run with%s --ema, unlike this one",
                       c->in.path, trains ? "" : "out");
    DT_TRY(read_file(c, DT_CHECKPOINT_OPTIONS, SMALL, &text, &length));
    free(text);
    DT_TRY(load_file(c, DT_CHECKPOINT_MODEL, &into->model, normalize));
    DT_TRY(load_file(c, DT_CHECKPOINT_MOMENTUM, &momentum, normalize));
    if (trains)
        DT_TRY(load_file(c, DT_CHECKPOINT_TRAINED, &into->trained, normalize));
    DT_TRY(dt_snapshot_hash(&loaded, NULL, &d));
    dt_digest_text(d, now);
    if (strcmp(c->state_hash, now) != 0)
        return dt_fail(DT_FORMAT,
                       "checkpoint %s was saved with state_hash %.32s, its numbers have %s: they "
                       "are not those that the run had",
                       c->in.path, c->state_hash, now);
    *at = c->at;
    return DT_OK;
}

dt_status dt_checkpoint_check(const dt_checkpoint *c, const dt_options *given)
{
    dt_model_read r = {.net = NULL}, trained = r;
    dt_model_meta meta;
    dt_progress at;
    dt_options o;
    dt_status st = DT_OK;

    dt_options_init(&o);
    if (given)
        o = *given;
    DT_GO(st, dt_options_read_model(&r, c->in.path, &o, &meta), out);
    dt_snapshot into = {.model = r.state, .momentum = r.momentum};
    if (c->manifest.file[DT_CHECKPOINT_TRAINED].bytes > 0) {
        DT_GO(st, dt_options_read_model(&trained, c->in.path, &o, &meta), out);
        into.trained = trained.state;
    }
    st = dt_checkpoint_load(c, &into, &at);

out:
    dt_model_read_close(&trained);
    dt_model_read_close(&r);
    return st;
}
