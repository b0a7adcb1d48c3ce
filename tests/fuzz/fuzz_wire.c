/* fuzz_wire.c - the connection of hosts: a stranger's bytes never pass the handshake or a frame's
 * code, frames come as they were sent up to the first changed byte, and words of a daemon lie in
 * their payload. The first byte of an input says which. */
#include "fuzz.h"
#include "launch/wire.h"

#include <sys/socket.h>

enum { FRAMES = 16 }; /* they fit into a socket, and nobody reads while they are sent */

static const dt_token token = {{1}};

/* A socket from which comes what is in data, and then the end. */
static void feed(int pair[2], const uint8_t *data, size_t size)
{
    fuzz_must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    fuzz_must(send(pair[1], data, size, 0) == (ssize_t)size);
    fuzz_must(shutdown(pair[1], SHUT_WR) == 0);
}

static void meet_stranger(const uint8_t *data, size_t size)
{
    static dt_frame f;
    dt_hello hello = {0};
    int pair[2];
    dt_wire w;

    feed(pair, data, size);
    fuzz_must(!dt_wire_accept(&w, pair[0], &token, &hello));
    close(pair[0]), close(pair[1]);
    feed(pair, data, size);
    fuzz_must(!dt_wire_connect(&w, pair[0], &token, &(dt_hello){2, 1, 1}));
    close(pair[0]), close(pair[1]);
    feed(pair, data, size);
    w = (dt_wire){.fd = pair[0], .first = true, .key = {2}};
    fuzz_must(!dt_wire_receive(&w, &f));
    close(pair[0]), close(pair[1]);
}

static void check_words(const uint8_t *data, size_t size)
{
    char *payload = malloc(size ? size : 1); /* its exact size: sanitizers see the end */
    size_t count = 0;

    fuzz_must(payload);
    memcpy(payload, data, size);
    for (size_t i = 0; i < size; i++)
        count += data[i] == 0;
    char **word = dt_daemon_words(payload, size);
    for (size_t i = 0; word && i < count; i++)
        fuzz_must(word[i] >= payload && word[i] + strlen(word[i]) < payload + size);
    fuzz_must(!word || (data[size - 1] == 0 && !word[count]));
    fuzz_must(!word || strcmp(word[0], "orted") == 0 || strcmp(word[0], "prted") == 0);
    fuzz_must(dt_fail_text()[0] == '\0');
    free(word);
    free(payload);
}

typedef struct sent_frame {
    const uint8_t *payload;
    uint32_t type, bytes;
    size_t end; /* in the stream */
} sent_frame;

/* Type, length and payload of each; the number of frames. */
static int read_frames(sent_frame *s, const uint8_t *data, size_t size)
{
    int n = 0;

    for (size_t at = 0, end = 0; n < FRAMES && size - at >= 3; n++) {
        const size_t length = data[at + 1] | (size_t)data[at + 2] << 8, left = size - at - 3;
        s[n] = (sent_frame){data + at + 3, data[at], (uint32_t)DT_MIN(length, left), 0};
        at += 3 + s[n].bytes;
        end += 8 + s[n].bytes + 32;
        s[n].end = end;
    }
    return n;
}

/* The first two bytes say which one of the stream is changed: beyond its end, none. */
static void talk(const uint8_t *data, size_t size)
{
    static uint8_t stream[FRAMES * 40 + (1 << 16)];
    static dt_frame f;
    sent_frame s[FRAMES];
    int pair[2];

    if (size < 2 || size > 1 << 15)
        return;
    const size_t changed = data[0] | (size_t)data[1] << 8;
    const int n = read_frames(s, data + 2, size - 2);
    fuzz_must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    dt_wire w = {.fd = pair[1], .key = {2}};
    for (int i = 0; i < n; i++)
        fuzz_must(dt_wire_send(&w, (dt_frame_type)s[i].type, s[i].payload, s[i].bytes));
    const size_t all = n > 0 ? s[n - 1].end : 0;
    fuzz_must(n == 0 || recv(pair[0], stream, all, MSG_WAITALL) == (ssize_t)all);
    close(pair[0]), close(pair[1]);

    if (changed < all)
        stream[changed] ^= 0x40;
    feed(pair, stream, all);
    w = (dt_wire){.fd = pair[0], .first = true, .key = {2}};
    for (int i = 0; i < n && s[i].end <= changed; i++) {
        fuzz_must(dt_wire_receive(&w, &f) && f.type == s[i].type && f.bytes == s[i].bytes);
        fuzz_must(memcmp(f.payload, s[i].payload, f.bytes) == 0);
    }
    fuzz_must(!dt_wire_receive(&w, &f));
    close(pair[0]), close(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const way[])(const uint8_t *, size_t) = {meet_stranger, check_words, talk};

    if (size > 0 && size < 1 << 15)
        way[data[0] % DT_COUNT_OF(way)](data + 1, size - 1);
    return 0;
}
