/* channel.c - what nodes tell each other of their ranks.
 *
 * Datagrams, because nothing may wait for a host that is gone: twice a second the leader of a node,
 * its first rank that runs, sends the node's rows to the leaders of the others; where it does not
 * know who leads, to all ranks and addresses of the node. A message is believed if it has the
 * HMAC-SHA256 of a key that rank 0 has drawn and MPI has carried, and is newer than the last one of
 * its node. All hosts run the same build, so that words are sent as they are. */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "monitor.h"

/* ---- Messages -------------------------------------------------------------------------------- */

#define MESSAGE_MAGIC INT64_C(0x3268637461777464) /* "dtwatch2" */
enum { MAGIC, SENT, FIRST, COUNT, HEAD };         /* words before the rows */
enum { CODE = 32 };                               /* bytes of the HMAC after them */

/* A row's words; times are of the sender's clock. */
#define ROW_LIST(X)                                                                                \
    X(count, place.step)                                                                           \
    X(count, place.phase)                                                                          \
    X(count, place.layer)                                                                          \
    X(count, place.slice)                                                                          \
    X(time, place.changed_ns)                                                                      \
    X(time, place.waits_ns)                                                                        \
    X(time, heard_ns)                                                                              \
    X(count, place.sent_bytes)                                                                     \
    X(count, place.step_ns)                                                                        \
    X(count, place.longest_ns)                                                                     \
    X(count, place.before_ns)                                                                      \
    X(count, state)
enum {
#define X(kind, member) +1
    WORDS = ROW_LIST(X)
#undef X
};
_Static_assert(DT_MESSAGE_WORDS * 8 >= (HEAD + DT_MESSAGE_ROWS * WORDS) * 8 + CODE, "all fit");

static int64_t as_count(int64_t word, int64_t shift)
{
    (void)shift;
    return word;
}

/* This machine's clock may not have run for so long. */
static int64_t as_time(int64_t word, int64_t shift)
{
    return word ? DT_MAX(word + shift, 1) : 0;
}

static bool code_of(const dt_watch *w, const void *message, size_t bytes, uint8_t code[CODE])
{
    unsigned length = CODE;
    return HMAC(EVP_sha256(), w->key, DT_WATCH_KEY, message, bytes, code, &length) != NULL;
}

size_t dt_message_write(const dt_watch *w, int first, int64_t now, int64_t *out)
{
    const int count = DT_MIN(w->node_end - first, DT_MESSAGE_ROWS);
    const size_t bytes = (size_t)(HEAD + count * WORDS) * sizeof *out;
    int64_t *to = out + HEAD;

    out[MAGIC] = MESSAGE_MAGIC;
    out[SENT] = now;
    out[FIRST] = first;
    out[COUNT] = count;
    for (const dt_row *row = w->board->row + first; row < w->board->row + first + count; row++) {
#define X(kind, member) *to++ = dt_seen(row->member);
        ROW_LIST(X)
#undef X
    }
    return code_of(w, out, bytes, (uint8_t *)to) ? bytes + CODE : 0;
}

/* Whether it is a whole message of this run, of rows of another node. */
static bool is_message(const dt_watch *w, const int64_t *message, size_t bytes)
{
    const size_t head = HEAD * sizeof *message;
    uint8_t code[CODE];

    if (bytes < head + CODE || !code_of(w, message, bytes - CODE, code) ||
        CRYPTO_memcmp(code, (const uint8_t *)message + bytes - CODE, CODE) != 0)
        return false;
    const int64_t first = message[FIRST], count = message[COUNT];
    return message[MAGIC] == MESSAGE_MAGIC && first >= 0 && first < w->world && count >= 1 &&
           count <= w->world - first &&
           bytes - head - CODE == (size_t)count * WORDS * sizeof *message &&
           (first >= w->node_end || first + count <= w->node_first);
}

int dt_message_read(dt_watch *w, const int64_t *message, size_t bytes, int64_t now)
{
    const int64_t *from = message + HEAD;

    if (!is_message(w, message, bytes) || message[SENT] <= w->sent[message[FIRST]])
        return -1;
    const int64_t shift = now - message[SENT];
    for (int64_t r = message[FIRST]; r < message[FIRST] + message[COUNT]; r++) {
        dt_row *row = &w->board->row[r];
        w->sent[r] = message[SENT];
        dt_tell(row->told_ns, now);
#define X(kind, member) dt_tell(row->member, (__typeof__(row->member))as_##kind(*from++, shift));
        ROW_LIST(X)
#undef X
    }
    return (int)message[FIRST];
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Whatever interface leads to another node, this one has an address in its network. */
static void find_addresses(dt_who *who)
{
    struct ifaddrs *list = NULL;
    int n = 0;

    if (getifaddrs(&list) != 0)
        return;
    for (struct ifaddrs *i = list; i && n < DT_WATCH_ADDRESSES; i = i->ifa_next)
        if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && (i->ifa_flags & IFF_UP)) {
            struct sockaddr_in in;
            memcpy(&in, i->ifa_addr, sizeof in);
            who->address[n++] = in.sin_addr.s_addr;
        }
    freeifaddrs(list);
}

