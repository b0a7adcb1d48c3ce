/* chain.c - the links that a run writes as it goes on: one for its start, one for each epoch, one
 * for its end. They depend on its recipe, data and class of bits alone: any number of ranks, killed
 * or not, has the same. */
#include "proof.h"
#include "data/source.h"
#include "train/run.h"

/* What at->chain holds: the last link, the digest of the recipe in force ("": there is none yet),
 * and of the epoch's lines so far. */
typedef struct chain {
    dt_sha link, recipe, lines;
} chain;

struct dt_expected dt_expected;

/* ---- A link ------------------------------------------------------------------------------- */

static dt_status add_link(dt_run *r, dt_report *report, chain *c, const char *record)
{
    dt_snapshot s = dt_run_snapshot(r);
    dt_sha link, state;

    DT_TRY(dt_sha_state(state, &s, r->threads));
    if (dt_expected.state && strcmp(dt_expected.state, state) != 0)
        return dt_fail(DT_CORRUPT,
                       "%s: the state is not the one that the chain names: %.16s..., not %.16s...",
                       dt_expected.where, state, dt_expected.state);
    dt_expected.state = NULL; /* of the first link alone */
    DT_TRY(dt_sha_text(link, (const char *[]){c->link, "\n", record, "\n", state, "\n"}, 6));
    json_t *j = json_pack("{s:s, s:s, s:s, s:s, s:s}", "kind", "link", "before", c->link, "link",
                          link, "state", state, "record", record);
    char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
    json_decref(j);
    if (!text)
        return dt_fail(DT_NOMEM, "no memory for a link");
    dt_status st = dt_report_line(report, text);
    free(text);
    memcpy(c->link, link, sizeof link);
    memcpy(c->lines, DT_SHA_ZEROS, sizeof c->lines);
    if (st == DT_OK || strcmp(r->o.on_save_error, "stop") == 0)
        return st;
    dt_fail_clear(); /* a lost line was said */
    return DT_OK;
}

/* ---- Starts ------------------------------------------------------------------------------- */

/* Whether the record has an option: it decides bits, or the names in the model file. For --init its
 * file's digest is there, for --isa the set that was chosen. */
static bool recorded(const dt_option_row *row, const dt_options *o)
{
    if (strcmp(row->name, "init") == 0 || strcmp(row->name, "isa") == 0)
        return false;
    return dt_option_decides(row, o) || strcmp(row->name, "names") == 0;
}

static bool is_exact(const dt_run *r)
{
    return strcmp(r->o.engine, "own") == 0 && dt_exchange_exact(dt_run_exchange(r));
}

static dt_status set_recipe(json_t *j, const dt_run *r)
{
    const dt_source *s = r->source;
    char text[DT_OPTION_CHARS];
    dt_sha data;

    const char *const files = s->files;
    DT_TRY(s->files[0] ? dt_sha_text(data, &files, 1)
                       : dt_sha_bytes(data, s->labels, dt_source_bytes(s), r->threads));
    if (dt_expected.data && strcmp(dt_expected.data, data) != 0)
        return dt_fail(DT_CONFIG, "--data %s: %s, SHA-256 %.16s...; the run had %s, %.16s...",
                       r->o.data, dt_proof_data(data), data, dt_proof_data(dt_expected.data),
                       dt_expected.data);
    if (dt_expected.data && !is_exact(r))
        return dt_fail(DT_CONFIG, "--exchange %s is inexact, the run was not: give --exchange auto",
                       dt_exchange_name(dt_run_exchange(r)));
    json_t *options = json_object();
    for (size_t i = 0; i < DT_OPTIONS; i++)
        if (recorded(&dt_option_table[i], &r->o)) {
            dt_option_text(&dt_option_table[i], &r->o, text, sizeof text);
            json_object_set_new(options, dt_option_table[i].name, json_string(text));
        }
    json_object_set_new(options, "precision", json_string(dt_dtype_name(r->precision)));
    json_object_update_new(j, json_pack("{s:s, s:s, s:s, s:b, s:s, s:o}", "kind", "start", "dtrain",
                                        dt_build(), "isa", dt_run_isa(r), "exact", is_exact(r),
                                        "data", data, "options", options));
    return DT_OK;
}

/* The file of --init, if the run begins with its weights: a model in pieces has no digest. No bit
 * of a resumed run depends on it, and the recipe's digest does not. */
