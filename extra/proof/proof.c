/* proof.c - the chain of a run folder or of a certificate, read and checked. */
#include "proof.h"
#include "store/checkpoint_internal.h"

/* What metrics.jsonl has said since the last link. */
typedef struct reader {
    dt_proof *p;
    dt_sha lines;              /* as the next epoch's link should have it */
    char epoch[DT_LINE_CHARS]; /* the epoch's line as far as it is the same in every run */
    int epochs;                /* such lines */
} reader;

/* The first thing counts. */
static void wrong(dt_proof *p, int64_t epoch, const char *why)
{
    if (p->why)
        return;
    p->bad = epoch;
    p->why = why;
}

const char *dt_proof_text(const json_t *j, const char *member)
{
    const char *text = json_string_value(json_object_get(j, member));
    return text ? text : "";
}

bool dt_proof_cut(char *line)
{
    char *end = strstr(line, ",\"seconds\":");

    if (end)
        *end = '\0';
    return end != NULL;
}

/* 0 where it is missing, -1 where it is no whole number. */
static int64_t number_of(const json_t *j, const char *member)
{
    const json_t *x = json_object_get(j, member);
    return !x ? 0 : json_is_integer(x) ? (int64_t)json_integer_value(x) : -1;
}

/* ---- Links --------------------------------------------------------------------------------- */

static bool take_sha(const json_t *j, const char *member, dt_sha out)
{
    const char *text = dt_proof_text(j, member);

    snprintf(out, DT_SHA_CHARS, "%s", text);
    return strlen(text) == DT_SHA_CHARS - 1 && strspn(text, "0123456789abcdef") == DT_SHA_CHARS - 1;
}

/* What follows from the link's own members. */
static dt_status fill_link(dt_link *l, json_t *j)
{
    static const char *const kinds[] = {"start", "epoch", "end"};

    l->own = json_incref(j);
    l->record = dt_proof_text(j, "record");
    l->said = json_loads(l->record, JSON_REJECT_DUPLICATES, NULL);
    const char *kind = dt_proof_text(l->said, "kind");
    while (l->kind < DT_LINK_END && strcmp(kind, kinds[l->kind]) != 0)
        l->kind++;
    l->epoch = number_of(l->said, "epoch");
    l->step = number_of(l->said, l->kind == DT_LINK_START ? "resumed" : "run_step");
    if (!take_sha(j, "before", l->before) || !take_sha(j, "link", l->link) ||
        !take_sha(j, "state", l->state) || strcmp(kind, kinds[l->kind]) != 0 || l->epoch < 0 ||
        l->step < 0 || l->epoch >= INT64_MAX / 2)
        return dt_fail(DT_FORMAT, "a link is damaged, or a later version's");
    return DT_OK;
}

/* What is wrong with a link after `last`; NULL: nothing. A start goes on where the run stood, an
 * epoch follows the one before, and the end has the state of what came last. */
static const char *out_of_order(const dt_link *l, const dt_link *last)
{
    const bool epoch = l->kind == DT_LINK_EPOCH;

    if (!last && l->kind != DT_LINK_START)
        return "the chain does not begin with a start";
    if (!last)
        return l->step == 0 && strcmp(l->before, DT_SHA_ZEROS) != 0 ? "links before it are missing"
                                                                    : NULL;
    if (strcmp(l->before, last->link) != 0)
        return "the link before is another";
    if (last->kind == DT_LINK_END)
        return "a link follows the end";
    if (l->epoch != last->epoch + epoch || l->step < last->step ||
        (l->kind == DT_LINK_END && l->step != last->step))
        return "it does not go on where the link before ends";
    if (l->step == last->step && !epoch && strcmp(l->state, last->state) != 0)
        return "its state is not the one of the link before";
    return NULL;
}

/* The next link, checked against its own digest and the link before. */
static dt_status add_link(dt_proof *p, json_t *j)
{
    dt_link *more = realloc(p->link, (p->links + 1) * sizeof *more);
    dt_sha link;

    if (!more)
        return dt_fail(DT_NOMEM, "no memory for the links of a chain");
    p->link = more;
    dt_link *l = &more[p->links], *last = p->links > 0 ? l - 1 : NULL;
    *l = (dt_link){.epoch = 0};
    p->links++;
    DT_TRY(fill_link(l, j));
    if (l->kind == DT_LINK_END)
        l->epoch = last ? last->epoch : 0;
    DT_TRY(
        dt_sha_text(link, (const char *[]){l->before, "\n", l->record, "\n", l->state, "\n"}, 6));
    if (strcmp(link, l->link) != 0)
        wrong(p, l->epoch, "the link does not bind its record, state and the link before");
    if (out_of_order(l, last))
        wrong(p, l->epoch, out_of_order(l, last));
    p->epochs += l->kind == DT_LINK_EPOCH;
    return DT_OK;
}

/* ---- A run folder -------------------------------------------------------------------------- */

/* Between two links stand the lines that the second binds, and no others. A chain that begins in
 * the middle binds nothing that stands before it. */
