/* replay.c - dtrain replay: epochs of somebody's run once more, here, and every bit compared. */
#include "proof.h"

#include <ftw.h>
#include <sys/random.h>

enum { START_CHARS = 9216 };

/* Epochs first to last, which one training repeats; all ranks have the same. */
typedef struct stretch {
    int64_t first, last, base; /* it begins where epoch `base` ended; 0: where the run began */
    int64_t steps;             /* of the run, at its end */
    char from[PATH_MAX];       /* the checkpoint there; "": none */
    dt_sha state;              /* there */
    char start[START_CHARS];   /* the record of the start where its recipe begins */
    dt_sha data;               /* of that recipe */
    bool wanted;
    char why[120]; /* it cannot be repeated; "": it can */
} stretch;

typedef struct plan {
    dt_proof proof; /* of rank 0 */
    stretch *list;  /* owned; first of every epoch, then of what is to be done */
    int64_t count;
    int64_t drawn, of;     /* so many of these epochs */
    char folder[PATH_MAX]; /* of the trainings; removed at the end */
    int64_t differ, repeated, refused;
    bool model;          /* it was compared */
    const char *program; /* another than this one that made a part of the run, borrowed; or NULL */
} plan;

/* ---- Which epochs ------------------------------------------------------------------------ */

/* "3,7-9"; false: it is no such list of epochs of the chain. */
static bool read_list(const char *text, plan *p)
{
    const int64_t least = p->list[0].first, most = p->list[p->count - 1].first;
    int64_t first, last;

    for (const char *at = text; dt_whole_parse(at, &at, &first); at++) {
        last = first;
        if (*at == '-' && !dt_whole_parse(at + 1, &at, &last))
            return false;
        if (first < least || last < first || last > most)
            return false;
        for (int64_t e = first; e <= last; e++)
            p->list[e - least].wanted = true;
        if (*at != ',')
            return !*at;
    }
    return false;
}

/* K of the epochs between the first and the last that can be repeated: nothing told which. */
static dt_status draw(const dt_options *o, plan *p)
{
    uint32_t seed = (uint32_t)o->draw, *order = NULL;

    while (seed == 0)
        if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
            return dt_fail(DT_IO, "the system's random source cannot be read");
    DT_TRY(dt_calloc(&order, (size_t)p->count, sizeof *order, "a draw"));
    dt_permute(order, p->count - 2, seed, DT_STREAM_TEST, 0);
    for (int64_t i = 0; i < p->count - 2; i++)
        if (!p->list[1 + order[i]].why[0])
            p->list[1 + order[i]].wanted = p->of++ < o->random;
    p->drawn = DT_MIN(o->random, p->of);
    printf("drawn (--draw %u repeats it): epochs", seed);
    for (int64_t i = 1; i < p->count; i++)
        if (p->list[i].wanted)
            printf(" %lld", (long long)p->list[i].first);
    printf("\n");
    free(order);
    return DT_OK;
}

/* The first epoch is always among them, unless it cannot be repeated, or needs other data than the
 * last one. So is the last of a draw, which makes the model. What cannot be repeated is named. */
static dt_status choose(const dt_settings *s, plan *p)
{
    if (s->own && s->options.random)
        return dt_fail(DT_USAGE, "--epochs and --random: give one of them");
    if (s->own && !read_list(s->own, p))
        return dt_fail(DT_USAGE, "--epochs %s: want epochs from %lld to %lld, such as 3,7-9",
                       s->own, (long long)p->list[0].first, (long long)p->list[p->count - 1].first);
    const stretch *last = &p->list[p->count - 1];
    for (stretch *t = p->list; t <= last && !s->own; t++)
        if (!t->why[0] && strcmp(t->data, last->data) != 0)
            snprintf(t->why, sizeof t->why, "its data are others than the last epoch's: --epochs");
    if (s->options.random)
        DT_TRY(draw(&s->options, p));
    for (stretch *t = p->list; t <= last && !s->own; t++)
        t->wanted |= !s->options.random || t == last || t->why[0];
    p->list[0].wanted |= !p->list[0].why[0] && strcmp(p->list[0].data, last->data) == 0;
    return DT_OK;
}

