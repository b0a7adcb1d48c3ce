/* source_images.c - a folder of PNG and JPEG files: train/CLASS/NAME, test/CLASS/NAME.
 *
 * Classes are the folders of train/, sorted by bytes; samples are numbered in the order
 * of the bytes of CLASS/NAME. The first training image decides the size; others are
 * resized to it. Files are hostile: they are decoded by another process (decoder.h), after a
 * check of what the decoder does not see (picture.h). */
#include "source.h"
#include "augment.h"
#include "decoder.h"
#include "picture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const images_split[] = {"train", "test"};

struct images_file {
    char *name; /* split/CLASS/NAME, owned */
    int32_t label;
    int64_t bytes;
};
struct images {
    char root[PATH_MAX];
    struct images_file *file; /* [count] training files, then test files; owned */
    size_t count, room;
    size_t train; /* training files found, before --subset */
    int64_t ignored, resized;
    dt_decoder decoder; /* while images are read */
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
    return strcmp(((const struct images_file *)a)->name, ((const struct images_file *)b)->name);
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
        return dt_fail(errno == ENOMEM ? DT_NOMEM : DT_NOINPUT, "cannot list folder '%s': %s",
                       folder, strerror(errno));
    return DT_OK;
}

static dt_status images_add(struct images *m, const char *folder, const char *name, int32_t label)
{
    char path[PATH_MAX];
    struct stat about;
    const char *relative = path + strlen(m->root) + 1;

    DT_TRY(dt_source_path(path, folder, name));
    if (stat(path, &about) != 0)
        return dt_fail(DT_NOINPUT, "image '%s': %s; replace or remove it", path, strerror(errno));
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
static dt_status images_name_classes(dt_source *s, const char *folder, struct dirent **entry,
                                     int count)
{
    char path[PATH_MAX];
    size_t bytes = 0;

    for (int i = 0; i < count; i++)
        bytes += strlen(entry[i]->d_name) + 1;
    DT_TRY(dt_calloc(&s->class_text, bytes + 1, 1, "class names"));
    DT_TRY(dt_calloc(&s->class_name, (size_t)count + 1, sizeof *s->class_name, "class names"));
    char *text = s->class_text;
    for (int i = 0; i < count; i++) {
        DT_TRY(dt_source_path(path, folder, entry[i]->d_name));
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
    char folder[PATH_MAX], path[PATH_MAX];
    struct dirent **entry = NULL;
    int count = 0;
    dt_status st = DT_OK;
    const size_t first = m->count;

    DT_TRY(dt_source_path(folder, m->root, images_split[test]));
    if (access(folder, F_OK) != 0 && errno == ENOENT)
        return dt_fail(DT_NOINPUT,
                       "there is no folder '%s', expected train/CLASS/*.png|jpg and "
                       "test/CLASS/*.png|jpg: make it, or rename the one that holds those images",
                       folder);
    DT_TRY(images_list(folder, &entry, &count));
    if (!test)
        DT_GO(st, images_name_classes(s, folder, entry, count), out);
    for (int i = 0; i < count; i++) {
        const size_t before = m->count;
        const char *name = entry[i]->d_name;
        DT_GO(st, dt_source_path(path, folder, name), out);
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
        st = dt_fail(DT_NOINPUT, "'%s' holds no images, expected %s/CLASS/*.png|jpg", folder,
                     images_split[test]);
    else
        qsort(m->file + first, m->count - first, sizeof *m->file, images_by_name);
out:
    images_free_entries(entry, count);
    return st;
}

/* ---- Files ----------------------------------------------------------------------- */

/* Read a file and learn its size; *bytes is freed by free(), also after an error. */
static dt_status images_fetch(const struct images *m, const struct images_file *f,
                              char path[PATH_MAX], char **bytes, size_t *count, dt_picture *p)
{
    DT_TRY(dt_source_path(path, m->root, f->name));
    DT_TRY(dt_file_read(AT_FDCWD, path, DT_PICTURE_BYTES, bytes, count));
    if (!dt_picture_check((const uint8_t *)*bytes, *count, p))
        return dt_fail(DT_FORMAT,
                       "image '%s' is no readable PNG or JPEG (%s): replace or remove it", path,
                       p->reason);
    return DT_OK;
}

/* Bilinear, half-pixel centres, rounded to the nearest byte. */
static void images_resize(const uint8_t *from, int width, int height, uint8_t *to,
                          const dt_source_info *info)
{
    for (int y = 0; y < info->height; y++) {
        const dt_tap v = dt_tap_at(height, info->height, y);
        const uint8_t *upper = from + 3 * (size_t)width * (size_t)v.lo;
        const uint8_t *lower = from + 3 * (size_t)width * (size_t)v.hi;
        for (int x = 0; x < info->width; x++) {
            const dt_tap h = dt_tap_at(width, info->width, x);
            for (int c = 0; c < 3; c++) {
                const float up = h.part[0] * upper[3 * h.lo + c] + h.part[1] * upper[3 * h.hi + c];
                const float low = h.part[0] * lower[3 * h.lo + c] + h.part[1] * lower[3 * h.hi + c];
                *to++ = (uint8_t)(v.part[0] * up + v.part[1] * low + 0.5f);
            }
        }
    }
}

static dt_status images_decode(dt_source *s, const struct images_file *f, uint8_t *to)
{
    struct images *m = s->state;
    char path[PATH_MAX], *bytes = NULL;
    uint8_t *pixels = NULL; /* of an image of another size */
    size_t count = 0;
    dt_picture p;
    dt_status st = DT_OK;

    DT_GO(st, images_fetch(m, f, path, &bytes, &count, &p), out);
    const bool fits = p.width == s->info.width && p.height == s->info.height;
    if (!fits)
        DT_GO(st, dt_calloc(&pixels, 3 * (size_t)p.width * (size_t)p.height, 1, path), out);
    DT_GO(st,
          dt_decoder_run(&m->decoder, path, (const uint8_t *)bytes, count, p.width, p.height,
                         fits ? to : pixels),
          out);
    if (!fits) {
        images_resize(pixels, p.width, p.height, to, &s->info);
        m->resized++;
    }
out:
    free(pixels);
    free(bytes);
    return st;
}

/* ---- The row --------------------------------------------------------------------- */

static dt_status images_open(dt_source *s, const char *path, dt_hash *manifest)
{
    char folder[PATH_MAX], file[PATH_MAX], *bytes = NULL;
    struct images *m = NULL;
    size_t count = 0;
    dt_picture first = {0};
    dt_status st = DT_OK;

    DT_TRY(dt_source_path(folder, path, images_split[0]));
    if (!images_is_folder(folder))
        return DT_DECLINED;
    DT_TRY(dt_calloc(&m, 1, sizeof *m, "image folder"));
    s->state = m;
    snprintf(m->root, sizeof m->root, "%s", path);
    DT_TRY(images_scan_split(s, false));
    if (s->info.classes < 2)
        return dt_fail(DT_FORMAT,
                       "image folder '%s' has one class, '%s': nothing can be told "
                       "apart; add the images of a second class as %s/CLASS/*.png|jpg",
                       path, s->class_name[0], folder);
    m->train = m->count;
    DT_TRY(images_scan_split(s, true));
    for (size_t i = 0; i < m->count; i++) {
        dt_hash_update(manifest, m->file[i].name, strlen(m->file[i].name) + 1);
        dt_hash_update(manifest, &m->file[i].bytes, sizeof m->file[i].bytes);
    }
    s->info.train = (int64_t)m->train;
    s->info.test = (int64_t)(m->count - m->train);
    st = images_fetch(m, &m->file[0], file, &bytes, &count, &first);
    free(bytes);
    s->info.width = first.width;
    s->info.height = first.height;
    if (st == DT_OK && m->ignored > 0)
        dt_note("'%s': left out: %lld that are no .png, .jpg or .jpeg, or lie in no class folder",
                path, (long long)m->ignored);
    return st;
}

static dt_status images_read(dt_source *s)
{
    struct images *m = s->state;
    const size_t bytes = 3 * (size_t)s->info.width * (size_t)s->info.height;
    const size_t train = (size_t)s->info.train;
    dt_status st = DT_OK;

    m->resized = 0;
    DT_GO(st, dt_decoder_start(&m->decoder), out);
    for (size_t at = 0; at < train + (size_t)s->info.test; at++) {
        const struct images_file *f = &m->file[at < train ? at : at - train + m->train];
        s->labels[at] = f->label;
        DT_GO(st, images_decode(s, f, s->images + at * bytes), out);
    }
    if (m->resized > 0)
        dt_note("'%s': %lld images are resized to %d x %d, the size of the first one", m->root,
                (long long)m->resized, s->info.width, s->info.height);
out:
    dt_decoder_stop(&m->decoder);
    return st;
}

static void images_close(dt_source *s)
{
    struct images *m = s->state;
    for (size_t i = 0; i < m->count; i++)
        free(m->file[i].name);
    free(m->file);
    free(m);
}

const dt_source_row dt_source_images = {"images", images_open, images_read, images_close};