static dt_status set_init(json_t *j, const dt_run *r)
{
    char path[PATH_MAX];
    dt_sha init = "";

    DT_TRY(dt_path_join(path, r->init, "model.safetensors"));
    const char *file = dt_path_is_folder(r->init) ? path : r->init;
    if (r->init[0] && dt_path_exists(file))
        DT_TRY(dt_sha_file(init, AT_FDCWD, file));
    json_object_set_new(j, "init", json_string(init));
    if (!dt_expected.init || strcmp(dt_expected.init, init) == 0)
        return DT_OK;
    return dt_fail(DT_CONFIG, "--init '%s': SHA-256 '%.16s', the run began with '%.16s'", r->o.init,
                   init, dt_expected.init);
}

/* A run that is resumed in its folder with the same recipe needs no link: it has the links of a run
 * that was never stopped. */
static dt_status begin(dt_run *r, dt_report *report, const dt_position *at, chain *c)
{
    dt_sha recipe = "", lines;
    json_t *j = json_object();

    dt_status st = set_recipe(j, r);
    char *text = st == DT_OK ? json_dumps(j, JSON_COMPACT) : NULL;
    if (text)
        st = dt_sha_text(recipe, (const char *const *)&text, 1);
    const bool same =
        report->setup.keep_bytes > 0 && text && is_exact(r) && strcmp(c->recipe, recipe) == 0;
    free(text);
    if (st != DT_OK || same) {
        json_decref(j);
        return st;
    }
    memcpy(c->recipe, recipe, sizeof recipe);
    memcpy(lines, at->step > 0 ? c->lines : DT_SHA_ZEROS, sizeof lines);
    if (at->run_step > 0)
        json_object_update_new(j, json_pack("{s:I, s:I, s:s}", "resumed", (json_int_t)at->run_step,
                                            "epoch", (json_int_t)at->epoch, "lines", lines));
    else
        st = set_init(j, r);
    text = json_dumps(j, JSON_COMPACT);
    json_decref(j);
    if (st == DT_OK)
        st = text ? add_link(r, report, c, text) : dt_fail(DT_NOMEM, "no memory for a link");
    memcpy(c->lines, lines, sizeof lines); /* of an epoch that goes on */
    free(text);
    return st;
}

/* ---- Steps, epochs, the end --------------------------------------------------------------- */

/* Of the last line what every run of the recipe has. */
static const char *same_part(const dt_report *report, char out[DT_LINE_CHARS])
{
    snprintf(out, DT_LINE_CHARS, "%s", report->line);
    (void)dt_proof_cut(out);
    return out;
}

static dt_status step(const dt_report *report, chain *c)
{
    char line[DT_LINE_CHARS];

    return dt_sha_text(c->lines, (const char *[]){c->lines, "\n", same_part(report, line), "\n"},
                       4);
}

static dt_status epoch(dt_run *r, dt_report *report, const dt_position *at, chain *c)
{
    char line[DT_LINE_CHARS], record[DT_LINE_CHARS + 256];

    snprintf(record, sizeof record, "%s,\"run_step\":%lld,\"lines\":\"%s\"}",
             same_part(report, line), (long long)at->run_step, c->lines);
    return add_link(r, report, c, record);
}

static dt_status end(dt_run *r, dt_report *report, const dt_position *at, chain *c)
{
    char record[256];
    dt_sha model;

    DT_TRY(dt_sha_file(model, report->setup.folder, "model.safetensors"));
    snprintf(record, sizeof record, "{\"kind\":\"end\",\"run_step\":%lld,\"model\":\"%s\"}",
             (long long)at->run_step, model);
    return add_link(r, report, c, record);
}

/* Rank 0 has the whole state, after it is collected. */
static dt_status mark(void **state, dt_run *r, dt_mark when, dt_report *report, dt_position *at)
{
    chain c = {.link = DT_SHA_ZEROS, .lines = DT_SHA_ZEROS};
    dt_status st = DT_OK;

    (void)state;
    if (when != DT_MARK_STEP)
        DT_TRY(dt_grid_collect(r));
    if (r->comm->rank == 0) {
        if (strlen(at->chain) == 3 * DT_SHA_CHARS - 1)
            (void)sscanf(at->chain, "%64s %64s %64s", c.link, c.recipe, c.lines);
        st = when == DT_MARK_BEGIN   ? begin(r, report, at, &c)
             : when == DT_MARK_STEP  ? step(report, &c)
             : when == DT_MARK_EPOCH ? epoch(r, report, at, &c)
                                     : end(r, report, at, &c);
        snprintf(at->chain, sizeof at->chain, "%s %s %s", c.link, c.recipe, c.lines);
    }
    return when == DT_MARK_STEP ? st : dt_comm_agree(r->comm, st);
}

const dt_run_observer dt_chain = {.mark = mark};