/* ---- From where ---------------------------------------------------------------------------- */

static bool same_member(const dt_link *a, const dt_link *b, const char *member)
{
    return json_equal(json_object_get(a->said, member), json_object_get(b->said, member));
}

/* The last start up to l: its recipe is in force there. A chain that holds begins with one. */
static const dt_link *last_start(const dt_link *l)
{
    while (l->kind != DT_LINK_START)
        l--;
    return l;
}

/* The start from which on the run had the recipe and the data that it had at `l`. */
static const dt_link *recipe_start(const dt_proof *p, const dt_link *l)
{
    const dt_link *first = last_start(l);

    for (const dt_link *s = first; s >= p->link; s--)
        if (s->kind == DT_LINK_START) {
            if (!same_member(s, first, "options") || !same_member(s, first, "data") ||
                !same_member(s, first, "isa") || !same_member(s, first, "exact"))
                break;
            first = s;
        }
    return first;
}

/* What repeats the epoch of link l. It begins at the nearest state before the epoch that the chain
 * names and that can be had. */
static dt_status fill_stretch(const dt_proof *p, const dt_link *l, stretch *t)
{
    const dt_link *start = recipe_start(p, l), *before = l;
    const json_t *options = json_object_get(start->said, "options");
    /* residuals of 2bit are in no checkpoint */
    const bool whole = strncmp(dt_proof_text(options, "grad_compress"), "2bit", 4) == 0;
    const size_t length = json_dumpb(start->said, t->start, sizeof t->start - 1, JSON_COMPACT);

    if (!json_is_object(options) || length == 0 || length >= sizeof t->start)
        return dt_fail(DT_FORMAT, "epoch %lld: its recipe cannot be read", (long long)l->epoch);
    t->first = t->last = l->epoch;
    t->steps = l->step;
    memcpy(t->state, start->state, sizeof t->state);
    snprintf(t->data, sizeof t->data, "%s", dt_proof_text(start->said, "data"));
    if (!json_is_true(json_object_get(start->said, "exact"))) {
        snprintf(t->why, sizeof t->why, "inexact: it cannot be repeated");
        return DT_OK;
    }
    while (!whole && !t->from[0] && (before = dt_proof_epoch(p, before->epoch - 1)) &&
           before->step >= start->step)
        if (before->from[0]) {
            t->base = before->epoch;
            snprintf(t->from, sizeof t->from, "%s", before->from);
            memcpy(t->state, before->state, sizeof t->state);
        }
    if (!t->from[0] && start->step > 0)
        snprintf(t->why, sizeof t->why,
                 "no checkpoint at the end of an epoch after step %lld, where its recipe begins",
                 (long long)start->step);
    return DT_OK;
}

/* Neighbours become one training where the later begins no later than the earlier ends. */
static dt_status make_plan(const dt_settings *s, plan *p)
{
    const dt_proof *proof = &p->proof;
    int64_t count = 0;

    if (proof->epochs == 0)
        return dt_fail(DT_NOINPUT,
                       "the chain has no epoch that has ended: nothing can be repeated");
    DT_TRY(dt_calloc(&p->list, (size_t)proof->epochs, sizeof *p->list, "a plan"));
    /* tensors' names decide no bit of a step, and the model file has the last start's */
    const dt_link *final = last_start(&proof->link[proof->links - 1]);
    for (const dt_link *l = proof->link; l < proof->link + proof->links; l++)
        if (l->kind == DT_LINK_EPOCH)
            DT_TRY(fill_stretch(proof, l, &p->list[p->count++]));
        else if (l->kind == DT_LINK_START)
            json_object_set(json_object_get(l->said, "options"), "names",
                            json_object_get(json_object_get(final->said, "options"), "names"));
    DT_TRY(choose(s, p));
    for (int64_t i = 0; i < p->count; i++) {
        const stretch *t = &p->list[i];
        stretch *last = count ? &p->list[count - 1] : NULL;
        if (!t->wanted)
            continue;
        if (last && !t->why[0] && !last->why[0] && t->base <= last->last &&
            strcmp(t->start, last->start) == 0) {
            last->last = t->last;
            last->steps = t->steps;
        } else {
            p->list[count++] = *t;
        }
    }
    p->count = count;
    return DT_OK;
}