static dt_status take_link(reader *t, json_t *j)
{
    DT_TRY(add_link(t->p, j));
    const dt_link *l = &t->p->link[t->p->links - 1];
    const bool epoch = l->kind == DT_LINK_EPOCH, middle = t->p->links == 1 && l->step > 0;
    const char member[] = ",\"run_step\":";
    const size_t n = strlen(t->epoch);
    dt_sha lines;

    if (!take_sha(l->said, "lines", lines))
        snprintf(lines, sizeof lines, "%s", DT_SHA_ZEROS);
    if (!middle &&
        (t->epochs != epoch || (epoch && (strncmp(l->record, t->epoch, n) != 0 ||
                                          strncmp(l->record + n, member, strlen(member)) != 0))))
        wrong(t->p, l->epoch, "the epoch's line in metrics.jsonl is not the one that it binds");
    if (!middle && strcmp(lines, t->lines) != 0)
        wrong(t->p, l->epoch,
              "the lines of its steps in metrics.jsonl are not the ones that it binds");
    snprintf(t->lines, sizeof t->lines, "%s", l->kind == DT_LINK_START ? lines : DT_SHA_ZEROS);
    t->epochs = 0;
    return DT_OK;
}

/* One line. A kill may have cut the last; resuming cuts the file before it. */
static dt_status take_line(reader *t, char *line)
{
    dt_proof *p = t->p;
    const dt_link *last = p->links ? &p->link[p->links - 1] : NULL;
    const int64_t at = last ? last->epoch + 1 : 1;
    json_t *j = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
    const char *kind = dt_proof_text(j, "kind");
    const bool step = strcmp(kind, "step") == 0, epoch = strcmp(kind, "epoch") == 0;
    dt_status st = DT_OK;

    if (strchr(line, '\n') && !j)
        wrong(p, at, "a line of metrics.jsonl is no JSON object of a run");
    if (last && last->kind == DT_LINK_END && (step || epoch))
        wrong(p, last->epoch, "lines of metrics.jsonl follow the end");
    if (strcmp(kind, "link") == 0)
        st = take_link(t, j);
    else if (step || epoch) {
        if (!dt_proof_cut(line))
            wrong(p, at, "a line of metrics.jsonl has no member 'seconds' where it should be");
        if (step)
            st = dt_sha_text(t->lines, (const char *[]){t->lines, "\n", line, "\n"}, 4);
        if (epoch && ++t->epochs)
            snprintf(t->epoch, sizeof t->epoch, "%s", line);
    }
    json_decref(j);
    return st;
}

static dt_status read_run(dt_proof *p, const char *path)
{
    reader t = {.p = p, .lines = DT_SHA_ZEROS};
    char name[PATH_MAX], *line = NULL;
    size_t room = 0;
    dt_status st = DT_OK;

    snprintf(p->run, sizeof p->run, "%s", path);
    DT_TRY(dt_path_join(name, path, "metrics.jsonl"));
    FILE *f = fopen(name, "re");
    while (f && st == DT_OK && getline(&line, &room, f) > 0)
        st = take_line(&t, line);
    free(line);
    if (f)
        fclose(f);
    return st;
}

/* ---- A certificate ------------------------------------------------------------------------- */

static dt_status read_certificate(dt_proof *p, const char *path)
{
    char mark[PATH_MAX + 16];
    json_error_t error;
    size_t i;
    json_t *j;

    p->text = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!p->text || strcmp(dt_proof_text(p->text, "format"), DT_CERTIFICATE) != 0)
        return dt_fail(DT_FORMAT, "%s is no " DT_CERTIFICATE "%s%s", path, p->text ? "" : ": ",
                       p->text ? "" : error.text);
    json_array_foreach(json_object_get(p->text, "links"), i, j) DT_TRY(add_link(p, j));
    const int folder = strrchr(path, '/') ? (int)(strrchr(path, '/') - path) : 0;
    snprintf(p->run, sizeof p->run, "%.*s", folder ? folder : 1, folder ? path : ".");
    snprintf(mark, sizeof mark, "%s/metrics.jsonl", p->run);
    bool run = dt_path_exists(mark);
    snprintf(mark, sizeof mark, "%s/checkpoints", p->run);
    if (!run && !dt_path_exists(mark))
        p->run[0] = '\0';
    return DT_OK;
}

dt_status dt_proof_open(dt_proof *p, const char *path)
{
    struct stat info;

    *p = (dt_proof){.links = 0};
    if (stat(path, &info) != 0)
        return dt_fail(DT_NOINPUT, "%s: no such run folder or certificate", path);
    DT_TRY(S_ISDIR(info.st_mode) ? read_run(p, path) : read_certificate(p, path));
    if (p->links == 0)
        return dt_fail(DT_NOINPUT,
                       "%s has no chain: a run of an older version, or of a build without extras",
                       path);
    return DT_OK;
}

void dt_proof_close(dt_proof *p)
{
    for (size_t i = 0; i < p->links; i++) {
        json_decref(p->link[i].own);
        json_decref(p->link[i].said);
    }
    free(p->link);
    json_decref(p->text);
}

