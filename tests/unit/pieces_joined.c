/* pieces_joined.c - tensors in pieces: of any shape, joined and cut again, and everything that a
 * reader must reject, by file, tensor and element. */
#include "folder.h"

#include "format/tensors.h"
#include "pieces/pieces.h"

/* A file whose tensor t has `rows` x `columns` floats, which say their place in the whole: 10 times
 * the row and the column; info: what DCP_SHARDING_INFO is, or NULL. */
static void put_piece(const char *name, int row, int column, int rows, int columns,
                      const char *info)
{
    char header[600], file[1200] = {0};
    const int bytes = 4 * rows * columns;
    float *data = (float *)(file + 608);

    const int n = snprintf(header, sizeof header,
                           "{%s%s%s\"t\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[0,"
                           "%d]}}",
                           info ? "\"__metadata__\":{\"DCP_SHARDING_INFO\":\"" : "",
                           info ? info : "", info ? "\"}," : "", rows, columns, bytes);
    assert_in_range(n, 1, 599);
    file[0] = (char)(600 & 255);
    file[1] = (char)(600 >> 8);
    memset(file + 8, ' ', 600);
    memcpy(file + 8, header, (size_t)n);
    for (int i = 0; i < rows * columns; i++)
        data[i] = (float)(10 * (row + i / columns) + column + i % columns);
    folder_write(here, name, file, 608 + (size_t)bytes);
}

static void put_at(const char *name, int row, int column, int rows, int columns)
{
    char info[100];
    snprintf(info, sizeof info, "{\\\"t\\\":{\\\"saved_offsets\\\":[%d,%d]}}", row, column);
    put_piece(name, row, column, rows, columns, info);
}

static dt_status join(dt_safetensors **f, const char *a, const char *b, const char *c)
{
    const char *const name[] = {a, b, c};
    dt_file_bytes file[3] = {{.bytes = NULL}};
    size_t files = 0;

    for (; files < 3 && name[files]; files++)
        snprintf(file[files].path, sizeof file[files].path, "%s/%s", here, name[files]);
    return dt_pieces_join(f, "whole", file, files);
}

static void assert_whole(dt_safetensors *f)
{
    const dt_tensor *t = &f->tensor[0];
    float x[4][3];

    assert_int_equal(f->count, 1);
    assert_int_equal(t->shape[0], 4);
    assert_int_equal(t->shape[1], 3);
    assert_ok(dt_safetensors_read(f, t, x));
    for (int i = 0; i < 12; i++)
        assert_true(x[i / 3][i % 3] == (float)(10 * (i / 3) + i % 3));
    dt_safetensors_close(f);
}

static dt_status fill(const void *context, size_t i, void *data)
{
    const dt_safetensors *f = context;
    return dt_safetensors_read(f, &f->tensor[i], data);
}

FOLDER_TEST(pieces_of_any_shape_are_joined_and_cut_again)
{
    dt_safetensors *f = NULL;

    put_at("a", 0, 0, 4, 2); /* columns, of which one more, in two parts */
    put_at("b", 0, 2, 1, 1);
    put_at("c", 1, 2, 3, 1);
    assert_ok(join(&f, "c", "a", "b"));
    dt_tensor t = f->tensor[0];
    dt_portion third = {.world = 3}; /* of the rows */
    const dt_model_file_opts opts = {.portion = &third};
    const dt_safetensors_content c = {&t, 1, NULL, 0, fill, f, NULL, &opts};
    for (; third.rank < third.world; third.rank++) {
        const char *const name[] = {"x", "y", "z"};
        assert_ok(dt_portion_put(&DT_TARGET(folder_path(here, name[third.rank])), &c, NULL));
    }
    assert_whole(f);
    assert_ok(join(&f, "y", "z", "x"));
    assert_whole(f);
    assert_fails(join(&f, "y", "x", NULL), DT_FORMAT, "1 of 3, files: 2");
    put_piece("whole", 0, 0, 4, 3, NULL);
    assert_ok(join(&f, "whole", NULL, NULL));
    assert_whole(f);
}

