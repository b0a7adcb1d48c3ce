/* model_list.c - what belongs in a model file, by names, shapes and places in memory. */
#include "model_list.h"

void dt_model_list_release(dt_model_list *list)
{
    free(list->entry);
    free(list->tensor);
    *list = (dt_model_list){0};
}

/* `name` is torchvision's. */
static dt_status list_add(dt_model_list *list, const dt_net *net, const char *scheme,
                          const char *name, dt_model_entry entry)
{
    dt_model_entry *e = &list->entry[list->count];
    dt_tensor *t = &list->tensor[list->count];

    *e = entry;
    DT_TRY(dt_net_rename(net, scheme, name, e->name, sizeof e->name));
    if (!e->name[0]) /* the naming does not count batches */
        return DT_OK;
    *t = (dt_tensor){.name = e->name, .dtype = e->data ? "F32" : "I64", .rank = e->param.rank};
    memcpy(t->shape, e->param.dim, (size_t)t->rank * sizeof *t->shape);
    list->count++;
    return DT_OK;
}

static dt_status list_add_norm(dt_model_list *list, const dt_weights *s, const char *scheme,
                               const dt_norm *n)
{
    static const char *const what[] = {"running_mean", "running_var", "num_batches_tracked"};
    float *const data[] = {s->running_mean + n->offset, s->running_var + n->offset, NULL};

    for (size_t i = 0; i < DT_COUNT_OF(what); i++) {
        dt_model_entry entry = {.data = data[i], .variance = i == 1};
        char name[256];
        if (data[i])
            entry.param = (dt_param){
                .rank = 1, .dim = {(int64_t)n->channels}, .pixels = 1, .count = n->channels};
        snprintf(name, sizeof name, "%.63s.%.127s", n->name, what[i]);
        DT_TRY(list_add(list, s->net, scheme, name, entry));
    }
    return DT_OK;
}

dt_status dt_model_list_create(dt_model_list *list, const dt_weights *s, const char *scheme)
{
    const size_t params = s->net->params, norms = s->net->norms;
    const size_t most = params + 3 * norms;

    *list = (dt_model_list){0};
    DT_TRY(dt_calloc(&list->entry, most, sizeof *list->entry, "the list of tensors"));
    DT_TRY(dt_calloc(&list->tensor, most, sizeof *list->tensor, "the list of tensors"));
    for (size_t i = 0; i < params; i++) {
        const dt_param *p = &s->net->param[i];
        DT_TRY(list_add(list, s->net, scheme, p->name,
                        (dt_model_entry){.param = *p,
                                         .head = dt_net_is_head(s->net, i),
                                         .data = s->master + p->offset}));
    }
    for (size_t i = 0; i < norms && s->running_mean; i++)
        DT_TRY(list_add_norm(list, s, scheme, &s->net->norm[i]));
    return DT_OK;
}

/* Whether the tensor has this name, once words of wrappers are left out. */
static bool is_named(const dt_tensor *t, const char *own)
{
    const char *name = t->name;

    for (size_t part = 0;; name += part, own += part) {
        while (name[0] == '_' || strncmp(name, "module.", 7) == 0)
            name += strcspn(name, ".") + (strchr(name, '.') != NULL);
        part = strcspn(name, ".") + 1;
        if (strncmp(name, own, part) != 0 || !name[part - 1])
            return strcmp(name, own) == 0;
    }
}

static const dt_tensor *find(const dt_safetensors *f, const char *name)
{
    for (size_t i = 0; i < f->count; i++)
        if (is_named(&f->tensor[i], name))
            return &f->tensor[i];
    return NULL;
}

/* Cut all names behind their first dot, if they are the same up to there. */
static bool cut_names(dt_safetensors *f)
{
    const char *name = f->count ? f->tensor[0].name : "";
    const size_t word = strcspn(name, ".") + 1;

    for (size_t i = 0; i < f->count; i++)
        if (!name[word - 1] || strncmp(f->tensor[i].name, name, word) != 0)
            return false;
    for (size_t i = 0; i < f->count; i++)
        f->tensor[i].name += word;
    return f->count > 0;
}

/* In the naming that finds most of its tensors in the file; *most: how many. */
static dt_status match(dt_model_list *best, const dt_weights *s, const dt_safetensors *f,
                       size_t *most)
{
    int used = 0;
    char scheme[32];

    *best = (dt_model_list){0};
    for (const char *at = s->net->schemes; sscanf(at, "%31s%n", scheme, &used) == 1; at += used) {
        dt_model_list list;
        size_t found = 0;
        const dt_status st = dt_model_list_create(&list, s, scheme);
        for (size_t i = 0; i < list.count; i++)
            found += (list.entry[i].file = find(f, list.entry[i].name)) != NULL;
        if (st == DT_OK && (!best->entry || found > *most)) {
            const dt_model_list worse = *best;
            *best = list;
            list = worse;
            *most = found;
        }
        dt_model_list_release(&list);
        DT_TRY(st);
    }
    return DT_OK;
}

dt_status dt_model_list_match(dt_model_list *list, const dt_weights *s, dt_safetensors *f)
{
    enum { MOST_WORDS = 16 };
    size_t found = 0;

    DT_TRY(match(list, s, f, &found));
    for (int i = 0; i < MOST_WORDS && found == 0 && cut_names(f); i++) {
        dt_model_list_release(list);
        DT_TRY(match(list, s, f, &found));
    }
    return DT_OK;
}