/* Options that were given, or that the run's folder has, against the recipe of the chain. */
static dt_status check_options(const dt_settings *s, const dt_proof *p)
{
    const dt_link *l = last_start(&p->link[p->links - 1]);
    char text[DT_OPTION_CHARS], name[DT_OPTION_NAME];
    const char *key;
    json_t *value;

    json_object_foreach (json_object_get(l->said, "options"), key, value) {
        const dt_option_row *row = dt_option_find(key);
        const char *want = json_string_value(value);
        if (!row || !want)
            continue; /* set_options says so */
        dt_option_text(row, &s->options, text, sizeof text);
        if (s->options.given[row - dt_option_table] && strcmp(row->name, "epochs") != 0 &&
            strcmp(text, "auto") != 0 && strcmp(text, want) != 0)
            return dt_fail(DT_CONFIG, "--%s %s: the run had %s; leave it out, or mend options.yaml",
                           dt_argument_name(row->name, name), text, want);
    }
    return DT_OK;
}

static dt_status prepare(const dt_settings *s, plan *p)
{
    const char *tmp = getenv("TMPDIR");
    char summary[300];

    DT_TRY(dt_proof_open(&p->proof, s->operand[0]));
    printf("%s\n", dt_proof_summary(&p->proof, summary));
    DT_TRY(dt_proof_holds(&p->proof));
    for (const dt_link *l = p->proof.link; l < p->proof.link + p->proof.links; l++)
        if (l->kind == DT_LINK_START && strcmp(dt_proof_text(l->said, "dtrain"), dt_build()) != 0)
            p->program = dt_proof_text(l->said, "dtrain");
    if (p->program)
        printf("made by dtrain %s; this is %s\n", DT_SHOWN(p->program), dt_build());
    DT_TRY(check_options(s, &p->proof));
    DT_TRY(dt_proof_files(&p->proof));
    DT_TRY(make_plan(s, p));
    snprintf(p->folder, sizeof p->folder, "%s/dtrain-replay-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    return mkdtemp(p->folder) ? DT_OK
                              : dt_fail(DT_CANTCREATE, "%s cannot be made: set TMPDIR", p->folder);
}

/* ---- Training ---------------------------------------------------------------------------- */

/* The recipe of `start`, whose texts o borrows; and of this command what changes no bit. A recipe
 * of an older version lacks options: they have their defaults. */
static dt_status set_options(const dt_options *given, const stretch *t, const char *out,
                             const json_t *start, dt_options *o)
{
    const char *bits = dt_proof_text(start, "isa");
    dt_isa isa;
    const char *key;
    json_t *value;

    dt_options_init(o);
    o->on_save_error = "stop"; /* a link that is lost would be one that differs */
    json_object_foreach (json_object_get(start, "options"), key, value) {
        const dt_option_row *row = dt_option_find(key);
        if (!row || !json_is_string(value) ||
            (row->scope > DT_SCOPE_LENGTH && strcmp(key, "names") != 0))
            return dt_fail(DT_UNSUPPORTED, "the recipe has '%s', which is no such option here",
                           key);
        DT_TRY(
            dt_option_set(row, o, json_string_value(value), "the recipe in the chain", DT_CONFIG));
    }
    if (strcmp(o->precision, "bf16") == 0 && dt_isa_parse(bits, &isa)) {
        o->isa = bits;
        DT_TRY(dt_isa_promise(isa));
    }
    DT_TRY(dt_engine_use(o->engine)); /* the folder's may be another */
    o->data = given->data;
    o->threads = given->threads;
    o->exchange = given->exchange;
    o->strategy = given->strategy;
    o->tensor_parallel = given->tensor_parallel;
    o->stall_abort = given->stall_abort;
    o->epochs = DT_MAX(o->epochs, t->last);
    o->max_steps = t->steps;
    o->out = out;
    o->resume = t->from[0] ? t->from : "never";
    o->resume_force = true; /* the recipe is the chain's, whatever the checkpoint says */
    o->init = t->from[0] ? "" : given->init;
    o->init_head |= t->from[0] != '\0'; /* else it wants --init */
    o->save_every = "0";
    o->log_style = "none";
    return DT_OK;
}

static dt_status train(dt_comm *c, const dt_settings *s, const stretch *t, const char *out)
{
    dt_options o;
    json_t *start = json_loads(t->start, 0, NULL);
    dt_status st = dt_comm_agree(c, set_options(&s->options, t, out, start, &o));

    dt_expected = (struct dt_expected){t->data, dt_proof_text(start, "init"), t->state,
                                       t->from[0] ? t->from : "the initial weights"};
    dt_log_notes(false);
    if (st == DT_OK)
        st = dt_train(c, &o);
    dt_log_notes(true);
    dt_expected = (struct dt_expected){.data = NULL};
    json_decref(start);
    return st;
}

/* ---- Comparing --------------------------------------------------------------------------- */

/* The next line of a step of that epoch, as far as every run has it; false: there is none. */
static bool next_step(FILE *f, int64_t epoch, char **line, size_t *room)
{
    char head[64];

    snprintf(head, sizeof head, "{\"kind\":\"step\",\"epoch\":%lld,", (long long)epoch);
    while (f && getline(line, room, f) > 0)
        if (strncmp(*line, head, strlen(head)) == 0) {
            (void)dt_proof_cut(*line);
            return true;
        }
    return false;
}

/* The first step of the epoch with another line; "": the lines agree, or one run has none. */
static void find_step(const char *then, const char *now, int64_t epoch, char out[200])
{
    char path[PATH_MAX + 64], *line[2] = {NULL, NULL};
    size_t room[2] = {0, 0};
    FILE *f[2];

    out[0] = '\0';
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/metrics.jsonl", i ? now : then);
        f[i] = fopen(path, "re");
    }
    while (!out[0] && next_step(f[0], epoch, &line[0], &room[0]) &&
           next_step(f[1], epoch, &line[1], &room[1]))
        if (strcmp(line[0], line[1]) != 0)
            snprintf(out, 200, "; the first step that differs: %.90s",
                     strstr(line[0], "\"step\":"));
    for (int i = 0; i < 2; i++) {
        free(line[i]);
        if (f[i])
            fclose(f[i]);
    }
}

