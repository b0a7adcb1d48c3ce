/* wire.c - the token, the handshake and the messages. */
#include "launch.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

/* ---- The token ------------------------------------------------------------------------------- */

enum { TOKEN_LEAST = 16, TOKEN_MOST = 4096 };

dt_status dt_token_read(dt_token *t, const char *path)
{
    const char *from = path ? path : DT_TOKEN_VARIABLE, *given = getenv(DT_TOKEN_VARIABLE);
    struct stat info;
    char *text = NULL;
    size_t length = 0;
    dt_status st = DT_OK;

    if (!path && !given)
        return dt_fail(DT_USAGE, "hosts that are started one by one need a common secret: "
                                 "--token-file FILE, or " DT_TOKEN_VARIABLE);
    if (path && stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
        (info.st_mode & 077 || info.st_uid != geteuid()))
        return dt_fail(DT_CONFIG,
                       "--token-file %s: others may read it, or it is another user's: chmod 600 it",
                       path);
    if (path)
        DT_TRY(dt_file_text(path, 1 << 20, &text, &length));
    else
        length = strlen(given);
    const char *token = path ? text : given;
    while (length > 0 && strchr(" \t\r\n", token[length - 1]))
        length--;
    if (length < TOKEN_LEAST || length > TOKEN_MOST)
        st = dt_fail(DT_CONFIG,
                     "%s: the token has %zu characters, expected %d to %d; make one with: head "
                     "-c 24 /dev/urandom | base64",
                     from, length, TOKEN_LEAST, TOKEN_MOST);
    else if (EVP_Digest(token, length, t->key, NULL, EVP_sha256(), NULL) != 1)
        st = dt_fail(DT_NOMEM, "libcrypto cannot compute the SHA-256 of the token");
    free(text);
    return st;
}

/* ---- Sockets --------------------------------------------------------------------------------- */

