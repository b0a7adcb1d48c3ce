/* pixels.c - stb_image on memory of our own. */
#include "decoder.h"

#include <sys/mman.h>
#if DT_SANITIZED
#include <sanitizer/asan_interface.h>
#endif
#ifndef ASAN_POISON_MEMORY_REGION
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at))
#endif

enum {
    PIXELS_BLOCK_CAP = 257 << 20, /* a PNG can inflate a thousandfold; 16-bit RGBA has 256 MiB */
    PIXELS_ROOM = 1152 << 20,     /* file, its copy, and what comes between it and pixels */
    PIXELS_PALETTE = 768,         /* bytes of a full one */
    PIXELS_LINE = 64,             /* alignment, and the least distance of two blocks */
};

/* Blocks lie one after the other, and go all at once: dt_pixels_file zeroes them. */
static struct {
    uint8_t *mem;
    size_t used; /* bytes */
} pixels;

static void *pixels_take(size_t bytes)
{
    uint8_t *block = pixels.mem + pixels.used;
    const size_t room = dt_align(bytes, PIXELS_LINE) + PIXELS_LINE;

    if (bytes > PIXELS_BLOCK_CAP || room > PIXELS_ROOM - pixels.used)
        return NULL;
    ASAN_UNPOISON_MEMORY_REGION(block, bytes);
    pixels.used += room;
    return block;
}

static void *pixels_grow(void *block, size_t old, size_t bytes)
{
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
#define STBI_FREE(p) ((void)(p))
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
    pixels.used = 0;
    ASAN_POISON_MEMORY_REGION(mem, PIXELS_ROOM);
    return DT_OK;
}

/* stb_image keeps palettes on its stack and does not compare pixels with their length: a short
 * palette is filled up with black, so that no pixel shows other bytes of the stack. The file lies
 * in a block with room for that; returns its new size. */
static size_t pixels_fill_palette(uint8_t *file, size_t count)
{
    for (size_t at = 8, n; (n = dt_png_length(file, count, at)) != SIZE_MAX; at += 12 + n) {
        uint8_t *end = file + at + 8 + n;
        if (memcmp(file + at + 4, "PLTE", 4) != 0 || n == 0 || n % 3 != 0 || n >= PIXELS_PALETTE)
            continue;
        memmove(end + PIXELS_PALETTE - n, end, count - (at + 8 + n));
        memset(end, 0, PIXELS_PALETTE - n);
        file[at + 2] = PIXELS_PALETTE >> 8;
        file[at + 3] = PIXELS_PALETTE & 255;
        return count + PIXELS_PALETTE - n;
    }
    return count;
}

/* What stb_image does not look at in a JPEG, and would take for zeros or other colours; NULL:
 * nothing. Of a file that it has refused, why. */
static const char *pixels_jpeg_flaw(const stbi__jpeg *j, bool decoded, int restarts)
{
    const int adobe = j->app14_color_transform, n = j->s->img_n;

    for (int i = 0; i < n; i++) {
        const int dc = j->img_comp[i].hd, ac = j->img_comp[i].ha; /* -1: there was no scan yet */
        if (!decoded && ac >= 0 && /* beyond 3 they have been refused */
            ((j->spec_start == 0 && !j->huff_dc[dc & 3].size[0]) ||
             ((!j->progressive || j->spec_start > 0) && !j->huff_ac[ac & 3].size[0])))
            return "it lacks a Huffman table, as frames of MJPEG videos do";
        if (decoded && (ac < 0 || !j->dequant[j->img_comp[i].tq][0]))
            return "it lacks a quantisation table, or a scan of a component";
    }
    const int x = j->img_comp[j->order[0]].x, y = j->img_comp[j->order[0]].y;
    const int blocks = j->scan_n == 1 ? (x + 7) / 8 * ((y + 7) / 8) : j->img_mcu_x * j->img_mcu_y;
    if (decoded && (n == 4 ? adobe != 0 && adobe != 2 : j->rgb == 3 && (j->jfif || adobe > 0)))
        return "which colours its components are is not said, or twice: save it as RGB";
    if (j->nomore || (j->restart_interval && restarts < (blocks - 1) / j->restart_interval))
        return "a scan is cut, or its restarts are wrong";
    return NULL;
}

/* A scan that ends early goes on in zeros for stb_image. So the last one gets as many bytes more as
 * are read ahead at most, and one that needs them is cut: their ones are the longest codes. No
 * table has codes that the file does not define. */
static const stbi_uc *pixels_jpeg(size_t count, const dt_picture *p, int *w, int *h, int *channels)
{
    enum { AHEAD = 4 };
    uint8_t *end = pixels.mem + p->coded_end;
    stbi__jpeg *j = pixels_take(sizeof *j);
    stbi__context s;

    memmove(end + AHEAD, end, count - p->coded_end);
    memset(end, 0xfe, AHEAD);
    stbi__start_mem(&s, pixels.mem, (int)(count + AHEAD));
    j->s = &s;
    stbi__setup_jpeg(j);
    for (int i = 0; i < 4; i++) {
        stbi__build_huffman(&j->huff_dc[i], (int[16]){0});
        stbi__build_huffman(&j->huff_ac[i], (int[16]){0});
        j->img_comp[i].ha = -1;
    }
    const stbi_uc *to = load_jpeg_image(j, w, h, channels, 3);
    const char *flaw = pixels_jpeg_flaw(j, to != NULL, p->restarts);
    stbi__g_failure_reason = flaw ? flaw : stbi__g_failure_reason;
    return flaw ? NULL : to;
}

uint8_t *dt_pixels_file(size_t count)
{
    ASAN_UNPOISON_MEMORY_REGION(pixels.mem, pixels.used);
    memset(pixels.mem, 0, pixels.used);
    ASAN_POISON_MEMORY_REGION(pixels.mem, pixels.used);
    pixels.used = 0;
    return count <= PIXELS_BLOCK_CAP ? pixels_take(count + PIXELS_PALETTE) : NULL;
}

const uint8_t *dt_pixels_decode(size_t count, int width, int height, const char **reason)
{
    int w = 0, h = 0, channels = 0;
    dt_picture p;

    stbi__g_failure_reason = "damaged"; /* some failures give none */
    if (count > 8 && pixels.mem[0] == 0x89)
        count = pixels_fill_palette(pixels.mem, count);
    const stbi_uc *to = dt_picture_check(pixels.mem, count, &p) && p.coded_end
                            ? pixels_jpeg(count, &p, &w, &h, &channels)
                            : stbi_load_from_memory(pixels.mem, (int)count, &w, &h, &channels, 3);
    *reason = to ? "another size than the header's" : stbi_failure_reason();
    if (!(*reason)[0]) /* a chunk whose name begins with a zero */
        *reason = "damaged";
    if (strcmp(*reason, "outofmem") == 0) /* of the room that its header's size allows */
        *reason = "more data than its size allows";
    return to && w == width && h == height ? to : NULL;
}