static dt_status compare(plan *p, const stretch *t, const char *out, double seconds)
{
    static const char *const result[] = {"agrees", "DIFFERS: its results", "DIFFERS: its state",
                                         "DIFFERS: its results and its state"};
    const char *name = strrchr(t->from, '/');
    dt_proof again;
    dt_status st = dt_proof_open(&again, out);

    for (int64_t e = t->first; e <= t->last && st == DT_OK; e++) {
        const dt_link *then = dt_proof_epoch(&p->proof, e), *now = dt_proof_epoch(&again, e);
        const bool line = now && strcmp(then->record, now->record) == 0;
        const bool state = now && strcmp(then->state, now->state) == 0;
        char step[200] = "";
        if (!line || !state)
            find_step(p->proof.run, out, e, step);
        p->differ += !line || !state;
        p->repeated++;
        printf("%7lld  %-18s  %8.1f  %s%s\n", (long long)e, name ? name + 1 : "initial weights",
               seconds / (double)(t->last - t->base), result[!line + 2 * !state], step);
    }
    const dt_link *end = &p->proof.link[p->proof.links - 1], *ends = again.link + again.links - 1;
    const bool model = st == DT_OK && end->kind == DT_LINK_END && end->step == t->steps;
    p->model |= model;
    if (model && (ends->kind != DT_LINK_END || strcmp(end->record, ends->record) != 0)) {
        p->differ++;
        printf("%7s  %-18s  %8s  DIFFERS: the model file\n", "end", "", "");
    }
    dt_proof_close(&again);
    return st;
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *at)
{
    (void)info, (void)type, (void)at;
    return remove(path);
}