/* ---- What a chain says --------------------------------------------------------------------- */

dt_status dt_proof_holds(const dt_proof *p)
{
    return p->why ? dt_fail(DT_FORMAT, "epoch %lld: %s", (long long)p->bad, p->why) : DT_OK;
}

const char *dt_proof_mark(const char *run, dt_sha out)
{
    dt_proof p;
    const dt_status st = dt_proof_open(&p, run);

    snprintf(out, DT_SHA_CHARS, "%s",
             st == DT_NOINPUT       ? ""
             : st != DT_OK || p.why ? "broken"
                                    : p.link[p.links - 1].link);
    dt_proof_close(&p);
    if (st != DT_OK)
        dt_fail_clear();
    return out;
}

dt_link *dt_proof_epoch(const dt_proof *p, int64_t epoch)
{
    for (dt_link *l = p->link; l < p->link + p->links; l++)
        if (l->kind == DT_LINK_EPOCH && l->epoch == epoch)
            return l;
    return NULL;
}

const char *dt_proof_data(const char *sha)
{
    static const char *const known[][2] = {
        {"9a5bcfec531a52ec23c8b757ae038db2a9db1b0c869b7da8543f4cd0cfb14034",
         "CIFAR-10 as distributed"},
        {"3d8495bad3dcf7e6deb0e43db6aba1bd910336edd6a09294ba0ca57ed29dd024",
         "the JPEG copy of CIFAR-10"},
    };

    for (size_t i = 0; i < DT_COUNT_OF(known); i++)
        if (strcmp(sha, known[i][0]) == 0)
            return known[i][1];
    return "unknown data";
}

/* Starts after the first say what changed the run, or who went on with it. */
const char *dt_proof_summary(const dt_proof *p, char out[300])
{
    const char *first = dt_proof_text(p->link->said, "data"), *data = dt_proof_data(first);
    int64_t starts = 0;
    bool exact = true;

    for (const dt_link *l = p->link; l < p->link + p->links; l++) {
        starts += l->kind == DT_LINK_START;
        if (l->kind == DT_LINK_START && strcmp(dt_proof_text(l->said, "data"), first) != 0)
            data = "data that changed";
        exact &= l->kind != DT_LINK_START || json_is_true(json_object_get(l->said, "exact"));
    }
    char from[60] = "from the initial weights", changed[80] = "";
    if (p->link->step > 0)
        snprintf(from, sizeof from, "begins in the middle, after step %lld",
                 (long long)p->link->step);
    if (starts > 1)
        snprintf(changed, sizeof changed, "; recipe, data or program changed %lld times",
                 (long long)starts - 1);
    snprintf(out, 300, "%lld epochs, %s%s; on %s; %s", (long long)p->epochs, from, changed, data,
             exact ? "exact" : "inexact: it cannot be repeated");
    return out;
}

/* ---- Checkpoints --------------------------------------------------------------------------- */

static dt_status take_state(void *context, const dt_snapshot *s)
{
    return dt_sha_state(context, s, 4);
}

/* Only the end of an epoch has a link: there the state must be its. */
static dt_status check_state(void *context, const dt_checkpoint *c)
{
    const dt_proof *p = context;
    dt_link *of = NULL;
    dt_sha state;

    for (dt_link *l = p->link; l < p->link + p->links; l++)
        of = l->kind == DT_LINK_EPOCH && l->step == c->at.run_step ? l : of;
    if (!of)
        return DT_DECLINED;
    dt_status st = dt_checkpoint_check(c, NULL, take_state, state);
    if (st == DT_OK && strcmp(state, of->state) != 0)
        st = dt_fail(DT_FORMAT, "checkpoint %s has not the state that its link names", c->in.path);
    else if (st == DT_OK && c->at.step == 0 && (c->at.images != 0 || c->at.loss_sum != 0))
        st = dt_fail(DT_FORMAT, "checkpoint %s has a loss of the epoch behind it", c->in.path);
    if (st != DT_OK)
        return dt_fail_place(st, "epoch %lld: ", (long long)of->epoch);
    snprintf(of->from, sizeof of->from, "%s", c->in.path);
    return DT_DECLINED; /* and on to the one before */
}

static dt_status judge(void *context, dt_status st)
{
    (void)context;
    return st == DT_DECLINED ? DT_OK : st;
}

dt_status dt_proof_files(dt_proof *p)
{
    const dt_query all = {.end = INT64_MAX, .take = check_state, .judge = judge, .context = p};
    const dt_link *last = &p->link[p->links - 1];
    char found[PATH_MAX];
    dt_sha model;

    if (!p->run[0])
        return DT_OK;
    DT_TRY(dt_path_join(found, p->run, "model.safetensors"));
    if (last->kind == DT_LINK_END && dt_path_exists(found)) {
        DT_TRY(dt_sha_file(model, AT_FDCWD, found));
        if (strcmp(model, dt_proof_text(last->said, "model")) != 0)
            return dt_fail(DT_FORMAT, "%s is not the model that the last link names", found);
    }
    return dt_checkpoint_find(p->run, &all, found);
}
