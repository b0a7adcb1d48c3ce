/* joined.c - tensors whose pieces are in several files. Each says where its pieces begin, in the
 * metadata of PyTorch's torch.distributed.checkpoint; the whole's shape follows from that. */
#include "tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

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

/* Where the pieces of a file begin: at 0, if it does not say. */
static dt_status place_pieces(const dt_safetensors *f, size_t files)
{
    const char *text = dt_safetensors_metadata(f, "DCP_SHARDING_INFO");
    const char *portion = dt_safetensors_metadata(f, "dtrain.portion");
    json_t *info = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
    dt_status st = DT_OK;
    size_t of = 0;

    if (portion && sscanf(portion, "%*d of %zu", &of) == 1 && of != files)
        st = dt_fail(DT_FORMAT, "%s is portion %.40s, files: %zu; want all of one checkpoint",
                     f->path, portion, files);
    for (size_t i = 0; i < f->count && text && st == DT_OK; i++) {
        dt_tensor *t = &f->tensor[i];
        const json_t *j = json_object_get(json_object_get(info, t->name), "saved_offsets");
        if (dt_shape_parse(j, t->first) != t->rank)
            st = dt_fail(DT_FORMAT,
                         "%s: tensor '%.80s': saved_offsets are not %d whole numbers from 0 to "
                         "2^48-1",
                         f->path, t->name, t->rank);
    }
    json_decref(info);
    return st;
}

/* Both pieces have the element `at`. */
static bool overlap(const dt_tensor *a, const dt_tensor *b, int64_t at[DT_TENSOR_MAX_RANK])
{
    for (int i = 0; i < a->rank; i++) {
        at[i] = DT_MAX(a->first[i], b->first[i]);
        if (at[i] >= DT_MIN(a->first[i] + a->shape[i], b->first[i] + b->shape[i]))
            return false;
    }
    return true;
}

/* The whole becomes large enough for piece k of its own. */
static dt_status add_piece(dt_tensor *whole, const dt_file_piece *piece, size_t k)
{
    const dt_tensor *t = piece[k].tensor;
    int64_t at[DT_TENSOR_MAX_RANK];
    char text[DT_SHAPE_CHARS];

    if (whole->rank != t->rank || strcmp(whole->dtype, t->dtype) != 0)
        return dt_fail(DT_FORMAT,
                       "%s: tensor '%.80s' is %s of %d dimensions, in another file %s of %d",
                       piece[k].of->path, t->name, t->dtype, t->rank, whole->dtype, whole->rank);
    for (size_t other = 0; other < k && t->bytes > 0; other++)
        if (piece[other].tensor->bytes > 0 && overlap(piece[other].tensor, t, at))
            return dt_fail(DT_FORMAT, "%s: tensor '%.80s' has element %s, which %s has, too",
                           piece[k].of->path, t->name, dt_shape_text(t->rank, at, text),
                           piece[other].of->path);
    for (int i = 0; i < t->rank; i++)
        whole->shape[i] = DT_MAX(whole->shape[i], t->first[i] + t->shape[i]);
    whole->bytes += t->bytes;
    return DT_OK;
}

/* Of all pieces that have the name of the first. Without overlap they have as many bytes as the
 * whole: so there is no hole. */
static dt_status add_whole(dt_safetensors *f, size_t first, size_t *end)
{
    const dt_tensor *t = f->piece[first].tensor;
    char text[DT_SHAPE_CHARS];
    uint64_t want = 0;

    if (f->count == DT_TENSOR_MAX_COUNT)
        return dt_fail(DT_FORMAT, "%s has more than %d tensors", f->path, DT_TENSOR_MAX_COUNT);
    dt_tensor *whole = &f->tensor[f->count++];
    *whole =
        (dt_tensor){.name = t->name, .dtype = t->dtype, .rank = t->rank, .offset = f->size};
    for (*end = first; *end < f->pieces && strcmp(f->piece[*end].tensor->name, t->name) == 0;)
        DT_TRY(add_piece(whole, &f->piece[first], (*end)++ - first));
    if (!dt_tensor_bytes(dt_tensor_type_find(whole->dtype, false), whole->rank, whole->shape,
                         &want) ||
        want != whole->bytes)
        return dt_fail(DT_FORMAT,
                       "%s: tensor '%.80s' is %s, but its pieces have %llu bytes: some are missing",
                       f->path, whole->name, dt_shape_text(whole->rank, whole->shape, text),
                       (unsigned long long)whole->bytes);
    f->size += whole->bytes;
    return DT_OK;
}

static int by_name(const void *a, const void *b)
{
    const dt_file_piece *x = a, *y = b;
    const int names = strcmp(x->tensor->name, y->tensor->name);
    return names ? names : x->part < y->part ? -1 : x->part > y->part;
}

