/* sources.h - data sources, opened, loaded and heard. */
#ifndef DT_TEST_SOURCES_H
#define DT_TEST_SOURCES_H
#include "capture.h"
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

/* Of the CIFAR files that tests make up: the records of file 0, 1, ... */
static inline uint8_t cifar_pixel(int file, int record, int channel, int y, int x)
{
    return (uint8_t)(file * 31 + record * 7 + channel * 85 + y * 5 + x * 3);
}

static inline void cifar_check(const dt_source *s, bool test, int64_t i, int want, int file,
                               int record)
{
    int32_t label = -1;
    const uint8_t *image = dt_source_image(s, test, i, &label);

    assert_int_equal(label, want);
    for (int k = 0; k < 3 * 32 * 32; k++)
        assert_int_equal(image[k], cifar_pixel(file, record, k % 3, k / 96, k / 3 % 32));
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

/* A good one; what was said of it, in heard->text. */
static inline void source_heard(const char *path, int64_t subset, capture *heard)
{
    void *memory = NULL;

    capture_begin(heard);
    dt_source *s = source_loaded(path, subset, 0, &memory);
    source_close(s, memory);
    capture_end(heard);
}
#endif
