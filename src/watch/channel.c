/* channel.c - one socket per rank, and the addresses of all others. */
#include "channel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ADDRESSES = 8 }; /* of a host, at most */

typedef struct peer {
    int32_t count;
    uint32_t address[ADDRESSES]; /* network order, like */
    uint16_t port;
} peer;

struct dt_channel {
    int socket, rank, world, first, end; /* ranks of this node */
    uint8_t key[DT_CHANNEL_KEY];
    peer *peer;    /* [world] */
    int64_t *sent; /* [world] see dt_message_read */
    uint8_t message[DT_MESSAGE_BYTES];
};

/* ---- Opening ------------------------------------------------------------------------------- */

/* Whatever interface leads to a peer, the peer has an address in its network. */
static void find_addresses(peer *p)
{
    struct ifaddrs *list = NULL;

    if (getifaddrs(&list) != 0)
        return;
    for (struct ifaddrs *i = list; i && p->count < ADDRESSES; i = i->ifa_next)
        if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && (i->ifa_flags & IFF_UP)) {
            struct sockaddr_in in;
            memcpy(&in, i->ifa_addr, sizeof in);
            p->address[p->count++] = in.sin_addr.s_addr;
        }
    freeifaddrs(list);
}

static dt_status open_socket(dt_channel *ch)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t length = sizeof any;

    ch->socket = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (ch->socket < 0 || bind(ch->socket, (struct sockaddr *)&any, sizeof any) != 0 ||
        getsockname(ch->socket, (struct sockaddr *)&any, &length) != 0)
        return dt_fail(DT_NOMEM, "a socket for the watch: %s", strerror(errno));
    ch->peer[ch->rank].port = any.sin_port;
    find_addresses(&ch->peer[ch->rank]);
    return DT_OK;
}

/* Every rank's own, put together by sums: the others' are zero. */
static dt_status share_peers(dt_channel *ch, dt_comm *c)
{
    enum { NUMBERS = 2 + ADDRESSES };
    const size_t count = (size_t)ch->world * NUMBERS;
    int64_t *all = NULL;

    DT_TRY(dt_comm_agree(c, dt_calloc(&all, count, sizeof *all, "addresses of ranks")));
    const peer *own = &ch->peer[ch->rank];
    int64_t *mine = all + (size_t)ch->rank * NUMBERS;
    mine[0] = own->port;
    mine[1] = own->count;
    for (int k = 0; k < ADDRESSES; k++)
        mine[2 + k] = own->address[k];
    const dt_status st = dt_comm_sum_i64(c, all, count);
    for (int r = 0; r < ch->world && st == DT_OK; r++) {
        const int64_t *from = all + (size_t)r * NUMBERS;
        ch->peer[r] = (peer){.port = (uint16_t)from[0], .count = (int32_t)from[1]};
        for (int k = 0; k < ADDRESSES; k++)
            ch->peer[r].address[k] = (uint32_t)from[2 + k];
    }
    free(all);
    return st;
}

static dt_status share_key(dt_channel *ch, dt_comm *c)
{
    dt_status st = DT_OK;

    if (ch->rank == 0 && getrandom(ch->key, sizeof ch->key, 0) != (ssize_t)sizeof ch->key)
        st = dt_fail(DT_BUG, "no random numbers: %s", strerror(errno));
    DT_TRY(dt_comm_agree(c, st));
    return dt_comm_bcast(c, ch->key, sizeof ch->key, 0);
}

static dt_status take(dt_channel *ch)
{
    DT_TRY(dt_calloc(&ch->peer, (size_t)ch->world, sizeof *ch->peer, "the watch's peers"));
    DT_TRY(dt_calloc(&ch->sent, (size_t)ch->world, sizeof *ch->sent, "the watch's peers"));
    return open_socket(ch);
}

dt_status dt_channel_open(dt_channel **out, dt_comm *c)
{
    dt_channel *ch = NULL;
    dt_status st = DT_OK;

    *out = NULL;
    if (dt_comm_nodes(c) == 1)
        return DT_OK;
    DT_TRY(dt_comm_agree(c, dt_calloc(&ch, 1, sizeof *ch, "the watch's channel")));
    ch->socket = -1;
    ch->rank = dt_comm_rank(c);
    ch->world = dt_comm_world(c);
    ch->first = ch->rank - dt_comm_node_rank(c);
    ch->end = ch->first + dt_comm_node_ranks(c);
    DT_GO(st, dt_comm_agree(c, take(ch)), failed);
    DT_GO(st, share_peers(ch, c), failed);
    DT_GO(st, share_key(ch, c), failed);
    *out = ch;
    return DT_OK;

failed:
    dt_channel_close(ch);
    return st;
}

void dt_channel_close(dt_channel *ch)
{
    if (!ch)
        return;
    if (ch->socket >= 0)
        close(ch->socket);
    free(ch->peer);
    free(ch->sent);
    free(ch);
}

/* ---- Sending and receiving ------------------------------------------------------------------- */

/* A datagram that does not leave is lost like one that does not come: the next one tells all. */
static void send_to(const dt_channel *ch, const peer *p, size_t bytes)
{
    for (int k = 0; k < p->count; k++) {
        const struct sockaddr_in to = {
            .sin_family = AF_INET, .sin_port = p->port, .sin_addr.s_addr = p->address[k]};
        (void)!sendto(ch->socket, ch->message, bytes, MSG_NOSIGNAL, (const struct sockaddr *)&to,
                      sizeof to);
    }
}

void dt_channel_send(dt_channel *ch, const dt_table *t, int first, int end, int64_t now)
{
    if (!ch)
        return;
    for (int r = first; r < end; r += DT_CHANNEL_ROWS) {
        const size_t bytes = dt_message_write(t, r, end, now, now, ch->key, ch->message);
        for (int k = 0; k < ch->world && bytes > 0; k++)
            if (k < ch->first || k >= ch->end)
                send_to(ch, &ch->peer[k], bytes);
    }
}

void dt_channel_receive(dt_channel *ch, const dt_table *t, int64_t now)
{
    enum { MOST = 4096 }; /* of a tick: whoever floods the port does not keep the watch from it */

    for (int i = 0; ch && i < MOST; i++) {
        const ssize_t n = recv(ch->socket, ch->message, sizeof ch->message, MSG_TRUNC);
        if (n < 0)
            return;
        if ((size_t)n <= sizeof ch->message)
            (void)dt_message_read(ch->message, (size_t)n, ch->key, t, ch->first, ch->end, ch->sent,
                                  now);
    }
}
