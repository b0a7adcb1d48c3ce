/* runs.c - dtrain runs: a row for each run, or what differs between some. */
#include "view.h"

#include <dirent.h>

/* ---- Tables ---------------------------------------------------------------------------------- */

/* A member, as it is printed, of objects[object - 1]; its name if object is 0. cut: a hash's
 * beginning, because hashes make lines long. */
static void cell(const json_t *objects, size_t object, size_t member, bool cut,
                 char out[DT_CELL_CHARS])
{
    json_t *of = json_array_get(objects, object ? object - 1 : 0);
    void *at = json_object_iter(of);

    while (member-- > 0)
        at = json_object_iter_next(of, at);
    const char *key = json_object_iter_key(at);
    if (object == 0)
        snprintf(out, DT_CELL_CHARS, "%s", key);
    else
        dt_run_view_cell(key, json_object_iter_value(at), out);
    if (object > 0 && cut && strstr(key, "_hash"))
        out[12] = '\0';
}

/* Objects with the same members. turned: a line is a member, not an object. */
static dt_status print_table(const json_t *array, bool turned)
{
    const size_t objects = json_array_size(array) + 1;
    const size_t members = json_object_size(json_array_get(array, 0));
    const size_t lines = turned ? members : objects, columns = turned ? objects : members;
    char text[DT_CELL_CHARS];
    int *width = NULL; /* of columns but the last one */

    DT_TRY(dt_calloc(&width, columns + 1, sizeof *width, "the table of runs"));
    for (int prints = 0; prints < 2; prints++)
        for (size_t i = 0; i < lines * columns; i++) {
            const size_t l = i / columns, c = i % columns;
            const bool last = c + 1 == columns;
            cell(array, turned ? c : l, turned ? l : c, !turned, text);
            if (prints)
                printf("%-*s%s", width[c], text, last ? "\n" : "  ");
            else if (!last)
                width[c] = DT_MAX(width[c], (int)strlen(text));
        }
    free(width);
    return DT_OK;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

typedef struct found {
    json_t *rows, *recipes; /* a run's row and its options */
} found;

static dt_status add_run(const found *f, const char *path)
{
    dt_run_view_run run;
    dt_status st = dt_run_view_open(&run, path);

    if (st == DT_OK && (json_array_append_new(f->recipes, dt_run_view_options(&run)) != 0 ||
                        json_array_append(f->rows, run.row) != 0))
        st = dt_fail(DT_NOMEM, "no memory for the table of runs");
    dt_run_view_release(&run);
    return st;
}

/* Runs in a folder, by name. One that cannot be read is a warning. */
static dt_status add_folder(const found *f, const char *path)
{
    struct dirent **entry = NULL;
    const int n = scandir(path, &entry, NULL, alphasort);

    for (int i = 0; i < n; i++) {
        char run[PATH_MAX], file[PATH_MAX];
        const bool hidden = entry[i]->d_name[0] == '.';
        if (!hidden && (dt_path_join(run, path, entry[i]->d_name) != DT_OK ||
                        dt_path_join(file, run, "metrics.jsonl") != DT_OK ||
                        (dt_path_taken(file) && add_run(f, run) != DT_OK)))
            dt_warn("a run is left out: %s", dt_fail_text());
        dt_fail_clear();
        free(entry[i]);
    }
    free(entry);
    if (n < 0)
        return dt_fail(DT_NOINPUT, "%s: no folder of runs can be read there", path);
    return json_array_size(f->rows) > 0
               ? DT_OK
               : dt_fail(DT_NOINPUT, "%s holds no run: none of its folders has a metrics.jsonl",
                         path);
}

static bool differs(const json_t *recipes, const char *name)
{
    const json_t *first = json_object_get(json_array_get(recipes, 0), name), *recipe;
    size_t i;

    json_array_foreach(recipes, i, recipe)
    {
        const json_t *other = json_object_get(recipe, name);
        if (first != other && !json_equal(first, other))
            return true;
    }
    return false;
}

/* Into each row the options that are not the same in all, between the name and the results. */
static void put_side_by_side(const found *f)
{
    size_t i;
    json_t *row;

    json_array_foreach(f->rows, i, row)
    {
        json_t *results = json_copy(row), *name = json_object_get(results, "run");
        json_object_clear(row);
        json_object_set(row, "run", name);
        for (size_t k = 0; k < DT_OPTIONS; k++) {
            const char *option = dt_option_table[k].name;
            /* The result of this name: those that were done. */
            const char *key = strcmp(option, "epochs") == 0 ? "epochs_asked" : option;
            json_t *value = json_object_get(json_array_get(f->recipes, i), option);
            if (differs(f->recipes, option))
                json_object_set_new(row, key, value ? json_incref(value) : json_null());
        }
        json_object_update_missing(row, results);
        json_decref(results);
    }
}

dt_status dt_view_runs(const dt_options *o, const char *const *path, size_t count)
{
    const found f = {json_array(), json_array()};
    const char *folder = count ? path[0] : "runs";
    char file[PATH_MAX];
    dt_status st = dt_path_join(file, folder, "metrics.jsonl");

    const bool runs = count > 1 || (st == DT_OK && dt_path_taken(file));
    for (size_t i = 0; runs && st == DT_OK && i < DT_MAX(count, 1); i++)
        st = add_run(&f, count ? path[i] : folder);
    if (st == DT_OK && !runs)
        st = add_folder(&f, folder);
    if (st == DT_OK && count > 1)
        put_side_by_side(&f);
    if (st == DT_OK && !o->json)
        st = print_table(f.rows, count > 1);
    else if (st == DT_OK &&
             json_dumpf(f.rows, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0)
        putchar('\n'); /* main looks at errors */
    json_decref(f.recipes);
    json_decref(f.rows);
    return st;
}
