/* report.c - dtrain report: a run as one HTML file. */
#include "seen.h"
#include "watch/watch.h"

#include <fcntl.h>
#include <stdlib.h>

static void put_text(FILE *f, const char *text)
{
    static const char special[] = "<>&\"'";

    for (; *text; text++)
        if (strchr(special, *text))
            fprintf(f, "&#%d;", *text);
        else
            fputc(*text, f);
}

static void put_row(FILE *f, const char *name, const char *value)
{
    fputs("<tr><th>", f);
    put_text(f, name);
    fputs("</th><td>", f);
    put_text(f, value);
    fputs("</td></tr>\n", f);
}

static void put_object(FILE *f, const char *title, json_t *object)
{
    char buf[DT_CELL_CHARS];
    const char *key;
    json_t *value;

    fprintf(f, "<h2>%s</h2>\n<table>\n", title);
    json_object_foreach (object, key, value)
        put_row(f, key, dt_seen_cell(key, value, buf));
    fputs("</table>\n", f);
}

/* What the newest checkpoint says of the program and its arithmetic, and where its ranks ran. */
static void put_machine(FILE *f, const char *run)
{
    char name[DT_CHECKPOINT_NAME], path[PATH_MAX], *text = NULL, *where = NULL;
    double age_s;
    size_t bytes = 0;
    FILE *stream = open_memstream(&where, &bytes);

    fputs("<h2>Machine</h2>\n", f);
    if (dt_checkpoint_last(run, name, &age_s) == DT_OK && name[0] &&
        snprintf(path, sizeof path, "%s/checkpoints/%s/state.json", run, name) < PATH_MAX &&
        dt_file_read(AT_FDCWD, path, 1 << 20, &text, NULL) == DT_OK) {
        json_t *state = json_loads(text, 0, NULL);
        const char *class = json_string_value(json_object_get(state, "class"));
        fputs("<table>\n", f);
        put_row(f, "arithmetic and program", class ? class : "-");
        fputs("</table>\n", f);
        json_decref(state);
    }
    free(text);
    if (stream && dt_watch_status(run, dt_rundir_held(run), stream) == DT_OK &&
        fflush(stream) == 0) {
        fputs("<pre>", f);
        put_text(f, where);
        fputs("</pre>\n", f);
    }
    if (stream)
        fclose(stream);
    free(where);
    dt_fail_clear(); /* what is missing is left out */
}

static void put_page(FILE *f, const dt_seen_run *r, json_t *row, json_t *options, const char *svg)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>", f);
    put_text(f, r->name);
    fputs("</title>\n<style>body{font:15px/1.4 sans-serif;margin:2em auto;max-width:75em;"
          "padding:0 1em}svg{width:100%;height:auto}table{border-collapse:collapse}"
          "th,td{text-align:left;padding:.1em 1.5em .1em 0;border-bottom:1px solid #ddd;"
          "font-weight:normal}th{color:#555}td,pre{font-family:monospace}pre{overflow:auto}"
          "</style></head><body>\n<h1>",
          f);
    put_text(f, r->name);
    fputs("</h1>\n", f);
    put_object(f, "Results", row);
    fputs(svg, f);
    put_object(f, "Options", options);
    put_machine(f, r->path);
    fputs("</body></html>\n", f);
}

/* The curves as SVG, to be freed. */
static dt_status draw(const dt_options *o, const dt_seen_run *run, char **picture)
{
    dt_figure f;
    size_t bytes = 0;
    dt_status st = dt_figure_open(&f, "page.svg", dt_curves_height(run, 1));

    if (st == DT_OK) {
        dt_curves(&f, o, run, 1);
        st = dt_figure_draw(&f, picture, &bytes);
    }
    dt_figure_close(&f);
    return st;
}

dt_status dt_view_report(const dt_options *o, const char *path, dt_options_read *read,
                         void *context)
{
    dt_seen_run run = {.path = path};
    char *picture = NULL, *text = NULL;
    json_t *options = NULL, *row = NULL;
    size_t bytes = 0;
    FILE *f = NULL;
    dt_status st = DT_OK;

    if (!dt_path_ends(o->out, ".html"))
        return dt_fail(DT_USAGE, "--out '%s': report needs --out FILE.html", o->out);
    DT_GO(st, dt_seen_open(&run, path), out);
    DT_GO(st, draw(o, &run, &picture), out);
    options = dt_seen_options(path, read, context);
    row = dt_seen_row(&run, options);
    f = open_memstream(&text, &bytes);
    if (!options || !row || !f)
        DT_GO(st, dt_fail(DT_NOMEM, "no memory for the page"), out);
    const char *svg = strstr(picture, "<svg"); /* HTML has no head of an XML file */
    put_page(f, &run, row, options, svg ? svg : "");
    if (fflush(f) != 0)
        DT_GO(st, dt_fail(DT_NOMEM, "no memory for the page"), out);
    st = dt_view_write(o->out, text, bytes);
out:
    if (f)
        fclose(f);
    free(text);
    free(picture);
    json_decref(row);
    json_decref(options);
    dt_seen_release(&run);
    return st;
}
