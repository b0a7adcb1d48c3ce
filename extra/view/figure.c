/* figure.c - a script for gnuplot, its process, and where the picture goes.
 *
 * The script has all data inside and reaches gnuplot by its standard input, the picture comes by
 * its standard output: no name of a file, and nothing that a user wrote, is ever a command. */
#include "view.h"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>

extern char **environ;

/* ---- The script ------------------------------------------------------------------------------ */

dt_status dt_figure_open(dt_figure *f, const char *out, int height)
{
    static const char *const colours[] = {"0072b2", "d55e00", "009e73", "cc79a7",
                                          "e69f00", "56b4e9", "000000"};
    const bool png = dt_path_ends(out, ".png"), plain = dt_path_ends(out, ".gp");
    const bool svg = plain || dt_path_ends(out, ".svg");
    const int fd = memfd_create("dtrain-plot", MFD_CLOEXEC);

    *f = (dt_figure){.page = svg || png, .plain = plain};
    f->script = fd >= 0 ? fdopen(fd, "w+") : NULL;
    if (out[0] && !f->page)
        return dt_fail(DT_USAGE, "--out %s: pictures end in .svg or .png, scripts in .gp", out);
    if (!f->script)
        return dt_fail(DT_NOMEM, "no memory for the script of a picture");
    fputs("# A picture of dtrain plot: its data are inside. gnuplot THIS_FILE > PICTURE\n",
          f->script);
    if (f->page)
        fprintf(f->script,
                "set encoding utf8\nset terminal %s size 1200,%d noenhanced font 'sans-serif,%d' "
                "background rgb 'white'\n",
                svg ? "svg" : "pngcairo", height, svg ? 14 : 11);
    else
        fputs("set terminal dumb size 79,22 noenhanced\n", f->script);
    /* Colours that the colour-blind tell apart (Okabe and Ito 2008), then the same dashed. */
    for (size_t i = 0; i < 3 * DT_COUNT_OF(colours); i++)
        fprintf(f->script, "set linetype %zu lc rgb '#%s' dt %zu lw 1.5 pt %zu ps 0.5\n", i + 1,
                colours[i % DT_COUNT_OF(colours)], i / DT_COUNT_OF(colours) + 1,
                2 * (i / DT_COUNT_OF(colours)) + 5);
    fputs("set linetype cycle 21\nset key noautotitle\n"
          "set border 3 lc rgb '#606060'\nset tics nomirror textcolor rgb '#303030'\n",
          f->script);
    fputs(f->page ? "set style fill solid 1.0\nset grid ytics lc rgb '#dddddd' lt 1 lw 0.7\n"
                  : "set style fill empty\n",
          f->script);
    return DT_OK;
}

/* Any text: in numbers what could end the string, or be a command in it. */
static void put_quoted(const dt_figure *f, const char *text)
{
    char shown[PATH_MAX];

    fputc('"', f->script);
    for (const char *c = dt_shown(text, shown); *c; c++)
        if (!f->page && (unsigned char)*c > '~')
            fputc('?', f->script);
        else
            fprintf(f->script, strchr("\"'`\\", *c) ? "\\%03o" : "%c", *c);
    fputc('"', f->script);
}

/* The mean of the numbers among so many objects up to number `last`. */
static double mean(const json_t *objects, size_t last, size_t window, const char *column)
{
    double sum = 0, n = 0;

    for (size_t i = last + 1; i-- > 0 && window > 0; window--) {
        const double x = dt_json_number(json_array_get(objects, i), column);
        n += isfinite(x);
        sum += isfinite(x) ? x : 0;
    }
    return sum / n;
}

static void put_part(const dt_figure *f, const json_t *objects, const char *const *column,
                     size_t smooth)
{
    enum { POINTS = 200 };
    const size_t count = json_array_size(objects);
    const size_t stride = smooth ? (count + POINTS - 1) / POINTS : 1;

    fputs("NaN\n", f->script); /* a part is never empty */
    for (size_t i = 0; i < count; i++) {
        if ((i + 1) % stride != 0 && i + 1 < count)
            continue;
        for (const char *const *c = column; *c; c++) {
            const double x = mean(objects, i, c == column ? 1 : DT_MAX(stride, smooth), *c);
            fprintf(f->script, isfinite(x) ? "%.8g " : "NaN ", x);
        }
        fputs("\n", f->script);
    }
    fputs("\n\n", f->script);
}

