/* source_images.c - a folder of PNG and JPEG files: train/CLASS/NAME, test/CLASS/NAME.
 *
 * Classes are the folders of train/, sorted by bytes; samples are numbered in the order
 * of the bytes of CLASS/NAME. The first training image decides the size; others are
 * resized to it. Files are hostile until decoded: stb_image sees memory only, never a
 * file, two formats, and no image or allocation beyond the caps below. */
#include "source.h"
#include "augment.h"
#include "input.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    IMAGES_FILE_CAP = 64 << 20,  /* bytes of one file */
    IMAGES_PIXEL_CAP = 64 << 20, /* bytes of one decoded image, 3 per pixel */
    IMAGES_ALLOC_CAP =
        256 << 20, /* one allocation: a PNG of 16-bit RGBA needs 8 / 3 of that */
};

/* A PNG can inflate a thousandfold whatever its header says: allocations have a cap. */
static void *images_malloc(size_t bytes)
{
    return bytes > IMAGES_ALLOC_CAP ? NULL : malloc(bytes);
}
static void *images_realloc(void *p, size_t bytes)
{
    return bytes > IMAGES_ALLOC_CAP ? NULL : realloc(p, bytes);
}

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STBI_NO_STDIO
#define STBI_MAX_DIMENSIONS 65536 /* the product is capped below, with a message of ours */
#define STBI_MALLOC(bytes) images_malloc(bytes)
#define STBI_REALLOC(p, bytes) images_realloc(p, bytes)
#define STBI_FREE(p) free(p)
/* The header declares more static functions than these switches let it define. */
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb_image.h>

static const char *const images_split[] = {"train", "test"};

struct images_file {
    char *name; /* split/CLASS/NAME, owned */
    int32_t label;
    int64_t bytes;
};
struct images {
    char root[DT_PATH_BYTES];
    struct images_file *file; /* [count] training files, then test files; owned */
    size_t count, room;
    size_t train; /* training files found, before --subset */
    int64_t ignored, resized;
};

/* ---- Folders --------------------------------------------------------------------- */

/* Bytes, not the locale's collation as alphasort has it. */
static int images_by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int images_visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static int images_by_name(const void *a, const void *b)
{
    return strcmp(((const struct images_file *)a)->name,
                  ((const struct images_file *)b)->name);
}

static bool images_suffix(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && (strcasecmp(dot, ".png") == 0 || strcasecmp(dot, ".jpg") == 0 ||
                   strcasecmp(dot, ".jpeg") == 0);
}

static void images_free_entries(struct dirent **entry, int count)
{
    for (int i = 0; i < count; i++)
        free(entry[i]);
    free(entry);
}

/* Sorted entries of a folder, hidden ones left out. */
static dt_status images_list(const char *folder, struct dirent ***entry, int *count)
{
    *count = scandir(folder, entry, images_visible, images_by_bytes);
    if (*count < 0)
        return dt_fail(errno == ENOMEM ? DT_NOMEM : DT_NOINPUT,
                       "cannot list folder '%s': %s", folder, strerror(errno));
    return DT_OK;
}

static dt_status images_add(struct images *m, const char *folder, const char *name,
                            int32_t label)
{
    char path[DT_PATH_BYTES];
    struct stat about;
    const char *relative = path + strlen(m->root) + 1;

    DT_TRY(dt_input_path(path, folder, name));
    if (stat(path, &about) != 0)
        return dt_fail(DT_NOINPUT, "image '%s': %s", path, strerror(errno));
    if (!S_ISREG(about.st_mode))
        return dt_fail(DT_NOINPUT, "image '%s' is not a regular file: remove it", path);
    if (about.st_size == 0 || about.st_size > IMAGES_FILE_CAP)
        return dt_fail(DT_FORMAT,
                       "image '%s' has %lld bytes, expected 1 to %d: replace or "
                       "remove it",
                       path, (long long)about.st_size, IMAGES_FILE_CAP);
    if (m->count == m->room) {
        const size_t room = m->room ? 2 * m->room : 1024;
        struct images_file *more = realloc(m->file, room * sizeof *more);
        if (!more)
            return dt_fail(DT_NOMEM, "no memory for a list of %zu images", room);
        m->file = more;
        m->room = room;
    }
    struct images_file *f = &m->file[m->count];
    *f = (struct images_file){.label = label, .bytes = about.st_size};
    DT_TRY(dt_calloc(&f->name, strlen(relative) + 1, 1, "image name"));
    memcpy(f->name, relative, strlen(relative) + 1);
    m->count++;
    return DT_OK;
}

