/* replay_history.c - the log as changes of entries and edits of files; see replay.h. */
#include "replay.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>

void die(const char *fmt, ...)
{
    va_list list;

    fputs("replay: ", stderr);
    va_start(list, fmt);
    vfprintf(stderr, fmt, list);
    va_end(list);
    fputc('\n', stderr);
    exit(2);
}

void *grow(void *list, size_t n, size_t size)
{
    if ((n & (n - 1)) != 0) /* room doubles at powers of two */
        return list;
    void *more = realloc(list, (n ? 2 * n : 1) * size);
    if (!more)
        die("out of memory");
    return more;
}

/* ---- Nodes and entries --------------------------------------------------------------- */

static int add_node(history *h, bool folder, bytes initial)
{
    h->nodes = grow(h->nodes, h->node_count, sizeof *h->nodes);
    h->nodes[h->node_count] = (node){.folder = folder, .initial = initial};
    return (int)h->node_count++;
}

static int find_entry(history *h, int folder, const char *name)
{
    node *f = &h->nodes[folder];

    for (size_t i = 0; i < f->entry_count; i++)
        if (strcmp(h->entries[f->entries[i]].name, name) == 0)
            return f->entries[i];
    f->entries = grow(f->entries, f->entry_count, sizeof *f->entries);
    f->entries[f->entry_count++] = (int)h->entry_count;
    h->entries = grow(h->entries, h->entry_count, sizeof *h->entries);
    h->entries[h->entry_count] =
        (entry){.name = strdup(name), .folder = folder, .initial = NOWHERE};
    return (int)h->entry_count++;
}

/* What the entry leads to for the running program. */
static int now(const history *h, int e)
{
    const entry *x = &h->entries[e];
    return x->turn_count ? x->turns[x->turn_count - 1].to : x->initial;
}

/* The entry that a path names; its folder exists. */
static int walk(history *h, const char *path)
{
    int folder = 0;

    for (;;) {
        const size_t n = strcspn(path, "/");
        char name[NAME_MAX + 1];
        if (n == 0 || n > NAME_MAX)
            die("bad path in the log");
        memcpy(name, path, n);
        name[n] = '\0';
        const int e = find_entry(h, folder, name);
        if (path[n] == '\0')
            return e;
        folder = now(h, e);
        if (folder < 0 || !h->nodes[folder].folder)
            die("the log names something in %s, which is no folder", name);
        path += n + 1;
    }
}

static int walk_node(history *h, const char *path)
{
    if (path[0] == '\0')
        return 0;
    const int n = now(h, walk(h, path));
    if (n < 0)
        die("the log uses %s, which does not exist", path);
    return n;
}

static bytes read_file(const char *path)
{
    bytes b = {NULL, 0};
    struct stat info;
    FILE *f = fopen(path, "rb");

    if (!f || fstat(fileno(f), &info) != 0)
        die("%s: %s", path, strerror(errno));
    b.data = malloc((size_t)info.st_size + 1);
    b.size = b.data ? fread(b.data, 1, (size_t)info.st_size, f) : 0;
    if (b.size != (size_t)info.st_size)
        die("%s: cannot read it whole", path);
    fclose(f);
    return b;
}

static void read_folder(history *h, int folder, const char *path)
{
    char below[PATH_MAX];
    struct stat info;
    DIR *dir = opendir(path);

    if (!dir)
        die("%s: %s", path, strerror(errno));
    for (struct dirent *d = readdir(dir); d; d = readdir(dir)) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        if (snprintf(below, sizeof below, "%s/%s", path, d->d_name) >= PATH_MAX ||
            lstat(below, &info) != 0)
            die("%s: %s", below, strerror(errno));
        const bool is_folder = S_ISDIR(info.st_mode);
        const bytes content = is_folder ? (bytes){NULL, 0} : read_file(below);
        const int n = add_node(h, is_folder, content);
        const int e = find_entry(h, folder, d->d_name);
        h->entries[e].initial = n;
        if (is_folder)
            read_folder(h, n, below);
    }
    closedir(dir);
}

