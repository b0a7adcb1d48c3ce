/* joined.c - tensors whose pieces are in several files. Each says where its pieces begin, in the
 * metadata of PyTorch's torch.distributed.checkpoint; the whole's shape follows from that. */
#include "pieces.h"
#include "format/tensors.h"

#include <sys/resource.h>

/* A tensor of file `part`. */
typedef struct piece {
    const dt_tensor *tensor;
    const dt_safetensors *of;
    size_t part;
    int64_t first[DT_TENSOR_MAX_RANK]; /* where it begins in the whole */
} piece;

/* Names, and the whole's metadata, are borrowed from the parts. */
typedef struct joined {
    dt_safetensors whole;  /* what is handed out, so it comes first */
    dt_safetensors **part; /* [parts], owned like all below */
    size_t parts;
    piece *piece; /* [pieces], by name; `offset` of the whole's tensor is its first one's index */
    size_t pieces;
} joined;

/* ---- Joining ----------------------------------------------------------------------- */

/* Whether what the first says of its model, b says, too. */
static dt_status check_same(const dt_safetensors *a, const dt_safetensors *b)
{
    const char *key;
    json_t *value;

    json_object_foreach (json_object_get(a->header, "__metadata__"), key, value) {
        const char *one = json_string_value(value), *other = dt_safetensors_metadata(b, key);
        if (one && strncmp(key, "dtrain.", 7) == 0 && strcmp(key, "dtrain.portion") != 0 &&
            (!other || strcmp(one, other) != 0))
            return dt_fail(DT_FORMAT,
                           "%s has %.40s %.80s, %s %.80s: these are not pieces of one model",
                           a->path, key, one, b->path, other ? other : "none");
    }
    return DT_OK;
}

/* The pieces of file k, and where they begin: at 0, if it does not say. */
static dt_status add_part(joined *j, size_t k)
{
    const dt_safetensors *f = j->part[k];
    const char *text = dt_safetensors_metadata(f, "DCP_SHARDING_INFO");
    const char *portion = dt_safetensors_metadata(f, "dtrain.portion");
    json_t *info = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
    dt_status st = DT_OK;
    size_t of = 0;

    if (portion && sscanf(portion, "%*d of %zu", &of) == 1 && of != j->parts)
        st = dt_fail(DT_FORMAT, "%s is portion %.40s, files: %zu; want all of one checkpoint",
                     f->path, portion, j->parts);
    for (size_t i = 0; i < f->count && st == DT_OK; i++) {
        const dt_tensor *t = &f->tensor[i];
        const json_t *at = json_object_get(json_object_get(info, t->name), "saved_offsets");
        piece *p = &j->piece[j->pieces++];
        *p = (piece){.tensor = t, .of = f, .part = k};
        if (text && dt_shape_parse(at, p->first) != t->rank)
            st = dt_fail(DT_FORMAT,
                         "%s: tensor '%.80s': saved_offsets are not %d whole numbers from 0 to "
                         "2^48-1",
                         f->path, t->name, t->rank);
    }
    json_decref(info);
    return st;
}

/* Both pieces have the element `at`. */
static bool overlap(const piece *a, const piece *b, int64_t at[DT_TENSOR_MAX_RANK])
{
    for (int i = 0; i < a->tensor->rank; i++) {
        at[i] = DT_MAX(a->first[i], b->first[i]);
        if (at[i] >= DT_MIN(a->first[i] + a->tensor->shape[i], b->first[i] + b->tensor->shape[i]))
            return false;
    }
    return a->tensor->bytes > 0 && b->tensor->bytes > 0;
}

