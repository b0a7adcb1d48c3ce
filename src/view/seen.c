/* seen.c - a run folder as it is read: its records, its state, its options, its row in a table. */
#include "seen.h"
#include "watch/watch.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>

/* ---- Lines of JSON --------------------------------------------------------------------------- */

double dt_json_number(const json_t *j, const char *key)
{
    const json_t *value = json_object_get(j, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

dt_status dt_json_lines(json_t **array, const char *path)
{
    enum { MOST_BYTES = 1 << 30 };
    char *text = NULL;
    size_t bytes = 0, others = 0;

    DT_TRY(dt_file_read(AT_FDCWD, path, MOST_BYTES, &text, &bytes));
    *array = json_array();
    for (const char *line = text, *end; line < text + bytes; line = end + 1) {
        end = memchr(line, '\n', (size_t)(text + bytes - line));
        const bool cut = !end;
        end = cut ? text + bytes : end;
        json_t *j = json_loadb(line, (size_t)(end - line), 0, NULL);
        if (json_is_object(j))
            json_array_append(*array, j);
        else
            others += !cut && end > line;
        json_decref(j);
    }
    free(text);
    if (others > 0)
        dt_warn("%s: %zu lines are no JSON objects and are left out", path, others);
    return *array ? DT_OK : dt_fail(DT_NOMEM, "no memory to read %s", path);
}

/* ---- Records --------------------------------------------------------------------------------- */

/* Where the lines so far end. */
typedef struct place {
    double step, images, began; /* the first record's beginning: seconds since 1970 */
} place;

static void take_record(dt_seen_run *r, const json_t *j, dt_seen_kind kind, place *at)
{
    static const char *const values[][DT_SEEN_VALUES] = {
        [DT_SEEN_STEP] = {"loss", "lr", "images_per_s"},
        [DT_SEEN_EPOCH] = {"test_loss", "test_accuracy", "train_loss"}};
    dt_seen_record *record = &r->record[r->records];
    const double time = dt_json_number(j, "time"), seconds = dt_json_number(j, "seconds");
    const double images = dt_json_number(j, "images"), epoch = dt_json_number(j, "epoch");

    if (kind == DT_SEEN_STEP) {
        at->step = dt_json_number(j, "step");
        if (r->records == 0) /* a run may begin at another's checkpoint */
            *at = (place){at->step, (at->step - 1) * images, time - seconds};
        at->images += images;
        r->images += isfinite(images + seconds) ? images : 0;
        r->seconds += isfinite(images + seconds) ? seconds : 0;
        r->steps = json_integer_value(json_object_get(j, "step"));
    } else {
        r->epochs = json_integer_value(json_object_get(j, "epoch"));
        r->last = dt_json_number(j, "test_accuracy");
        r->best = r->best >= r->last ? r->best : r->last;
    }
    *record = (dt_seen_record){kind, {at->step, epoch, at->images, (time - at->began) / 60}, {0}};
    for (int v = 0; v < DT_SEEN_VALUES; v++)
        record->value[v] = dt_json_number(j, values[kind][v]);
    r->records++;
}

static void take_end(dt_seen_run *r, const json_t *j)
{
    const char *weights = json_string_value(json_object_get(j, "weights_hash"));
    const char *all = json_string_value(json_object_get(j, "state_hash"));

    snprintf(r->weights_hash, sizeof r->weights_hash, "%s", weights ? weights : "");
    snprintf(r->state_hash, sizeof r->state_hash, "%s", all ? all : "");
    dt_log_shown(r->weights_hash);
    dt_log_shown(r->state_hash);
}

/* Epochs are alike: the first that another one follows tells how many steps each has; of the last
 * it is not known whether it was cut. */
static void find_epochs(dt_seen_run *r)
{
    double steps_per_epoch = (double)NAN, later = 0;

    for (size_t i = r->records; i-- > 0;) {
        const double *x = r->record[i].x;
        if (r->record[i].kind == DT_SEEN_STEP)
            later = fmax(later, x[DT_X_EPOCH]);
        else if (x[DT_X_EPOCH] < later)
            steps_per_epoch = x[DT_X_STEP] / x[DT_X_EPOCH];
    }
    for (size_t i = 0; i < r->records; i++)
        if (r->record[i].kind == DT_SEEN_STEP || isfinite(steps_per_epoch))
            r->record[i].x[DT_X_EPOCH] = r->record[i].x[DT_X_STEP] / steps_per_epoch;
}

static void take_lines(dt_seen_run *r, const json_t *lines)
{
    place at = {(double)NAN, (double)NAN, (double)NAN};
    size_t i;
    const json_t *j;

    json_array_foreach(lines, i, j)
    {
        const char *kind = json_string_value(json_object_get(j, "kind"));
        if (kind && strcmp(kind, "step") == 0)
            take_record(r, j, DT_SEEN_STEP, &at);
        else if (kind && strcmp(kind, "epoch") == 0)
            take_record(r, j, DT_SEEN_EPOCH, &at);
        else if (kind && strcmp(kind, "end") == 0)
            take_end(r, j);
    }
    find_epochs(r);
}

/* ---- The folder ------------------------------------------------------------------------------ */

/* "run PATH is STATE: step ..." is how its progress begins; a folder may have none. */
static void find_state(dt_seen_run *r)
{
    const size_t skip = strlen("run ") + strlen(r->path) + strlen(" is ");
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);

    snprintf(r->state, sizeof r->state, "%s", r->weights_hash[0] ? "over" : "unknown");
    if (!f)
        return;
    const dt_status st = dt_watch_status(r->path, dt_rundir_held(r->path), f);
    fclose(f);
    if (st == DT_OK && text && bytes > skip)
        snprintf(r->state, sizeof r->state, "%.*s", (int)strcspn(text + skip, ":,\n"), text + skip);
    dt_log_shown(r->state);
    free(text);
    dt_fail_clear();
}

static void name_run(dt_seen_run *r, const char *path)
{
    char whole[PATH_MAX];
    const char *name = realpath(path, whole) ? strrchr(whole, '/') : NULL;

    snprintf(r->name, sizeof r->name, "%s", name && name[1] ? name + 1 : path);
    dt_log_shown(r->name);
    json_t *text = json_string(r->name);
    if (!text)
        snprintf(r->name, sizeof r->name, "?");
    json_decref(text);
}

dt_status dt_seen_open(dt_seen_run *r, const char *path)
{
    char file[PATH_MAX];
    json_t *lines = NULL;

    *r = (dt_seen_run){.path = path, .best = (double)NAN, .last = (double)NAN};
    DT_TRY(dt_path_join(file, path, "metrics.jsonl"));
    if (!dt_path_taken(file))
        return dt_fail(DT_NOINPUT, "%s is no run folder: it has no metrics.jsonl", path);
    DT_TRY(dt_json_lines(&lines, file));
    const dt_status st =
        dt_calloc(&r->record, json_array_size(lines) + 1, sizeof *r->record, "a run's records");
    if (st == DT_OK)
        take_lines(r, lines);
    json_decref(lines);
    DT_TRY(st);
    name_run(r, path);
    find_state(r);
    return DT_OK;
}

void dt_seen_release(dt_seen_run *r)
{
    free(r->record);
    r->record = NULL;
}

/* ---- Its options and its row ----------------------------------------------------------------- */

json_t *dt_seen_options(const char *run, dt_options_read *read, void *context)
{
    char path[PATH_MAX], text[DT_OPTION_CHARS];
    const dt_options *o = NULL;
    json_t *options = json_object();

    dt_status st = dt_path_join(path, run, "options.yaml");
    if (st == DT_OK)
        st = read(context, path, &o);
    if (st != DT_OK) {
        dt_warn("the options of a run are left out: %s", dt_fail_text());
        dt_fail_clear();
        return options;
    }
    for (size_t i = 0; i < DT_OPTIONS; i++) {
        dt_option_text(&dt_option_table[i], o, text, sizeof text);
        dt_log_shown(text);
        if (dt_option_table[i].scope < DT_SCOPE_HERE)
            json_object_set_new(options, dt_option_table[i].name, json_string(text));
    }
    return options;
}

static json_t *text_or_null(const char *text)
{
    return text[0] ? json_string(text) : json_null();
}

static json_t *real_or_null(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

json_t *dt_seen_row(const dt_seen_run *r, const json_t *options)
{
    const char *net = json_string_value(json_object_get(options, "net"));

    return json_pack("{s:s, s:s, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "run", r->name, "state",
                     r->state, "net", text_or_null(net ? net : ""), "epochs", (json_int_t)r->epochs,
                     "steps", (json_int_t)r->steps, "best_accuracy", real_or_null(r->best),
                     "last_accuracy", real_or_null(r->last), "images_per_s",
                     real_or_null(r->images / r->seconds), "weights_hash",
                     text_or_null(r->weights_hash), "state_hash", text_or_null(r->state_hash));
}

const char *dt_seen_cell(const char *key, const json_t *value, char buf[DT_CELL_CHARS])
{
    const bool share = strstr(key, "accuracy") != NULL;

    if (json_is_string(value))
        return json_string_value(value);
    if (json_is_integer(value))
        snprintf(buf, DT_CELL_CHARS, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(buf, DT_CELL_CHARS, share ? "%.2f %%" : "%.1f",
                 (share ? 100 : 1) * json_real_value(value));
    else
        snprintf(buf, DT_CELL_CHARS, "-");
    return buf;
}