void history_read_folder(history *h, const char *path)
{
    if (h->node_count == 0)
        add_node(h, true, (bytes){NULL, 0});
    if (path)
        read_folder(h, 0, path);
}

/* ---- Calls --------------------------------------------------------------------------- */

static void turn(history *h, change *c, int e, int to)
{
    entry *x = &h->entries[e];

    c->entry[c->entries] = e;
    c->before[c->entries++] = x->turn_count ? x->turns[x->turn_count - 1].change : NOWHERE;
    x->turns = grow(x->turns, x->turn_count, sizeof *x->turns);
    x->turns[x->turn_count].change = (int)h->change_count;
    x->turns[x->turn_count++].to = to;
}

static void add_change(history *h, size_t at, int e, int to, int from)
{
    change c = {.at = at, .durable = NEVER};

    turn(h, &c, e, to);
    if (from != NOWHERE)
        turn(h, &c, from, NOWHERE);
    h->changes = grow(h->changes, h->change_count, sizeof *h->changes);
    h->changes[h->change_count++] = c;
}

static void add_edit(history *h, int file, edit e)
{
    node *n = &h->nodes[file];

    e.durable = NEVER;
    n->edits = grow(n->edits, n->edit_count, sizeof *n->edits);
    n->edits[n->edit_count++] = (int)h->edit_count;
    h->edits = grow(h->edits, h->edit_count, sizeof *h->edits);
    h->edits[h->edit_count++] = e;
}

static void sync_node(history *h, size_t at, int n)
{
    const node *x = &h->nodes[n];

    for (size_t i = 0; i < x->edit_count; i++)
        if (h->edits[x->edits[i]].durable == NEVER)
            h->edits[x->edits[i]].durable = at;
    for (size_t i = 0; i < x->entry_count; i++) {
        const entry *e = &h->entries[x->entries[i]];
        for (size_t k = 0; k < e->turn_count; k++)
            if (h->changes[e->turns[k].change].durable == NEVER)
                h->changes[e->turns[k].change].durable = at;
    }
}

static void add_save(history *h, saved s)
{
    h->saves = grow(h->saves, h->save_count, sizeof *h->saves);
    h->saves[h->save_count++] = s;
}

void history_read_known(history *h, const char *path)
{
    char word[16];
    saved s;
    FILE *f = fopen(path, "r");

    if (!f)
        die("%s: %s", path, strerror(errno));
    while (fscanf(f, "%15s %ld %63s", word, &s.step, s.hash) == 3) {
        s.since = strcmp(word, "saved") == 0 ? 0 : NEVER;
        add_save(h, s);
    }
    fclose(f);
}

/* "saved STEP HASH" lines, as they become whole. */
static void add_mark(history *h, size_t at, const char *data, size_t size)
{
    const size_t n = h->told ? strlen(h->told) : 0;
    char *end;

    h->told = realloc(h->told, n + size + 1);
    if (!h->told)
        die("out of memory");
    memcpy(h->told + n, data, size);
    h->told[n + size] = '\0';
    while ((end = strchr(h->told, '\n'))) {
        saved s = {.since = at + 1};
        *end = '\0';
        if (sscanf(h->told, "saved %ld %63s", &s.step, s.hash) == 2)
            add_save(h, s);
        memmove(h->told, end + 1, strlen(end + 1) + 1);
    }
}

static void open_file(history *h, const record *r, size_t at, const char *path)
{
    if (r->made)
        add_change(h, at, walk(h, path), add_node(h, false, (bytes){NULL, 0}), NOWHERE);
    if (r->emptied)
        add_edit(h, walk_node(h, path), (edit){.at = at, .call = SHIM_TRUNCATE});
}