void dt_figure_data(const dt_figure *f, const char *name, json_t *parts, const char *const *column,
                    size_t smooth)
{
    size_t i = 0;
    const char *part;
    json_t *objects;

    fprintf(f->script, "%s << EOD\n", name);
    json_object_foreach (parts, part, objects)
        put_part(f, objects, column, smooth);
    fprintf(f->script, "EOD\narray T[%zu]\n", json_object_size(parts));
    json_object_foreach (parts, part, objects) {
        fprintf(f->script, "T[%zu] = ", ++i);
        put_quoted(f, part);
        fputc('\n', f->script);
    }
}

void dt_figure_close(dt_figure *f)
{
    if (f->script)
        fclose(f->script);
}

/* ---- The process ----------------------------------------------------------------------------- */

/* Files without names are its three streams. *code: as waitpid has it. */
static dt_status run_gnuplot(const int stream[3], int *code)
{
    char *word[] = {(char[]){"gnuplot"}, (char[]){"--default-settings"}, (char[]){"-"}, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child = 0;

    int error = posix_spawn_file_actions_init(&actions);
    for (int i = 0; i < 3 && error == 0; i++)
        error = posix_spawn_file_actions_adddup2(&actions, stream[i], i);
    if (error == 0)
        error = posix_spawnp(&child, word[0], &actions, NULL, word, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error == ENOENT)
        return dt_fail(DT_UNSUPPORTED, "gnuplot is not installed: install the package gnuplot-nox, "
                                       "or take --out FILE.gp to a machine that has it");
    if (error != 0)
        return dt_fail(DT_NOMEM, "cannot start gnuplot: %s", strerror(error));
    while (waitpid(child, code, 0) < 0 && errno == EINTR)
        ;
    return DT_OK;
}

dt_status dt_figure_draw(dt_figure *f, char **picture, size_t *bytes)
{
    const int script = fileno(f->script), drawn = memfd_create("dtrain-plot", MFD_CLOEXEC);
    const int errors = memfd_create("dtrain-plot", MFD_CLOEXEC);
    char path[32];
    int code = 0;
    dt_status st = DT_OK;

    *picture = NULL;
    if (drawn < 0 || errors < 0 || fflush(f->script) != 0 || lseek(script, 0, SEEK_SET) != 0)
        DT_GO(st, dt_fail(DT_NOMEM, "no memory for a picture: %s", strerror(errno)), out);
    if (!f->plain)
        DT_GO(st, run_gnuplot((int[]){script, drawn, errors}, &code), out);
    snprintf(path, sizeof path, "/proc/self/fd/%d", f->plain ? script : code ? errors : drawn);
    DT_GO(st, dt_file_read(AT_FDCWD, path, SIZE_MAX, picture, bytes), out);
    if (code) {
        dt_log_shown(*picture);
        st = dt_fail(DT_UNSUPPORTED,
                     "gnuplot failed (it has to be 5.2 or newer, with pngcairo for PNG): %.300s",
                     *picture);
    }
out:
    close(drawn);
    close(errors);
    return st;
}

dt_status dt_figure_show(dt_figure *f, const dt_options *o)
{
    char *data = NULL;
    size_t bytes = 0;
    dt_status st = dt_figure_draw(f, &data, &bytes);

    if (st == DT_OK && o->out[0])
        st = dt_outfile_put(&DT_TARGET(o->out), data, bytes, NULL);
    for (size_t i = 0; st == DT_OK && !o->out[0] && i < bytes; i++)
        if (data[i] != '\f') /* which ends each panel; main looks at errors */
            putchar(data[i]);
    free(data);
    return st;
}
