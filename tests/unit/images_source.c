/* images_source.c - the image folder: order, labels, pixels, resizing, and files that
 * lie. PNG files are written by png.h; the JPEG was made by Pillow. */
#include "images/images.h"
#include "jpeg.h"
#include "png.h"
#include "sources.h"

static char root[FOLDER_PATH];

/* What the test images show. */
static uint8_t pixel(int seed, int y, int x, int channel)
{
    return (uint8_t)(seed * 37 + y * 19 + x * 7 + channel * 60 + (x * y) % 5);
}

static void save_png(const char *name, int width, int height, uint8_t colour, int seed)
{
    struct bytes raw = {0}, stream = {0}, png = {0};
    const int channels = colour == 0 ? 1 : colour == 2 ? 3 : 4;
    for (int y = 0; y < height; y++) {
        put(&raw, "", 1); /* filter 0 */
        for (int x = 0; x < width; x++)
            for (int c = 0; c < channels; c++)
                put(&raw, &(uint8_t){pixel(seed, y, x, c)}, 1);
    }
    put_stored(&stream, raw.data, raw.count);
    put_png(&png, width, height, colour, &stream);
    folder_write(root, name, png.data, png.count);
    free(raw.data);
    free(stream.data);
    free(png.data);
}

static void make_folder(const char *name)
{
    assert_int_equal(mkdir(folder_path(root, name), 0700), 0);
}

/* Two classes of 6 x 5 images: train a/1, a/2, b/1; test b/9. */
FIXTURE(make_root)
{
    static const char *const folders[] = {"train", "test", "train/a", "train/b", "test/b"};

    folder_make(root);
    for (size_t i = 0; i < DT_COUNT_OF(folders); i++)
        make_folder(folders[i]);
    save_png("train/a/1.png", 6, 5, 2, 1);
    save_png("train/a/2.png", 6, 5, 2, 2);
    save_png("train/b/1.png", 6, 5, 2, 3);
    save_png("test/b/9.png", 6, 5, 2, 4);
    alarm(100); /* a FIFO must not hang the reader */
    return 0;
}

FIXTURE(remove_root)
{
    alarm(0);
    folder_remove(root);
    return 0;
}

static void check_rgb(const dt_source *s, bool test, int64_t i, int32_t expected, int seed)
{
    const dt_source_info *info = dt_source_describe(s);
    int32_t label = -1;
    const uint8_t *image = dt_source_image(s, test, i, &label);
    assert_int_equal(label, expected);
    for (int k = 0; k < 3 * info->height * info->width; k++)
        assert_int_equal(image[k], pixel(seed, k / 3 / info->width, k / 3 % info->width, k % 3));
}

/* ---- What a good folder gives --------------------------------------------------------------- */

TEST_WITH(make_root, remove_root, samples_follow_the_bytes_of_class_and_name)
{
    void *memory = NULL;

    /* '-' < '/' < 'B' < 'a': "a-b/..." comes before "a/...", but class a before a-b */
    make_folder("train/a-b");
    make_folder("train/B");
    make_folder("train/.hidden");
    save_png("train/a-b/1.png", 6, 5, 2, 5);
    save_png("train/B/x10.png", 6, 5, 2, 6);
    save_png("train/B/x9.PNG", 6, 5, 2, 7);
    save_png("train/B/.skipped.png", 6, 5, 2, 8);
    save_png("train/B/\xc3\xa9.png", 6, 5, 2, 9);
    dt_source *s = source_loaded(root, 0, 0, &memory);
    const dt_source_info *info = dt_source_describe(s);
    assert_string_equal(info->kind, "images");
    assert_true(info->classes == 4 && info->width == 6 && info->height == 5);
    assert_true(info->train == 7 && info->test == 1);
    const char *const class[] = {"B", "a", "a-b", "b"};
    for (int c = 0; c < 4; c++)
        assert_string_equal(info->class_name[c], class[c]);
    assert_string_equal(info->class_names, "[\"B\",\"a\",\"a-b\",\"b\"]");
    const struct {
        int label, seed;
    } order[] = {{0, 6}, {0, 7}, {0, 9}, {2, 5}, {1, 1}, {1, 2}, {3, 3}};
    for (int i = 0; i < 7; i++)
        check_rgb(s, false, i, order[i].label, order[i].seed);
    check_rgb(s, true, 0, 3, 4);
    source_close(s, memory);
}