dt_status dt_channel_open(dt_watch *w, dt_comm *c)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t length = sizeof any;

    w->socket = -1;
    if (dt_comm_nodes(c) == 1)
        return DT_OK;
    DT_TRY(dt_calloc(&w->leader, (size_t)w->world, sizeof *w->leader, "the watch"));
    DT_TRY(dt_calloc(&w->sent, (size_t)w->world, sizeof *w->sent, "the watch"));
    w->socket = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (w->socket < 0 || bind(w->socket, (struct sockaddr *)&any, sizeof any) != 0 ||
        getsockname(w->socket, (struct sockaddr *)&any, &length) != 0)
        return dt_fail(DT_NOMEM, "a socket for the watch: %s", strerror(errno));
    w->who[w->rank].port = any.sin_port;
    find_addresses(&w->who[w->rank]);
    return DT_OK;
}

dt_status dt_channel_share(dt_watch *w, dt_comm *c)
{
    dt_status st = DT_OK;

    if (dt_comm_nodes(c) == 1)
        return DT_OK;
    if (w->rank == 0 && getrandom(w->key, sizeof w->key, 0) != (ssize_t)sizeof w->key)
        st = dt_fail(DT_BUG, "no random numbers: %s", strerror(errno));
    DT_TRY(dt_comm_agree(c, st));
    return dt_comm_bcast(c, w->key, sizeof w->key, 0);
}

/* ---- Sending and receiving ------------------------------------------------------------------- */

/* A datagram that does not leave is lost like one that does not come: the next one tells all. */
static void send_one(const dt_watch *w, const void *message, size_t bytes, in_addr_t address,
                     in_port_t port)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = address};
    (void)!sendto(w->socket, message, bytes, MSG_NOSIGNAL, (const struct sockaddr *)&to, sizeof to);
}

/* To the node whose first rank it is. */
static void send_node(const dt_watch *w, int first, const void *message, size_t bytes, int64_t now)
{
    const struct sockaddr_in *leader = &w->leader[first];
    const int64_t silent_ns = now - dt_seen(w->board->row[first].told_ns);

    if (leader->sin_port && silent_ns < DT_WATCH_HEARD_S * INT64_C(1000000000)) {
        send_one(w, message, bytes, leader->sin_addr.s_addr, leader->sin_port);
        return;
    }
    for (int r = first; r < w->world && w->who[r].first == first; r++)
        for (int k = 0; k < DT_WATCH_ADDRESSES && w->who[r].address[k]; k++)
            send_one(w, message, bytes, (in_addr_t)w->who[r].address[k], (in_port_t)w->who[r].port);
}

void dt_channel_send(dt_watch *w, int64_t now)
{
    int64_t message[DT_MESSAGE_WORDS];

    for (int r = w->node_first; w->socket >= 0 && r < w->node_end; r += DT_MESSAGE_ROWS) {
        const size_t bytes = dt_message_write(w, r, now, message);
        for (int k = 0; k < w->world && bytes > 0; k++)
            if (w->who[k].first == k && k != w->node_first)
                send_node(w, k, message, bytes, now);
    }
}

void dt_channel_receive(dt_watch *w, int64_t now)
{
    enum { MOST = 4096 }; /* of a tick: a flood of the port does not keep the monitor from it */
    int64_t message[DT_MESSAGE_WORDS];
    struct sockaddr_in from;

    for (int i = 0; w->socket >= 0 && i < MOST; i++) {
        socklen_t length = sizeof from;
        const ssize_t n = recvfrom(w->socket, message, sizeof message, MSG_TRUNC,
                                   (struct sockaddr *)&from, &length);
        if (n < 0)
            return;
        const int r =
            (size_t)n <= sizeof message ? dt_message_read(w, message, (size_t)n, now) : -1;
        if (r >= 0)
            w->leader[w->who[r].first] = from;
    }
}
