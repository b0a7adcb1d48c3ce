/* Writing safetensors: header, bytes, and a file that is there whole or not at all. */
#include "safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "numbers are written as they lie");

/* ---- A file that replaces another ------------------------------------------------ */

typedef struct write_file {
    const char *path;    /* borrowed */
    char temp[PATH_MAX]; /* "": there is no temporary file */
    int fd;              /* of it, -1 when closed */
    uint64_t bytes;      /* of the whole file, for messages */
} write_file;

static dt_status write_error(const write_file *f, dt_status code, const char *what)
{
    return dt_fail(code,
                   "cannot write %s (%llu bytes), %s: %s; free space or choose another "
                   "--out",
                   f->path, (unsigned long long)f->bytes, what, strerror(errno));
}

/* The room is reserved first, so that a full disk shows before anything is written;
 * where that is not possible, writing will show it. */
static dt_status write_open(write_file *f, const char *path, uint64_t bytes)
{
    *f = (write_file){.path = path, .fd = -1, .bytes = bytes};
    char temp[PATH_MAX];
    const int n = snprintf(temp, sizeof temp, "%s.%ld.tmp", path, (long)getpid());
    if (n < 0 || (size_t)n >= sizeof temp)
        return dt_fail(DT_CANTCREATE, "cannot write %.200s...: the path is too long",
                       path);
    f->fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (f->fd < 0)
        return write_error(f, errno == ENOSPC ? DT_IO : DT_CANTCREATE,
                           "temporary file");
    memcpy(f->temp, temp, sizeof f->temp);
    if (fallocate(f->fd, 0, 0, (off_t)bytes) != 0 &&
        (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
        return write_error(f, DT_IO, "reserving room");
    return DT_OK;
}

static dt_status write_bytes(write_file *f, const void *data, uint64_t bytes)
{
    const char *from = data;
    while (bytes > 0) {
        const ssize_t n = write(f->fd, from, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return write_error(f, DT_IO, "writing");
        from += n;
        bytes -= (uint64_t)n;
    }
    return DT_OK;
}

/* A rename is on disk only when the folder is. Some file systems cannot sync a folder
 * and say EINVAL; they order it themselves. */
static dt_status write_folder(const write_file *f)
{
    char path[PATH_MAX];
    dt_status st = DT_OK;

    snprintf(path, sizeof path, "%s", f->path);
    const int fd = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return write_error(f, DT_IO, "opening its folder");
    if (fsync(fd) != 0 && errno != EINVAL)
        st = write_error(f, DT_IO, "syncing its folder");
    close(fd);
    return st;
}

static dt_status write_commit(write_file *f)
{
    if (fsync(f->fd) != 0)
        return write_error(f, DT_IO, "syncing");
    const int closed = close(f->fd);
    f->fd = -1;
    if (closed != 0 || rename(f->temp, f->path) != 0)
        return write_error(f, DT_IO, closed ? "closing" : "renaming");
    f->temp[0] = '\0';
    return write_folder(f);
}

static void write_abandon(write_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    if (f->temp[0])
        unlink(f->temp);
}

/* ---- Header ---------------------------------------------------------------------- */

typedef struct write_row {
    const dt_tensor *tensor;
    const dt_tensor_type *type;
    size_t index; /* in the caller's list */
    uint64_t bytes;
} write_row;

static int by_type_and_name(const void *a, const void *b)
{
    const write_row *x = a, *y = b;
    if (x->type != y->type)
        return x->type > y->type ? -1 : 1;
    return strcmp(x->tensor->name, y->tensor->name);
}

static dt_status rows_create(const dt_safetensors_content *c, write_row **out)
{
    write_row *rows = NULL;

    if (c->tensors > DT_TENSOR_MAX_COUNT)
        return dt_fail(DT_BUG, "%zu tensors in one file", c->tensors);
    DT_TRY(dt_calloc(&rows, c->tensors + 1, sizeof *rows, "the list of tensors"));
    for (size_t i = 0; i < c->tensors; i++) {
        const dt_tensor *t = &c->tensor[i];
        write_row *r = &rows[i];
        *r = (write_row){t, dt_tensor_type_find(t->dtype), i, 0};
        if (!r->type || t->rank > DT_TENSOR_MAX_RANK ||
            !dt_tensor_bytes(r->type, t->rank, t->shape, &r->bytes)) {
            free(rows);
            return dt_fail(DT_BUG, "tensor %s has no size", t->name);
        }
    }
    qsort(rows, c->tensors, sizeof *rows, by_type_and_name);
    *out = rows;
    return DT_OK;
}

/* {"dtype":...,"shape":[...],"data_offsets":[...]}; NULL without memory. */
static json_t *header_entry(const write_row *r, uint64_t begin)
{
    json_t *shape = json_array();
    for (int i = 0; i < r->tensor->rank; i++)
        json_array_append_new(shape, json_integer(r->tensor->shape[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", r->type->name, "shape", shape,
                     "data_offsets", (json_int_t)begin, (json_int_t)(begin + r->bytes));
}

static json_t *header_metadata(const dt_safetensors_content *c)
{
    json_t *j = json_object();
    for (size_t i = 0; j && i < c->fields; i++)
        if (json_object_set_new(j, c->metadata[i].name,
                                json_string(c->metadata[i].value))) {
            json_decref(j);
            j = NULL;
        }
    return j;
}

/* The header's text, padded with spaces to a multiple of 8; *out is freed by free(). */
static dt_status header_text(const dt_safetensors_content *c, const write_row *rows,
                             char **out, size_t *length)
{
    json_t *header = json_object();
    uint64_t at = 0;
    int bad = header ? 0 : -1;
    char *text = NULL;
    dt_status st = DT_OK;

    if (c->fields > 0)
        bad |= json_object_set_new(header, "__metadata__", header_metadata(c));
    for (size_t i = 0; i < c->tensors; i++) {
        bad |= json_object_set_new(header, rows[i].tensor->name,
                                   header_entry(&rows[i], at));
        at += rows[i].bytes;
    }
    const size_t n = bad ? 0 : json_dumpb(header, NULL, 0, JSON_COMPACT);
    const size_t padded = dt_align(n, 8);
    if (n == 0 || padded > DT_TENSOR_MAX_HEADER ||
        json_object_size(header) != c->tensors + (c->fields > 0)) {
        st = dt_fail(DT_BUG, "%zu tensors make no safetensors header", c->tensors);
        goto out;
    }
    DT_GO(st, dt_calloc(&text, padded, 1, "the model file's header"), out);
    memset(text, ' ', padded);
    json_dumpb(header, text, n, JSON_COMPACT);
    *out = text;
    *length = padded;

out:
    json_decref(header);
    return st;
}

/* ---- The whole ------------------------------------------------------------------- */

static dt_status write_tensors(write_file *f, const dt_safetensors_content *c,
                               const write_row *rows, void *buffer)
{
    for (size_t i = 0; i < c->tensors; i++) {
        c->fill(c->context, rows[i].index, buffer);
        DT_TRY(write_bytes(f, buffer, rows[i].bytes));
    }
    return DT_OK;
}

dt_status dt_safetensors_write(const char *path, const dt_safetensors_content *c)
{
    write_file f = {.fd = -1};
    write_row *rows = NULL;
    char *header = NULL;
    void *buffer = NULL;
    unsigned char prefix[8];
    size_t length = 0;
    uint64_t total = sizeof prefix, largest = 1;
    dt_status st = DT_OK;

    DT_GO(st, rows_create(c, &rows), out);
    DT_GO(st, header_text(c, rows, &header, &length), out);
    total += length;
    for (size_t i = 0; i < c->tensors; i++) {
        total += rows[i].bytes;
        largest = rows[i].bytes > largest ? rows[i].bytes : largest;
    }
    for (size_t i = 0; i < sizeof prefix; i++)
        prefix[i] = (unsigned char)(length >> 8 * i);

    DT_GO(st, dt_calloc(&buffer, largest, 1, "a tensor to write"), out);
    DT_GO(st, write_open(&f, path, total), out);
    DT_GO(st, write_bytes(&f, prefix, sizeof prefix), out);
    DT_GO(st, write_bytes(&f, header, length), out);
    DT_GO(st, write_tensors(&f, c, rows, buffer), out);
    st = write_commit(&f);

out:
    write_abandon(&f);
    free(buffer);
    free(header);
    free(rows);
    return st;
}
