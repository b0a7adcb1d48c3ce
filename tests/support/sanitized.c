/* sanitized.c - linked into sanitizer builds, so that the leak check sees whose memory it is. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Open MPI closes its plug-ins before the leak check: their frames would be unknown and no
 * suppression could match them. */
int dlclose(void *handle);
int dlclose(void *handle)
{
    (void)handle;
    return 0;
}

/* libc's functions keep no frame pointers: behind one of them fast unwinding finds no caller, and
 * the texts that Open MPI prints have no known caller. Unwinding by tables would find it, and takes
 * twice the time of the whole suite. */
int vasprintf(char **text, const char *fmt, va_list args);
int asprintf(char **text, const char *fmt, ...);
int __vasprintf_chk(char **text, int flag, const char *fmt, va_list args);
int __asprintf_chk(char **text, int flag, const char *fmt, ...);

int vasprintf(char **text, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    *text = n < 0 ? NULL : malloc((size_t)n + 1);
    return *text ? vsnprintf(*text, (size_t)n + 1, fmt, args) : -1;
}

int asprintf(char **text, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int n = vasprintf(text, fmt, args);
    va_end(args);
    return n;
}

int __vasprintf_chk(char **text, int flag, const char *fmt, va_list args)
{
    (void)flag;
    return vasprintf(text, fmt, args);
}

int __asprintf_chk(char **text, int flag, const char *fmt, ...)
{
    va_list args;
    (void)flag;
    va_start(args, fmt);
    const int n = vasprintf(text, fmt, args);
    va_end(args);
    return n;
}
