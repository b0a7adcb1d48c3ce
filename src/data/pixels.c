/* pixels.c - stb_image on memory of our own. */
#include "pixels.h"
#include "picture.h"

#include <errno.h>
#include <sys/mman.h>
#if DT_SANITIZED
#include <sanitizer/asan_interface.h>
#endif
#ifndef ASAN_POISON_MEMORY_REGION
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at))
#endif

enum {
    PIXELS_BLOCK_CAP = 256 << 20, /* a PNG can inflate a thousandfold; 16-bit RGBA needs 171 MiB */
    PIXELS_ROOM = 896 << 20,      /* file, its copy, and three blocks on the way to pixels */
    PIXELS_PALETTE = 768,         /* bytes of a full one */
    PIXELS_LINE = 64,             /* alignment, and the least distance of two blocks */
};

/* Blocks lie one behind the other; only the last can grow or go. */
static struct {
    uint8_t *mem;
    size_t used, dirty; /* bytes of the blocks now, and the most there have been */
    size_t last;        /* where the last block begins */
} pixels;

static void *pixels_take(size_t bytes)
{
    const size_t room = dt_align(bytes, PIXELS_LINE) + PIXELS_LINE;
    uint8_t *block = pixels.mem + pixels.used;

    if (bytes > PIXELS_BLOCK_CAP || room > PIXELS_ROOM - pixels.used)
        return NULL;
    ASAN_UNPOISON_MEMORY_REGION(block, bytes);
    if (pixels.dirty > pixels.used)
        memset(block, 0, DT_MIN(bytes, pixels.dirty - pixels.used));
    pixels.last = pixels.used;
    pixels.used += room;
    pixels.dirty = DT_MAX(pixels.used, pixels.dirty);
    return block;
}

static void pixels_give(void *block)
{
    if (!block || block != pixels.mem + pixels.last || pixels.last == pixels.used)
        return;
    ASAN_POISON_MEMORY_REGION(block, pixels.used - pixels.last);
    pixels.used = pixels.last;
}

/* The last block grows where it lies. */
static void *pixels_grow(void *block, size_t old, size_t bytes)
{
    if (block && block == pixels.mem + pixels.last && old <= bytes && bytes <= PIXELS_BLOCK_CAP &&
        pixels.last + bytes <= PIXELS_ROOM - 2 * PIXELS_LINE) {
        const size_t end = pixels.last + dt_align(bytes, PIXELS_LINE) + PIXELS_LINE;
        uint8_t *more = (uint8_t *)block + old;
        ASAN_UNPOISON_MEMORY_REGION(more, bytes - old);
        const size_t dirty = pixels.dirty - (pixels.last + old);
        memset(more, 0, DT_MIN(bytes - old, dirty));
        pixels.used = end;
        pixels.dirty = DT_MAX(end, pixels.dirty);
        return block;
    }
    void *moved = pixels_take(bytes);
    if (moved && block)
        memcpy(moved, block, DT_MIN(old, bytes));
    return moved;
}

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STBI_NO_STDIO
#define STBI_MAX_DIMENSIONS DT_PICTURE_SIDE
#define STBI_MALLOC(bytes) pixels_take(bytes)
#define STBI_REALLOC_SIZED(p, old, bytes) pixels_grow(p, old, bytes)
#define STBI_FREE(p) pixels_give(p)
/* The header declares more static functions than these switches let it define. */
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb_image.h>

dt_status dt_pixels_open(void)
{
    void *mem = mmap(NULL, PIXELS_ROOM, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mem == MAP_FAILED)
        return dt_fail(DT_NOMEM, "no address space of %d MiB to decode images: %s",
                       PIXELS_ROOM >> 20, strerror(errno));
    pixels.mem = mem;
    pixels.used = pixels.dirty = pixels.last = 0;
    ASAN_POISON_MEMORY_REGION(mem, PIXELS_ROOM);
    return DT_OK;
}

/* stb_image keeps palettes on its stack and does not compare pixels with their length: a
 * palette is made full, with black, so that no pixel shows what lies behind it. The file
 * lies in a block with room for that; returns its new size. */
static size_t pixels_fill_palette(uint8_t *file, size_t count)
{
    for (size_t at = 8; count >= 12 && at <= count - 12;) {
        const size_t length = (size_t)file[at] << 24 | (size_t)file[at + 1] << 16 |
                              (size_t)file[at + 2] << 8 | file[at + 3];
        uint8_t *data = file + at + 8;
        if (length > count - at - 12)
            return count;
        if (memcmp(file + at + 4, "PLTE", 4) != 0) {
            at += 12 + length;
            continue;
        }
        if (length >= PIXELS_PALETTE)
            return count;
        const size_t more = PIXELS_PALETTE - length;
        memmove(data + PIXELS_PALETTE, data + length, count - at - 8 - length);
        memset(data + length, 0, more);
        file[at + 2] = PIXELS_PALETTE >> 8;
        file[at + 3] = PIXELS_PALETTE & 255;
        return count + more;
    }
    return count;
}

uint8_t *dt_pixels_file(size_t count)
{
    ASAN_POISON_MEMORY_REGION(pixels.mem, pixels.used);
    pixels.used = pixels.last = 0;
    return count <= PIXELS_BLOCK_CAP ? pixels_take(count + PIXELS_PALETTE) : NULL;
}

const uint8_t *dt_pixels_decode(size_t count, int width, int height, const char **reason)
{
    int w = 0, h = 0, channels = 0;

    stbi__g_failure_reason = "damaged"; /* some failures give none */
    if (count > 8 && pixels.mem[0] == 0x89)
        count = pixels_fill_palette(pixels.mem, count);
    const stbi_uc *to = stbi_load_from_memory(pixels.mem, (int)count, &w, &h, &channels, 3);
    *reason = "another size than the header's";
    if (!to)
        *reason = stbi_failure_reason();
    if (strcmp(*reason, "outofmem") == 0) /* of the room that its header's size allows */
        *reason = "more data than its size allows";
    return to && w == width && h == height ? to : NULL;
}
