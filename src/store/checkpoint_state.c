/* checkpoint_state.c - state.json: where a run stands, as text that gives back every bit. */
#include "checkpoint_internal.h"

#include <stdlib.h>

/* ---- Texts --------------------------------------------------------------------------- */

/* JSON is UTF-8, which a path need not be; and messages show these texts, where a terminal would
 * obey control characters. */
static bool is_plain(char c)
{
    return c >= 0x20 && c < 0x7f;
}

const char *dt_checkpoint_plain(const char *text, char out[DT_OPTION_CHARS])
{
    size_t n = 0;

    for (; text[n] && n + 1 < DT_OPTION_CHARS; n++)
        out[n] = is_plain(text[n]) ? text[n] : '?';
    out[n] = '\0';
    return out;
}

static json_t *plain_json(const char *text)
{
    char plain[DT_OPTION_CHARS];
    return json_string(dt_checkpoint_plain(text, plain));
}

/* ---- Writing ------------------------------------------------------------------------- */

static json_t *options_json(const dt_options *o)
{
    json_t *j = json_object();
    char text[DT_OPTION_CHARS];

    for (size_t i = 0; j && i < dt_option_count; i++) {
        dt_option_text(&dt_option_table[i], o, text, sizeof text);
        if (json_object_set_new(j, dt_option_table[i].name, plain_json(text)) != 0) {
            json_decref(j);
            j = NULL;
        }
    }
    return j;
}

/* Members in the file's order; reals have the 17 digits that give back every bit. */
#define STATE_FORMAT "{s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:o, s:o, s:s, s:s, s:b, s:o}"
#define STATE_PARSED "{s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:s, s:s, s:s, s:s, s:b, s:o}"

dt_status dt_checkpoint_state_text(const dt_snapshot *s, char **text, size_t *length)
{
    const dt_progress *at = &s->at;
    char weights[DT_DIGEST_CHARS], all[DT_DIGEST_CHARS];
    dt_digest of_weights, of_all;

    DT_TRY(dt_state_hashes(&s->model, s->momentum, at->epoch, at->step, &of_weights, &of_all));
    dt_digest_text(of_weights, weights);
    dt_digest_text(of_all, all);
    json_t *j = json_pack(
        STATE_FORMAT, "epoch", (json_int_t)at->epoch, "step", (json_int_t)at->step, "run_step",
        (json_int_t)at->run_step, "images", (json_int_t)at->images, "best_epoch",
        (json_int_t)at->best_epoch, "metrics_bytes", (json_int_t)at->metrics_bytes, "loss_sum",
        at->loss_sum, "best_accuracy", at->best_accuracy, "data_digest", plain_json(s->data_digest),
        "class", plain_json(s->bits_class), "state_hash", all, "weights_hash", weights, "best",
        (int)s->best, "options", options_json(s->options));
    *text = j ? json_dumps(j, JSON_INDENT(1)) : NULL;
    json_decref(j);
    if (!*text)
        return dt_fail(DT_NOMEM, "no memory for the text of state.json");
    *length = strlen(*text);
    return DT_OK;
}

/* ---- Reading ------------------------------------------------------------------------- */

static dt_status state_wrong(const dt_checkpoint *c, const char *what)
{
    char plain[DT_OPTION_CHARS];
    return dt_fail(DT_FORMAT, "checkpoint %s: state.json: %s", c->in.path,
                   dt_checkpoint_plain(what, plain));
}

static dt_status check_text(const dt_checkpoint *c, const char *name, const char *text)
{
    char what[DT_OPTION_CHARS];
    const char *at = text;

    while (at && is_plain(*at))
        at++;
    if (at && *at == '\0' && at - text < DT_OPTION_CHARS)
        return DT_OK;
    snprintf(what, sizeof what, "'%.80s' is no text of at most %d printable characters", name,
             DT_OPTION_CHARS - 1);
    return state_wrong(c, what);
}

static dt_status check_members(const dt_checkpoint *c)
{
    const dt_progress *at = &c->at;
    const char *name;
    json_t *value;

    if (at->epoch < 0 || at->step < 0 || at->run_step < 0 || at->images < 0 ||
        at->metrics_bytes < 0)
        return state_wrong(c, "a count is negative");
    DT_TRY(check_text(c, "data_digest", c->data_digest));
    DT_TRY(check_text(c, "class", c->bits_class));
    DT_TRY(check_text(c, "state_hash", c->state_hash));
    if (!json_is_object(c->options))
        return state_wrong(c, "'options' is not an object");
    json_object_foreach (c->options, name, value)
        DT_TRY(check_text(c, name, json_string_value(value)));
    return DT_OK;
}

dt_status dt_checkpoint_state_parse(dt_checkpoint *c, const char *text, size_t length)
{
    json_int_t epoch, step, run_step, images, best_epoch, metrics_bytes;
    const char *weights_hash;
    json_error_t error;
    json_t *options;
    int best = 0;

    c->root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!c->root)
        return dt_fail(DT_FORMAT, "checkpoint %s: state.json, line %d: not JSON", c->in.path,
                       error.line);
    if (json_unpack_ex(c->root, &error, JSON_STRICT, STATE_PARSED, "epoch", &epoch, "step", &step,
                       "run_step", &run_step, "images", &images, "best_epoch", &best_epoch,
                       "metrics_bytes", &metrics_bytes, "loss_sum", &c->at.loss_sum,
                       "best_accuracy", &c->at.best_accuracy, "data_digest", &c->data_digest,
                       "class", &c->bits_class, "state_hash", &c->state_hash, "weights_hash",
                       &weights_hash, "best", &best, "options", &options) != 0)
        return state_wrong(c, error.text);
    c->at.epoch = epoch;
    c->at.step = step;
    c->at.run_step = run_step;
    c->at.images = images;
    c->at.best_epoch = best_epoch;
    c->at.metrics_bytes = metrics_bytes;
    c->best = best;
    c->options = options;
    return check_members(c);
}
