/* strategy_file.c - strategies in files: which operations are cut, in words or as MindSpore's
 * tuples, one for each input and parameter, which say into how many parts each dimension is cut.
 * A file becomes the one line of words that --strategy is. */
#include "options/events.h"
#include "split.h"

#include <ctype.h>

enum { FILE_BYTES = 64 << 10, VALUE_CHARS = 256, MOST_TUPLES = 5, MOST_DIMS = 4 };

typedef struct tuples {
    int count, dims[MOST_TUPLES], at[MOST_TUPLES][MOST_DIMS];
    bool transposed; /* the weight is (co, ci), as nn.Dense has it */
} tuples;

/* What the file says of an operation, also of one that follows its input, and where. */
typedef struct said {
    enum { SAID_NOTHING, SAID_BATCH, SAID_OUT, SAID_PARAMETER } what;
    yaml_mark_t mark;
} said;

typedef struct strategy_file {
    dt_options *o;
    const dt_net *net;
    const char *text;
    said said[DT_MAX_NODES]; /* by operation */
    int parts;               /* of all tuples that cut; 0: not known yet */
    char parts_of[128];      /* what says so */
    char key[128];           /* now read, and where it begins */
    yaml_mark_t key_mark;
    char value[VALUE_CHARS]; /* as the file has it */
    char mode[VALUE_CHARS];  /* that does not cut; "": none is said */
    yaml_mark_t mark;
} strategy_file;

/* ---- Keys and values --------------------------------------------------------------------- */

static dt_status read_key(strategy_file *f, dt_events *e)
{
    const char *text = dt_events_text(e);

    f->key_mark = e->event.start_mark;
    if (!text || strlen(text) >= sizeof f->key)
        return dt_events_fail(e, f->key_mark, "expected a name of at most %zu characters",
                              sizeof f->key - 1);
    snprintf(f->key, sizeof f->key, "%s", text);
    return DT_OK;
}

/* libyaml counts characters. */
static const char *text_at(const char *text, size_t characters)
{
    while (*text && characters > 0)
        characters -= ((unsigned char)*++text & 0xc0) != 0x80;
    return text;
}

/* All of the value that begins with the next event, of whatever shape: "{(1, 1),(1, 2)}" is a
 * mapping to YAML. */
static dt_status read_value(strategy_file *f, dt_events *e)
{
    int depth = 0;

    DT_TRY(dt_events_next(e));
    f->mark = e->event.start_mark;
    for (;;) {
        const yaml_event_type_t type = e->event.type;
        depth += type == YAML_MAPPING_START_EVENT || type == YAML_SEQUENCE_START_EVENT;
        depth -= type == YAML_MAPPING_END_EVENT || type == YAML_SEQUENCE_END_EVENT;
        if (depth == 0)
            break;
        DT_TRY(dt_events_next(e));
    }
    const char *first = text_at(f->text, f->mark.index);
    const char *end = text_at(first, e->event.end_mark.index - f->mark.index);
    while (end > first && isspace((unsigned char)end[-1]))
        end--;
    const char *text = dt_events_text(e); /* without quotes */
    snprintf(f->value, sizeof f->value, "%.*s", text ? -1 : (int)(end - first),
             text ? text : first);
    return DT_OK;
}

/* Brackets of any kind, two deep, with numbers inside; false: something else. */
static bool read_tuples(const char *text, tuples *t)
{
    const char *key = strstr(text, "strategy"), *turned = strstr(text, "transpose_b");
    int depth = 0;

    *t = (tuples){.transposed = turned && strcasestr(turned, "true")};
    for (text = key ? key + strcspn(key, ":") : text; *text; text++) {
        if (strchr("([{", *text)) {
            if (++depth > 2 || (depth == 2 && t->count++ == MOST_TUPLES))
                return false;
        } else if (strchr(")]}", *text)) {
            if (--depth <= 0)
                return depth == 0 && t->count > 0;
        } else if (isdigit((unsigned char)*text)) {
            char *end = NULL;
            const long n = strtol(text, &end, 10);
            int *dims = &t->dims[t->count - (t->count > 0)];
            if (depth != 2 || *dims == MOST_DIMS || n < 1 || n > 1 << 20)
                return false;
            t->at[t->count - 1][(*dims)++] = (int)n;
            text = end - 1;
        } else if (!strchr(":, \n\"'", *text))
            return false;
    }
    return false;
}

/* ---- Operations ---------------------------------------------------------------------------- */

