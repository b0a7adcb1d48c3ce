/* checkpoint_read.c - one checkpoint: MANIFEST says what each file must be; each is read once. */
#include "checkpoint_internal.h"

#include <inttypes.h>

/* ---- MANIFEST --------------------------------------------------------------------------- */

static const char heading[] = "dtrain checkpoint ";
enum { WHOLE = 1, IN_PIECES = 2, SMALL = 1 << 20 /* bytes of a file of text */ };

const char *const dt_checkpoint_file_name[DT_CHECKPOINT_FILES] = {
    DT_CHECKPOINT_FILE_LIST(DT_TEXT_OF)};

/* Model, momentum, trained. */
static bool has_numbers(dt_checkpoint_file which)
{
    return dt_path_ends(dt_checkpoint_file_name[which], ".safetensors");
}

dt_weights dt_checkpoint_numbers(const dt_snapshot *s, dt_checkpoint_file which)
{
    const dt_weights momentum = {.net = s->model.net, .master = s->momentum}, none = {.net = NULL};

    return which == DT_CHECKPOINT_MODEL      ? s->model
           : which == DT_CHECKPOINT_MOMENTUM ? momentum
           : which == DT_CHECKPOINT_TRAINED  ? s->trained
                                             : none;
}

const char *dt_portion_name(int portion, char out[DT_PORTION_NAME])
{
    snprintf(out, DT_PORTION_NAME, "shard-%05d-model-00001-of-00001.safetensors", portion);
    return out;
}

const char *dt_checkpoint_file_path(dt_checkpoint_file which, int portions, int portion,
                                    char out[DT_PORTION_NAME + 32])
{
    const char *name = dt_checkpoint_file_name[which];
    char file[DT_PORTION_NAME];

    if (portions == 0 || !has_numbers(which))
        snprintf(out, DT_PORTION_NAME + 32, "%s", name);
    else
        snprintf(out, DT_PORTION_NAME + 32, "%.*s%s%s",
                 which == DT_CHECKPOINT_MODEL ? 0 : (int)strcspn(name, "."), name,
                 which == DT_CHECKPOINT_MODEL ? "" : "/", dt_portion_name(portion, file));
    return out;
}

/* In how many files something is: without averages the last one is not there. */
static int files_of(const dt_manifest *m, dt_checkpoint_file which)
{
    if (which == DT_CHECKPOINT_TRAINED && m->file[0][which].bytes == 0)
        return 0;
    return m->portions > 0 && has_numbers(which) ? m->portions : 1;
}