static dt_status repeat(dt_comm *c, const dt_settings *s, plan *p, const stretch *t)
{
    const double began = dt_seconds();
    char out[PATH_MAX + 32];
    dt_status st;

    if (t->why[0]) {
        p->refused++;
        if (c->rank == 0)
            printf("%7lld  %-18s  %8s  not repeated: %s\n", (long long)t->first, "-", "", t->why);
        return DT_OK;
    }
    snprintf(out, sizeof out, "%s/%lld", p->folder, (long long)t->first);
    DT_TRY(train(c, s, t, out));
    st = c->rank == 0 ? compare(p, t, out, dt_seconds() - began) : DT_OK;
    fflush(stdout);
    return dt_comm_agree(c, st);
}

static dt_status conclude(const plan *p, double seconds)
{
    const long long n = p->of, k = p->drawn;

    printf("%lld of %lld epochs repeated in %.0f s, %lld differ\n", (long long)p->repeated,
           (long long)p->proof.epochs, seconds, (long long)p->differ);
    if (k > 0)
        printf("of these %lld epochs, f forged ones escape %lld draws with probability about "
               "(1 - f/%lld)^%lld; a single one with %.2f\n",
               n, k, n, k, 1 - (double)k / (double)n);
    if (p->proof.link[p->proof.links - 1].kind == DT_LINK_END && !p->model)
        printf("the model file was not compared: it comes with the last epoch\n");
    if (p->differ > 0)
        return dt_fail(DT_CORRUPT, "%lld of %lld epochs came out otherwise than the chain says%s",
                       (long long)p->differ, (long long)p->repeated,
                       p->program ? "; another program made them" : "");
    if (p->refused > 0)
        return dt_fail(DT_UNSUPPORTED,
                       "%lld of the epochs cannot be repeated: nothing is shown of them",
                       (long long)p->refused);
    return DT_OK;
}

dt_status dt_replay_epochs(dt_comm *c, const dt_settings *s)
{
    const double began = dt_seconds();
    const bool leads = c->rank == 0;
    plan p = {.count = 0};
    dt_status st = DT_OK;

    DT_GO(st, dt_comm_agree(c, leads ? prepare(s, &p) : DT_OK), out);
    DT_GO(st, dt_comm_bcast(c, &p.count, sizeof p.count, 0), out);
    DT_GO(st, dt_comm_bcast(c, p.folder, sizeof p.folder, 0), out);
    if (!leads)
        st = dt_calloc(&p.list, (size_t)p.count + 1, sizeof *p.list, "a plan");
    DT_GO(st, dt_comm_agree(c, st), out);
    DT_GO(st, dt_comm_bcast(c, p.list, (size_t)p.count * sizeof *p.list, 0), out);
    if (leads)
        printf("%7s  %-18s  %8s  %s\n", "epoch", "from", "seconds", "result");
    fflush(stdout);
    for (int64_t i = 0; i < p.count; i++)
        DT_GO(st, repeat(c, s, &p, &p.list[i]), out);
    st = dt_comm_agree(c, leads ? conclude(&p, dt_seconds() - began) : DT_OK);
out:
    if (leads && p.folder[0])
        nftw(p.folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    dt_proof_close(&p.proof);
    free(p.list);
    return st;
}
