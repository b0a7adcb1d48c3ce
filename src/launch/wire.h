/* wire.h - how hosts that were started one by one talk to the first of them; private to src/launch.
 *
 * All hosts hold one secret, the token. A host that connects is sent 32 random bytes, answers with
 * 32 of its own, who it is, and the HMAC-SHA256 (RFC 2104) of all that under the token; the first
 * host answers likewise, so that each knows that the other has the token, which is never sent. From
 * then on a frame is length, type, payload and the HMAC of its number, type and payload, under a
 * key made of the token and both sides' random bytes: nothing can be put in, changed or played
 * again. What is sent is no secret, and not encrypted. */
#ifndef DT_LAUNCH_WIRE_H
#define DT_LAUNCH_WIRE_H
#include "launch_internal.h"

enum { DT_WIRE_KEY = 32, DT_WIRE_MOST = 1 << 16 };

/* To a host: words of a daemon to start, each ended by a zero byte; the run's end; in place of all
 * that, why it is refused. From it: its daemon's end, a signal for the run. */
typedef enum dt_frame_type {
    DT_FRAME_START = 1,
    DT_FRAME_END,
    DT_FRAME_DONE,
    DT_FRAME_SIGNAL,
    DT_FRAME_REFUSED
} dt_frame_type;

typedef struct dt_frame {
    dt_frame_type type;
    uint32_t bytes;
    uint8_t payload[DT_WIRE_MOST];
} dt_frame;

typedef struct dt_token {
    uint8_t key[DT_WIRE_KEY]; /* SHA-256 of its text */
} dt_token;

#define DT_TOKEN_VARIABLE "DTRAIN_TOKEN"

/* From the file, or where it is NULL, from the variable. DT_CONFIG: it is short, or others may read
 * the file; DT_NOINPUT. */
dt_status dt_token_read(dt_token *t, const char *path) DT_MUST_CHECK;

typedef struct dt_wire {
    int fd;
    bool first; /* this is the first host's end */
    uint8_t key[DT_WIRE_KEY];
    uint64_t sent, received; /* frames */
} dt_wire;

/* Which of the run's hosts it is, and its ranks. */
typedef struct dt_hello {
    uint32_t nodes, node, slots;
} dt_hello;

/* On a connected socket, within some seconds. False: the other end is silent (errno is ETIMEDOUT),
 * gone (ECONNRESET), has no such token, or is somebody else; the caller closes fd. */
bool dt_wire_accept(dt_wire *w, int fd, const dt_token *t, dt_hello *hello);
bool dt_wire_connect(dt_wire *w, int fd, const dt_token *t, const dt_hello *hello);
bool dt_wire_send(dt_wire *w, dt_frame_type type, const void *payload, uint32_t bytes);
/* Waits for a whole frame. False: the connection is over, or a frame is not the other end's. */
bool dt_wire_receive(dt_wire *w, dt_frame *f);

/* The words of a payload, which end up in argv, without "--daemonize": the daemon would leave its
 * parent, and outlive it. NULL: it is not the start of Open MPI's daemon. To be freed by free();
 * texts lie in payload, which is changed. */
char **dt_daemon_words(char *payload, size_t bytes);
#endif
