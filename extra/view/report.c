/* report.c - dtrain report: a run as one HTML file. */
#include "view.h"

static void put_text(FILE *f, const char *text)
{
    static const char special[] = "<>&\"'";

    for (; *text; text++)
        if (strchr(special, *text))
            fprintf(f, "&#%d;", *text);
        else
            fputc(*text, f);
}

static void put_object(FILE *f, const char *title, json_t *object)
{
    char buf[DT_CELL_CHARS];
    const char *key;
    json_t *value;

    fprintf(f, "<h2>%s</h2>\n<table>\n", title);
    json_object_foreach (object, key, value) {
        fputs("<tr><th>", f);
        put_text(f, key);
        fputs("</th><td>", f);
        put_text(f, dt_run_view_cell(key, value, buf));
        fputs("</td></tr>\n", f);
    }
    fputs("</table>\n", f);
}

/* What the newest checkpoint says of the program and its arithmetic. */
static dt_status take_class(void *context, const dt_checkpoint *c)
{
    const char *class = dt_checkpoint_text(c, "class");

    json_object_set_new(context, "arithmetic and program", json_string(class ? class : "-"));
    return DT_OK;
}

/* That, and where the ranks ran; what is missing is left out. */
static void put_machine(FILE *f, const dt_run_view_run *r)
{
    json_t *machine = json_object();
    char found[PATH_MAX];

    if (dt_checkpoint_find(
            r->path, &(dt_query){.end = INT64_MAX, .take = take_class, .context = machine}, found))
        dt_fail_clear();
    put_object(f, "Machine", machine);
    json_decref(machine);
    fputs("<pre>", f);
    put_text(f, r->where ? r->where : "");
    fputs("</pre>\n", f);
}

/* svg: the curves, as a file. */
static void put_page(FILE *f, const dt_run_view_run *r, const char *svg)
{
    const char *picture = strstr(svg, "<svg"); /* HTML has no head of an XML file */
    json_t *options = dt_run_view_options(r);

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
    put_object(f, "Results", r->row);
    fputs(picture ? picture : "", f);
    put_object(f, "Options", options);
    json_decref(options);
    put_machine(f, r);
    fputs("</body></html>\n", f);
}

dt_status dt_view_report(const dt_options *o, const char *const *path, size_t count)
{
    dt_run_view_run run = {.path = NULL};
    dt_figure f = {.script = NULL};
    char *picture = NULL, *text = NULL;
    size_t bytes = 0, length = 0;
    dt_status st = DT_OK;

    if (!dt_path_ends(o->out, ".html"))
        return dt_fail(DT_USAGE, "--out '%s': report needs --out FILE.html", o->out);
    DT_GO(st, dt_run_view_open(&run, path[0]), out);
    DT_GO(st, dt_curves(&f, o, "page.svg", &run, count), out);
    DT_GO(st, dt_figure_draw(&f, &picture, &bytes), out);
    FILE *page = open_memstream(&text, &length);
    if (page)
        put_page(page, &run, picture);
    st = page && fclose(page) == 0 ? dt_outfile_put(&DT_TARGET(o->out), text, length, NULL)
                                   : dt_fail(DT_NOMEM, "no memory for the page");
out:
    DT_FREE(text, picture);
    dt_figure_close(&f);
    dt_run_view_release(&run);
    return st;
}
