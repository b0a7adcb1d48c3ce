/* sources.h - data sources, opened, loaded and heard. */
#ifndef DT_TEST_SOURCES_H
#define DT_TEST_SOURCES_H
#include "folder.h"

#include "data/data.h"

/* A source and the memory of its images; closed by source_close. */
static inline dt_source *source_loaded(const char *path, int64_t subset, uint32_t seed,
                                       void **memory)
{
    dt_source *s = NULL;

    assert_ok(dt_source_open(&s, path, subset, seed));
    *memory = malloc(dt_source_bytes(s));
    assert_non_null(*memory);
    assert_ok(dt_source_load(s, *memory, true));
    return s;
}

static inline void source_close(dt_source *s, void *memory)
{
    dt_source_close(s);
    free(memory);
}

/* What is wrong shows when it is opened or when it is read. */
static inline dt_status source_try(const char *path)
{
    dt_source *s = NULL;
    dt_status st = dt_source_open(&s, path, 0, 0);
    void *memory = s ? malloc(dt_source_bytes(s)) : NULL;

    assert_true((st == DT_OK) == (s != NULL));
    if (s)
        st = dt_source_load(s, memory, true);
    source_close(s, memory);
    return st;
}

/* A good one; what was said of it, in `text`. */
static inline void source_heard(const char *path, int64_t subset, char text[2048])
{
    FILE *into = NULL;
    void *memory = NULL;
    const int kept = folder_listen(&into);

    dt_source *s = source_loaded(path, subset, 0, &memory);
    source_close(s, memory);
    folder_heard(kept, into, text, 2048);
}
#endif