static dt_status say(strategy_file *f, const dt_events *e, size_t i, said new)
{
    said *s = &f->said[i];

    if ((s->what == SAID_PARAMETER && new.what == SAID_BATCH) ||
        (s->what == SAID_BATCH && new.what == SAID_PARAMETER))
        return dt_events_fail(e, new.mark,
                              "'%s' is batch, which is not cut, but layerwise_parallel has its "
                              "parameter in parts: one parameter has one layout",
                              f->net->own->node[i].name);
    *s = new;
    return DT_OK;
}

static dt_status say_parts(strategy_file *f, const dt_events *e, size_t i, int parts)
{
    DT_TRY(say(f, e, i, (said){parts > 1 ? SAID_OUT : SAID_BATCH, f->mark}));
    if (parts == 1)
        return DT_OK;
    if (f->parts && f->parts != parts)
        return dt_events_fail(e, f->mark,
                              "%s is cut into %d and %s into %d: a run has one size of group; give "
                              "both the same",
                              f->key, parts, f->parts_of, f->parts);
    if (!f->parts)
        memcpy(f->parts_of, f->key, sizeof f->key);
    f->parts = parts;
    return DT_OK;
}

/* Only the weight's output channels may be cut; the images, n, are the shards' affair. */
static dt_status take_product(strategy_file *f, const dt_events *e, size_t i, const tuples *t)
{
    const bool linear = f->net->own->node[i].op == &dt_op_linear;
    const int dims = linear ? 2 : 4, out = linear && !t->transposed;
    const char *more = linear ? "" : ", 1, 1";
    int others = 1;

    if (t->count != 2 || t->dims[0] != dims || t->dims[1] != dims)
        return dt_events_fail(e, f->mark, "%s is a %s numbers each, not %s", f->key,
                              linear ? "linear layer: want ((n, ci), (ci, co)), two"
                                     : "convolution: want ((n, ci, h, w), (co, ci, 1, 1)), four",
                              f->value);
    for (int d = 0; d < dims; d++) {
        others = d > 0 ? DT_MAX(others, t->at[0][d]) : others;
        others = d != out ? DT_MAX(others, t->at[1][d]) : others;
    }
    const int parts = t->at[1][out], most = DT_MAX(parts, others);
    if (others > 1)
        return dt_events_fail(e, f->mark,
                              "%s: %s cuts its sum over inputs%s; only outputs can be cut: ((1, "
                              "1%s), (%d, %d%s))%s",
                              f->key, f->value, linear ? "" : ", or the image", more,
                              out ? 1 : most, out ? most : 1, more,
                              out ? " (of a weight (co, ci): transpose_b: true)" : "");
    return say_parts(f, e, i, parts);
}

/* Tuples of inputs, (n, c, ..), and of parameters, (c). */
static dt_status take_follower(strategy_file *f, const dt_events *e, size_t i, const tuples *t)
{
    const int parts = t->at[0][t->dims[0] > 1];
    bool other = false;

    for (int k = 0; k < t->count; k++)
        for (int d = t->dims[k] > 1; d < DT_MAX(t->dims[k], 1); d++)
            other = other || t->at[k][d] != (d == (t->dims[k] > 1) ? parts : 1);
    if (other)
        return dt_events_fail(e, f->mark,
                              "%s is a %s, which is cut by channels alone: want (n, c, 1, 1), and "
                              "(c) of parameters, not %s",
                              f->key, f->net->own->node[i].op->name, f->value);
    return say_parts(f, e, i, parts);
}

/* A key of `operations`: a name or, for several convolutions and linear layers, a pattern. */
static dt_status operation_pair(dt_events *e, void *context)
{
    strategy_file *f = context;
    bool fits[DT_MAX_NODES];
    tuples t;

    DT_TRY(read_key(f, e));
    DT_TRY(read_value(f, e));
    const bool out = strcmp(f->value, "out") == 0, word = out || strcmp(f->value, "batch") == 0;
    if (!word && !read_tuples(f->value, &t))
        return dt_events_fail(e, f->mark,
                              "%s: want out, batch, or a tuple of numbers for each input and "
                              "parameter, as ((1, 1), (1, 8)), not %s",
                              f->key, f->value);
    for (size_t i = 0; i < f->net->ops && !word; i++)
        if (strcmp(f->net->own->node[i].name, f->key) == 0 && !f->net->own->node[i].op->weights)
            return take_follower(f, e, i, &t);
    const dt_status st = dt_strategy_find(f->net, f->key, fits);
    if (st != DT_OK)
        return dt_events_place(e, f->key_mark, st);
    for (size_t i = 0; i < f->net->ops; i++)
        if (fits[i])
            DT_TRY(word ? say(f, e, i, (said){out ? SAID_OUT : SAID_BATCH, f->mark})
                        : take_product(f, e, i, &t));
    return DT_OK;
}

