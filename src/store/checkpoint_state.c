/* checkpoint_state.c - state.json: where a run stands, as text that gives back every bit. */
#include "checkpoint_internal.h"

/* The state's bytes begin with the weights': one pass gives both hashes. momentum NULL: none. */
static dt_status hash_state(const dt_weights *s, const float *momentum, int64_t epoch, int64_t step,
                            dt_digest *weights, dt_digest *all)
{
    const size_t channels = s->net->norm_channels;
    const int64_t position[2] = {epoch, step};
    dt_hash h;

    dt_hash_init(&h);
    DT_TRY(dt_hash_slab(&h, s->net, s->master));
    if (weights)
        *weights = dt_hash_digest(&h);
    if (momentum)
        DT_TRY(dt_hash_slab(&h, s->net, momentum));
    dt_hash_update(&h, s->running_mean, channels * sizeof *s->running_mean);
    dt_hash_update(&h, s->running_var, channels * sizeof *s->running_var);
    dt_hash_update(&h, position, sizeof position);
    *all = dt_hash_digest(&h);
    return DT_OK;
}

dt_status dt_snapshot_hash(const dt_snapshot *s, dt_digest *weights, dt_digest *all)
{
    dt_digest part[2];

    DT_TRY(hash_state(&s->model, s->momentum, s->at.epoch, s->at.step, weights, all));
    if (!s->trained.net)
        return DT_OK;
    part[0] = *all;
    DT_TRY(hash_state(&s->trained, NULL, 0, 0, NULL, &part[1]));
    *all = dt_hash_bytes(part, sizeof part);
    return DT_OK;
}

static dt_status check_finite(const dt_weights *s, const float *momentum, int64_t step)
{
    static const char *const what[] = {"weight", "momentum of", "running mean of",
                                       "running variance of"};
    const float *const numbers[] = {s->master, momentum, s->running_mean, s->running_var};
    const dt_net *net = s->net;
    char element[DT_ELEMENT_CHARS];

    for (size_t a = 0; a < DT_COUNT_OF(what); a++) {
        const bool params = a < 2;
        for (size_t i = 0; i < (params ? net->params : net->norms); i++) {
            const size_t offset = params ? net->param[i].offset : net->norm[i].offset;
            const size_t count = params ? net->param[i].count : net->norm[i].channels;
            const float *x = numbers[a] + offset;
            const size_t bad = dt_finite_floats(x, count);
            if (bad < count)
                return dt_fail(DT_NUMERIC,
                               "after step %lld the %s %s is %g; nothing of it is saved: lower "
                               "--lr or use --warmup",
                               (long long)step, what[a],
                               params ? dt_param_element(&net->param[i], bad, element)
                                      : dt_norm_element(&net->norm[i], bad, element),
                               dt_nan_unsigned((double)x[bad]));
        }
    }
    return DT_OK;
}

dt_status dt_snapshot_finite(const dt_snapshot *s)
{
    if (s->trained.net)
        DT_TRY(check_finite(&s->trained, s->momentum, s->at.run_step));
    return check_finite(&s->model, s->momentum, s->at.run_step);
}

static json_t *options_json(const dt_options *o)
{
    json_t *j = json_object();
    char text[DT_OPTION_CHARS], plain[PATH_MAX];

    for (const dt_option_row *row = dt_option_table; row < dt_option_table + DT_OPTIONS; row++) {
        dt_option_text(row, o, text, sizeof text);
        if (json_object_set_new(j, row->name, json_string(dt_shown(text, plain))) != 0) {
            json_decref(j);
            return NULL;
        }
    }
    return j;
}

/* Members in the file's order; reals have the 17 digits that give back every bit. */
#define STATE_FORMAT "s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:s, s:s, s:s, s:s, s:b, s:o"

dt_status dt_checkpoint_state_text(const dt_snapshot *s, char **text, size_t *length)
{
    const dt_position *at = &s->at;
    char weights[DT_DIGEST_CHARS] = "", all[DT_DIGEST_CHARS] = "";
    dt_digest of_weights, of_all;

    if (s->portions == 0) {
        DT_TRY(dt_snapshot_hash(s, &of_weights, &of_all));
        dt_digest_text(of_weights, weights);
        dt_digest_text(of_all, all);
    }
    json_t *j = json_pack(
        "{" STATE_FORMAT ", s:s}", "epoch", (json_int_t)at->epoch, "step", (json_int_t)at->step,
        "run_step", (json_int_t)at->run_step, "images", (json_int_t)at->images, "best_epoch",
        (json_int_t)at->best_epoch, "metrics_bytes", (json_int_t)at->metrics_bytes, "loss_sum",
        at->loss_sum, "best_accuracy", at->best_accuracy, "data_digest", s->data_digest, "class",
        s->bits_class, "state_hash", all, "weights_hash", weights, "best", (int)s->best, "options",
        options_json(s->options), "chain", at->chain);
    *text = j ? json_dumps(j, JSON_INDENT(1)) : NULL;
    json_decref(j);
    if (!*text)
        return dt_fail(DT_NOMEM, "no memory for the text of state.json");
    *length = strlen(*text);
    return DT_OK;
}

dt_status dt_checkpoint_state_parse(dt_checkpoint *c, const char *text, size_t length)
{
    json_int_t epoch, step, run_step, images, best_epoch, metrics_bytes;
    const char *chain = "", *later; /* of members that are read later */
    json_error_t error;
    json_t *options;
    int best = 0;

    c->root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!c->root)
        return dt_fail(DT_FORMAT, "checkpoint %s: state.json, line %d: not JSON", c->in.path,
                       error.line);
    if (json_unpack_ex(c->root, &error, JSON_STRICT, "{" STATE_FORMAT ", s?s}", "epoch", &epoch,
                       "step", &step, "run_step", &run_step, "images", &images, "best_epoch",
                       &best_epoch, "metrics_bytes", &metrics_bytes, "loss_sum", &c->at.loss_sum,
                       "best_accuracy", &c->at.best_accuracy, "data_digest", &later, "class",
                       &later, "state_hash", &c->state_hash, "weights_hash", &later, "best", &best,
                       "options", &options, "chain", &chain) != 0)
        return dt_fail(DT_FORMAT, "checkpoint %s: state.json: %s", c->in.path, error.text);
    if (epoch < 0 || step < 0 || run_step < 0 || images < 0 || metrics_bytes < 0)
        return dt_fail(DT_FORMAT, "checkpoint %s: state.json: a count is negative", c->in.path);
    c->at.epoch = epoch;
    c->at.step = step;
    c->at.run_step = run_step;
    c->at.images = images;
    c->at.best_epoch = best_epoch;
    c->at.metrics_bytes = metrics_bytes;
    snprintf(c->at.chain, sizeof c->at.chain, "%s", chain);
    c->best = best;
    return DT_OK;
}
