/* runs.c - dtrain runs: a row for each run, or what differs between some. */
#include "seen.h"

#include <dirent.h>
#include <stdlib.h>

/* ---- Tables ---------------------------------------------------------------------------------- */

/* Objects with the same members; row 0 of the table is the members' names. */
typedef struct table {
    const json_t *objects;
    bool turned; /* a line is a member, not an object */
    bool csv;
} table;

/* What is printed of a member, of its name where there is no value: new; NULL: no memory. */
static char *cell(const table *t, const char *key, const json_t *value)
{
    char buf[DT_CELL_CHARS];

    if (t->csv && json_is_real(value))
        snprintf(buf, sizeof buf, "%.9g", json_real_value(value));
    else if (!value || (t->csv && json_is_null(value)))
        snprintf(buf, sizeof buf, "%s", value ? "" : key);
    else if (!t->csv && !t->turned && json_is_string(value) && strstr(key, "_hash"))
        snprintf(buf, sizeof buf, "%.12s", json_string_value(value)); /* lines are long */
    else
        return strdup(dt_seen_cell(key, value, buf));
    return strdup(buf);
}

/* RFC 4180 */
static void print_csv(const char *text)
{
    const bool quoted = strpbrk(text, ",\"\n\r") != NULL;

    fputs(quoted ? "\"" : "", stdout);
    for (; *text; text++) {
        if (*text == '"')
            putchar('"');
        putchar(*text);
    }
    fputs(quoted ? "\"" : "", stdout);
}

static dt_status print_table(const table *t)
{
    const size_t objects = json_array_size(t->objects) + 1;
    const size_t members = json_object_size(json_array_get(t->objects, 0));
    const size_t lines = t->turned ? members : objects, columns = t->turned ? objects : members;
    char **text = NULL; /* [lines][columns] */
    int *width = NULL;
    dt_status st = DT_OK;

    DT_GO(st, dt_calloc(&text, lines * columns + 1, sizeof *text, "the table of runs"), out);
    DT_GO(st, dt_calloc(&width, columns + 1, sizeof *width, "the table of runs"), out);
    for (size_t object = 0; object < objects; object++) {
        json_t *of = json_array_get(t->objects, object ? object - 1 : 0), *value;
        size_t member = 0;
        const char *key;
        json_object_foreach (of, key, value) {
            const size_t l = t->turned ? member : object, c = t->turned ? object : member;
            char **at = &text[l * columns + c];
            *at = cell(t, key, object ? value : NULL);
            if (!*at)
                DT_GO(st, dt_fail(DT_NOMEM, "no memory for the table of runs"), out);
            width[c] = c + 1 < columns ? DT_MAX(width[c], (int)strlen(*at)) : 0;
            member++;
        }
    }
    for (size_t i = 0; i < lines * columns; i++) {
        const bool last = i % columns + 1 == columns;
        if (t->csv)
            print_csv(text[i]), fputs(last ? "\n" : ",", stdout);
        else
            printf("%-*s%s", width[i % columns], text[i], last ? "\n" : "  ");
    }

out:
    for (size_t i = 0; text && i < lines * columns; i++)
        free(text[i]);
    free(text);
    free(width);
    return st;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static dt_status add_run(json_t *rows, json_t *recipes, const char *path, dt_options_read *read,
                         void *context)
{
    dt_seen_run run;
    dt_status st = dt_seen_open(&run, path);

    if (st == DT_OK) {
        json_t *options = dt_seen_options(path, read, context);
        if (json_array_append_new(recipes, options) != 0 ||
            json_array_append_new(rows, dt_seen_row(&run, options)) != 0)
            st = dt_fail(DT_NOMEM, "no memory for the table of runs");
    }
    dt_seen_release(&run);
    return st;
}

/* Runs in a folder, by name. One that cannot be read is a warning. */
static dt_status add_folder(json_t *rows, json_t *recipes, const char *path, dt_options_read *read,
                            void *context)
{
    struct dirent **entry = NULL;
    const int n = scandir(path, &entry, NULL, alphasort);

    for (int i = 0; i < n; i++) {
        char run[PATH_MAX], file[PATH_MAX];
        dt_status st = entry[i]->d_name[0] == '.' ? DT_DECLINED : DT_OK;
        if (st == DT_OK)
            st = dt_path_join(run, path, entry[i]->d_name);
        if (st == DT_OK)
            st = dt_path_join(file, run, "metrics.jsonl");
        if (st == DT_OK && dt_path_taken(file))
            st = add_run(rows, recipes, run, read, context);
        if (dt_fail_text()[0])
            dt_warn("a run is left out: %s", dt_fail_text());
        dt_fail_clear();
        free(entry[i]);
    }
    free(entry);
    if (n < 0)
        return dt_fail(DT_NOINPUT, "%s: no folder of runs can be read there", path);
    return json_array_size(rows) > 0
               ? DT_OK
               : dt_fail(DT_NOINPUT, "%s holds no run: none of its folders has a metrics.jsonl",
                         path);
}

/* Options that are not the same in all, between the names and the results. */
static json_t *side_by_side(const json_t *rows, const json_t *recipes)
{
    json_t *all = json_array();
    size_t i;
    json_t *row;

    json_array_foreach(rows, i, row)
    {
        json_t *one = json_object();
        json_object_set(one, "run", json_object_get(row, "run"));
        for (size_t k = 0; k < DT_OPTIONS; k++) {
            const char *name = dt_option_table[k].name;
            const json_t *first = json_object_get(json_array_get(recipes, 0), name);
            bool differs = false;
            for (size_t r = 1; r < json_array_size(recipes); r++) {
                const json_t *other = json_object_get(json_array_get(recipes, r), name);
                differs = differs || (first != other && !json_equal(first, other));
            }
            json_t *mine = json_object_get(json_array_get(recipes, i), name);
            if (differs)
                json_object_set_new(one, name, mine ? json_incref(mine) : json_null());
        }
        json_object_update_missing(one, row);
        json_array_append_new(all, one);
    }
    return all;
}

static dt_status print_runs(const dt_options *o, const json_t *rows, bool turned)
{
    if (!o->json)
        return print_table(&(table){.objects = rows, .turned = turned, .csv = o->csv});
    char *text = json_dumps(rows, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    if (!text)
        return dt_fail(DT_NOMEM, "no memory for the table of runs");
    puts(text);
    free(text);
    return DT_OK;
}

dt_status dt_view_runs(const dt_options *o, const char *const *path, size_t count,
                       dt_options_read *read, void *context)
{
    const char *folder = count ? path[0] : "runs";
    json_t *rows = json_array(), *recipes = json_array(), *both = NULL;
    char file[PATH_MAX];
    dt_status st = DT_OK;

    if (o->json && o->csv)
        st = dt_fail(DT_USAGE, "--json and --csv: give one of them");
    if (st == DT_OK)
        st = dt_path_join(file, folder, "metrics.jsonl");
    const bool runs = count > 1 || (st == DT_OK && dt_path_taken(file));
    for (size_t i = 0; runs && st == DT_OK && i < count; i++)
        st = add_run(rows, recipes, path[i], read, context);
    if (st == DT_OK && !runs)
        st = add_folder(rows, recipes, folder, read, context);
    if (st == DT_OK && count > 1)
        both = side_by_side(rows, recipes);
    if (st == DT_OK)
        st = print_runs(o, both ? both : rows, both != NULL);
    json_decref(both);
    json_decref(recipes);
    json_decref(rows);
    return st;
}
