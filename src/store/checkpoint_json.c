/* checkpoint_json.c - state.json: where a run stands, as text that gives back every bit. */
#include "checkpoint_internal.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum { FORMAT = 1, STATE_ROOM = 1 << 20, TEXT_ROOM = 4096, REAL_CHARS = 32 };

/* Members that are whole numbers, with their least value, and doubles. */
#define INTEGER_LIST(X)                                                                            \
    X(epoch, 0)                                                                                    \
    X(step, 0)                                                                                     \
    X(run_step, 0)                                                                                 \
    X(images, 0)                                                                                   \
    X(best_epoch, INT64_MIN)                                                                       \
    X(metrics_bytes, 0)
#define REAL_LIST(X) X(loss_sum) X(best_accuracy)
static const char *const text_members[] = {"data_digest", "class", "state_hash", "weights_hash"};
enum { TEXTS = DT_COUNT_OF(text_members) };
enum {
#define X(...) +1
    MEMBERS = INTEGER_LIST(X) REAL_LIST(X) + TEXTS + 3 /* format, best, options */
#undef X
};

/* ---- Writing ------------------------------------------------------------------------- */

/* JSON is UTF-8; a path need not be. */
static json_t *json_text(const char *text)
{
    char plain[TEXT_ROOM];
    size_t n = 0;
    json_t *j = json_string(text);

    if (j)
        return j;
    for (; text[n] && n + 1 < sizeof plain; n++)
        plain[n] = (char)((unsigned char)text[n] < 0x80 ? text[n] : '?');
    plain[n] = '\0';
    return json_string(plain);
}

/* C99's hexadecimal form: exact, whatever the number, and read by strtod. */
static const char *real_text(double x, char out[REAL_CHARS])
{
    snprintf(out, REAL_CHARS, "%a", x);
    return out;
}

static json_t *json_options(const dt_options *o)
{
    json_t *j = json_object();
    char text[TEXT_ROOM];

    for (size_t i = 0; j && i < dt_option_count; i++) {
        const dt_option_row *row = &dt_option_table[i];
        dt_option_text(row, o, text, sizeof text);
        if (json_object_set_new(j, row->name, json_text(text)) != 0) {
            json_decref(j);
            j = NULL;
        }
    }
    return j;
}

static dt_status state_hashes(const dt_snapshot *s, char weights[DT_DIGEST_CHARS],
                              char all[DT_DIGEST_CHARS])
{
    dt_digest of_weights, of_all;

    DT_TRY(dt_state_hashes(&s->model, s->momentum, s->at.epoch, s->at.step, &of_weights, &of_all));
    dt_digest_text(of_weights, weights);
    dt_digest_text(of_all, all);
    return DT_OK;
}

dt_status dt_checkpoint_json_text(const dt_snapshot *s, char **text, size_t *length)
{
    char weights[DT_DIGEST_CHARS], all[DT_DIGEST_CHARS], number[REAL_CHARS];
    json_t *j = NULL;
    int bad = 0;

    DT_TRY(state_hashes(s, weights, all));
    j = json_object();
    bad |= json_object_set_new(j, "format", json_integer(FORMAT));
#define X(name, least) bad |= json_object_set_new(j, #name, json_integer(s->at.name));
    INTEGER_LIST(X)
#undef X
#define X(name) bad |= json_object_set_new(j, #name, json_string(real_text(s->at.name, number)));
    REAL_LIST(X)
#undef X
    const char *const texts[TEXTS] = {s->data_digest, s->bits_class, all, weights};
    for (size_t i = 0; i < TEXTS; i++)
        bad |= json_object_set_new(j, text_members[i], json_text(texts[i]));
    bad |= json_object_set_new(j, "best", json_boolean(s->best));
    bad |= json_object_set_new(j, "options", json_options(s->options));
    *text = bad ? NULL : json_dumps(j, JSON_INDENT(1));
    json_decref(j);
    if (!*text)
        return dt_fail(DT_NOMEM, "no memory for the text of state.json");
    *length = strlen(*text);
    return DT_OK;
}

/* ---- Reading ------------------------------------------------------------------------- */

