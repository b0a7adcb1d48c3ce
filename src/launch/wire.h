/* wire.h - a connection between two hosts that hold the same token; private to src/launch.
 *
 * TLS 1.3 (RFC 8446) with one cipher suite and, in place of certificates, the SHA-256 of the token
 * as external pre-shared key: OpenSSL authenticates both ends, encrypts, and refuses bytes that
 * were changed or repeated. The client's identity of the key says which host it is. A message is
 * a JSON object with one member, named like what it says. */
#ifndef DT_LAUNCH_WIRE_H
#define DT_LAUNCH_WIRE_H
#include "launch.h"

#include <jansson.h>
#include <netinet/in.h>
#include <openssl/types.h>

enum {
    DT_WIRE_KEY = 32,
    DT_WIRE_PATIENCE_S = 3, /* for a handshake */
};

typedef struct dt_token {
    uint8_t key[DT_WIRE_KEY]; /* SHA-256 of its text */
} dt_token;

#define DT_TOKEN_VARIABLE "DTRAIN_TOKEN"

/* From the file, or where path is NULL, from the variable. DT_USAGE: there is neither; DT_CONFIG:
 * it is too short or too long, or others may read the file; DT_NOINPUT. Local. */
dt_status dt_token_read(dt_token *t, const char *path) DT_MUST_CHECK;

/* Which host of the run it is, of how many, and its ranks. */
typedef struct dt_hello {
    int nodes, node, slots;
} dt_hello;

typedef struct dt_wire {
    int fd; /* owned */
    SSL *ssl;
    const dt_token *token;
    dt_hello hello;             /* the client's: its own, or what it has said */
    char peer[INET_ADDRSTRLEN]; /* the other end's address */
} dt_wire;

/* A TCP socket bound or connected to "ADDRESS:PORT", which is also given as a numeric address; a
 * bound one listens and does not block. DT_USAGE; DT_COMM. Local. */
dt_status dt_wire_socket(const char *master, bool binds, int *fd,
                         char address[INET_ADDRSTRLEN]) DT_MUST_CHECK;
/* One end of the connected socket fd, which it owns from now on, also where it fails. own: what a
 * client says of itself; NULL: the server's end. DT_NOMEM. Local. */
dt_status dt_wire_open(dt_wire **w, int fd, const dt_token *t, const dt_hello *own) DT_MUST_CHECK;
void dt_wire_close(dt_wire *w);

typedef enum dt_greeting {
    DT_GREETED,  /* both ends have the token; w->hello is true */
    DT_GREETING, /* more has to come: the socket does not block, or a signal or limit came first */
    DT_STRANGER, /* the ends have different tokens */
    DT_LEFT      /* the other end has closed, is silent, or does not speak this protocol */
} dt_greeting;
/* The handshake, as far as it goes. Behind it the socket blocks, and keep-alive is on. Local. */
dt_greeting dt_wire_greet(dt_wire *w);

/* How long a call may wait for the other end; 0: without a limit. Local. */
void dt_wire_limit(int fd, int seconds);
/* Send the message, which it takes; NULL: there was no memory for it. False: the connection is
 * over. Local. */
bool dt_wire_say(dt_wire *w, json_t *message);
/* Wait for the next message, to be freed by json_decref. NULL: the connection is over. Local. */
json_t *dt_wire_hear(dt_wire *w);
#endif
