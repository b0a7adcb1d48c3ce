/* base.h - what every folder stands on; the public header of src/base.
 *
 * Statuses and the record of the first cause, the log, slabs of memory, the one random
 * generator, hashes, moments, 16-bit floats, and what the CPU can do. Everything here is Local:
 * no function talks to another rank. */
#ifndef DT_BASE_H
#define DT_BASE_H
#include "cpu.h"
#include "activity.h"
#include "status.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Small things ----------------------------------------------------------------- */

/* Elements of an array, not of a pointer. */
#define DT_COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* Arguments are evaluated twice. */
#define DT_MIN(a, b) ((a) < (b) ? (a) : (b))
#define DT_MAX(a, b) ((a) > (b) ? (a) : (b))

/* A name and its text, both borrowed. */
typedef struct dt_field {
    const char *name, *value;
} dt_field;

/* Seconds of a clock that is never set. */
double dt_seconds(void);
/* Seconds since 1970, by the clock of the system. */
double dt_time(void);

/* ---- Looking after something else ----------------------------------------------------- */

/* From now on dt_poll, called by this thread, calls run(context) at most once in `every_s` seconds,
 * counted from now. `run` must neither change nor read data of dt_poll's callers. NULL removes the
 * context's, which is not NULL itself. A thread has room for 4, more are ignored. */
void dt_poll_set(double every_s, void (*run)(void *context), void *context);
/* Called between pieces of long work, by any thread; a piece takes a millisecond or less. */
void dt_poll(void);

/* ---- Files ------------------------------------------------------------------------ */

/* Only regular files are read: a pipe or device could make a rank wait. No file is mapped: if a
 * file shrinks, a read fails, but a mapping gives SIGBUS. `folder` is a descriptor, or AT_FDCWD
 * for a path that the user gave; in a folder, links are refused. Messages begin with `name`. */

/* Open a regular file for reading; the caller closes *fd, *bytes is its size. DT_NOINPUT: it is
 * missing, a link, or no regular file; DT_IO: the system failed, which says nothing of the file. */
dt_status dt_file_open(int folder, const char *name, int *fd, int64_t *bytes) DT_MUST_CHECK;
/* Exactly `bytes` bytes from `offset` of an open file. DT_IO; DT_FORMAT: the file ends before. */
dt_status dt_file_read_at(int fd, const char *name, int64_t offset, void *to,
                          size_t bytes) DT_MUST_CHECK;
/* All of a file of at most `most` bytes; *text ends with a zero byte and is freed by free(), length
 * may be NULL. DT_NOINPUT, DT_NOMEM, DT_IO; DT_FORMAT: it is larger. */
dt_status dt_file_read(int folder, const char *name, size_t most, char **text,
                       size_t *length) DT_MUST_CHECK;
/* The same of a text that people write, without the byte order mark and the CRs of Windows. */
dt_status dt_file_text(const char *name, size_t most, char **text, size_t *length) DT_MUST_CHECK;

/* errno of an open with O_NOFOLLOW as text. */
const char *dt_open_error(void);

/* Append lines to a file opened with O_APPEND: all, or none (false, errno). After a kill the last
 * line may be cut: mend removes it. */
bool dt_append(int fd, const char *text, size_t bytes);
void dt_append_mend(int fd);

/* Make and sync the folders above the last part of path, from the top. DT_CANTCREATE; DT_IO: the
 * disk is full. */
dt_status dt_parents_make(const char *path) DT_MUST_CHECK;

/* With this another process of the same user can open a file that this one has open. */
typedef struct dt_lent {
    int64_t pid, fd; /* fd < 0: there is none */
    uint64_t device, inode;
} dt_lent;
/* The owner describes it: 0, or errno. */
int dt_lend(int fd, dt_lent *l);
/* The other process opens it for reading and writing: 0, or errno; ESRCH: the owner is gone. */
int dt_borrow(const dt_lent *l, int *fd);

/* ---- Log ------------------------------------------------------------------------- */

/* stderr carries the log, stdout results. Rank 0 alone writes notes and warnings; every rank writes
 * its errors, after its rank and host if world > 1. Own lines go into the rank's file alone, if it
 * has one. A message that is too long keeps its beginning. */
void dt_log_init(int rank, int world);
typedef enum dt_log_kind {
    DT_LOG_NOTE,
    DT_LOG_WARN,
    DT_LOG_COMMON, /* an error of several ranks */
    DT_LOG_ERROR,  /* of this rank */
    DT_LOG_OWN
} dt_log_kind;
void dt_log_write(dt_log_kind kind, const char *fmt, ...) DT_PRINTF(2, 3);
#define dt_note(...) dt_log_write(DT_LOG_NOTE, __VA_ARGS__)
#define dt_warn(...) dt_log_write(DT_LOG_WARN, __VA_ARGS__)
#define dt_log_error(...) dt_log_write(DT_LOG_ERROR, __VA_ARGS__)
#define dt_log_own(...) dt_log_write(DT_LOG_OWN, __VA_ARGS__)
/* From now on each rank also writes all that it says into rank-00000.log (its number) in `folder`,
 * which is created; time, rank and host stand before each line. DT_CANTCREATE. */