TEST_WITH(make_root, remove_root, grey_alpha_and_jpeg_become_rgb)
{
    void *memory = NULL;
    int32_t label = 0;
    save_png("train/b/2.png", 6, 5, 0, 11);
    save_png("train/b/3.png", 6, 5, 6, 12);
    folder_write(root, "train/b/4.JPeG", jpeg, sizeof jpeg);
    dt_source *s = source_loaded(root, 0, 0, &memory);
    const uint8_t *image = dt_source_image(s, false, 3, &label);
    for (int i = 0; i < 90; i++)
        assert_int_equal(image[i], pixel(11, i / 18, i / 3 % 6, 0));
    check_rgb(s, false, 4, 1, 12);
    image = dt_source_image(s, false, 5, &label);
    const int colour[3] = {199, 60, 19};
    for (int i = 0; i < 90; i++) /* decoders may differ by 2 (IDCT and colour rounding) */
        assert_in_range(image[i], colour[i % 3] - 2, colour[i % 3] + 2);
    source_close(s, memory);
}

/* Value at an output pixel by the definition, in double: centres at +0.5, edges held.
 */
static double sampled(int seed, int in_h, int in_w, int out_h, int out_w, int y, int x, int c)
{
    double fy = (y + 0.5) * in_h / out_h - 0.5, fx = (x + 0.5) * in_w / out_w - 0.5, v = 0;
    fy = fy < 0 ? 0 : fy > in_h - 1 ? in_h - 1 : fy;
    fx = fx < 0 ? 0 : fx > in_w - 1 ? in_w - 1 : fx;
    for (int j = 0; j < in_h; j++)
        for (int i = 0; i < in_w; i++) {
            const double wy = 1 - (fy > j ? fy - j : j - fy);
            const double wx = 1 - (fx > i ? fx - i : i - fx);
            if (wy > 0 && wx > 0)
                v += wy * wx * pixel(seed, j, i, c);
        }
    return v;
}

TEST_WITH(make_root, remove_root, other_sizes_are_resized_with_one_note)
{
    void *memory = NULL;
    capture heard;
    int32_t label = 0;

    save_png("train/b/2.png", 13, 4, 2, 21);
    save_png("test/b/8.png", 2, 3, 2, 22);
    source_heard(root, 0, &heard);
    dt_source *s = source_loaded(root, 0, 0, &memory);
    const char *note = strstr(heard.text, "2 images are resized to 6 x 5");
    assert_non_null(note);
    assert_null(strstr(note + strlen("2 images are resized"), "resized"));
    for (int k = 0; k < 2; k++) {
        const uint8_t *image = dt_source_image(s, k, k ? 0 : 3, &label);
        for (int i = 0; i < 90; i++) {
            const double v = k ? sampled(22, 3, 2, 5, 6, i / 18, i / 3 % 6, i % 3)
                               : sampled(21, 4, 13, 5, 6, i / 18, i / 3 % 6, i % 3);
            /* rounding to a byte, and float32's 2^-24 of 255 on top */
            assert_true(image[i] - v <= 0.5001 && v - image[i] <= 0.5001);
        }
    }
    source_close(s, memory);
}

/* The first image decides, divided by what it has of the network's size; each block of 2 x 2 pixels
 * becomes its mean, in training and test images. A model's own size is kept. */
TEST_WITH(make_root, remove_root, large_pictures_are_averaged)
{
    static const int size[2][2] = {{6, 6}, {7, 5}}; /* height, width */

    save_png("train/a/1.png", 13, 12, 2, 21);
    save_png("test/b/9.png", 12, 12, 2, 22);
    for (int k = 0; k < 2; k++) {
        dt_source *s = NULL;
        int32_t label = 0;
        assert_ok(dt_source_open(&s, root, 0, 0));
        dt_source_fit(s, 6, k ? size[k][0] : 0, k ? size[k][1] : 0);
        const dt_source_info *info = dt_source_describe(s);
        assert_true(info->height == size[k][0] && info->width == size[k][1]);
        void *memory = malloc(dt_source_bytes(s));
        assert_ok(dt_source_load(s, memory, true));
        for (int test = 0; test < 2 && k == 0; test++)
            for (int i = 0; i < 3 * 36; i++) {
                int sum = 2;
                for (int j = 0; j < 4; j++)
                    sum += pixel(21 + test, i / 18 * 2 + j / 2, i / 3 % 6 * 2 + j % 2, i % 3);
                assert_int_equal(dt_source_image(s, test, 0, &label)[i], sum / 4);
            }
        source_close(s, memory);
    }
}

