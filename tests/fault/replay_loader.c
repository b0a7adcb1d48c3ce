/* replay_loader.c - a state as a folder, and the program under test asked about it; see
 * replay.h. */
#include "replay.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Trees ----------------------------------------------------------------------------- */

/* The digest is a sum over the items, so that their order does not matter. */
static void tree_add(tree *t, const char *path, int content, dt_digest of)
{
    unsigned char key[PATH_MAX + sizeof of];
    const size_t n = strlen(path) + 1;

    t->items = grow(t->items, t->count, sizeof *t->items);
    t->items[t->count].path = strdup(path);
    t->items[t->count++].content = content;
    memcpy(key, path, n);
    memcpy(key + n, &of, sizeof of);
    const dt_digest d = dt_hash_bytes(key, n + sizeof of);
    t->digest.low += d.low;
    t->digest.high += d.high;
}

static const dt_digest folder_digest = {1, 2};

static void make_below(tree *t, const state *s, const pool *p, int folder, char *path)
{
    const node *f = &s->h->nodes[folder];
    const size_t n = strlen(path);

    for (size_t i = 0; i < f->entry_count; i++) {
        const int k = state_entry(s, f->entries[i]);
        if (k == NOWHERE)
            continue;
        snprintf(path + n, PATH_MAX - n, "%s%s", n ? "/" : "", s->h->entries[f->entries[i]].name);
        if (s->h->nodes[k].folder) {
            tree_add(t, path, NOWHERE, folder_digest);
            make_below(t, s, p, k, path);
        } else {
            const int content = s->files[k].list[s->choice[k]].content;
            tree_add(t, path, content, p->digests[content]);
        }
        path[n] = '\0';
    }
}

void tree_make(tree *t, const state *s, const pool *p)
{
    char path[PATH_MAX] = "";

    *t = (tree){.items = NULL};
    make_below(t, s, p, 0, path);
}

void tree_free(tree *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->items[i].path);
    free(t->items);
}

/* What history_read_folder sees is the state of a history without a log. */
dt_digest tree_read(const char *path)
{
    history h = {.nodes = NULL};
    tree t = {.items = NULL};

    history_read_folder(&h, path);
    for (size_t i = 0; i < h.entry_count; i++) {
        char name[PATH_MAX] = "";
        for (int e = (int)i; e != NOWHERE;) {
            char below[PATH_MAX];
            snprintf(below, sizeof below, "%s%s%s", h.entries[e].name, name[0] ? "/" : "", name);
            memcpy(name, below, sizeof name);
            const int folder = h.entries[e].folder;
            e = NOWHERE;
            for (size_t k = 0; folder != 0 && k < h.entry_count; k++)
                if (h.entries[k].initial == folder)
                    e = (int)k;
        }
        const node *n = &h.nodes[h.entries[i].initial];
        tree_add(&t, name, NOWHERE,
                 n->folder ? folder_digest : dt_hash_bytes(n->initial.data, n->initial.size));
    }
    tree_free(&t);
    return t.digest;
}

void tree_write(const tree *t, const pool *p, const char *path)
{
    char from[PATH_MAX], to[PATH_MAX];

    if (mkdir(path, 0755) != 0)
        die("%s: %s", path, strerror(errno));
    for (size_t i = 0; i < t->count; i++) {
        const int content = t->items[i].content;
        if (snprintf(to, sizeof to, "%s/%s", path, t->items[i].path) >= PATH_MAX ||
            snprintf(from, sizeof from, "%s/%d", p->path, content) >= PATH_MAX)
            die("the path of a state is too long");
        if (content == NOWHERE ? mkdir(to, 0755) != 0 : link(from, to) != 0)
            die("%s: %s", to, strerror(errno));
    }
}

static void tree_remove(const loader *l, const tree *t)
{
    char path[PATH_MAX];

    for (size_t i = t->count; i-- > 0;) {
        if (snprintf(path, sizeof path, "%s/%s", l->path, t->items[i].path) >= PATH_MAX)
            die("the path of a state is too long");
        if (t->items[i].content == NOWHERE ? rmdir(path) != 0 : unlink(path) != 0)
            die("the loader changed the folder: %s: %s", path, strerror(errno));
    }
    if (rmdir(l->path) != 0)
        die("the loader changed the folder: %s: %s", l->path, strerror(errno));
}

/* ---- The process -------------------------------------------------------------------------- */

static void loader_start(loader *l)
{
    int to[2], from[2];

    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
        die("pipe: %s", strerror(errno));
    l->pid = fork();
    if (l->pid < 0)
        die("fork: %s", strerror(errno));
    if (l->pid == 0) {
        const int null = open("/dev/null", O_WRONLY);
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        execvp(l->command[0], l->command);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    l->to = to[1];
    l->from = from[0];
}

void loader_close(loader *l)
{
    if (l->pid <= 0)
        return;
    close(l->to);
    close(l->from);
    kill(l->pid, SIGKILL);
    waitpid(l->pid, NULL, 0);
    l->pid = 0;
}

/* One line, without its end; false: the process is dead or silent. */
static bool read_line(loader *l, char *line, size_t size)
{
    enum { PATIENCE_MS = 60000 };
    size_t n = 0;

    while (n + 1 < size) {
        struct pollfd p = {.fd = l->from, .events = POLLIN};
        if (poll(&p, 1, PATIENCE_MS) != 1) {
            snprintf(line, size, "hung");
            return false;
        }
        if (read(l->from, line + n, 1) != 1) {
            snprintf(line, size, "died");
            return false;
        }
        if (line[n] == '\n')
            break;
        n++;
    }
    line[n] = '\0';
    return true;
}

void loader_ask(loader *l, const tree *t, char *line, size_t size)
{
    char request[PATH_MAX + 2];

    if (l->pid <= 0)
        loader_start(l);
    tree_write(t, l->contents, l->path);
    const int n = snprintf(request, sizeof request, "%s\n", l->path);
    if (write(l->to, request, (size_t)n) != n)
        snprintf(line, size, "died");
    else if (read_line(l, line, size)) {
        tree_remove(l, t);
        return;
    }
    loader_close(l);
    tree_remove(l, t);
}