size_t dt_manifest_text(const dt_manifest *m, char out[DT_MANIFEST_CHARS])
{
    char hash[DT_DIGEST_CHARS], name[DT_PORTION_NAME + 32];
    size_t used = 0;

    if (m->portions == 0)
        used = (size_t)snprintf(out, DT_MANIFEST_CHARS, "%s%d\n", heading, WHOLE);
    else
        used = (size_t)snprintf(out, DT_MANIFEST_CHARS, "%s%d in %d portions\n", heading, IN_PIECES,
                                m->portions);
    for (dt_checkpoint_file i = 0; i < DT_CHECKPOINT_FILES; i++)
        for (int k = 0; k < files_of(m, i); k++) { /* at most 128 characters each */
            dt_checkpoint_file_path(i, m->portions, k, name);
            dt_digest_text(m->file[k][i].digest, hash);
            used += (size_t)snprintf(out + used, DT_MANIFEST_CHARS - used, "%s %20" PRIu64 " %s\n",
                                     hash, m->file[k][i].bytes, name);
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

/* A line of each file, in the list's order; of the last one there may be none. */
static bool parse_files(const char *at, dt_manifest *m)
{
    char name[DT_PORTION_NAME + 32], has[DT_PORTION_NAME + 32];
    dt_written w;
    int used = 0;

    m->file[0][DT_CHECKPOINT_TRAINED].bytes = 1; /* until it is known */
    for (dt_checkpoint_file i = 0; i < DT_CHECKPOINT_FILES; i++)
        for (int k = 0; k < files_of(m, i); k++, at += used) {
            dt_checkpoint_file_path(i, m->portions, k, name);
            if (sscanf(at, "%16" SCNx64 "%16" SCNx64 " %20" SCNu64 " %95s\n%n", &w.digest.high,
                       &w.digest.low, &w.bytes, has, &used) != 4 ||
                strcmp(has, name) != 0) {
                m->file[k][i].bytes = 0;
                return i == DT_CHECKPOINT_TRAINED && k == 0 && !strstr(at, name);
            }
            m->file[k][i] = w;
        }
    return true;
}

dt_status dt_manifest_parse(const char *path, const char *text, size_t length, dt_manifest *m)
{
    const bool hashed = is_hashed(text, length);
    int version = 0, used = 0, all = 0;

    memset(m, 0, sizeof *m);
    bool good = hashed && sscanf(text, "dtrain checkpoint %9d%n", &version, &used) == 1 && used > 0;
    if (good && version > IN_PIECES)
        return dt_fail(DT_UNSUPPORTED,
                       "checkpoint %s: MANIFEST has format %d, this program reads %d: use the "
                       "program that wrote it",
                       path, version, IN_PIECES);
    if (good && version == IN_PIECES)
        good = sscanf(text + used, " in %6d portions%n", &m->portions, &all) == 1 && all > 0 &&
               m->portions > 0 && m->portions <= DT_MAX_PORTIONS;
    used += all;
    good = good && text[used] == '\n' && parse_files(text + used + 1, m);
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
static dt_status read_file(const dt_checkpoint *c, dt_checkpoint_file which, int portion,
                           size_t most, char **text, size_t *length)
{
    const dt_written *want = &c->manifest.file[portion][which];
    char name[DT_PORTION_NAME + 32];

    *text = NULL;
    dt_checkpoint_file_path(which, c->manifest.portions, portion, name);
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

/* Without reading it. */
static dt_status check_size(const dt_checkpoint *c, dt_checkpoint_file which, int portion)
{
    const uint64_t want = c->manifest.file[portion][which].bytes;
    char name[DT_PORTION_NAME + 32];
    int64_t bytes = 0;
    int fd = -1;

    dt_checkpoint_file_path(which, c->manifest.portions, portion, name);
    DT_TRY(file_failed(c, name, dt_file_open(c->in.fd, name, &fd, &bytes)));
    close(fd);
    if ((uint64_t)bytes == want)
        return DT_OK;
    return dt_fail(DT_FORMAT, "checkpoint %s: %s has %lld bytes, MANIFEST says %llu: torn",
                   c->in.path, name, (long long)bytes, (unsigned long long)want);
}

/* ---- One checkpoint --------------------------------------------------------------------- */

dt_status dt_checkpoint_open(dt_checkpoint **out, const dt_folder *in, const char *name)
{
    dt_checkpoint *c = NULL;
    char *text = NULL;
    size_t length = 0;
    dt_status st = DT_OK;

    DT_TRY(dt_calloc(&c, 1, sizeof *c, "a checkpoint"));
    DT_GO(st, dt_folder_open(&c->in, in ? in->fd : AT_FDCWD, in ? in->path : "", name), out);
    st = dt_file_read(c->in.fd, "MANIFEST", DT_MANIFEST_CHARS, &text, &length);
    DT_GO(st, file_failed(c, "MANIFEST", st), out);
    DT_GO(st, dt_manifest_parse(c->in.path, text, length, &c->manifest), out);
    if (c->manifest.portions > 0 && !dt_pieces)
        DT_GO(st,
              dt_fail(DT_UNSUPPORTED,
                      "checkpoint %s is in portions (--save-shards), which this build cannot "
                      "read (DTRAIN_EXTRAS)",
                      c->in.path),
              out);
    for (dt_checkpoint_file i = 0; i < DT_CHECKPOINT_FILES; i++)
        for (int k = 0; k < files_of(&c->manifest, i); k++)
            DT_GO(st, check_size(c, i, k), out);
    free(text);
    DT_GO(st, read_file(c, DT_CHECKPOINT_STATE, 0, SMALL, &text, &length), out);
    DT_GO(st, dt_checkpoint_state_parse(c, text, length), out);
    *out = c;
    c = NULL;

out:
    free(text);
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
    const int files = files_of(&c->manifest, which);
    char name[DT_PORTION_NAME + 32];
    dt_file_bytes *file = NULL;
    dt_safetensors *f = NULL;
    dt_status st = DT_OK;

    DT_TRY(dt_calloc(&file, (size_t)files, sizeof *file, "files of a checkpoint"));
    for (int k = 0; k < files; k++) {
        dt_checkpoint_file_path(which, c->manifest.portions, k, name);
        DT_GO(st, dt_path_join(file[k].path, c->in.path, name), out);
        DT_GO(st, read_file(c, which, k, most, &file[k].bytes, &file[k].length), out);
    }
    st = files > 1 ? dt_pieces->join(&f, c->in.path, file, (size_t)files)
                   : dt_safetensors_open(&f, file->path, file->bytes, file->length);
    if (st == DT_OK)
        st = dt_model_load_open(into, f, normalize, true);

out:
    for (int k = 0; k < files; k++)
        free(file[k].bytes);
    free(file);
    return st;
}

static dt_status check_hash(const dt_checkpoint *c, const dt_snapshot *into)
{
    char now[DT_DIGEST_CHARS];
    dt_digest d;

    DT_TRY(dt_snapshot_hash(into, NULL, &d));
    dt_digest_text(d, now);
    if (strcmp(c->state_hash, now) == 0)
        return DT_OK;
    return dt_fail(DT_FORMAT,
                   "checkpoint %s was saved with state_hash %.32s, its numbers have %s: they "
                   "differ from the run's",
                   c->in.path, c->state_hash, now);
}

dt_status dt_checkpoint_load(const dt_checkpoint *c, dt_snapshot *into)
{
    const char *normalize = into->options ? into->options->normalize : NULL;
    const bool trains = files_of(&c->manifest, DT_CHECKPOINT_TRAINED) > 0;
    char *text = NULL;
    size_t length = 0;

    if (trains != (into->trained.net != NULL))
        return dt_fail(DT_CONFIG,
                       "checkpoint %s is of a run with%s --ema or --lookahead, unlike this one",
                       c->in.path, trains ? "" : "out");
    DT_TRY(read_file(c, DT_CHECKPOINT_OPTIONS, 0, SMALL, &text, &length));
    free(text);
    for (dt_checkpoint_file i = 0; i < DT_CHECKPOINT_FILES; i++) {
        const dt_weights numbers = dt_checkpoint_numbers(into, i);
        if (numbers.net)
            DT_TRY(load_file(c, i, &numbers, normalize));
    }
    into->at = c->at;
    if (c->manifest.portions > 0) /* no rank has seen all of it */
        return DT_OK;
    return check_hash(c, into);
}

dt_status dt_checkpoint_check(const dt_checkpoint *c, const dt_options *given,
                              dt_status (*look)(void *context, const dt_snapshot *s), void *context)
{
    dt_model_read r = {.net = NULL};
    dt_model_meta meta;
    dt_options o;

    dt_options_init(&o);
    if (given)
        o = *given;
    dt_status st = dt_options_read_model(&r, c->in.path, &o, &meta);
    dt_snapshot into = {.model = r.state, .momentum = r.momentum};
    if (files_of(&c->manifest, DT_CHECKPOINT_TRAINED) > 0)
        into.trained = r.trained;
    if (st == DT_OK)
        st = dt_checkpoint_load(c, &into);
    if (st == DT_OK && look)
        st = look(context, &into);
    dt_model_read_close(&r);
    return st;
}