static void add_call(history *h, const record *r, size_t at, const char *path, const char *other,
                     unsigned char *data)
{
    int from;

    switch (r->call) {
    case SHIM_OPEN:
    case SHIM_CREATE:
        open_file(h, r, at, path);
        break;
    case SHIM_MKDIR:
        add_change(h, at, walk(h, path), add_node(h, true, (bytes){NULL, 0}), NOWHERE);
        break;
    case SHIM_UNLINK:
    case SHIM_RMDIR:
        add_change(h, at, walk(h, path), NOWHERE, NOWHERE);
        break;
    case SHIM_LINK:
        add_change(h, at, walk(h, other), walk_node(h, path), NOWHERE);
        break;
    case SHIM_RENAME:
        from = walk(h, path);
        add_change(h, at, walk(h, other), walk_node(h, path), from);
        break;
    case SHIM_WRITE:
    case SHIM_PWRITE:
    case SHIM_TRUNCATE:
    case SHIM_ALLOCATE:
        add_edit(h, walk_node(h, path),
                 (edit){.at = at,
                        .call = r->call == SHIM_PWRITE ? SHIM_WRITE : (shim_call)r->call,
                        .offset = r->offset,
                        .data = data,
                        .size = r->data_bytes});
        break;
    case SHIM_FSYNC:
    case SHIM_FDATASYNC:
        sync_node(h, at, walk_node(h, path));
        h->syncs++;
        break;
    case SHIM_SYNC:
        for (size_t i = 0; i < h->node_count; i++)
            sync_node(h, at, (int)i);
        h->syncs++;
        break;
    case RECORD_MARK:
        add_mark(h, at, (const char *)data, r->data_bytes);
        break;
    case SHIM_CLOSE:
        break;
    default:
        die("the log holds a call that is not modelled: %s", path);
    }
}

static char *take_text(FILE *f, size_t n)
{
    char *s = calloc(n + 1, 1);
    if (!s || fread(s, 1, n, f) != n)
        die("the log ends early");
    return s;
}

static char *call_text(const record *r, const char *path, const char *other)
{
    static const char *const names[] = {
#define X(name, text) text,
        SHIM_CALL_LIST(X)
#undef X
            "print"};
    const size_t room = strlen(path) + strlen(other) + 64;
    char *text = malloc(room);
    if (!text)
        die("out of memory");
    snprintf(text, room, "%s%s%s%s%s", names[r->call], path[0] ? " " : "", path,
             other[0] ? " to " : "", other);
    if (r->data_bytes && r->call != RECORD_MARK)
        snprintf(text + strlen(text), 40, " (%llu bytes)", (unsigned long long)r->data_bytes);
    return text;
}

/* Changes of one entry keep their order, so what comes before a durable one is durable. */
static void close_order(history *h)
{
    for (size_t i = h->change_count; i-- > 0;) {
        const change *c = &h->changes[i];
        for (int k = 0; k < c->entries; k++)
            if (c->before[k] != NOWHERE && h->changes[c->before[k]].durable > c->durable)
                h->changes[c->before[k]].durable = c->durable;
    }
}

static void add_place(history *h, const record *r, const char *path)
{
    const size_t n = h->call_count;
    const bool writes = r->call == SHIM_WRITE || r->call == SHIM_PWRITE;
    const int file = writes ? walk_node(h, path) : NOWHERE;

    h->inert = grow(h->inert, n, sizeof *h->inert);
    h->row = grow(h->row, n, sizeof *h->row);
    h->inert[n] = r->call == SHIM_CLOSE || (r->call == SHIM_OPEN && !r->made && !r->emptied);
    h->row[n] = writes && n > 0 && h->last_written == file ? h->row[n - 1] + 1 : 0;
    h->last_written = file;
}

void history_read_log(history *h, const char *path)
{
    record r;
    FILE *f = fopen(path, "rb");

    if (!f)
        die("%s: %s", path, strerror(errno));
    while (fread(&r, sizeof r, 1, f) == 1) {
        if (r.magic != RECORD_MAGIC || r.call > RECORD_MARK)
            die("%s is no log, or a torn one", path);
        char *name = take_text(f, r.path_bytes), *other = take_text(f, r.other_bytes);
        char *data = take_text(f, r.data_bytes);
        h->calls = grow(h->calls, h->call_count, sizeof *h->calls);
        h->calls[h->call_count] = call_text(&r, name, other);
        add_place(h, &r, name);
        add_call(h, &r, h->call_count++, name, other, (unsigned char *)data);
        free(name);
        free(other);
    }
    fclose(f);
    close_order(h);
}