/* The images of one class folder. */
static dt_status images_scan_class(struct images *m, const char *folder, int32_t label)
{
    struct dirent **entry = NULL;
    int count = 0;
    dt_status st = DT_OK;

    DT_TRY(images_list(folder, &entry, &count));
    for (int i = 0; i < count; i++)
        if (images_suffix(entry[i]->d_name))
            DT_GO(st, images_add(m, folder, entry[i]->d_name, label), out);
        else
            m->ignored++;
out:
    images_free_entries(entry, count);
    return st;
}

static bool images_is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* Make the sub-folders of train/ the classes. */
static dt_status images_name_classes(dt_source *s, const char *folder,
                                     struct dirent **entry, int count)
{
    char path[DT_PATH_BYTES];
    size_t bytes = 0;

    for (int i = 0; i < count; i++)
        bytes += strlen(entry[i]->d_name) + 1;
    DT_TRY(dt_calloc(&s->class_text, bytes + 1, 1, "class names"));
    DT_TRY(dt_calloc(&s->class_name, (size_t)count + 1, sizeof *s->class_name,
                     "class names"));
    char *text = s->class_text;
    for (int i = 0; i < count; i++) {
        DT_TRY(dt_input_path(path, folder, entry[i]->d_name));
        if (!images_is_folder(path))
            continue;
        const size_t length = strlen(entry[i]->d_name) + 1;
        memcpy(text, entry[i]->d_name, length);
        s->class_name[s->info.classes++] = text;
        text += length;
    }
    return DT_OK;
}

/* Label of a class folder, -1 if unknown. */
static int32_t images_label(const dt_source *s, const char *name)
{
    for (int c = 0; c < s->info.classes; c++)
        if (strcmp(s->class_name[c], name) == 0)
            return c;
    return -1;
}

static dt_status images_scan_split(dt_source *s, bool test)
{
    struct images *m = s->state;
    char folder[DT_PATH_BYTES], path[DT_PATH_BYTES];
    struct dirent **entry = NULL;
    int count = 0;
    dt_status st = DT_OK;
    const size_t first = m->count;

    DT_TRY(dt_input_path(folder, m->root, images_split[test]));
    DT_TRY(images_list(folder, &entry, &count));
    if (!test)
        DT_GO(st, images_name_classes(s, folder, entry, count), out);
    for (int i = 0; i < count; i++) {
        const size_t before = m->count;
        const char *name = entry[i]->d_name;
        DT_GO(st, dt_input_path(path, folder, name), out);
        if (!images_is_folder(path)) {
            m->ignored++;
            continue;
        }
        const int32_t label = images_label(s, name);
        if (label < 0) {
            st = dt_fail(DT_FORMAT,
                         "'%s': class '%s' is not in '%s/train': add training "
                         "images of it or remove it",
                         path, name, m->root);
            goto out;
        }
        DT_GO(st, images_scan_class(m, path, label), out);
        if (!test && m->count == before) {
            st = dt_fail(DT_NOINPUT,
                         "class folder '%s' holds no .png, .jpg or .jpeg file: "
                         "fill or remove it",
                         path);
            goto out;
        }
    }
    if (m->count == first)
        st = dt_fail(DT_NOINPUT, "'%s' holds no images, expected %s/CLASS/*.png|jpg",
                     folder, images_split[test]);
    else
        qsort(m->file + first, m->count - first, sizeof *m->file, images_by_name);
out:
    images_free_entries(entry, count);
    return st;
}