/* The whole becomes large enough for piece k of its own. */
static dt_status add_piece(dt_tensor *whole, const piece *own, size_t k)
{
    const piece *p = &own[k];
    const dt_tensor *t = p->tensor;
    int64_t at[DT_TENSOR_MAX_RANK];
    char text[DT_SHAPE_CHARS];

    if (whole->rank != t->rank || strcmp(whole->dtype, t->dtype) != 0)
        return dt_fail(DT_FORMAT,
                       "%s: tensor '%.80s' is %s of %d dimensions, in another file %s of %d",
                       p->of->path, t->name, t->dtype, t->rank, whole->dtype, whole->rank);
    for (size_t other = 0; other < k; other++)
        if (overlap(&own[other], p, at))
            return dt_fail(DT_FORMAT, "%s: tensor '%.80s' has element %s, which %s has, too",
                           p->of->path, t->name, dt_shape_text(t->rank, at, text),
                           own[other].of->path);
    for (int i = 0; i < t->rank; i++)
        whole->shape[i] = DT_MAX(whole->shape[i], p->first[i] + t->shape[i]);
    whole->bytes += t->bytes;
    return DT_OK;
}

/* Whether piece k is of the tensor whose first piece that is. */
static bool follows(const joined *j, size_t first, size_t k)
{
    return k < j->pieces && strcmp(j->piece[k].tensor->name, j->piece[first].tensor->name) == 0;
}

/* Of piece *k and all that follow of its name; *k becomes the next one. Without overlap they have
 * as many bytes as the whole: so there is no hole. */
static dt_status add_whole(joined *j, size_t *k)
{
    dt_safetensors *f = &j->whole;
    const size_t first = *k;
    const dt_tensor *t = j->piece[first].tensor;
    char text[DT_SHAPE_CHARS];
    uint64_t want = 0;

    if (f->count == DT_TENSOR_MAX_COUNT)
        return dt_fail(DT_FORMAT, "%s has more than %d tensors", f->path, DT_TENSOR_MAX_COUNT);
    dt_tensor *whole = &f->tensor[f->count++];
    *whole = (dt_tensor){.name = t->name, .dtype = t->dtype, .rank = t->rank, .offset = first};
    for (; follows(j, first, *k); ++*k)
        DT_TRY(add_piece(whole, &j->piece[first], *k - first));
    if (!dt_tensor_bytes(whole, &want) || want != whole->bytes)
        return dt_fail(DT_FORMAT,
                       "%s: tensor '%.80s' is %s, but its pieces have %llu bytes: some are missing",
                       f->path, whole->name, dt_shape_text(whole->rank, whole->shape, text),
                       (unsigned long long)whole->bytes);
    f->size += whole->bytes;
    return DT_OK;
}

static int by_name(const void *a, const void *b)
{
    const piece *x = a, *y = b;
    const int names = strcmp(x->tensor->name, y->tensor->name);
    return names ? names : x->part < y->part ? -1 : x->part > y->part;
}

/* In the order of their names, as in a file that is whole, whichever file has the first pieces. */
static dt_status join(joined *j)
{
    dt_safetensors *f = &j->whole;
    size_t room = 1;

    f->header = json_incref(j->part[0]->header); /* what all say of their model */
    for (size_t k = 0; k < j->parts; k++)
        room += j->part[k]->count;
    DT_TRY(dt_calloc(&j->piece, room, sizeof *j->piece, "the list of pieces"));
    for (size_t k = 0; k < j->parts; k++) {
        DT_TRY(check_same(j->part[0], j->part[k]));
        DT_TRY(check_same(j->part[k], j->part[0]));
        DT_TRY(add_part(j, k));
    }
    qsort(j->piece, j->pieces, sizeof *j->piece, by_name);
    room = DT_MIN(room, DT_TENSOR_MAX_COUNT);
    DT_TRY(dt_calloc(&f->tensor, room, sizeof *f->tensor, "the list of tensors"));
    for (size_t k = 0; k < j->pieces;)
        DT_TRY(add_whole(j, &k));
    return DT_OK;
}

/* ---- Reading ----------------------------------------------------------------------- */

