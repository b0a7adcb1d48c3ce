/* source_images.c - PNG and JPEG files: a folder of train/CLASS/NAME and test/CLASS/NAME, or the
 * pictures that a trained model is asked about.
 *
 * Classes are the folders of train/, sorted by bytes; samples are numbered in the order
 * of the bytes of CLASS/NAME. The first training image decides the size (dt_source_fit); others
 * are resized to it. Files are hostile: decoder.h says how they are read all the same. */
#include "data/source.h"
#include "decoder.h"
#include "images.h"

#include <fts.h>
#include <jansson.h>
#include <strings.h>

static const char *const images_split[] = {"train", "test"};

struct images_file {
    char *path;    /* owned */
    int32_t label; /* -1: none */
    int64_t bytes;
};
struct images {
    char root[PATH_MAX];
    char **class_name;        /* [info.classes], owned, as each of them */
    struct images_file *file; /* [count] training files, then test files; owned */
    size_t count;
    size_t train;    /* training files found, before --subset */
    int32_t label;   /* of this class; -1: no image of it was seen */
    int64_t ignored; /* entries that are no images */
    int64_t folders; /* that are left out; the first of them: */
    char left[256];
    /* Of pictures that are asked about: */
    int64_t searched;  /* folders */
    dt_status broken;  /* of the first that cannot be read; DT_OK: all can */
    char reason[1024]; /* the last one's, not printed yet */
};

/* ---- Folders --------------------------------------------------------------------- */

