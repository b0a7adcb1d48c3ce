/* wire.c - the token, the handshake and the frames. */
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CODE = 32, PATIENCE_MS = 3000, TOKEN_LEAST = 16, TOKEN_MOST = 4096 };

/* ---- The token ------------------------------------------------------------------------------- */

static dt_status token_of(dt_token *t, const char *text, size_t length, const char *from)
{
    while (length > 0 && strchr(" \t\r\n", text[length - 1]))
        length--;
    if (length < TOKEN_LEAST)
        return dt_fail(DT_CONFIG,
                       "%s: the token has %zu characters, fewer than %d; make one with: head -c 24 "
                       "/dev/urandom | base64",
                       from, length, TOKEN_LEAST);
    if (EVP_Digest(text, length, t->key, NULL, EVP_sha256(), NULL) != 1)
        return dt_fail(DT_NOMEM, "libcrypto cannot compute the SHA-256 of the token");
    return DT_OK;
}

dt_status dt_token_read(dt_token *t, const char *path)
{
    char text[TOKEN_MOST];
    struct stat info;
    dt_status st = DT_OK;

    if (!path) {
        const char *given = getenv(DT_TOKEN_VARIABLE);
        if (!given)
            return dt_fail(DT_USAGE, "hosts that are started one by one need a common secret: "
                                     "--token-file FILE, or " DT_TOKEN_VARIABLE);
        return token_of(t, given, strlen(given), DT_TOKEN_VARIABLE);
    }
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &info) != 0)
        st = dt_fail(DT_NOINPUT, "cannot read --token-file %s: %s", path, strerror(errno));
    else if (!S_ISREG(info.st_mode))
        st = dt_fail(DT_CONFIG, "--token-file %s is no regular file", path);
    else if (info.st_mode & 077 || info.st_uid != geteuid())
        st = dt_fail(DT_CONFIG,
                     "--token-file %s: others may read it, or it is not yours: chmod 600 "
                     "it",
                     path);
    const ssize_t n = st == DT_OK ? read(fd, text, sizeof text) : 0;
    if (st == DT_OK && n < 0)
        st = dt_fail(DT_NOINPUT, "reading --token-file %s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return st == DT_OK ? token_of(t, text, (size_t)n, path) : st;
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

static bool ready(int fd, short what, double until)
{
    struct pollfd p = {.fd = fd, .events = what};
    int n;

    do
        n = poll(&p, 1, DT_MAX((int)(1e3 * (until - dt_seconds())), 0));
    while (n < 0 && errno == EINTR);
    return n > 0;
}

/* All of them, or false: the other end is gone, or too slow (ETIMEDOUT), whether silent or byte by
 * byte. */
static bool move(int fd, short what, void *bytes, size_t count)
{
    const double until = dt_seconds() + 1e-3 * PATIENCE_MS;
    char *at = bytes;

    while (count > 0) {
        errno = ETIMEDOUT;
        if (!ready(fd, what, until))
            return false;
        const ssize_t n =
            what == POLLOUT ? send(fd, at, count, MSG_NOSIGNAL) : recv(fd, at, count, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = ECONNRESET;
        if (n <= 0)
            return false;
        at += n;
        count -= (size_t)n;
    }
    errno = 0;
    return true;
}

static bool send_all(int fd, const void *from, size_t bytes)
{
    return move(fd, POLLOUT, (void *)(uintptr_t)from, bytes);
}

static bool receive_all(int fd, void *to, size_t bytes)
{
    return move(fd, POLLIN, to, bytes);
}

/* A host that is gone is missed after 5 + 3 x 2 s, as by Open MPI's daemons. */
static void keep_alive(int fd)
{
    const struct {
        int level, name, value;
    } row[] = {{SOL_SOCKET, SO_KEEPALIVE, 1},
               {IPPROTO_TCP, TCP_KEEPIDLE, 5},
               {IPPROTO_TCP, TCP_KEEPINTVL, 2},
               {IPPROTO_TCP, TCP_KEEPCNT, 3},
               {IPPROTO_TCP, TCP_USER_TIMEOUT, 11000}};

    for (size_t i = 0; i < DT_COUNT_OF(row); i++)
        (void)setsockopt(fd, row[i].level, row[i].name, &row[i].value, sizeof row[i].value);
}

/* ---- The handshake --------------------------------------------------------------------------- */

typedef struct handshake {
    uint8_t of_first[32], of_other[32]; /* random */
    uint32_t hello[3];                  /* network order */
} handshake;

/* What: 'o' and 'f' prove who has the token, 'k' is the frames' key. */
static bool prove(const dt_token *t, char what, const handshake *h, uint8_t code[CODE])
{
    uint8_t all[1 + sizeof *h];
    unsigned length = CODE;

    all[0] = (uint8_t)what;
    memcpy(all + 1, h, sizeof *h);
    return HMAC(EVP_sha256(), t->key, DT_WIRE_KEY, all, sizeof all, code, &length) != NULL;
}

static bool is_proved(const dt_token *t, char what, const handshake *h, const uint8_t code[CODE])
{
    uint8_t own[CODE];
    return prove(t, what, h, own) && CRYPTO_memcmp(own, code, CODE) == 0;
}

static bool begin_frames(dt_wire *w, int fd, bool first, const dt_token *t, const handshake *h)
{
    *w = (dt_wire){.fd = fd, .first = first};
    keep_alive(fd);
    return prove(t, 'k', h, w->key);
}

bool dt_wire_accept(dt_wire *w, int fd, const dt_token *t, dt_hello *hello)
{
    handshake h;
    uint8_t code[CODE];
    const size_t of_other = sizeof h - sizeof h.of_first;

    if (getrandom(h.of_first, sizeof h.of_first, 0) != (ssize_t)sizeof h.of_first ||
        !send_all(fd, h.of_first, sizeof h.of_first) || !receive_all(fd, h.of_other, of_other) ||
        !receive_all(fd, code, CODE) || !is_proved(t, 'o', &h, code) || !prove(t, 'f', &h, code) ||
        !send_all(fd, code, CODE))
        return false;
    *hello = (dt_hello){ntohl(h.hello[0]), ntohl(h.hello[1]), ntohl(h.hello[2])};
    return begin_frames(w, fd, true, t, &h);
}

bool dt_wire_connect(dt_wire *w, int fd, const dt_token *t, const dt_hello *hello)
{
    handshake h = {.hello = {htonl(hello->nodes), htonl(hello->node), htonl(hello->slots)}};
    uint8_t code[CODE];
    const size_t of_other = sizeof h - sizeof h.of_first;

    if (getrandom(h.of_other, sizeof h.of_other, 0) != (ssize_t)sizeof h.of_other ||
        !receive_all(fd, h.of_first, sizeof h.of_first) || !prove(t, 'o', &h, code) ||
        !send_all(fd, h.of_other, of_other) || !send_all(fd, code, CODE) ||
        !receive_all(fd, code, CODE) || !is_proved(t, 'f', &h, code))
        return false;
    return begin_frames(w, fd, false, t, &h);
}

/* ---- Frames ---------------------------------------------------------------------------------- */

typedef struct frame_head {
    uint32_t bytes, type; /* network order */
} frame_head;

static bool frame_code(const dt_wire *w, bool of_first, uint64_t number, const frame_head *head,
                       const void *payload, uint32_t bytes, uint8_t code[CODE])
{
    uint8_t text[1 + sizeof number + sizeof *head + CODE], inner[CODE];
    unsigned length = CODE;

    if (EVP_Digest(payload, bytes, inner, NULL, EVP_sha256(), NULL) != 1)
        return false;
    text[0] = of_first;
    memcpy(text + 1, &number, sizeof number); /* both ends count for themselves */
    memcpy(text + 1 + sizeof number, head, sizeof *head);
    memcpy(text + 1 + sizeof number + sizeof *head, inner, CODE);
    return HMAC(EVP_sha256(), w->key, DT_WIRE_KEY, text, sizeof text, code, &length) != NULL;
}

bool dt_wire_send(dt_wire *w, dt_frame_type type, const void *payload, uint32_t bytes)
{
    const frame_head head = {htonl(bytes), htonl((uint32_t)type)};
    const uint64_t number = w->sent++;
    uint8_t code[CODE];

    return frame_code(w, w->first, number, &head, payload, bytes, code) &&
           send_all(w->fd, &head, sizeof head) && send_all(w->fd, payload, bytes) &&
           send_all(w->fd, code, CODE);
}

bool dt_wire_receive(dt_wire *w, dt_frame *f)
{
    frame_head head;
    uint8_t code[CODE], own[CODE];

    if (!receive_all(w->fd, &head, sizeof head) || ntohl(head.bytes) > DT_WIRE_MOST)
        return false;
    f->bytes = ntohl(head.bytes);
    f->type = (dt_frame_type)ntohl(head.type);
    return receive_all(w->fd, f->payload, f->bytes) && receive_all(w->fd, code, CODE) &&
           frame_code(w, !w->first, w->received++, &head, f->payload, f->bytes, own) &&
           CRYPTO_memcmp(own, code, CODE) == 0;
}

/* ---- Open MPI's daemon ----------------------------------------------------------------------- */

/* mpirun writes for a shell: blanks before the first word, quotes around values. There is none. */
static char *bare_word(char *word)
{
    word += strspn(word, " ");
    const size_t length = strlen(word);
    if (length < 2 || word[0] != '"' || word[length - 1] != '"')
        return word;
    word[length - 1] = '\0';
    return word + 1;
}

/* PRRTE, of Open MPI 5, has "NAME=value;export NAME;...;/usr/bin/prted": variables are this host's
 * own, and the program is the one that PATH finds here. */
static char *program_of(char *word)
{
    char *last = strrchr(word, ';');
    char *program = last ? last + 1 : word, *slash = strrchr(program, '/');

    return slash ? slash + 1 : program;
}

char **dt_daemon_words(char *payload, size_t bytes)
{
    size_t count = 0;
    char **word = NULL;

    for (size_t i = 0; i < bytes; i++)
        count += payload[i] == '\0';
    if (count == 0 || payload[bytes - 1] != '\0' ||
        dt_calloc(&word, count + 1, sizeof *word, "a daemon's words") != DT_OK) {
        dt_fail_clear();
        return NULL;
    }
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        char *next = payload + strlen(payload) + 1;
        word[kept] = bare_word(payload);
        kept += i == 0 || strcmp(word[kept], "--daemonize") != 0;
        payload = next;
    }
    word[kept] = NULL;
    word[0] = program_of(word[0]);
    if (strcmp(word[0], "orted") == 0 || strcmp(word[0], "prted") == 0)
        return word;
    free(word);
    return NULL;
}
