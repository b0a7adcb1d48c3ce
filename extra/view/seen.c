/* seen.c - a run folder as it is read: its records, its state, its options, its row in a table. */
#include "view.h"
#include "proof/proof.h"
#include "watch/watch.h"

#include <libgen.h>

/* ---- Lines of JSON --------------------------------------------------------------------------- */

double dt_json_number(const json_t *j, const char *key)
{
    const json_t *value = json_object_get(j, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

dt_status dt_json_lines(const char *path, void (*take)(void *context, json_t *j), void *context)
{
    enum { MOST_BYTES = 1 << 30 };
    char *text = NULL;
    size_t bytes = 0, others = 0;

    DT_TRY(dt_file_read(AT_FDCWD, path, MOST_BYTES, &text, &bytes));
    for (const char *line = text, *end; line < text + bytes; line = end + 1) {
        end = memchr(line, '\n', (size_t)(text + bytes - line));
        const bool cut = !end;
        end = cut ? text + bytes : end;
        json_t *j = json_loadb(line, (size_t)(end - line), 0, NULL);
        if (json_is_object(j))
            take(context, j);
        else
            others += !cut && end > line;
        json_decref(j);
    }
    free(text);
    if (others > 0)
        dt_warn("%s: %zu lines are no JSON objects and are left out", path, others);
    return DT_OK;
}

/* ---- Records --------------------------------------------------------------------------------- */

/* Where the lines so far end. */
typedef struct place {
    dt_run_view_run *run;
    json_t *end; /* the last record of that kind, or NULL; owned */
    double step, images, began;   /* the first step's beginning: seconds since 1970 */
    double timed_images, seconds; /* of steps that have both */
    double best;                  /* accuracy, 0 to 1; NaN: none */
} place;

static const json_t *last_of(const json_t *array)
{
    return json_array_get(array, json_array_size(array) - 1);
}

/* What is no record takes no memory. jansson holds no NaN: then there is no such member. */
static void take_line(void *context, json_t *j)
{
    place *at = context;
    const char *kind = dt_proof_text(j, "kind");
    const double images = dt_json_number(j, "images"), seconds = dt_json_number(j, "seconds");
    json_t *steps = at->run->steps, *records = NULL;

    if (strcmp(kind, "step") == 0) {
        at->step = dt_json_number(j, "step");
        if (json_array_size(steps) == 0) { /* a run may begin at another's checkpoint */
            at->images = (at->step - 1) * images;
            at->began = dt_json_number(j, "time") - seconds;
        }
        at->images += images;
        at->timed_images += isfinite(images + seconds) ? images : 0;
        at->seconds += isfinite(images + seconds) ? seconds : 0;
        records = steps;
    } else if (strcmp(kind, "epoch") == 0) {
        at->best = fmax(at->best, dt_json_number(j, "test_accuracy"));
        records = at->run->epochs;
    } else if (strcmp(kind, "end") == 0) {
        json_decref(at->end);
        at->end = json_incref(j);
    }
    if (!records)
        return;
    json_object_set_new(j, "at_step", json_real(at->step));
    json_object_set_new(j, "at_images", json_real(at->images));
    json_object_set_new(j, "at_time", json_real((dt_json_number(j, "time") - at->began) / 60));
    json_array_append(records, j);
}

/* Epochs are alike: the first that another one follows tells how many steps each has; of the last
 * it is not known whether it was cut. */
static void find_epochs(dt_run_view_run *r)
{
    const double later = dt_json_number(last_of(r->steps), "epoch");
    double steps_per_epoch = (double)NAN;
    size_t i;
    json_t *j;

    json_array_foreach(r->epochs, i, j)
    {
        const double epoch = dt_json_number(j, "epoch"), step = dt_json_number(j, "at_step");
        if (epoch < later && !isfinite(steps_per_epoch))
            steps_per_epoch = step / epoch;
        json_object_set_new(j, "at_epoch",
                            json_real(isfinite(steps_per_epoch) ? step / steps_per_epoch : epoch));
    }
    json_array_foreach(r->steps, i, j) json_object_set_new(
        j, "at_epoch", json_real(dt_json_number(j, "at_step") / steps_per_epoch));
}

/* "run PATH is STATE: step ..." is how its progress begins; a folder may have none. */
static json_t *row_of(const dt_run_view_run *r, const place *at)
{
    const json_t *epoch = last_of(r->epochs), *end = at->end;
    const size_t skip = strlen("run ") + strlen(r->path) + strlen(" is ");
    const char *state = r->where && strlen(r->where) > skip ? r->where + skip
                        : end                               ? "over"
                                                            : "unknown";

    dt_sha chain;

    return json_pack(
        "{s:s, s:s%, s:n, s:I, s:I, s:o?, s:o?, s:o?, s:O?, s:O?, s:s?}", "run", r->name, "state",
        state, strcspn(state, ":,\n"), "net", "epochs",
        json_integer_value(json_object_get(epoch, "epoch")), "steps",
        json_integer_value(json_object_get(last_of(r->steps), "step")), "best_accuracy",
        json_real(at->best), "last_accuracy", json_real(dt_json_number(epoch, "test_accuracy")),
        "images_per_s", json_real(at->timed_images / at->seconds), "weights_hash",
        json_object_get(end, "weights_hash"), "state_hash", json_object_get(end, "state_hash"),
        "chain_hash", dt_proof_mark(r->path, chain)[0] ? chain : NULL);
}

/* ---- The folder ------------------------------------------------------------------------------ */

dt_status dt_run_view_open(dt_run_view_run *r, const char *path)
{
    const double none = (double)NAN;
    place at = {.run = r, .step = none, .images = none, .began = none, .best = none};
    char file[PATH_MAX], whole[PATH_MAX];
    size_t bytes = 0;

    *r = (dt_run_view_run){.path = path, .steps = json_array(), .epochs = json_array()};
    DT_TRY(dt_path_join(file, path, "metrics.jsonl"));
    if (!dt_path_taken(file))
        return dt_fail(DT_NOINPUT, "%s is no run folder: it has no metrics.jsonl", path);
    DT_TRY(dt_json_lines(file, take_line, &at));
    snprintf(r->name, sizeof r->name, "%s", realpath(path, whole) ? basename(whole) : path);
    dt_log_shown(r->name);
    FILE *f = open_memstream(&r->where, &bytes);
    if (f && dt_watch_status(path, dt_rundir_held(path) || dt_watch_writes(path), f) != DT_OK)
        dt_fail_clear(); /* it has made no step */
    if (f)
        fclose(f);
    find_epochs(r);
    r->row = row_of(r, &at);
    json_decref(at.end);
    return r->row ? DT_OK : dt_fail(DT_NOMEM, "no memory for the records of %s", path);
}

void dt_run_view_release(dt_run_view_run *r)
{
    json_decref(r->steps);
    json_decref(r->epochs);
    json_decref(r->row);
    free(r->where);
}

/* ---- Its options, and cells of its row ------------------------------------------------------- */

json_t *dt_run_view_options(const dt_run_view_run *r)
{
    char path[PATH_MAX], text[DT_OPTION_CHARS];
    dt_layer saved = {.file = ""};
    dt_options o;
    json_t *options = json_object();

    dt_status st = dt_path_join(path, r->path, "options.yaml");
    if (st == DT_OK)
        st = dt_options_load(&o, &saved, path);
    for (size_t i = 0; st == DT_OK && i < DT_OPTIONS; i++) {
        dt_option_text(&dt_option_table[i], &o, text, sizeof text);
        if (dt_option_table[i].scope < DT_SCOPE_HERE)
            json_object_set_new(options, dt_option_table[i].name, json_string(text));
    }
    if (st != DT_OK)
        dt_warn("the options of a run are left out: %s", dt_fail_text());
    dt_fail_clear();
    dt_layer_release(&saved);
    json_object_set(r->row, "net", json_object_get(options, "net"));
    return options;
}

const char *dt_run_view_cell(const char *key, const json_t *value, char buf[DT_CELL_CHARS])
{
    const bool share = strstr(key, "accuracy") != NULL;

    if (json_is_string(value)) {
        snprintf(buf, DT_CELL_CHARS, "%s", json_string_value(value));
        dt_log_shown(buf);
    } else if (json_is_integer(value))
        snprintf(buf, DT_CELL_CHARS, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(buf, DT_CELL_CHARS, share ? "%.2f %%" : "%.1f",
                 (share ? 100 : 1) * json_real_value(value));
    else
        snprintf(buf, DT_CELL_CHARS, "-");
    return buf;
}
