/* replay.c - cuts the power at every point of a recorded save, in every way, and asks the
 * program that saved what it loads then.
 *
 *   replay [--before FOLDER] [--known FILE] [--after FOLDER] [--limit N] [--seed N]
 *          [--stride N] [--examples N] [--any] [--sample N FOLDER] LOG WORK -- LOADER...
 *
 * LOADER reads folders, a line each, and answers with a line: "loaded STEP HASH" or "none".
 * It must load something that was saved, and nothing older than the newest checkpoint
 * whose "saved" line stands in the log before the cut; and where the answer ends with
 * "torn NAME", something torn has a final name. FOLDER before: what the recorded
 * program found; after: what it left, which the log must explain byte for byte. WORK: a
 * folder for the states, best in memory. N: states at one cut; what is more is sampled.
 * --stride: of a row of writes to one file, cut after every N-th and the last.
 * --any: stop at the first violation. --known: what was saved before the log, with
 * "saved" for what was durable and "known" for what may or may not be there.
 * --sample: leave every N-th state in FOLDER, as FOLDER/1 and so on.
 * Exit code 0: no violation; 1: violations; 2: the log or the loader cannot be used. */
#include "replay.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOADED_NONE = -1, TORN = -2, FAILED = -3 };
typedef struct verdict {
    int loaded; /* a save, or one of the above */
    bool named; /* there is a torn one under a final name */
} verdict;

typedef struct replay {
    history h;
    pool pool;
    table seen; /* tree to verdict */
    verdict *verdicts;
    loader loader;
    limits limits;
    long examples;
    bool any;
    long sample; /* 0: none */
    const char *sample_folder;
    long stride;
    uint64_t visited, torn, lost, failed, named, none, whole;
    size_t cuts, complete;
    long acknowledged; /* newest save before the cut, or NOWHERE */
    table bad;         /* trees that broke the promise */
} replay;

/* ---- Verdict -------------------------------------------------------------------------------- */

static int understand(const replay *r, const char *line)
{
    char hash[64];
    long step;

    if (strncmp(line, "none", 4) == 0)
        return LOADED_NONE;
    if (sscanf(line, "loaded %ld %63s", &step, hash) != 2)
        return FAILED;
    for (size_t i = 0; i < r->h.save_count; i++)
        if (r->h.saves[i].step == step && strcmp(r->h.saves[i].hash, hash) == 0)
            return (int)i;
    return TORN;
}

static void explain(replay *r, const state *s, const char *what, int loaded)
{
    const history *h = s->h;

    if (r->examples-- <= 0)
        return;
    printf("%s: the power fails after call %zu of %zu, %s\n", what, s->cut, h->call_count,
           s->cut ? h->calls[s->cut - 1] : "none");
    if (r->acknowledged != NOWHERE)
        printf("  acknowledged as durable: step %ld\n", h->saves[r->acknowledged].step);
    for (size_t i = 0; i < h->change_count; i++)
        if (h->changes[i].at < s->cut && h->changes[i].durable >= s->cut)
            printf("  %s: %s\n", s->kept[i] ? "kept" : "lost", h->calls[h->changes[i].at]);
    for (size_t i = 0; i < h->node_count; i++)
        for (size_t e = 0; !h->nodes[i].folder && e < h->entry_count; e++)
            if (s->files[i].pending && state_entry(s, (int)e) == (int)i)
                printf("  in %s: %s\n", h->entries[e].name, s->files[i].list[s->choice[i]].label);
    if (loaded >= 0)
        printf("  loaded: step %ld\n", h->saves[loaded].step);
    else
        printf("  loaded: %s\n", loaded == LOADED_NONE ? "nothing"
                                 : loaded == TORN      ? "what was never saved"
                                                       : "no answer");
}

static void judge(replay *r, const state *s, dt_digest where, verdict v)
{
    const int loaded = v.loaded;
    const char *what = NULL;
    uint64_t *count = NULL;
    bool is_new;

    if (loaded == TORN) {
        what = "TORN";
        count = &r->torn;
    } else if (loaded == FAILED) {
        what = "FAILED";
        count = &r->failed;
    } else if (r->acknowledged != NOWHERE &&
               (loaded == LOADED_NONE ||
                s->h->saves[loaded].step < s->h->saves[r->acknowledged].step)) {
        what = "LOST";
        count = &r->lost;
    } else if (v.named) {
        what = "NAMED";
        count = &r->named;
    }
    if (!what)
        return;
    int *kinds = table_slot(&r->bad, where, &is_new);
    const int kind = 1 << what[0] % 32;
    if (*kinds & kind) /* this tree was counted, at another cut */
        return;
    *kinds |= kind;
    ++*count;
    explain(r, s, what, loaded);
}

static void leave(const replay *r, const tree *t)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%ld", r->sample_folder, (long)r->seen.count / r->sample);
    tree_write(t, &r->pool, path);
}

static void visit(void *self, const state *s)
{
    replay *r = self;
    char line[256];
    bool is_new;
    tree t;

    if (r->any && r->bad.count > 0)
        return;
    r->visited++;
    tree_make(&t, s, &r->pool);
    int *slot = table_slot(&r->seen, t.digest, &is_new);
    if (is_new) {
        loader_ask(&r->loader, &t, line, sizeof line);
        const verdict v = {understand(r, line), strstr(line, " torn ") != NULL};
        *slot = (int)r->seen.count - 1;
        r->verdicts = grow(r->verdicts, r->seen.count - 1, sizeof *r->verdicts);
        r->verdicts[*slot] = v;
        if (r->sample && (long)r->seen.count % r->sample == 0)
            leave(r, &t);
        r->none += v.loaded == LOADED_NONE;
        r->whole += v.loaded >= 0;
    }
    judge(r, s, t.digest, r->verdicts[*slot]);
    tree_free(&t);
}