static int images_by_bytes(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static int images_by_path(const void *a, const void *b)
{
    return strcmp(((const struct images_file *)a)->path, ((const struct images_file *)b)->path);
}

static bool images_named(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && (strcasecmp(dot, ".png") == 0 || strcasecmp(dot, ".jpg") == 0 ||
                   strcasecmp(dot, ".jpeg") == 0);
}

/* Room for one element more in an array of `count`, and a copy of its name. */
static dt_status images_grow(void *array, size_t count, size_t size, const char *name, char **copy)
{
    void **at = array;
    const bool full = (count & (count - 1)) == 0;
    void *more = full ? realloc(*at, DT_MAX(2 * count, 1) * size) : *at;

    *at = more ? more : *at;
    *copy = more ? strdup(name) : NULL;
    return *copy ? DT_OK : dt_fail(DT_NOMEM, "no memory for a list of %zu images", count + 1);
}

static dt_status add_class(dt_source *s, const char *name)
{
    struct images *m = s->state;
    const size_t count = (size_t)s->info.classes;
    char *copy = NULL;

    DT_TRY(images_grow(&m->class_name, count, sizeof *m->class_name, name, &copy));
    m->class_name[s->info.classes++] = copy;
    s->info.class_name = (const char *const *)m->class_name;
    return DT_OK;
}

static dt_status add_file(struct images *m, const char *path, int32_t label, int64_t bytes)
{
    struct images_file file = {.label = label, .bytes = bytes};

    DT_TRY(images_grow(&m->file, m->count, sizeof file, path, &file.path));
    m->file[m->count++] = file;
    return DT_OK;
}

/* -1: no class has that name. */
static int32_t find_class(const dt_source *s, const char *name)
{
    int32_t label = s->info.classes - 1;

    while (label >= 0 && strcmp(s->info.class_name[label], name) != 0)
        label--;
    return label;
}

/* Whatever has an image's name is one: what it is shows when it is read. Its folder makes a class
 * in train/, and must be one in test/. */
static dt_status images_add(dt_source *s, bool test, const FTSENT *e)
{
    struct images *m = s->state;
    const char *folder = e->fts_parent->fts_name;

    if (!images_named(e->fts_name)) {
        m->ignored++;
        return DT_OK;
    }
    if (m->label < 0 && !test)
        DT_TRY(add_class(s, folder));
    if (m->label < 0)
        m->label = find_class(s, folder);
    if (m->label < 0)
        return dt_fail(DT_FORMAT,
                       "'%s/test': class '%s' is not in '%s/train': add training "
                       "images of it or remove it",
                       m->root, folder, m->root);
    return add_file(m, e->fts_path, m->label, e->fts_statp->st_size);
}

static dt_status images_leave(struct images *m, const FTSENT *e)
{
    const size_t used = strlen(m->left);

    m->folders++;
    snprintf(m->left + used, sizeof m->left - used, "%s%s", used ? ", " : "",
             e->fts_path + strlen(m->root) + 1);
    return DT_OK;
}

/* One entry of a split: its folder, class folders below it, images in these. */
static dt_status images_entry(dt_source *s, bool test, FTS *tree, FTSENT *e)
{
    enum { CLASS = 1, IMAGE = 2 };
    struct images *m = s->state;
    const bool failed = e->fts_info == FTS_DNR || e->fts_info == FTS_ERR || e->fts_info == FTS_NS;

    if (e->fts_level > 0 && e->fts_name[0] == '.') {
        m->ignored += e->fts_info != FTS_DP;
        return fts_set(tree, e, FTS_SKIP), DT_OK;
    }
    if (e->fts_level < IMAGE && failed)
        return dt_fail(DT_NOINPUT,
                       "cannot list '%s': %s; expected train/CLASS/*.png|jpg and "
                       "test/CLASS/*.png|jpg",
                       e->fts_path, strerror(e->fts_errno));
    if (e->fts_level == CLASS && e->fts_info == FTS_DP)
        return m->label < 0 ? images_leave(m, e) : DT_OK;
    if (e->fts_level == CLASS && e->fts_info == FTS_D)
        m->label = -1;
    else
        m->ignored += e->fts_level == CLASS;
    if (e->fts_level != IMAGE || e->fts_info == FTS_DP)
        return DT_OK;
    fts_set(tree, e, FTS_SKIP);
    if (e->fts_info == FTS_D && !images_named(e->fts_name))
        return images_leave(m, e);
    return images_add(s, test, e);
}

static dt_status images_scan(dt_source *s, bool test)
{
    struct images *m = s->state;
    const size_t first = m->count;
    char folder[PATH_MAX], *const paths[] = {folder, NULL};
    dt_status st = DT_OK;

    DT_TRY(dt_path_join(folder, m->root, images_split[test]));
    FTS *tree = fts_open(paths, FTS_LOGICAL | FTS_NOCHDIR, images_by_bytes);
    if (!tree)
        return dt_fail(DT_NOMEM, "no memory to list '%s'", folder);
    for (FTSENT *e = fts_read(tree); e && st == DT_OK; e = fts_read(tree))
        st = images_entry(s, test, tree, e);
    fts_close(tree);
    DT_TRY(st);
    if (m->folders > 0)
        dt_warn("'%s': left out: %lld folders that hold no .png, .jpg or .jpeg or lie in a class's "
                "folder: %s%s",
                m->root, (long long)m->folders, m->left,
                strlen(m->left) + 1 == sizeof m->left ? "..." : "");
    m->folders = m->left[0] = 0;
    if (m->count == first)
        return dt_fail(DT_NOINPUT, "'%s' holds no images, expected %s/CLASS/*.png|jpg", folder,
                       images_split[test]);
    qsort(m->file + first, m->count - first, sizeof *m->file, images_by_path);
    return DT_OK;
}

/* ---- Pictures that are asked about -------------------------------------------------- */

/* A file is a picture, whatever its name, and what cannot be looked into; of a folder, those that
 * are named so, also by links. */
static dt_status asked_find(dt_source *s, const char *operand)
{
    enum { MOST_FOLDERS = 1 << 15 };
    struct images *m = s->state;
    char path[PATH_MAX], *const paths[] = {path, NULL};
    const size_t before = m->count;
    dt_status st = DT_OK;

    snprintf(path, sizeof path, "%s", operand);
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = '\0'; /* fts would take what follows for the folder's name */
    FTS *tree = fts_open(paths, FTS_LOGICAL | FTS_NOCHDIR, images_by_bytes);
    if (!tree)
        return dt_fail(DT_NOMEM, "no memory to list '%s'", path);
    for (FTSENT *e = fts_read(tree); e && st == DT_OK; e = fts_read(tree)) {
        const bool hidden = e->fts_level > 0 && e->fts_name[0] == '.';
        if (e->fts_info == FTS_D && ++m->searched > MOST_FOLDERS)
            st = dt_fail(DT_NOINPUT, "'%s' has more than %d folders: do links lead to the same?",
                         operand, MOST_FOLDERS);
        else if (hidden || e->fts_info == FTS_D || e->fts_info == FTS_DP)
            hidden ? fts_set(tree, e, FTS_SKIP) : 0;
        else if (e->fts_level == 0 || e->fts_info == FTS_DNR || e->fts_info == FTS_NS)
            st = add_file(m, e->fts_path, -1, 0);
        else if (images_named(e->fts_name))
            st = add_file(m, e->fts_path, find_class(s, e->fts_parent->fts_name), 0);
    }
    fts_close(tree);
    DT_TRY(st);
    return m->count > before
               ? DT_OK
               : dt_fail(DT_NOINPUT, "'%s' holds no pictures (.png, .jpg, .jpeg)", operand);
}

/* A model that does not name all of its classes has numbers. */
static dt_status asked_classes(dt_source *s, int classes, const char *class_names)
{
    json_t *names = json_loads(class_names, 0, NULL);
    const bool named = json_array_size(names) == (size_t)classes;
    dt_status st = DT_OK;

    for (int c = 0; c < classes && st == DT_OK; c++) {
        const char *text = named ? json_string_value(json_array_get(names, (size_t)c)) : NULL;
        char number[16];
        snprintf(number, sizeof number, "%d", c);
        st = add_class(s, text ? DT_SHOWN(text) : number);
    }
    json_decref(names);
    return st;
}

/* A picture that cannot be read costs one line, the last one's at the end. */
static dt_status asked_leave(struct images *m, dt_status st)
{
    if (st != DT_FORMAT && st != DT_NOINPUT && st != DT_IO)
        return st;
    if (m->broken != DT_OK)
        dt_log_error("%s", m->reason);
    else
        m->broken = st;
    snprintf(m->reason, sizeof m->reason, "%s", dt_fail_text());
    dt_fail_clear();
    return DT_OK;
}

/* ---- The row --------------------------------------------------------------------- */

static dt_status images_open(dt_source *s, const char *path, dt_hash *manifest)
{
    char folder[PATH_MAX];
    struct images *m = NULL;
    dt_picture first = {0};

    snprintf(folder, sizeof folder, "%s/%s", path, images_split[0]);
    if (!dt_path_is_folder(folder))
        return DT_DECLINED;
    DT_TRY(dt_calloc(&m, 1, sizeof *m, "image folder"));
    s->state = m;
    snprintf(m->root, sizeof m->root, "%s", path);
    DT_TRY(images_scan(s, false));
    if (s->info.classes < 2)
        return dt_fail(DT_FORMAT,
                       "image folder '%s' has one class, '%s': there is nothing to "
                       "tell apart; add the images of a second class as %s/CLASS/*.png|jpg",
                       path, m->class_name[0], folder);
    m->train = m->count;
    DT_TRY(images_scan(s, true));
    for (size_t i = 0; i < m->count; i++) {
        const char *name = m->file[i].path + strlen(path) + 1; /* split/CLASS/NAME */
        dt_hash_update(manifest, name, strlen(name) + 1);
        dt_hash_update(manifest, &m->file[i].bytes, sizeof m->file[i].bytes);
    }
    s->info.train = (int64_t)m->train;
    s->info.test = (int64_t)(m->count - m->train);
    DT_TRY(dt_image_size(m->file[0].path, &first));
    s->info.width = first.width;
    s->info.height = first.height;
    if (m->ignored > 0)
        dt_note("'%s': left out: %lld that are no .png, .jpg or .jpeg, are hidden, or lie in no "
                "class folder",
                path, (long long)m->ignored);
    return DT_OK;
}

static void images_fit(dt_source *s, int side, int height, int width)
{
    if (s->info.height == 0) /* those that are asked about have no size so far */
        s->info.height = s->info.width = side;
    const int by = DT_MAX(DT_MIN(s->info.height, s->info.width) / side, 1);
    s->info.height = s->shown.height = height > 0 ? height : s->info.height / by;
    s->info.width = s->shown.width = height > 0 ? width : s->info.width / by;
}

static dt_status images_read(dt_source *s)
{
    struct images *m = s->state;
    const int width = s->info.width, height = s->info.height;
    const size_t bytes = 3 * (size_t)width * (size_t)height;
    const size_t train = (size_t)s->info.train;
    const bool asked = !s->row->open;
    int64_t resized = 0;
    size_t good = 0;
    dt_decoder decoder = {.fd = -1};
    dt_status st = DT_OK;

    for (size_t at = 0; at < train + (size_t)s->info.test; at++) {
        struct images_file *f = &m->file[at < train ? at : at - train + m->train], of = *f;
        if (decoder.pid == 0) { /* none was started, or the last picture has ended it */
            dt_decoder_stop(&decoder);
            DT_GO(st, dt_decoder_start(&decoder), out);
        }
        st = dt_image_read(&decoder, of.path, width, height, s->images + good * bytes, &resized);
        if (st != DT_OK) {
            DT_GO(st, asked ? asked_leave(m, st) : st, out);
            continue;
        }
        if (asked) { /* those that are left out come last */
            *f = m->file[good];
            m->file[good] = of;
        }
        s->labels[good++] = of.label;
    }
    if (asked)
        s->info.test = s->shown.test = (int64_t)good;
    if (good == 0)
        st = dt_source_left_out(s);
    if (resized > 0 && !asked)
        dt_note("'%s': %lld images are resized to %d x %d", m->root, (long long)resized, width,
                height);
out:
    dt_decoder_stop(&decoder);
    return st;
}

static void images_close(dt_source *s)
{
    struct images *m = s->state;
    for (int c = 0; c < s->info.classes; c++)
        free(m->class_name[c]);
    for (size_t i = 0; i < m->count; i++)
        free(m->file[i].path);
    DT_FREE(m->class_name, m->file);
}

void dt_extra_images(void)
{
    static const dt_source_row row = {"images",     images_open, images_read,
                                      images_close, images_fit,  dt_decoder_serve};
    dt_source_set(&row);
}

dt_status dt_source_open_pictures(dt_source **out, int classes, const char *class_names,
                                  const char *const *operand, size_t operands)
{
    static const dt_source_row row = {"pictures",   NULL,       images_read,
                                      images_close, images_fit, NULL};
    struct images *m = NULL;
    dt_source *s = NULL;
    dt_status st = DT_OK;

    DT_TRY(dt_calloc(&s, 1, sizeof *s, "the pictures"));
    s->row = &row;
    DT_GO(st, dt_calloc(&m, 1, sizeof *m, "the pictures"), out);
    s->state = m;
    DT_GO(st, asked_classes(s, classes, class_names), out);
    for (size_t i = 0; i < operands; i++)
        DT_GO(st, asked_find(s, operand[i]), out);
    s->info.kind = row.name;
    s->info.test = (int64_t)m->count;
    s->info.class_names = class_names;
    s->shown = s->info;
    *out = s;
    s = NULL;
out:
    dt_source_close(s);
    return st;
}

const char *dt_source_picture(const dt_source *s, int64_t i)
{
    const struct images *m = s->state;
    return m->file[i].path;
}

dt_status dt_source_left_out(const dt_source *s)
{
    const struct images *m = s->state;
    return m->broken == DT_OK ? DT_OK : dt_fail(m->broken, "%s", m->reason);
}
