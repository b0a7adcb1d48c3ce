/* source.h - a kind of source; private to src/data, and to an extra that adds one. */
#ifndef DT_SOURCE_H
#define DT_SOURCE_H
#include "data.h"

typedef struct dt_source_row {
    const char *name;
    /* Recognise the path and fill info (all but kind; train before --subset) and state; feed names
     * and sizes of the files to `manifest`. DT_DECLINED, source and manifest untouched: the path is
     * another row's. */
    dt_status (*open)(dt_source *s, const char *path, dt_hash *manifest);
    /* Fill labels and images of info.train + info.test samples, and check them. */
    dt_status (*read)(dt_source *s);
    /* The others are optional. Free what `state` owns; it may be half built, but is never NULL. */
    void (*close)(dt_source *s);
    void (*fit)(dt_source *s, int side, int height, int width); /* dt_source_fit, of info, shown */
    int (*serve)(int argc, char **argv);                        /* dt_source_serve */
} dt_source_row;

struct dt_source {
    const dt_source_row *row;
    dt_source_info info;  /* of all images, as the row fills it in */
    dt_source_info shown; /* without those held out */
    uint32_t *order;      /* [info.train] the held-out training images last, owned; NULL: none */
    uint32_t seed;
    dt_digest manifest;
    char files[6 * 64 + 1]; /* SHA-256 of each, once they are read; "": the row tells none */
    void *state;     /* the row's own, owned */
    char *names;     /* info.class_names, owned */
    int32_t *labels; /* [train + test], borrowed; NULL before dt_source_load */
    uint8_t *images; /* [train + test][height][width][3], borrowed */
};

extern const dt_source_row dt_source_synthetic, dt_source_cifar10, dt_source_cifar100;
/* One row more, tried after these, before the first source is opened; borrowed. Local. */
void dt_source_set(const dt_source_row *row);
#endif
