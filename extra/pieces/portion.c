/* portion.c - writing: the rows of tensors that one of many files has. */
#include "pieces.h"
#include "format/tensors.h"

/* A file that is being written. */
typedef struct portion {
    const dt_safetensors_content *whole;
    const dt_portion *of;
    size_t *index; /* of the file's tensors in the whole */
    float *room;   /* for what the rank has of a tensor */
} portion;

/* Of a tensor the rank, like one of each `parts`, has `rows`, and writes some of these. */
typedef struct share {
    int64_t begin;              /* of all rows, in the whole */
    int64_t rows, first, count; /* first, count: what is written */
    size_t row;                 /* floats of a row */
} share;

/* All ranks have what is home, those of one part what is cut. */
static share share_of(const portion *p, size_t i)
{
    const dt_tensor *t = &p->whole->tensor[i];
    share s = {.rows = t->rank > 0 ? t->shape[0] : 1, .row = 1};
    int parts = 1;

    if (p->of->model && i < p->whole->net->params && dt_model_piece(p->of->model, i).cut) {
        const dt_cut cut = dt_model_piece(p->of->model, i).out;
        s.begin = cut.first;
        s.rows = cut.count;
        parts = p->of->parts;
    }
    for (int k = 1; k < t->rank; k++)
        s.row *= (size_t)t->shape[k];
    const int writer = p->of->rank / parts, writers = p->of->world / parts;
    s.first = s.rows * writer / writers;
    s.count = s.rows * (writer + 1) / writers - s.first;
    return s;
}

/* Into p->room, those rows at their places. */
static dt_status fill_rows(const portion *p, size_t i, const share *s)
{
    const dt_safetensors_content *c = p->whole;

    if (!p->of->model || i >= c->net->params)
        return c->fill(c->context, i, p->room);
    const dt_piece x = dt_model_piece(p->of->model, i);
    dt_param param = c->net->param[i];
    param.dim[0] = s->rows;
    param.count = x.count;
    dt_param_rows_to_file(&param, (x.cut ? p->of->cut : p->of->home) + x.offset, p->room,
                          (size_t)s->first, (size_t)(s->first + s->count));
    return DT_OK;
}

/* A model's numbers were not looked at before: no rank has all of a tensor. */
static dt_status fill(const void *context, size_t k, void *data)
{
    const portion *p = context;
    const size_t i = p->index[k];
    const share s = share_of(p, i);
    const size_t count = (size_t)s.count * s.row;

    DT_TRY(fill_rows(p, i, &s));
    memcpy(data, p->room + (size_t)s.first * s.row, count * sizeof *p->room);
    const size_t bad = p->of->model ? dt_finite_floats(data, count) : count;
    if (bad == count)
        return DT_OK;
    return dt_fail(DT_NUMERIC,
                   "row %lld of %s has the number %g; nothing of it is saved: lower --lr or use "
                   "--warmup",
                   (long long)(s.begin + s.first) + (long long)(bad / s.row),
                   p->whole->tensor[i].name, (double)((float *)data)[bad]);
}

/* The file's tensors; where they begin in the whole, as PyTorch says it, into `places`. */
static dt_status deal(portion *p, dt_tensor *tensor, size_t *count, json_t *places)
{
    size_t most = 1;
    int bad = 0;

    for (size_t i = 0; i < p->whole->tensors; i++) {
        const share s = share_of(p, i);
        dt_tensor *t = &tensor[*count];
        *t = p->whole->tensor[i];
        most = DT_MAX(most, (size_t)s.rows * s.row);
        if (strcmp(t->dtype, "I64") == 0 || (size_t)s.count * s.row == 0)
            continue;
        json_t *first = json_array();
        for (int k = 0; k < t->rank; k++)
            bad |= json_array_append_new(first, json_integer(k ? 0 : s.begin + s.first));
        bad |= json_object_set_new(places, t->name, json_pack("{s:o}", "saved_offsets", first));
        t->shape[0] = s.count; /* a number without dimensions has no shape */
        p->index[(*count)++] = i;
    }
    if (bad)
        return dt_fail(DT_NOMEM, "no memory for the places of pieces");
    return dt_calloc(&p->room, most, sizeof *p->room, "a tensor to write");
}

dt_status dt_portion_put(const dt_target *t, const dt_safetensors_content *c, dt_written *w)
{
    portion p = {.whole = c, .of = c->opts->portion};
    dt_safetensors_content own = {.fill = fill, .context = &p, .fields = c->fields};
    json_t *places = json_object();
    dt_tensor *tensor = NULL;
    dt_field *field = NULL;
    char text[40], *begin = NULL;
    dt_status st = DT_OK;

    snprintf(text, sizeof text, "%d of %d", p.of->rank, p.of->world);
    DT_GO(st, dt_calloc(&tensor, c->tensors + 1, sizeof *tensor, "the list of tensors"), out);
    DT_GO(st, dt_calloc(&p.index, c->tensors + 1, sizeof *p.index, "the list of tensors"), out);
    DT_GO(st, dt_calloc(&field, c->fields + 3, sizeof *field, "metadata"), out);
    DT_GO(st, deal(&p, tensor, &own.tensors, places), out);
    begin = json_dumps(places, JSON_COMPACT | JSON_SORT_KEYS);
    if (!begin)
        DT_GO(st, dt_fail(DT_NOMEM, "no memory for the places of pieces"), out);
    for (size_t i = 0; i < c->fields; i++)
        field[i] = c->metadata[i];
    field[own.fields++] = (dt_field){"dtrain.portion", text};
    field[own.fields++] = (dt_field){"DCP_VERSION", "1.0"};
    field[own.fields++] = (dt_field){"DCP_SHARDING_INFO", begin};
    own.tensor = tensor;
    own.metadata = field;
    st = dt_safetensors_put(t, &own, w);

out:
    json_decref(places);
    DT_FREE(begin, field, tensor, p.index, p.room);
    return st;
}
