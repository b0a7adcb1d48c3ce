/* figure.c - a script for gnuplot, its process, and where the picture goes.
 *
 * The script has all data inside and reaches gnuplot by its standard input, the picture comes by
 * its standard output: no name of a file, and nothing that a user wrote, is ever a command. */
#include "seen.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- The script ------------------------------------------------------------------------------ */

dt_status dt_figure_open(dt_figure *f, const char *out, int height)
{
    static const char *const colours[] = {"0072b2", "d55e00", "009e73", "cc79a7",
                                          "e69f00", "56b4e9", "000000"};
    const bool svg = dt_path_ends(out, ".svg"), png = dt_path_ends(out, ".png");

    *f = (dt_figure){.page = svg || png};
    if (out[0] && !f->page)
        return dt_fail(DT_USAGE, "--out %s: pictures end in .svg or .png", out);
    f->script = open_memstream(&f->text, &f->bytes);
    if (!f->script)
        return dt_fail(DT_NOMEM, "no memory for the script of a picture");
    fputs("# A picture of dtrain plot: its data are inside. gnuplot THIS_FILE > PICTURE\n",
          f->script);
    if (svg)
        fprintf(f->script,
                "set encoding utf8\nset terminal svg size 1200,%d noenhanced font 'sans-serif,14' "
                "background rgb 'white'\n",
                height);
    else if (png)
        fprintf(f->script,
                "set encoding utf8\nset terminal pngcairo size 1200,%d noenhanced font 'Sans,11'\n",
                height);
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

static void put_quoted(const dt_figure *f, const char *text)
{
    char shown[PATH_MAX];

    snprintf(shown, sizeof shown, "%s", text);
    dt_log_shown(shown);
    fputc('\'', f->script);
    for (const char *c = shown; *c; c++) {
        if (*c == '\'')
            fputc('\'', f->script);
        fputc(!f->page && (unsigned char)*c > '~' ? '?' : *c, f->script);
    }
    fputc('\'', f->script);
}

void dt_figure_name(const dt_figure *f, size_t i, const char *name)
{
    fprintf(f->script, "T[%zu] = ", i + 1);
    put_quoted(f, name);
    fputc('\n', f->script);
}

void dt_figure_close(dt_figure *f)
{
    if (f->script)
        fclose(f->script);
    free(f->text);
    *f = (dt_figure){.page = false};
}

/* ---- The process ----------------------------------------------------------------------------- */

/* Files without names are its three streams. *code: as waitpid has it. */
static dt_status run_gnuplot(const int stream[3], int *code)
{
    char *word[] = {(char[]){"gnuplot"}, (char[]){"--default-settings"}, (char[]){"-"}, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child = 0;

    if (posix_spawn_file_actions_init(&actions) != 0)
        return dt_fail(DT_NOMEM, "cannot start gnuplot");
    int error = 0;
    for (int i = 0; i < 3 && error == 0; i++)
        error = posix_spawn_file_actions_adddup2(&actions, stream[i], i);
    if (error == 0)
        error = posix_spawnp(&child, word[0], &actions, NULL, word, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error == ENOENT)
        return dt_fail(DT_UNSUPPORTED, "gnuplot is not installed: install the package gnuplot-nox, "
                                       "or take --script FILE to a machine that has it");
    if (error != 0)
        return dt_fail(DT_NOMEM, "cannot start gnuplot: %s", strerror(error));
    while (waitpid(child, code, 0) < 0 && errno == EINTR)
        ;
    return DT_OK;
}

static dt_status read_all(int fd, char **data, size_t *bytes)
{
    struct stat info;

    if (fstat(fd, &info) != 0)
        return dt_fail(DT_IO, "gnuplot's output: %s", strerror(errno));
    *bytes = (size_t)info.st_size;
    DT_TRY(dt_calloc(data, *bytes + 1, 1, "a picture"));
    return dt_file_read_at(fd, "gnuplot's output", 0, *data, *bytes);
}

dt_status dt_figure_draw(dt_figure *f, char **picture, size_t *bytes)
{
    int stream[3] = {-1, -1, -1}, code = 0;
    char *said = NULL;
    size_t length = 0;
    dt_status st = DT_OK;

    *picture = NULL;
    if (fflush(f->script) != 0)
        return dt_fail(DT_NOMEM, "no memory for the script of a picture");
    for (int i = 0; i < 3; i++)
        stream[i] = memfd_create("dtrain-plot", MFD_CLOEXEC);
    if (stream[2] < 0 || write(stream[0], f->text, f->bytes) != (ssize_t)f->bytes)
        DT_GO(st, dt_fail(DT_NOMEM, "no memory for a picture: %s", strerror(errno)), out);
    lseek(stream[0], 0, SEEK_SET);
    DT_GO(st, run_gnuplot(stream, &code), out);
    if (code != 0) {
        DT_GO(st, read_all(stream[2], &said, &length), out);
        dt_log_shown(said);
        DT_GO(st, dt_fail(DT_BUG, "gnuplot failed: %.300s", said), out);
    }
    st = read_all(stream[1], picture, bytes);
out:
    for (int i = 0; i < 3; i++)
        if (stream[i] >= 0)
            close(stream[i]);
    free(said);
    return st;
}

dt_status dt_view_write(const char *path, const char *data, size_t bytes)
{
    const dt_target target = {.folder = AT_FDCWD, .name = path, .shown = path};

    DT_TRY(dt_target_check(&target));
    return dt_outfile_put(&target, data, bytes, NULL);
}

dt_status dt_figure_show(dt_figure *f, const dt_options *o)
{
    char *picture = NULL;
    size_t bytes = 0;

    if (o->script[0]) {
        if (fflush(f->script) != 0)
            return dt_fail(DT_NOMEM, "no memory for the script of a picture");
        return dt_view_write(o->script, f->text, f->bytes);
    }
    dt_status st = dt_figure_draw(f, &picture, &bytes);
    if (st == DT_OK && o->out[0])
        st = dt_view_write(o->out, picture, bytes);
    else if (st == DT_OK)
        for (size_t i = 0; i < bytes; i++) /* main looks at errors; a form feed ends each panel */
            if (picture[i] != '\f')
                putchar(picture[i]);
    free(picture);
    return st;
}
