/* capture.h - what this process writes to stderr, or to stdout, for a while. */
#ifndef DT_CAPTURE_H
#define DT_CAPTURE_H
#include "test.h"

typedef struct capture {
    FILE *file;
    int fd, terminal; /* which of them, and what to return to */
    char text[4096];
} capture;

static inline void capture_fd(capture *c, int fd)
{
    fflush(NULL);
    *c = (capture){.file = tmpfile(), .fd = fd, .terminal = dup(fd)};
    assert_non_null(c->file);
    assert_true(dup2(fileno(c->file), fd) >= 0);
}

static inline void capture_begin(capture *c)
{
    capture_fd(c, STDERR_FILENO);
}

/* c->text holds it; returns the number of lines. */
static inline int capture_end(capture *c)
{
    int lines = 0;

    fflush(NULL);
    dup2(c->terminal, c->fd);
    close(c->terminal);
    rewind(c->file);
    c->text[fread(c->text, 1, sizeof c->text - 1, c->file)] = '\0';
    fclose(c->file);
    for (const char *p = c->text; *p; p++)
        lines += *p == '\n';
    return lines;
}
#endif