/* ---- Files ----------------------------------------------------------------------- */

/* Does every Huffman table of a JPEG have at most 256 codes, as the standard (ITU T.81,
 * B.2.4.2) demands? stb_image before 2.28 does not check and writes past its own.
 * Follows the markers as stb does: segments by their length, entropy-coded data byte by
 * byte. */
static bool images_tables_fit(const stbi_uc *b, size_t count)
{
    enum { DHT = 0xc4, RST0 = 0xd0, SOI = 0xd8, EOI = 0xd9, TEM = 0x01, COUNTS = 16 };

    for (size_t at = 0; at + 4 <= count;) {
        const int marker = b[at + 1];
        if (b[at] != 0xff || marker == 0xff) {
            at++;
            continue;
        }
        if (marker == 0 || marker == TEM || (marker >= RST0 && marker <= SOI)) {
            at += 2;
            continue;
        }
        if (marker == EOI)
            return true;
        const size_t length = (size_t)b[at + 2] << 8 | b[at + 3], end = at + 2 + length;
        for (size_t table = at + 4; marker == DHT && table < end;) {
            size_t codes = 0;
            for (size_t i = 1; i <= COUNTS && table + i < count; i++)
                codes += b[table + i];
            if (codes > 256)
                return false;
            table += 1 + COUNTS + codes;
        }
        at = end;
    }
    return true;
}

/* Read a file and learn its size; *bytes is to be freed, also after an error. */
static dt_status images_fetch(const struct images *m, const struct images_file *f,
                              stbi_uc **bytes, int *width, int *height)
{
    char path[DT_PATH_BYTES];
    int fd = -1, channels = 0;
    int64_t size = 0;
    dt_status st = DT_OK;

    DT_TRY(dt_input_path(path, m->root, f->name));
    DT_TRY(dt_input_open(&fd, path, &size));
    if (size != f->bytes) {
        st = dt_fail(DT_FORMAT,
                     "image '%s' has %lld bytes, %lld when it was listed: it "
                     "changed meanwhile",
                     path, (long long)size, (long long)f->bytes);
        goto out;
    }
    DT_GO(st, dt_calloc(bytes, (size_t)size, 1, "image file"), out);
    DT_GO(st, dt_input_read(fd, path, 0, *bytes, (size_t)size), out);
    if ((*bytes)[0] == 0xff && !images_tables_fit(*bytes, (size_t)size))
        st = dt_fail(DT_FORMAT,
                     "image '%s' is no readable JPEG (Huffman table of more than 256 "
                     "codes): replace or remove it",
                     path);
    else if (!stbi_info_from_memory(*bytes, (int)size, width, height, &channels))
        st = dt_fail(DT_FORMAT,
                     "image '%s' is no readable PNG or JPEG (%s): replace or remove "
                     "it",
                     path, stbi_failure_reason());
    else if ((int64_t)*width * *height * 3 > IMAGES_PIXEL_CAP)
        st = dt_fail(DT_FORMAT,
                     "image '%s' has %d x %d pixels, at most %d are read: scale it "
                     "down or remove it",
                     path, *width, *height, IMAGES_PIXEL_CAP / 3);
out:
    close(fd);
    return st;
}

/* Bilinear, half-pixel centres, rounded to the nearest byte. */
static void images_resize(const stbi_uc *from, int width, int height, uint8_t *to,
                          const dt_source_info *info)
{
    for (int y = 0; y < info->height; y++) {
        const dt_tap v = dt_tap_at(height, info->height, y);
        const stbi_uc *upper = from + 3 * (size_t)width * (size_t)v.lo;
        const stbi_uc *lower = from + 3 * (size_t)width * (size_t)v.hi;
        for (int x = 0; x < info->width; x++) {
            const dt_tap h = dt_tap_at(width, info->width, x);
            for (int c = 0; c < 3; c++) {
                const float up = (1 - h.weight) * upper[3 * h.lo + c] +
                                 h.weight * upper[3 * h.hi + c];
                const float low = (1 - h.weight) * lower[3 * h.lo + c] +
                                  h.weight * lower[3 * h.hi + c];
                *to++ = (uint8_t)((1 - v.weight) * up + v.weight * low + 0.5f);
            }
        }
    }
}