void dt_wire_limit(int fd, int seconds)
{
    const struct timeval limit = {.tv_sec = seconds};

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

static dt_status resolve(const char *master, struct sockaddr_in *at)
{
    const struct addrinfo want = {
        .ai_flags = AI_NUMERICSERV, .ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    const char *colon = strrchr(master, ':');
    struct addrinfo *found = NULL;
    char host[DT_HOST_NAME];

    if (!colon || colon == master || colon - master >= DT_HOST_NAME || colon != strchr(master, ':'))
        return dt_fail(DT_USAGE, "--master: '%.80s' is not HOST:PORT (no IPv6)", master);
    snprintf(host, sizeof host, "%.*s", (int)(colon - master), master);
    const int error = getaddrinfo(host, colon + 1, &want, &found);
    if (error != 0)
        return dt_fail(DT_COMM, "--master: no IPv4 address of %s: %s", master, gai_strerror(error));
    memcpy(at, found->ai_addr, sizeof *at);
    freeaddrinfo(found);
    if (at->sin_addr.s_addr == INADDR_ANY || ntohl(at->sin_addr.s_addr) >> 24 == 127)
        return dt_fail(DT_USAGE,
                       "--master %s is %s here, which no other host reaches (/etc/hosts?): give "
                       "host 0's address in their network; on one host: --np N",
                       master, inet_ntop(AF_INET, &at->sin_addr, host, sizeof host));
    return DT_OK;
}

dt_status dt_wire_socket(const char *master, int *fd, char own[INET_ADDRSTRLEN])
{
    const bool binds = own != NULL;
    const int one = 1, kind = SOCK_STREAM | SOCK_CLOEXEC | (binds ? SOCK_NONBLOCK : 0);
    struct sockaddr_in at;
    bool done;

    DT_TRY(resolve(master, &at));
    *fd = socket(AF_INET, kind, 0);
    if (binds)
        done = inet_ntop(AF_INET, &at.sin_addr, own, INET_ADDRSTRLEN) &&
               setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
               bind(*fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(*fd, SOMAXCONN) == 0;
    else {
        dt_wire_limit(*fd, DT_WIRE_PATIENCE_S);
        done = connect(*fd, (struct sockaddr *)&at, sizeof at) == 0;
    }
    if (done)
        return DT_OK;
    const int error = errno;
    close(*fd);
    *fd = -1;
    return dt_fail(DT_COMM, "--master %s: cannot %s: %s", master,
                   binds ? "wait there for the other hosts; is it an address of this host?"
                         : "connect",
                   error == EINPROGRESS ? "no answer" : strerror(error));
}

/* ---- The key of a connection ----------------------------------------------------------------- */

/* Widths: what strangers send must not overflow. */
#define IDENTITY "dtrain host %5d of %5d, ranks: %9d"

/* The client's. hint: TLS 1.3 has none. key: there is room for more (PSK_MAX_PSK_LEN). */
static unsigned use_key(SSL *ssl, const char *hint, char *identity, unsigned most,
                        unsigned char *key, unsigned room)
{
    const dt_wire *w = SSL_get_app_data(ssl);

    (void)hint, (void)room;
    snprintf(identity, most, IDENTITY, w->hello.node, w->hello.nodes, w->hello.slots);
    memcpy(key, w->token->key, DT_WIRE_KEY);
    return DT_WIRE_KEY;
}

/* The server's. What the identity says is proved by the handshake, which covers it. Without a key
 * the handshake fails: there is no certificate. */
static unsigned find_key(SSL *ssl, const char *identity, unsigned char *key, unsigned room)
{
    dt_wire *w = SSL_get_app_data(ssl);
    dt_hello *h = &w->hello;

    (void)room;
    memcpy(key, w->token->key, DT_WIRE_KEY);
    return sscanf(identity, IDENTITY, &h->node, &h->nodes, &h->slots) == 3 ? DT_WIRE_KEY : 0;
}

dt_status dt_wire_open(dt_wire *w, int fd, const dt_token *t, const dt_hello *own)
{
    struct sockaddr_in peer = {.sin_family = AF_INET};
    socklen_t length = sizeof peer;
    SSL_CTX *ctx = SSL_CTX_new(TLS_method());

    *w = (dt_wire){.fd = fd, .token = t, .hello = own ? *own : (dt_hello){0}};
    (void)getpeername(fd, (struct sockaddr *)&peer, &length);
    (void)inet_ntop(AF_INET, &peer.sin_addr, w->peer, sizeof w->peer);
    if (ctx && SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
        SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256") == 1 &&
        SSL_CTX_set_num_tickets(ctx, 0) == 1) {
        SSL_CTX_set_psk_client_callback(ctx, use_key);
        SSL_CTX_set_psk_server_callback(ctx, find_key);
        SSL_CTX_set_verify(ctx, own ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
        w->ssl = SSL_new(ctx);
    }
    SSL_CTX_free(ctx);
    if (w->ssl && SSL_set_app_data(w->ssl, w) == 1 && SSL_set_fd(w->ssl, fd) == 1) {
        (own ? SSL_set_connect_state : SSL_set_accept_state)(w->ssl);
        return DT_OK;
    }
    dt_wire_close(w);
    return dt_fail(DT_NOMEM, "libssl cannot make a TLS 1.3 connection");
}

void dt_wire_close(dt_wire *w)
{
    if (w->fd < 0)
        return;
    SSL_free(w->ssl);
    close(w->fd);
    w->fd = -1;
}

/* ---- The handshake --------------------------------------------------------------------------- */

/* From now on the socket blocks; a host that is gone, or stops within a message, is missed after
 * 11 s, as by Open MPI's daemons. TCP_USER_TIMEOUT counts for keep-alive, too. */
static void begin_messages(int fd)
{
    static const int on = 1, idle_s = 5, every_s = 2, patience_ms = 1000 * DT_PATIENCE_S;

    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof every_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms, sizeof patience_ms);
    dt_wire_limit(fd, DT_PATIENCE_S);
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
}

/* The server finds that the client's proof does not fit its key; the client gets an alert. */
static bool tokens_differ(void)
{
    const int reason = ERR_GET_REASON(ERR_peek_error());
    return reason == SSL_R_BINDER_DOES_NOT_VERIFY ||
           reason == SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER ||
           reason == SSL_R_TLSV1_ALERT_DECRYPT_ERROR;
}

/* SSL_get_error looks at OpenSSL's queue of errors, too. */
dt_greeting dt_wire_greet(dt_wire *w)
{
    ERR_clear_error();
    const int n = SSL_do_handshake(w->ssl), error = SSL_get_error(w->ssl, n);
    if (n == 1 && SSL_session_reused(w->ssl)) { /* that is: by the key */
        begin_messages(w->fd);
        return DT_GREETED;
    }
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        return DT_GREETING;
    return error == SSL_ERROR_SSL && tokens_differ() ? DT_STRANGER : DT_LEFT;
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* At once: what is sent in parts waits for the other end's acknowledgements. */
bool dt_wire_say(dt_wire *w, json_t *message)
{
    char *text = json_dumps(message, JSON_COMPACT);
    const bool said = text && SSL_write(w->ssl, text, (int)strlen(text)) > 0;

    free(text);
    json_decref(message);
    return said;
}

/* Byte by byte, so that nothing of the next message is taken. */
static size_t read_byte(void *to, size_t room, void *ssl)
{
    return room > 0 && SSL_read(ssl, to, 1) == 1 ? 1 : (size_t)-1;
}

json_t *dt_wire_hear(dt_wire *w)
{
    return json_load_callback(read_byte, w->ssl, JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK,
                              NULL);
}
