/*
 * Bytes of a server on a connection with TLS. The first byte of an input selects the play:
 *
 *     the bytes are the server's part of the handshake
 *     a handshake succeeds, and then the server sends the bytes as they are
 *     a handshake succeeds, and then the server encrypts the bytes
 *
 * No thread, no network: the server is OpenSSL at the other end of a socket pair.
 */
#include "fuzz.h"

#include "base/status.h"
#include "redis/connect/connect.h"
#include "redis/connect/private.h"
#include "redis/server/reply.h"
#include "redis/server/tls_context.h"

#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE 100 /* bytes that the server sends at a time */
#define MAX_STEPS 20

enum choice {
    SHAKES = 1,
    SEALS = 2, /* only if it shakes */
    BYTE_BY_BYTE = 4,
    TLS_1_2 = 8,
};

static char label[] = "hostile";
static struct relock_server server = {.label = label};
static SSL_CTX *ctx; /* the server's */
static SSL *ssl;     /* likewise; NULL if it does not shake */
static int fds[2];   /* the library's, the server's */

/* ---- the server ---------------------------------------------------------------------------- */

static void make_certificate(void)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();

    FUZZ_CHECK(key && cert && X509_set_pubkey(cert, key) == 1);
    FUZZ_CHECK(X509_gmtime_adj(X509_getm_notBefore(cert), 0));
    FUZZ_CHECK(X509_gmtime_adj(X509_getm_notAfter(cert), 86400));
    FUZZ_CHECK(X509_sign(cert, key, EVP_sha256()) > 0);
    FUZZ_CHECK(SSL_CTX_use_certificate(ctx, cert) == 1 && SSL_CTX_use_PrivateKey(ctx, key) == 1);
    X509_free(cert);
    EVP_PKEY_free(key);
}

/* Kept by all plays. */
static void make_contexts(const struct relock_log *log)
{
    static const struct relock_options options = {.flags = RELOCK_TLS_INSECURE};

    if (ctx)
        return;
    FUZZ_CHECK(relock_tls_context_new(&options, "hostile", log, &server.tls) == RELOCK_OK);
    ctx = SSL_CTX_new(TLS_server_method());
    FUZZ_CHECK(ctx);
    make_certificate();
}

static struct relock_socket begin(unsigned choice)
{
    struct relock_socket socket;

    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
    socket = (struct relock_socket){fds[0], relock_tls_new(&server)};
    ssl = choice & SHAKES ? SSL_new(ctx) : NULL;
    FUZZ_CHECK(socket.tls && (ssl || !(choice & SHAKES)));
    if (ssl) {
        FUZZ_CHECK(SSL_set_fd(ssl, fds[1]) == 1);
        FUZZ_CHECK(!(choice & TLS_1_2) || SSL_set_max_proto_version(ssl, TLS1_2_VERSION) == 1);
        SSL_set_accept_state(ssl);
    }
    return socket;
}

static void end(void)
{
    SSL_free(ssl);
    close(fds[1]);
}

/* Sends the next piece, until nothing is left. */
static bool go_on(const uint8_t **data, size_t *size, unsigned choice)
{
    size_t most = choice & BYTE_BY_BYTE ? 1 : PIECE;
    size_t n = *size < most ? *size : most;
    int sent;

    if (n == 0)
        return false;
    sent = choice & SEALS && ssl ? SSL_write(ssl, *data, (int)n)
                                 : (int)send(fds[1], *data, n, MSG_NOSIGNAL);
    *data += n;
    *size -= n;
    return sent > 0;
}

/* ---- plays --------------------------------------------------------------------------------- */

/* No server without a key gets through. */
static void play_handshake(struct relock_socket socket, const uint8_t *data, size_t size,
                           unsigned choice)
{
    int r = relock_socket_shake(socket);

    FUZZ_CHECK(r == RELOCK_AGAIN);
    while (r == RELOCK_AGAIN && go_on(&data, &size, choice))
        r = relock_socket_shake(socket);
    if (r == RELOCK_AGAIN) {
        (void)shutdown(fds[1], SHUT_WR);
        r = relock_socket_shake(socket);
    }
    FUZZ_CHECK(r == RELOCK_E_CONN || r == RELOCK_E_AUTH || r == RELOCK_E_NOMEM);
    FUZZ_CHECK(*relock_tls_why(socket.tls));
    relock_socket_close(socket);
}

static void shake(struct relock_socket socket)
{
    int r = RELOCK_AGAIN;

    for (int i = 0; i < MAX_STEPS && (r == RELOCK_AGAIN || !SSL_is_init_finished(ssl)); i++) {
        r = r == RELOCK_AGAIN ? relock_socket_shake(socket) : r;
        (void)SSL_do_handshake(ssl);
    }
    FUZZ_CHECK(r == RELOCK_OK);
}

static int take_replies(struct relock_wire *wire)
{
    struct redisReply *reply = NULL;
    int r;

    while ((r = relock_wire_take(wire, &reply)) == RELOCK_OK)
        relock_reply_free(reply);
    return r;
}

static void play_replies(struct relock_socket socket, const uint8_t *data, size_t size,
                         unsigned choice)
{
    struct relock_wire wire;
    int r = RELOCK_AGAIN;

    shake(socket);
    relock_wire_init(&wire, label);
    FUZZ_CHECK(relock_wire_open(&wire, socket) == RELOCK_OK);
    while (r >= 0 && go_on(&data, &size, choice)) {
        r = relock_wire_fill(&wire);
        if (r == RELOCK_OK)
            r = take_replies(&wire);
    }
    FUZZ_CHECK(r == RELOCK_AGAIN || (r < 0 && *wire.why));
    (void)relock_wire_has_ended(&wire);
    relock_wire_deinit(&wire);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned choice = size > 0 ? data[0] : 0;
    struct fuzz_play play = {data, size, false};
    struct relock_log log = {.level = RELOCK_LOG_DEBUG, .sink = fuzz_log, .arg = &play};
    struct relock_socket socket;

    make_contexts(&log);
    server.log = &log;
    socket = begin(choice);
    if (choice & SHAKES)
        play_replies(socket, data + 1, size - 1, choice);
    else
        play_handshake(socket, size > 0 ? data + 1 : data, size > 0 ? size - 1 : 0, choice);
    end();
    return 0;
}