dt_status dt_log_into(const char *folder) DT_MUST_CHECK;
/* Whether notes are shown. */
void dt_log_notes(bool shown);
/* A line from any thread: to stderr and into the file. */
void dt_log_line(const char *line);
/* How many bytes the UTF-8 sequence at the start of text has, and in *code its character; 0: it is
 * no UTF-8. text is not empty. */
int dt_utf8_bytes(const char *text, uint32_t *code);
/* Make a text one harmless line: control characters and bytes that are no UTF-8 become '?'. */
void dt_log_shown(char *text);
/* A copy that was made so, cut to the room; returns out. */
const char *dt_shown(const char *text, char out[PATH_MAX]);
#define DT_SHOWN(text) dt_shown(text, (char[PATH_MAX]){""}) /* to print foreign text */

/* ---- Memory ---------------------------------------------------------------------- */

/* One large allocation: zeroed, aligned to 2 MiB, huge pages asked for. Owned by the caller; a
 * zeroed one may be destroyed. DT_NOMEM says for what. */
typedef struct dt_slab {
    void *mem;    /* aligned start, NULL when bytes is 0 */
    size_t bytes; /* asked for */
    void *map;    /* the mapping to give back */
    size_t map_bytes;
} dt_slab;
dt_status dt_slab_create(dt_slab *s, size_t bytes, const char *what) DT_MUST_CHECK;
void dt_slab_destroy(dt_slab *s);

/* *p_out [count] of `size` bytes, zeroed, to be freed by free(). DT_NOMEM. */
dt_status dt_calloc(void *p_out, size_t count, size_t size, const char *what) DT_MUST_CHECK;
/* free() of each: DT_FREE(a, b, c). */
#define DT_FREE(...) dt_free_each((void *[]){__VA_ARGS__}, DT_COUNT_OF(((void *[]){__VA_ARGS__})))
void dt_free_each(void *const *p, size_t count);

/* Start a thread without signals: others handle those. DT_NOMEM says for what. */
dt_status dt_thread_start(pthread_t *thread, void *(*body)(void *context), void *context,
                          const char *what) DT_MUST_CHECK;

/* Bytes that this process may still take without swapping: the smallest of MemAvailable, its
 * cgroups' free memory and the limits of its address space and data. 0 when unknown. */
uint64_t dt_memory_available(void);
/* Limits (ulimit -v, -d, -s, -n) that are too low for any run. DT_NOMEM names the limit. */
dt_status dt_memory_check_limits(void) DT_MUST_CHECK;

