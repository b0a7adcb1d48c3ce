/* checkpoint_prune.c - which checkpoints go; a new name first, so that no name is ever torn. */
#include "store.h"

#include <stdio.h>
#include <stdlib.h>

#include "checkpoint_internal.h"

typedef struct prune_entry {
    dt_checkpoint_name name;
    bool whole; /* its files have the sizes of its MANIFEST */
    bool best, keep;
} prune_entry;

typedef struct prune {
    char folder[PATH_MAX];
    prune_entry *entry; /* [count], oldest first, owned */
    size_t count;
} prune;

/* ---- Looking ---------------------------------------------------------------------------- */

static dt_status prune_look(prune *p, const char *run)
{
    dt_checkpoint_name *list = NULL;
    dt_status st = DT_OK;

    DT_TRY(dt_path_join(p->folder, run, "checkpoints"));
    DT_TRY(dt_checkpoint_list(p->folder, &list, &p->count));
    DT_GO(st, dt_calloc(&p->entry, p->count + 1, sizeof *p->entry, "the list of checkpoints"), out);
    for (size_t i = 0; i < p->count; i++) {
        dt_checkpoint_state state = {.best = false};
        dt_manifest m;
        char path[PATH_MAX];
        p->entry[i].name = list[i];
        DT_GO(st, dt_path_join(path, p->folder, list[i].text), out);
        dt_status one = dt_manifest_sizes(path, &m);
        if (one == DT_OK)
            one = dt_checkpoint_json_read(path, NULL, &state, NULL);
        p->entry[i].whole = one == DT_OK;
        /* What the system failed to read may be whole; what is no checkpoint, somebody's. */
        p->entry[i].keep = (one != DT_OK && one != DT_FORMAT) || dt_checkpoint_is_file(path) ||
                           (one != DT_OK && dt_checkpoint_holds_others(path));
        p->entry[i].best = p->entry[i].whole && state.best;
        dt_fail_clear();
    }

out:
    free(list);
    return st;
}

/* The place behind the newest valid one; 0: none is valid. */
static dt_status prune_newest(const prune *p, size_t *end)
{
    for (*end = p->count; *end > 0; --*end) {
        char path[PATH_MAX];
        if (!p->entry[*end - 1].whole)
            continue;
        DT_TRY(dt_path_join(path, p->folder, p->entry[*end - 1].name.text));
        if (dt_checkpoint_verify(path) == DT_OK)
            return DT_OK;
        dt_fail_clear();
    }
    return DT_OK;
}

/* Marks what stays of [0, end), whose last one is valid. */
static void prune_mark(prune *p, size_t end, const dt_keep *keep)
{
    const int64_t least = keep->unproved ? 2 : 1;
    int64_t last = keep->last < least ? least : keep->last, step = -1;
    bool best = keep->best;

    for (size_t i = end; i-- > 0;) {
        prune_entry *e = &p->entry[i];
        const bool superseded = e->name.step == step;
        if (!e->whole)
            continue;
        step = e->name.step;
        if (!superseded) {
            e->keep = last-- > 0 || (keep->every > 0 && e->name.step % keep->every == 0);
            last = last < 0 ? 0 : last;
        }
        if (best && e->best) {
            e->keep = true;
            best = false;
        }
    }
}

/* ---- Doing ------------------------------------------------------------------------------- */

dt_status dt_checkpoint_prune(const char *run, const dt_keep *keep)
{
    prune p = {.count = 0};
    size_t end = 0;
    dt_status st = DT_OK;

    DT_GO(st, prune_look(&p, run), out);
    DT_GO(st, prune_newest(&p, &end), out);
    prune_mark(&p, end, keep);
    for (size_t i = 0; i < end; i++)
        if (!p.entry[i].keep)
            DT_GO(st, dt_checkpoint_move_aside(p.folder, p.entry[i].name.text, ".trash-"), out);
    st = dt_checkpoint_sweep(p.folder, end > 0 ? p.entry[end - 1].name.step : -1);

out:
    free(p.entry);
    return st;
}