/* Numbers of `each` bytes from dimension d on; returns what follows in `from`. */
static const char *put(const dt_tensor *whole, const piece *p, int d, size_t each, const char *from,
                       char *to)
{
    const dt_tensor *t = p->tensor;
    size_t stride = each;
    bool lines = true; /* those of the piece follow one another in the whole */

    for (int k = d + 1; k < t->rank; k++) {
        stride *= (size_t)whole->shape[k];
        lines = lines && t->shape[k] == whole->shape[k];
    }
    const size_t bytes = d < t->rank ? (size_t)t->shape[d] * stride : each;
    to += d < t->rank ? (size_t)p->first[d] * stride : 0;
    if (lines) {
        memcpy(to, from, bytes);
        return from + bytes;
    }
    for (int64_t i = 0; i < t->shape[d]; i++)
        from = put(whole, p, d + 1, each, from, to + (size_t)i * stride);
    return from;
}

static dt_status joined_read(const dt_safetensors *f, const dt_tensor *whole, void *data)
{
    const joined *j = (const joined *)f;
    const size_t each = strcmp(whole->dtype, "I64") == 0 ? sizeof(int64_t) : sizeof(float);

    for (size_t k = whole->offset; follows(j, whole->offset, k); k++) {
        const piece *p = &j->piece[k];
        char *numbers = NULL;
        if (p->tensor->bytes == 0)
            continue;
        DT_TRY(dt_calloc(&numbers, p->tensor->bytes, 2, "a piece of a tensor")); /* if widened */
        const dt_status st = dt_safetensors_read(p->of, p->tensor, numbers);
        if (st == DT_OK)
            put(whole, p, 0, each, numbers, data);
        free(numbers);
        DT_TRY(st);
    }
    return DT_OK;
}

/* ---- The open file --------------------------------------------------------------------- */

static void joined_close(dt_safetensors *f)
{
    joined *j = (joined *)f;

    for (size_t i = 0; i < j->parts; i++)
        dt_safetensors_close(j->part[i]);
    DT_FREE(j->part, j->piece);
}

dt_status dt_pieces_join(dt_safetensors **out, const char *path, const dt_file_bytes *file,
                         size_t files)
{
    struct rlimit open;
    joined *j = NULL;
    dt_status st = DT_OK;

    if (files > DT_MAX_PORTIONS)
        return dt_fail(DT_CONFIG, "%s: one of %zu files, at most %d make a model", path, files,
                       DT_MAX_PORTIONS);
    /* All stay open: where that is more than processes have by default, this one may have more. */
    if (getrlimit(RLIMIT_NOFILE, &open) == 0 && open.rlim_cur <= 2 * files) {
        open.rlim_cur = open.rlim_max;
        setrlimit(RLIMIT_NOFILE, &open);
    }
    DT_TRY(dt_calloc(&j, 1, sizeof *j, "a model in pieces"));
    j->whole.fd = -1;
    j->whole.read = joined_read;
    j->whole.close = joined_close;
    snprintf(j->whole.path, sizeof j->whole.path, "%s", path);
    DT_GO(st, dt_calloc(&j->part, files, sizeof *j->part, "a model in pieces"), out);
    for (; j->parts < files; j->parts++) {
        const dt_file_bytes *b = &file[j->parts];
        DT_GO(st, dt_safetensors_open(&j->part[j->parts], b->path, b->bytes, b->length), out);
    }
    DT_GO(st, join(j), out);
    *out = &j->whole;
    return DT_OK;

out:
    dt_safetensors_close(&j->whole);
    return st;
}

dt_status dt_pieces_open(dt_safetensors **f, const char *folder)
{
    char name[DT_PORTION_NAME];
    dt_file_bytes *file = NULL;
    size_t files = 0;
    dt_status st = DT_OK;

    DT_TRY(dt_calloc(&file, DT_MAX_PORTIONS, sizeof *file, "a model in pieces"));
    for (int k = 0; files < DT_MAX_PORTIONS; k++) { /* PyTorch's writer counts from 1 */
        DT_GO(st, dt_path_join(file[files].path, folder, dt_portion_name(k, name)), out);
        if (dt_path_exists(file[files].path))
            files++;
        else if (k > 0)
            break;
    }
    if (files > 0)
        st = dt_pieces_join(f, folder, file, files);

out:
    free(file);
    return st;
}