static dt_status images_decode(dt_source *s, const struct images_file *f, uint8_t *to)
{
    struct images *m = s->state;
    stbi_uc *bytes = NULL, *pixels = NULL;
    int width = 0, height = 0, channels = 0;
    dt_status st = DT_OK;

    DT_GO(st, images_fetch(m, f, &bytes, &width, &height), out);
    pixels = stbi_load_from_memory(bytes, (int)f->bytes, &width, &height, &channels, 3);
    if (!pixels) {
        st = dt_fail(DT_FORMAT,
                     "image '%s/%s' cannot be decoded (%s): replace or remove it",
                     m->root, f->name, stbi_failure_reason());
        goto out;
    }
    if (width == s->info.width && height == s->info.height) {
        memcpy(to, pixels, 3 * (size_t)width * (size_t)height);
    } else {
        images_resize(pixels, width, height, to, &s->info);
        m->resized++;
    }
out:
    stbi_image_free(pixels);
    free(bytes);
    return st;
}

/* ---- The row --------------------------------------------------------------------- */

static dt_status images_open(dt_source *s, const char *path, dt_hash *manifest)
{
    char folder[DT_PATH_BYTES];
    struct images *m = NULL;
    stbi_uc *bytes = NULL;
    dt_status st = DT_OK;

    if (strlen(path) + sizeof "/train" > DT_PATH_BYTES)
        return DT_DECLINED;
    DT_TRY(dt_input_path(folder, path, images_split[0]));
    if (!images_is_folder(folder))
        return DT_DECLINED;
    DT_TRY(dt_calloc(&m, 1, sizeof *m, "image folder"));
    s->state = m;
    memcpy(m->root, path, strlen(path) + 1);
    DT_TRY(images_scan_split(s, false));
    m->train = m->count;
    DT_TRY(images_scan_split(s, true));
    for (size_t i = 0; i < m->count; i++) {
        dt_hash_update(manifest, m->file[i].name, strlen(m->file[i].name) + 1);
        dt_hash_update(manifest, &m->file[i].bytes, sizeof m->file[i].bytes);
    }
    s->info.train = (int64_t)m->train;
    s->info.test = (int64_t)(m->count - m->train);
    st = images_fetch(m, &m->file[0], &bytes, &s->info.width, &s->info.height);
    free(bytes);
    if (st == DT_OK && m->ignored > 0)
        dt_note("'%s': %lld entries that are not .png, .jpg or .jpeg are left out",
                path, (long long)m->ignored);
    return st;
}

static dt_status images_read(dt_source *s)
{
    struct images *m = s->state;
    const size_t bytes = 3 * (size_t)s->info.width * (size_t)s->info.height;
    const size_t train = (size_t)s->info.train;

    m->resized = 0;
    for (size_t at = 0; at < train + (size_t)s->info.test; at++) {
        const struct images_file *f = &m->file[at < train ? at : at - train + m->train];
        s->labels[at] = f->label;
        DT_TRY(images_decode(s, f, s->images + at * bytes));
    }
    if (m->resized > 0)
        dt_note("'%s': %lld images are resized to %d x %d, the size of the first one",
                m->root, (long long)m->resized, s->info.width, s->info.height);
    return DT_OK;
}

static void images_close(dt_source *s)
{
    struct images *m = s->state;
    for (size_t i = 0; i < m->count; i++)
        free(m->file[i].name);
    free(m->file);
    free(m);
}

const dt_source_row dt_source_images = {"images", images_open, images_read,
                                        images_close};