/* The operation that has the parameter, by any of the network's namings. */
static dt_status find_owner(const strategy_file *f, const dt_events *e, size_t *owner)
{
    const dt_net *net = f->net;
    char scheme[32], name[128];

    for (const char *s = net->schemes; *s; s += 1 + strlen(scheme)) {
        snprintf(scheme, sizeof scheme, "%.*s", (int)strcspn(s + 1, " "), s + 1);
        for (*owner = 0; *owner < net->ops; ++*owner)
            for (int k = 0; k < net->own->node[*owner].n_param; k++) {
                const dt_param *p = &net->param[net->own->node[*owner].param[k]];
                DT_TRY(dt_net_rename(net, scheme, p->name, name, sizeof name));
                if (strcmp(name, f->key) == 0)
                    return DT_OK;
            }
    }
    return dt_events_fail(e, f->key_mark,
                          "'%s' is no parameter of %s; `dtrain summary` has the "
                          "names of layers",
                          f->key, net->spec.net);
}

/* MindSpore's file: "MatMul_fc.weight": {"parallel_strategy": [[1, 1], [8, 1]], "stage": 0}. Its
 * linear layers are nn.Dense. What is neither this nor the next two follows them. */
static dt_status item_pair(dt_events *e, void *context)
{
    strategy_file *f = context;
    size_t i = 0;
    tuples t;

    DT_TRY(read_key(f, e));
    DT_TRY(read_value(f, e));
    char *name = strchr(f->key, '_');
    if (name)
        *name++ = '\0';
    if (!name || !dt_words_have(" Conv2D MatMul BatchNorm", f->key))
        return DT_OK;
    memmove(f->key, name, strlen(name) + 1);
    DT_TRY(find_owner(f, e, &i));
    if (!read_tuples(f->value, &t))
        return dt_events_fail(e, f->mark, "%s: want \"parallel_strategy\": [[..], [..]], not %s",
                              f->key, f->value);
    t.transposed = true;
    return f->net->own->node[i].op->weights ? take_product(f, e, i, &t)
                                            : take_follower(f, e, i, &t);
}

static dt_status take_parameters(strategy_file *f, dt_events *e)
{
    DT_TRY(dt_events_next(e));
    if (e->event.type != YAML_SEQUENCE_START_EVENT)
        return dt_events_fail(e, e->event.start_mark, "%s: want a list, [PARAMETER, ..]", f->key);
    for (;;) {
        size_t i = 0;
        DT_TRY(dt_events_next(e));
        if (e->event.type == YAML_SEQUENCE_END_EVENT)
            return DT_OK;
        DT_TRY(read_key(f, e));
        DT_TRY(find_owner(f, e, &i));
        if (!f->net->own->node[i].op->weights)
            return dt_events_fail(e, f->key_mark,
                                  "'%s': a %s follows its input; name a weight of "
                                  "a convolution or linear layer",
                                  f->key, f->net->own->node[i].op->name);
        DT_TRY(say(f, e, i, (said){SAID_PARAMETER, f->key_mark}));
    }
}

/* ---- The file ------------------------------------------------------------------------------ */

/* A mode, of which one that cuts says no more than the words do, or --reduce; what is given
 * otherwise is a contradiction. */
static dt_status take_word(strategy_file *f, dt_events *e)
{
    DT_TRY(read_value(f, e));
    const bool mode = strcmp(f->key, "parallel_mode") == 0;
    const bool yes = strcasecmp(f->value, "true") == 0;
    const dt_option_row *row = dt_option_find("reduce");
    const char *value = yes ? "mean" : "sum";

    if (mode ? !dt_words_have(DT_MODES, f->value) : !yes && strcasecmp(f->value, "false") != 0)
        return dt_events_fail(e, f->mark, "%s: '%s' is none; there are:%s", f->key, f->value,
                              mode ? DT_MODES : " true false");
    if (mode && !dt_words_have(DT_MODES_CUT, f->value))
        memcpy(f->mode, f->value, sizeof f->mode);
    if (mode)
        return DT_OK;
    if (f->o->given[row - dt_option_table] && strcmp(f->o->reduce, value) != 0)
        return dt_events_fail(e, f->mark,
                              "%s: %s is reduce=%s, but reduce=%s is given; leave one out", f->key,
                              f->value, value, f->o->reduce);
    return dt_option_set(row, f->o, value, f->key, DT_CONFIG);
}

