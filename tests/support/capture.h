/* capture.h - what this process writes to stderr for a while. */
#ifndef DT_CAPTURE_H
#define DT_CAPTURE_H
#include <stdio.h>
#include <unistd.h>

typedef struct capture {
    FILE *file;
    int terminal; /* the stderr to return to */
    char text[4096];
} capture;

static inline void capture_begin(capture *c)
{
    c->file = tmpfile();
    c->terminal = dup(STDERR_FILENO);
    assert_non_null(c->file);
    assert_true(dup2(fileno(c->file), STDERR_FILENO) >= 0);
}

/* c->text holds it; returns the number of lines. */
static inline int capture_end(capture *c)
{
    int lines = 0;

    fflush(stderr);
    dup2(c->terminal, STDERR_FILENO);
    close(c->terminal);
    rewind(c->file);
    c->text[fread(c->text, 1, sizeof c->text - 1, c->file)] = '\0';
    fclose(c->file);
    for (const char *p = c->text; *p; p++)
        lines += *p == '\n';
    return lines;
}
#endif