TEST_WITH(make_root, remove_root, folders_without_images_are_no_classes)
{
    static const char *const folders[] = {"train/@eaDir", "train/a/more", "train/bird",
                                          "test/lost+found"};
    capture heard;
    void *memory = NULL;

    for (size_t i = 0; i < DT_COUNT_OF(folders); i++)
        make_folder(folders[i]);
    folder_write(root, "train/bird/1.webp", "x", 1);
    save_png("train/a/more/1.png", 6, 5, 2, 9);
    source_heard(root, 0, &heard);
    assert_non_null(strstr(heard.text, "left out: 3 folders that"));
    assert_non_null(strstr(heard.text, ": train/@eaDir, train/a/more, train/bird\n"));
    assert_non_null(strstr(heard.text, ": test/lost+found\n"));
    dt_source *s = source_loaded(root, 0, 0, &memory);
    assert_int_equal(dt_source_describe(s)->train, 3);
    assert_string_equal(dt_source_describe(s)->class_names, "[\"a\",\"b\"]");
    source_close(s, memory);
}

/* Where they are listed, and as JSON, they would be no text or two lines. */
TEST_WITH(make_root, remove_root, names_of_classes_are_text)
{
    static const char *const names[] = {"caf\xe9", "a\tb", "a\nb", "\xc2\x9b", "\xed\xa0\x80"};
    char folder[64], image[80];

    for (size_t i = 0; i < DT_COUNT_OF(names); i++) {
        snprintf(folder, sizeof folder, "train/%s", names[i]);
        snprintf(image, sizeof image, "%s/1.png", folder);
        make_folder(folder);
        save_png(image, 6, 5, 2, 9);
        assert_fails(source_try(root), DT_FORMAT, "rename it");
        folder_remove(folder_path(root, folder));
    }
    assert_ok(source_try(root));
}

TEST_WITH(make_root, remove_root, what_is_left_out_is_said)
{
    capture heard;
    void *memory = NULL;

    folder_write(root, "train/README", "x", 1);
    folder_write(root, "train/a/notes.txt", "x", 1);
    folder_write(root, "train/a/png", "x", 1);
    source_heard(root, 2, &heard);
    assert_non_null(strstr(heard.text, "left out: 3 that are no .png"));
    dt_source *s = source_loaded(root, 2, 0, &memory);
    assert_int_equal(dt_source_describe(s)->train, 2);
    check_rgb(s, false, 1, 0, 2);
    check_rgb(s, true, 0, 1, 4);
    source_close(s, memory);
}

TEST_WITH(make_root, remove_root, the_manifest_has_names_and_sizes)
{
    dt_digest seen[3];

    for (int i = 0; i < 3; i++) {
        dt_source *s = NULL;
        if (i == 1)
            rename(folder_path(root, "train/a/2.png"), folder_path(root, "train/a/3.png"));
        if (i == 2)
            save_png("test/b/9.png", 6, 6, 2, 4);
        assert_ok(dt_source_open(&s, root, 0, 0));
        seen[i] = dt_source_manifest(s);
        dt_source_close(s);
    }
    assert_memory_not_equal(&seen[0], &seen[1], sizeof *seen);
    assert_memory_not_equal(&seen[1], &seen[2], sizeof *seen);
}

/* ---- What can be wrong ---------------------------------------------------------------------- */

static void save_nothing(const char *name)
{
    folder_write(root, name, "", 0);
}

static void save_cut(const char *name)
{
    save_png(name, 6, 5, 2, 1);
    assert_int_equal(truncate(folder_path(root, name), 100), 0);
}

static void save_stream(const char *name, int width, int height, const struct bytes *stream)
{
    struct bytes png = {0};
    put_png(&png, width, height, 2, stream);
    folder_write(root, name, png.data, png.count);
    free(png.data);
}