static dt_status file_pair(dt_events *e, void *context)
{
    static const struct {
        const char *key;
        dt_status (*take)(strategy_file *f, dt_events *e); /* NULL: it is a mapping, of pairs: */
        dt_events_pair *pair;
    } keys[] = {{"operations", NULL, operation_pair},
                {"layerwise_parallel", take_parameters, NULL},
                {"parallel_mode", take_word, NULL},
                {"gradients_mean", take_word, NULL},
                {"parameter_broadcast", read_value, NULL}, /* ranks begin with the same weights */
                {"parallel_strategy_item", NULL, item_pair},
                {"parallel_layout_item", read_value, NULL}, /* follows from the other */
                {"current_stage", read_value, NULL}};
    strategy_file *f = context;
    size_t best = 0;

    DT_TRY(read_key(f, e));
    for (size_t i = 1; i < DT_COUNT_OF(keys); i++)
        best = dt_edits(f->key, keys[i].key) < dt_edits(f->key, keys[best].key) ? i : best;
    if (strcmp(f->key, keys[best].key) != 0)
        return dt_events_fail(e, f->key_mark, "unknown key '%s'; did you mean %s?", f->key,
                              keys[best].key);
    if (keys[best].take)
        return keys[best].take(f, e);
    DT_TRY(dt_events_next(e));
    if (e->event.type != YAML_MAPPING_START_EVENT)
        return dt_events_fail(e, e->event.start_mark, "%s: want lines of NAME: STRATEGY", f->key);
    return dt_events_mapping(e, keys[best].pair, f);
}

/* The mode and the words, and whether what follows them was said to. */
static dt_status file_line(const strategy_file *f, const dt_events *e, char line[DT_OPTION_CHARS])
{
    size_t n = (size_t)snprintf(line, DT_OPTION_CHARS, "%s", f->mode);
    const char *words = line + n;
    bool cut[DT_MAX_NODES];

    if (n == 0)
        snprintf(line, DT_OPTION_CHARS, "all=batch");
    for (size_t i = 0; i < f->net->ops && n < DT_OPTION_CHARS; i++)
        if (f->said[i].what != SAID_NOTHING && f->net->own->node[i].op->weights)
            n += (size_t)snprintf(line + n, DT_OPTION_CHARS - n, "%s%s=%s", n ? " " : "",
                                  f->net->own->node[i].name,
                                  f->said[i].what == SAID_BATCH ? "batch" : "out");
    DT_TRY(dt_strategy_cuts(f->net, words, cut));
    for (size_t i = 0; i < f->net->ops; i++) /* those of words are as the words say */
        if (f->said[i].what != SAID_NOTHING && cut[i] != (f->said[i].what != SAID_BATCH))
            return dt_events_fail(e, f->said[i].mark,
                                  "%s is a %s and follows its input, which is %scut: leave the "
                                  "line out",
                                  f->net->own->node[i].name, f->net->own->node[i].op->name,
                                  cut[i] ? "" : "not ");
    return DT_OK;
}

dt_status dt_strategy_parse(dt_options *o, const char *path, const char *text, size_t length,
                            char line[DT_OPTION_CHARS])
{
    enum { ANY_CLASSES = 10 }; /* names do not depend on them */
    strategy_file f = {
        .o = o, .text = text, .parts = (int)o->tensor_parallel, .parts_of = "--tensor-parallel"};
    const dt_net_spec spec = dt_options_net(o, ANY_CLASSES);
    dt_net *net = NULL;
    dt_events events = {.path = path};
    dt_status st;

    DT_GO(st, dt_net_create(&net, &spec), out);
    f.net = net;
    DT_GO(st, dt_events_read(&events, path, text, length, file_pair, &f), out);
    DT_GO(st, file_line(&f, &events, line), out);
    o->strategy = line;
    o->tensor_parallel = f.parts;
out:
    dt_net_destroy(net);
    return st;
}

dt_status dt_strategy_read(dt_options *o, char line[DT_OPTION_CHARS])
{
    const char *path = o->strategy + 1;
    size_t length = 0;
    char *text = NULL;

    DT_TRY(dt_file_text(path, FILE_BYTES, &text, &length));
    const dt_status st = dt_strategy_parse(o, path, text, length, line);
    free(text);
    return st;
}