static inline size_t dt_align(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* ---- Random numbers -------------------------------------------------------------- */

/* Philox4x32-10 (Salmon et al., SC'11): key (seed, stream), counter (index low, index high, epoch,
 * draw). No rank, thread or call count: numbers do not depend on who draws them. */
typedef enum dt_stream {
    DT_STREAM_INIT = 1,
    DT_STREAM_PERMUTATION = 2,
    DT_STREAM_AUGMENT = 3,
    DT_STREAM_HOLDOUT = 4,
    DT_STREAM_SYNTHETIC = 5,
    DT_STREAM_TEST = 6,
} dt_stream;
void dt_random(uint32_t seed, dt_stream stream, uint32_t epoch, uint64_t index, uint32_t draw,
               uint32_t out[4]);

/* order[0 .. n - 1] becomes a permutation of these numbers (Fisher-Yates; the draw of element i has
 * index i). */
void dt_permute(uint32_t *order, int64_t n, uint32_t seed, dt_stream stream, uint32_t epoch);

/* [0, 1) with 24 random bits; exact in float32. */
static inline float dt_uniform(uint32_t bits)
{
    return (float)(bits >> 8) * 0x1p-24f;
}

/* 0 <= result < n, n > 0, without modulo bias to speak of (multiply-shift on 32 bits). */
static inline uint32_t dt_below(uint32_t bits, uint32_t n)
{
    return (uint32_t)(((uint64_t)bits * n) >> 32);
}

/* A random tensor: dt_random with epoch = tensor, draw = 0. Uniform: element e takes out[e % 4] of
 * index e / 4; x[e] = lo + (hi - lo) * u in float32. Normal: element e takes u1 in (0, 1] and u2
 * from out[0] and out[1] of index e; z by Box-Muller (1958) in float64; x[e] = (float)(std * z). */
void dt_fill_uniform(float *x, size_t count, float lo, float hi, uint32_t seed, dt_stream stream,
                     uint32_t tensor);
void dt_fill_normal(float *x, size_t count, double std, uint32_t seed, dt_stream stream,
                    uint32_t tensor);

/* ---- Hashes: XXH3, 128 bits ------------------------------------------------------- */

typedef struct dt_digest {
    uint64_t low, high;
} dt_digest;
dt_digest dt_hash_bytes(const void *data, size_t bytes);
typedef struct dt_hash { /* of bytes that come in parts */
    _Alignas(64) char state[576];
} dt_hash;
void dt_hash_init(dt_hash *h);
void dt_hash_update(dt_hash *h, const void *data, size_t bytes);
dt_digest dt_hash_digest(const dt_hash *h);
enum { DT_DIGEST_CHARS = 33 };
/* 32 hexadecimal digits, high half first, as xxhsum prints. */
void dt_digest_text(dt_digest d, char out[DT_DIGEST_CHARS]);

/* ---- Files that are written ------------------------------------------------------- */

/* Files reach the disk in the order of the calls: each is on it when dt_outfile_finish returns. */

/* Where a file goes. It is written under a temporary name beside it and renamed when it is whole
 * and synced: at any moment `name` is the whole new file or what was there before. Nothing is
 * written through a link or into a file that exists. */
typedef struct dt_target {
    int folder;        /* a descriptor, or AT_FDCWD */
    const char *name;  /* in that folder, or a path; borrowed */
    const char *shown; /* what messages call the file; borrowed */
    bool fresh;        /* the folder itself is temporary, so the file gets its own name at once */
} dt_target;
/* A path that the user gave. */
#define DT_TARGET(path) ((dt_target){.folder = AT_FDCWD, .name = (path), .shown = (path)})
/* Whether a file may go there: nothing, or a regular file, has the name. DT_CANTCREATE: a folder,
 * link, device, pipe or socket, which is left alone. */
dt_status dt_target_check(const dt_target *t) DT_MUST_CHECK;

/* What was written: length, and XXH3-128 of the bytes as they were handed over. */
typedef struct dt_written {
    uint64_t bytes;
    dt_digest digest;
} dt_written;

typedef struct dt_outfile {
    dt_target target;
    char made[PATH_MAX]; /* the name that it has so far; "": there is nothing to remove */
    int fd;              /* -1: closed */
    uint64_t bytes;      /* written so far */
    dt_hash hash;
} dt_outfile;

/* Make a file, of the mode that the umask leaves. In the end call dt_outfile_abandon, also after a
 * failure. DT_CANTCREATE; DT_IO: the disk is full. */
dt_status dt_outfile_open(dt_outfile *f, const dt_target *t) DT_MUST_CHECK;
/* DT_IO; DT_NOMEM: ulimit -f is lower. */
dt_status dt_outfile_write(dt_outfile *f, const void *data, uint64_t bytes) DT_MUST_CHECK;
/* Sync and close; unless its folder is fresh, give it its name and sync the folder. w may be NULL.
 * The file stays when f is abandoned afterwards. DT_IO; DT_CANTCREATE: a folder has that name. */
dt_status dt_outfile_finish(dt_outfile *f, dt_written *w) DT_MUST_CHECK;
/* Close what is open and unlink what is not finished; a zeroed f with fd -1 is allowed. */
void dt_outfile_abandon(dt_outfile *f);
/* A whole new file from memory. */
dt_status dt_outfile_put(const dt_target *t, const void *data, uint64_t bytes,
                         dt_written *w) DT_MUST_CHECK;

/* "a/b" into out[PATH_MAX]. DT_CANTCREATE: too long. */
dt_status dt_path_join(char *out, const char *a, const char *b) DT_MUST_CHECK;
/* Whether the path ends in that suffix, such as ".onnx". */
bool dt_path_ends(const char *path, const char *suffix);
/* Whether the path leads to anything. */
bool dt_path_exists(const char *path);
bool dt_path_is_folder(const char *path);
/* Whether anything has the name, also a link whose target is missing: its disk may not be there. */
bool dt_path_taken(const char *path);
/* Sync an open folder: before that, a name made, renamed or removed in it may not be on the disk.
 * `shown` is what messages call it. EINVAL is no failure: file systems that cannot sync folders
 * return it, and keep the order themselves. DT_IO. */
dt_status dt_folder_sync(int fd, const char *shown) DT_MUST_CHECK;
/* The same for the folder that `name` lies in, unless this user may not read it. */
dt_status dt_folder_sync_above(int folder, const char *name) DT_MUST_CHECK;
/* Return path. If path is "a/./b" and leads to nothing, but "b" exists in the working folder,
 * return "b": a run and its data may have moved together. */
const char *dt_path_moved(const char *path);
/* Whether two paths lead to one file or folder. */
bool dt_path_same(const char *a, const char *b);
/* Whether errno says that the disk has no such call, as Lustre may have no flock, FUSE no fsync. */
bool dt_disk_lacks(void);
/* fsync, repeated after EINTR. 0, also where the disk has no fsync; -1 with errno. */
int dt_fd_sync(int fd);

/* ---- Moments ---------------------------------------------------------------------- */

/* Count, mean and sum of squared deviations of a set of numbers. */
typedef struct dt_moment {
    double count, mean, m2;
} dt_moment;

/* The moments of a then b (Chan, Golub & LeVeque 1979). Not commutative in bits: a is
 * the set with the lower indices. An operand of count 0 is passed over. */
static inline dt_moment dt_moment_merge(dt_moment a, dt_moment b)
{
    if (a.count == 0)
        return b;
    if (b.count == 0)
        return a;
    const double n = a.count + b.count, d = b.mean - a.mean;
    return (dt_moment){n, a.mean + d * (b.count / n),
                       a.m2 + b.m2 + d * d * (a.count * b.count / n)};
}

/* ---- Numbers as text ---------------------------------------------------------------- */

/* Read the number that `text` begins with, in decimal: no blanks, 0x10, inf or nan. *end is what
 * follows it. False: there is no number, or it is too large, too small or subnormal. */
bool dt_whole_parse(const char *text, const char **end, int64_t *value);
bool dt_real_parse(const char *text, const char **end, double *value);
/* x; a NaN without its sign, which printf would show. */
double dt_nan_unsigned(double x);

/* ---- bf16: the upper half of a float32, round to nearest even, NaN stays NaN --------
 * Without branches, so that a loop of them is done by vectors. */

typedef uint16_t dt_bf16;
static inline float dt_bf16_to_f32(dt_bf16 x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
static inline dt_bf16 dt_f32_to_bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    const uint32_t nan = (bits >> 16) | 0x40u,
                   number = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return (dt_bf16)((bits & 0x7fffffffu) > 0x7f800000u ? nan : number);
}

/* IEEE 754 binary16, also without branches. Subnormals are right in programs that flush them. */
typedef uint16_t dt_f16;
static inline float dt_f16_to_f32(dt_f16 x)
{
    const uint32_t m = x & 0x7fffu, small = 0u - (m < 0x400u);
    const float tiny = (float)(int32_t)m * 0x1p-24f;
    uint32_t bits;
    float f;
    memcpy(&bits, &tiny, sizeof bits);
    bits = (bits & small) | (((m << 13) + (m >= 0x7c00u ? 0x70000000u : 0x38000000u)) & ~small);
    bits |= (uint32_t)(x & 0x8000u) << 16;
    memcpy(&f, &bits, sizeof f);
    return f;
}

typedef enum dt_dtype { DT_F32, DT_BF16, DT_DTYPES } dt_dtype;
static inline size_t dt_dtype_bytes(dt_dtype t)
{
    return t == DT_BF16 ? 2 : 4;
}
const char *dt_dtype_name(dt_dtype t); /* "fp32", "bf16" */

/* Numbers of a patch of 2x2 pixels, in the order of a kernel in files: [channel][row][column]. */
enum { DT_PATCH = 3 * 2 * 2 };

/* An X-list as one string of its names, a space before each: DT_NET_LIST(DT_WORD). */
#define DT_WORD(...) " " DT_FIRST_WORD(__VA_ARGS__, )
#define DT_FIRST_WORD(name, ...) #name
/* An X-list as the rows of a table: its names; of X(name, text) also the texts, or both. */
#define DT_NAME_OF(...) DT_FIRST_WORD(__VA_ARGS__, ),
#define DT_TEXT_OF(name, text) text,
#define DT_FIELD_OF(name, text) {#name, text},
/* Whether `word` is one of `words`, which have a space before each. */
bool dt_words_have(const char *words, const char *word);
/* How many letters of a are added, left out or replaced to make b; and whether those are so few
 * that b may be meant. */
size_t dt_edits(const char *a, const char *b);
bool dt_edits_few(const char *word, const char *other);

/* ---- Elementary functions: the same bits with every CPU, compiler and C library ------------ */

/* Errors are below 1.5 units of the last place, the cosine's below 2.5. Special values: as in C. */
double dt_exp(double x);
double dt_log(double x);
double dt_cos_turns(double turns); /* cos(2 pi turns) */

#endif