/* ---- The run -------------------------------------------------------------------------------- */

/* A cut after a call that changes nothing repeats the one before; a row of writes to one
 * file may be thinned out, for its prefixes are among the states at its end. */
static bool is_cut(const replay *r, size_t cut)
{
    const history *h = &r->h;

    if (cut == 0 || cut == h->call_count)
        return true;
    return !h->inert[cut - 1] && (h->row[cut] == 0 || h->row[cut - 1] % (size_t)r->stride == 0);
}

static void replay_cuts(replay *r, const char *after)
{
    const history *h = &r->h;
    state s = {.h = h,
               .kept = calloc(h->change_count + 1, sizeof *s.kept),
               .choice = calloc(h->node_count, sizeof *s.choice),
               .files = calloc(h->node_count, sizeof *s.files)};

    if (!s.kept || !s.choice || !s.files)
        die("out of memory");
    for (s.cut = 0; s.cut <= h->call_count; s.cut++) {
        r->acknowledged = NOWHERE;
        for (size_t i = 0; i < h->save_count; i++)
            if (h->saves[i].since <= s.cut)
                r->acknowledged = (long)i;
        if (!is_cut(r, s.cut))
            continue;
        r->cuts++;
        r->complete += states_at_cut(&s, &r->pool, &r->limits, visit, r);
    }
    s.cut = h->call_count;
    for (size_t i = 0; i < h->change_count; i++)
        s.kept[i] = true;
    for (size_t i = 0; i < h->node_count; i++)
        s.choice[i] = 0;
    tree t;
    tree_make(&t, &s, &r->pool);
    const dt_digest is = after ? tree_read(after) : t.digest;
    if (is.low != t.digest.low || is.high != t.digest.high)
        die("the log does not explain what is in %s: a call was not recorded", after);
    tree_free(&t);
}

static long number(const char *text)
{
    char *end;
    const long n = strtol(text, &end, 10);
    if (*end || n < 0)
        die("%s is no number", text);
    return n;
}

static void prepare(replay *r, const char *work)
{
    if (snprintf(r->pool.path, sizeof r->pool.path, "%s/contents", work) >= PATH_MAX ||
        snprintf(r->loader.path, sizeof r->loader.path, "%s/state", work) >= PATH_MAX ||
        mkdir(r->pool.path, 0755) != 0)
        die("%s: %s", work, strerror(errno));
    r->loader.contents = &r->pool;
    signal(SIGPIPE, SIG_IGN);
}

/* The options; returns the index of the first argument that is none. */
static int options(replay *r, int argc, char **argv, const char **after)
{
    int i = 1;

    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strcmp(argv[i], "--any") == 0) {
            r->any = true;
            continue;
        }
        if (i + 1 == argc)
            die("%s needs a value", argv[i]);
        const char *name = argv[i], *value = argv[++i];
        if (strcmp(name, "--before") == 0)
            history_read_folder(&r->h, value);
        else if (strcmp(name, "--known") == 0)
            history_read_known(&r->h, value);
        else if (strcmp(name, "--after") == 0)
            *after = value;
        else if (strcmp(name, "--limit") == 0)
            r->limits.per_cut = (uint64_t)number(value);
        else if (strcmp(name, "--seed") == 0)
            r->limits.seed = (uint64_t)number(value);
        else if (strcmp(name, "--stride") == 0)
            r->stride = number(value);
        else if (strcmp(name, "--examples") == 0)
            r->examples = number(value);
        else if (strcmp(name, "--sample") == 0 && i + 1 < argc) {
            r->sample = number(value);
            r->sample_folder = argv[++i];
        } else
            die("unknown option %s", name);
    }
    if (r->stride < 1)
        die("--stride 0");
    if (argc - i < 4 || strcmp(argv[i + 2], "--") != 0)
        die("want LOG WORK -- LOADER...");
    return i;
}

int main(int argc, char **argv)
{
    static replay r = {.limits = {4096, 1}, .examples = 1, .stride = 1};
    const char *after = NULL;

    history_read_folder(&r.h, NULL);
    const int i = options(&r, argc, argv, &after);
    prepare(&r, argv[i + 1]);
    r.loader.command = argv + i + 3;
    history_read_log(&r.h, argv[i]);
    if (r.h.save_count == 0)
        die("the log acknowledges no save");
    replay_cuts(&r, after);
    loader_close(&r.loader);
    printf("calls %zu fsyncs %zu saves %zu cuts %zu complete %zu visited %llu states %zu "
           "loaded %llu none %llu torn %llu lost %llu failed %llu named %llu\n",
           r.h.call_count, r.h.syncs, r.h.save_count, r.cuts, r.complete,
           (unsigned long long)r.visited, r.seen.count, (unsigned long long)r.whole,
           (unsigned long long)r.none, (unsigned long long)r.torn, (unsigned long long)r.lost,
           (unsigned long long)r.failed, (unsigned long long)r.named);
    return r.bad.count > 0;
}