typedef struct state_reader {
    const char *folder;
    const json_t *root;
} state_reader;

static dt_status state_wrong(const state_reader *r, const char *member, const char *want)
{
    return dt_fail(DT_FORMAT, "checkpoint %s: state.json: '%s' is %s", r->folder, member,
                   json_object_get(r->root, member) ? want : "missing");
}

static dt_status read_integer(const state_reader *r, const char *member, int64_t least,
                              int64_t *out)
{
    const json_t *j = json_object_get(r->root, member);

    *out = json_integer_value(j);
    if (!json_is_integer(j) || *out < least)
        return state_wrong(r, member, "not a whole number in its range");
    return DT_OK;
}

static dt_status read_real(const state_reader *r, const char *member, double *out)
{
    const char *text = json_string_value(json_object_get(r->root, member));
    char again[REAL_CHARS];

    *out = text ? strtod(text, NULL) : 0;
    if (!text || strcmp(real_text(*out, again), text) != 0)
        return state_wrong(r, member, "not the text of a double in hexadecimal");
    return DT_OK;
}

static dt_status check_options(const state_reader *r)
{
    json_t *options = json_object_get(r->root, "options");
    const char *name;
    json_t *value;

    if (!json_is_object(options))
        return state_wrong(r, "options", "not an object");
    json_object_foreach (options, name, value)
        if (!json_is_string(value))
            return state_wrong(r, "options", "not an object of texts");
    return DT_OK;
}

static dt_status read_members(const state_reader *r, dt_checkpoint_state *s)
{
    int64_t format = 0;
    const json_t *best = json_object_get(r->root, "best");

    if (!json_is_object(r->root))
        return dt_fail(DT_FORMAT, "checkpoint %s: state.json is not an object", r->folder);
    DT_TRY(read_integer(r, "format", 1, &format));
    if (format > FORMAT)
        return dt_fail(DT_UNSUPPORTED,
                       "checkpoint %s: state.json has format %lld, this program reads "
                       "%d: take the program that wrote it",
                       r->folder, (long long)format, FORMAT);
    if (json_object_size(r->root) > MEMBERS)
        return dt_fail(DT_FORMAT, "checkpoint %s: state.json has %zu members, not %d", r->folder,
                       json_object_size(r->root), (int)MEMBERS);
#define X(name, least) DT_TRY(read_integer(r, #name, least, &s->at.name));
    INTEGER_LIST(X)
#undef X
#define X(name) DT_TRY(read_real(r, #name, &s->at.name));
    REAL_LIST(X)
#undef X
    for (size_t i = 0; i < TEXTS; i++)
        if (!json_is_string(json_object_get(r->root, text_members[i])))
            return state_wrong(r, text_members[i], "not a text");
    if (!json_is_boolean(best))
        return state_wrong(r, "best", "neither true nor false");
    s->best = json_is_true(best);
    return check_options(r);
}

dt_status dt_checkpoint_json_read(const char *folder, const dt_manifest *m,
                                  dt_checkpoint_state *state, json_t **root)
{
    json_error_t error;
    json_t *j = NULL;
    char *text = NULL;
    size_t length = 0;
    dt_status st = DT_OK;

    *state = (dt_checkpoint_state){0};
    DT_TRY(dt_calloc(&text, STATE_ROOM, 1, "state.json"));
    DT_GO(st,
          dt_checkpoint_file_read(folder, dt_checkpoint_file_name[DT_CHECKPOINT_STATE], text,
                                  STATE_ROOM, &length),
          out);
    if (m)
        DT_GO(st,
              dt_manifest_compare(m, folder, DT_CHECKPOINT_STATE,
                                  (dt_written){length, dt_hash_bytes(text, length)}),
              out);
    j = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!j) {
        st = dt_fail(DT_FORMAT, "checkpoint %s: state.json, line %d: not JSON", folder, error.line);
        goto out;
    }
    st = read_members(&(state_reader){folder, j}, state);
    if (st == DT_OK && root) {
        *root = j;
        j = NULL;
    }

out:
    json_decref(j);
    free(text);
    return st;
}