/* A file of `count` tensors without an element, which says of how many steps it is. */
static void put_many(const char *name, char letter, int count, const char *said)
{
    char *header = calloc(1, 1 << 20);
    uint64_t n = 0;

    assert_non_null(header);
    n += (uint64_t)snprintf(header + 8, 100, "{\"__metadata__\":{\"dtrain.steps\":\"%s\"}", said);
    for (int i = 0; i < count; i++)
        n += (uint64_t)snprintf(header + 8 + n, 200,
                                ",\"%c%d\":{\"dtype\":\"F32\",\"shape\":[0,2],"
                                "\"data_offsets\":[0,0]}",
                                letter, i);
    header[8 + n++] = '}';
    memcpy(header, &n, 8);
    folder_write(here, name, header, 8 + (size_t)n);
    free(header);
}

/* Also where many files have as many names as one may have. */
FOLDER_TEST(names_are_counted_and_sorted)
{
    dt_safetensors *f = NULL;

    put_many("a", 'a', 2048, "1");
    put_many("b", 'b', 2048, "1");
    put_many("c", 'c', 1, "1");
    put_many("d", 'd', 1, "2");
    assert_ok(join(&f, "b", "a", NULL));
    assert_int_equal(f->count, DT_TENSOR_MAX_COUNT);
    assert_string_equal(f->tensor[0].name, "a0");
    assert_string_equal(f->tensor[DT_TENSOR_MAX_COUNT - 1].name, "b999");
    dt_safetensors_close(f);
    assert_fails(join(&f, "a", "b", "c"), DT_FORMAT, "more than 4096 tensors");
    assert_fails(join(&f, "c", "d", NULL), DT_FORMAT, "/c has dtrain.steps 1, ");
    put_at("t", 0, 0, 1, 1);
    assert_fails(join(&f, "c", "t", NULL), DT_FORMAT, "t none: these are not pieces of one model");
    assert_fails(join(&f, "t", "c", NULL), DT_FORMAT, "these are not pieces of one model");
}

FOLDER_TEST(what_does_not_fit_is_named)
{
    dt_safetensors *f = NULL;

    put_at("a", 0, 0, 2, 3);
    put_at("b", 2, 0, 2, 3);
    put_at("c", 1, 1, 1, 2);
    put_at("d", 3, 0, 1, 3);
    assert_fails(join(&f, "a", "b", "c"), DT_FORMAT, "/c: tensor 't' has element [1, 1], which ");
    assert_fails(join(&f, "a", "b", "a"), DT_FORMAT, "has element [0, 0], which ");
    assert_fails(join(&f, "a", "d", NULL), DT_FORMAT, "[4, 3], but its pieces have 36 bytes");
    assert_fails(join(&f, "b", NULL, NULL), DT_FORMAT, "some are missing");
    assert_fails(join(&f, "a", "absent", NULL), DT_NOINPUT, "/absent");
    /* clang-format off */
    static const char *const wrong[] = {
        "{\\\"t\\\":{\\\"saved_offsets\\\":[2]}}",       "{\\\"u\\\":{\\\"saved_offsets\\\":[2,0]}}",
        "{\\\"t\\\":{\\\"saved_offsets\\\":[2,-1]}}",    "{\\\"t\\\":{\\\"saved_offsets\\\":[2,0.5]}}",
        "{\\\"t\\\":{\\\"saved_offsets\\\":[2,1e20]}}",  "[]",
        "{\\\"t\\\":{\\\"saved_offsets\\\":[281474976710656,0]}}", "{\\\"t\\\":"};
    /* clang-format on */
    for (size_t i = 0; i < DT_COUNT_OF(wrong); i++) {
        put_piece("e", 2, 0, 2, 3, wrong[i]);
        assert_fails(join(&f, "a", "e", NULL), DT_FORMAT, "/e: tensor 't': saved_offsets are not");
    }
    put_piece("e", 2, 0, 2, 3,
              "{\\\"t\\\":{\\\"saved_offsets\\\":[281474976710655,281474976710655]}}");
    assert_fails(join(&f, "a", "e", NULL), DT_FORMAT, "some are missing");
}
