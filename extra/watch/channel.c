/* channel.c - what nodes tell each other of their ranks.
 *
 * Datagrams, because nothing may wait for a host that is gone: twice a second the leader of a node,
 * its first rank that runs, sends the node's rows to the leaders of the others; where it does not
 * know who leads, to all ranks and addresses of the node. A message is believed if it has the
 * HMAC-SHA256 of a key that rank 0 has drawn and MPI has carried, and is newer than the last one of
 * its node. All hosts run the same build, so that words are sent as they are. */
#include <ifaddrs.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include "monitor.h"

/* ---- Messages -------------------------------------------------------------------------------- */

enum { SENT, FIRST, COUNT, HEAD }; /* words before the rows */
enum { CODE = 32 };                /* bytes of the HMAC after them */

/* A row's words, and whether one is a time, of the sender's clock. */
#define ROW_LIST(X)                                                                                \
    X(place.step, 0)                                                                               \
    X(place.phase, 0)                                                                              \
    X(place.layer, 0)                                                                              \
    X(place.slice, 0)                                                                              \
    X(place.changed_ns, 1)                                                                         \
    X(place.waits_ns, 1)                                                                           \
    X(heard_ns, 1)                                                                                 \
    X(place.sent_bytes, 0)                                                                         \
    X(place.step_ns, 0)                                                                            \
    X(place.longest_ns, 0)                                                                         \
    X(place.before_ns, 0)                                                                          \
    X(state, 0)
enum {
#define X(member, time) +1
    WORDS = ROW_LIST(X)
#undef X
};
_Static_assert(DT_MESSAGE_WORDS * 8 >= (HEAD + DT_MESSAGE_ROWS * WORDS) * 8 + CODE, "all fit");

/* By this machine's clock, which may not have run for so long; 0 stays: never. */
static int64_t here(int64_t word, bool time, int64_t shift)
{
    return time && word ? DT_MAX(word + shift, 1) : word;
}

static bool code_of(const dt_watch *w, const void *message, size_t bytes, uint8_t code[CODE])
{
    unsigned length = CODE;
    return HMAC(EVP_sha256(), w->who->key, DT_WATCH_KEY, message, bytes, code, &length) != NULL;
}

size_t dt_message_write(const dt_watch *w, int first, int64_t now, int64_t *out)
{
    const int count = DT_MIN(w->node_end - first, DT_MESSAGE_ROWS);
    const size_t bytes = (size_t)(HEAD + count * WORDS) * sizeof *out;
    int64_t *to = out + HEAD;

    out[SENT] = now;
    out[FIRST] = first;
    out[COUNT] = count;
    for (const dt_row *row = w->board->row + first; row < w->board->row + first + count; row++) {
#define X(member, time) *to++ = dt_seen(row->member);
        ROW_LIST(X)
#undef X
    }
    return code_of(w, out, bytes, (uint8_t *)to) ? bytes + CODE : 0;
}

/* Whether it is of this run and another node. What has the code was made by this program. */
static bool is_message(const dt_watch *w, const int64_t *message, size_t bytes)
{
    uint8_t code[CODE];

    return bytes >= HEAD * sizeof *message + CODE && code_of(w, message, bytes - CODE, code) &&
           CRYPTO_memcmp(code, (const uint8_t *)message + bytes - CODE, CODE) == 0 &&
           (message[FIRST] >= w->node_end || message[FIRST] < w->node_first);
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
#define X(member, time) dt_tell(row->member, (__typeof__(+row->member))here(*from++, time, shift));
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
        if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET) {
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

    if (c->nodes == 1)
        return DT_OK;
    DT_TRY(dt_calloc(&w->leader, (size_t)w->world, sizeof *w->leader, "the watch"));
    DT_TRY(dt_calloc(&w->sent, (size_t)w->world, sizeof *w->sent, "the watch"));
    w->socket = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (w->socket < 0 || bind(w->socket, (struct sockaddr *)&any, sizeof any) != 0 ||
        getsockname(w->socket, (struct sockaddr *)&any, &length) != 0)
        return dt_fail(DT_NOMEM, "a socket for the watch: %s", strerror(errno));
    if (w->rank == 0 && getrandom(w->who->key, DT_WATCH_KEY, 0) != DT_WATCH_KEY)
        return dt_fail(DT_BUG, "no random numbers: %s", strerror(errno));
    w->who[w->rank].port = any.sin_port;
    find_addresses(&w->who[w->rank]);
    return DT_OK;
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
        const ssize_t n =
            recvfrom(w->socket, message, sizeof message, 0, (struct sockaddr *)&from, &length);
        if (n < 0)
            return;
        const int r = dt_message_read(w, message, (size_t)n, now); /* a longer one has no code */
        if (r >= 0)
            w->leader[w->who[r].first] = from;
    }
}