/* In the order of their names, as in a file that is whole, whichever file has the first pieces. */
static dt_status join(dt_safetensors *f)
{
    size_t room = 1;

    f->header = json_incref(f->part[0]->header); /* what all say of their model */
    for (size_t k = 0; k < f->parts; k++)
        room += f->part[k]->count;
    DT_TRY(dt_calloc(&f->piece, room, sizeof *f->piece, "the list of pieces"));
    for (size_t k = 0; k < f->parts; k++) {
        DT_TRY(check_same(f->part[0], f->part[k]));
        DT_TRY(check_same(f->part[k], f->part[0]));
        DT_TRY(place_pieces(f->part[k], f->parts));
        for (size_t i = 0; i < f->part[k]->count; i++)
            f->piece[f->pieces++] = (dt_file_piece){&f->part[k]->tensor[i], f->part[k], k};
    }
    qsort(f->piece, f->pieces, sizeof *f->piece, by_name);
    room = DT_MIN(room, DT_TENSOR_MAX_COUNT);
    DT_TRY(dt_calloc(&f->tensor, room, sizeof *f->tensor, "the list of tensors"));
    DT_TRY(dt_calloc(&f->ends, room, sizeof *f->ends, "the list of tensors"));
    for (size_t at = 0; at < f->pieces; f->ends[f->count - 1] = at)
        DT_TRY(add_whole(f, at, &at));
    return DT_OK;
}

dt_status dt_safetensors_join(dt_safetensors **out, const char *path, const dt_file_bytes *file,
                              size_t files)
{
    struct rlimit open;
    dt_safetensors *f = NULL;
    dt_status st = DT_OK;

    if (files > DT_MAX_PORTIONS)
        return dt_fail(DT_CONFIG, "%s: one of %zu files, at most %d make a model", path, files,
                       DT_MAX_PORTIONS);
    /* All stay open: where that is more than processes have by default, this one may have more. */
    if (getrlimit(RLIMIT_NOFILE, &open) == 0 && open.rlim_cur <= 2 * files) {
        open.rlim_cur = open.rlim_max;
        setrlimit(RLIMIT_NOFILE, &open);
    }
    DT_GO(st, dt_calloc(&f, 1, sizeof *f, "a model in pieces"), out);
    f->fd = -1;
    snprintf(f->path, sizeof f->path, "%s", path);
    DT_GO(st, dt_calloc(&f->part, files, sizeof *f->part, "a model in pieces"), out);
    for (; f->parts < files; f->parts++) {
        const dt_file_bytes *b = &file[f->parts];
        DT_GO(st, dt_safetensors_open(&f->part[f->parts], b->path, b->bytes, b->length), out);
    }
    DT_GO(st, join(f), out);
    *out = f;
    f = NULL;

out:
    dt_safetensors_close(f);
    return st;
}

/* ---- Reading ----------------------------------------------------------------------- */

/* Numbers of `each` bytes from dimension d on; returns what follows in `from`. */
static const char *put(const dt_tensor *whole, const dt_tensor *t, int d, size_t each,
                       const char *from, char *to)
{
    size_t stride = each;
    bool lines = true; /* those of the piece follow one another in the whole */

    for (int k = d + 1; k < t->rank; k++) {
        stride *= (size_t)whole->shape[k];
        lines = lines && t->shape[k] == whole->shape[k];
    }
    const size_t bytes = d < t->rank ? (size_t)t->shape[d] * stride : each;
    to += d < t->rank ? (size_t)t->first[d] * stride : 0;
    if (lines) {
        memcpy(to, from, bytes);
        return from + bytes;
    }
    for (int64_t i = 0; i < t->shape[d]; i++)
        from = put(whole, t, d + 1, each, from, to + (size_t)i * stride);
    return from;
}

dt_status dt_joined_read(const dt_safetensors *f, const dt_tensor *whole, void *data)
{
    const size_t each = strcmp(whole->dtype, "I64") == 0 ? sizeof(int64_t) : sizeof(float);
    const size_t w = (size_t)(whole - f->tensor);

    for (size_t k = w ? f->ends[w - 1] : 0; k < f->ends[w]; k++) {
        const dt_tensor *t = f->piece[k].tensor;
        char *piece = NULL;
        if (t->bytes == 0)
            continue;
        DT_TRY(dt_calloc(&piece, t->bytes, 2, "a piece of a tensor")); /* widened at most twice */
        const dt_status st = dt_safetensors_read(f->piece[k].of, t, piece);
        if (st == DT_OK)
            put(whole, t, 0, each, piece, data);
        free(piece);
        DT_TRY(st);
    }
    return DT_OK;
}

const char *dt_portion_name(int portion, char out[DT_PORTION_NAME])
{
    snprintf(out, DT_PORTION_NAME, "shard-%05d-model-00001-of-00001.safetensors", portion);
    return out;
}