/* What only decoding finds is said in the same words, with stb_image's reason. */
static void save_bad_stream(const char *name)
{
    uint8_t bad[] = {0x79, 1, 255, 255, 255, 255};
    save_stream(name, 6, 5, &(struct bytes){bad, sizeof bad, sizeof bad});
}

static void save_wide(const char *name)
{
    save_stream(name, 7100, 7100, &(struct bytes){0});
}

static void save_large(const char *name)
{
    save_nothing(name);
    assert_int_equal(truncate(folder_path(root, name), (64LL << 20) + 1), 0);
}

static void save_pipe(const char *name)
{
    unlink(folder_path(root, name));
    assert_int_equal(mkfifo(folder_path(root, name), 0600), 0);
}

TEST_WITH(make_root, remove_root, unreadable_images_are_named)
{
    static const char *const place[] = {"train/a/1.png", "train/b/1.png", "test/b/9.png"};
    static const struct {
        void (*save)(const char *name);
        dt_status status;
        const char *words;
    } rows[] = {
        {save_nothing, DT_FORMAT, "(0 bytes that begin like neither)"},
        {save_cut, DT_FORMAT, "its chunk at byte 33"},
        {save_bad_stream, DT_FORMAT, "cannot be decoded (bad zlib header)"},
        {save_wide, DT_FORMAT, "7100 x 7100"},
        {save_large, DT_FORMAT, "67108865 bytes"},
        {save_pipe, DT_NOINPUT, "pipe"},
    };

    for (size_t i = 0; i < 3 * DT_COUNT_OF(rows); i++) {
        rows[i / 3].save(place[i % 3]);
        const dt_status st = source_try(root);
        if (!strstr(dt_fail_text(), rows[i / 3].words))
            fail_msg("row %zu: '%s' does not hold '%s'", i / 3, dt_fail_text(), rows[i / 3].words);
        assert_fails(st, rows[i / 3].status, place[i % 3]);
        remove_root(state);
        make_root(state);
    }
    assert_ok(source_try(root));
}

/* Palette of two entries, pixels of index 0, 1 and 2: stb_image's memory behind the second
 * entry would decide what the third is. */
TEST_WITH(make_root, remove_root, pixels_beyond_the_palette_are_black)
{
    void *memory = NULL;
    int32_t label = 0;
    struct bytes raw = {0}, stream = {0}, png = {0};
    uint8_t colours[6] = {1, 2, 3, 4, 5, 6};

    for (int y = 0; y < 5; y++)
        put(&raw, "\0\0\1\2\377\0\1", 7);
    put_stored(&stream, raw.data, raw.count);
    put_header(&png, 6, 5, 8, 3);
    put_chunk(&png, "PLTE", &(struct bytes){colours, 6, 6});
    put_chunk(&png, "IDAT", &stream);
    put_chunk(&png, "IEND", &(struct bytes){0});
    folder_write(root, "train/b/2.png", png.data, png.count);
    dt_source *s = source_loaded(root, 0, 0, &memory);
    const uint8_t *image = dt_source_image(s, false, 3, &label);
    for (int y = 0; y < 5; y++)
        assert_memory_equal(image + 18 * y, "\1\2\3\4\5\6\0\0\0\0\0\0\1\2\3\4\5\6", 18);
    source_close(s, memory);
    free(raw.data);
    free(stream.data);
    free(png.data);
}

TEST_WITH(make_root, remove_root, layouts_are_checked)
{
    make_folder("test/c");
    save_png("test/c/1.png", 6, 5, 2, 1);
    assert_fails(source_try(root), DT_FORMAT, "class 'c'");
    folder_remove(folder_path(root, "test/c"));
    unlink(folder_path(root, "test/b/9.png"));
    assert_fails(source_try(root), DT_NOINPUT, "/test' holds no images");
    folder_remove(folder_path(root, "test"));
    assert_fails(source_try(root), DT_NOINPUT, "/test");
    folder_remove(folder_path(root, "train/b"));
    assert_fails(source_try(root), DT_FORMAT, "has one class, 'a'");
    folder_remove(folder_path(root, "train/a"));
    assert_fails(source_try(root), DT_NOINPUT, "/train' holds no images");
}

int main(int argc, char **argv)
{
    dt_extra_images();
    const int served = dt_source_serve(argc, argv);
    if (served >= 0)
        return served;
    dt_log_init(0, 1);
    return tests_run(NULL, NULL);
}
