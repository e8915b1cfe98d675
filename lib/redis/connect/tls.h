/*
 * Tls - one encrypted connection over a socket of ours
 *
 * OpenSSL encrypts and decrypts, and never waits: its user waits for the socket, until a deadline
 * of its own. Sending makes at most one call to send(2), and waits only as send(2) would. Reading
 * receives nothing: its user receives the bytes and feeds them. So no decrypted byte is left behind
 * that poll(2) would not tell of, and a server that sends byte by byte cannot hold a call beyond
 * its deadline.
 *
 * A forked child never calls OpenSSL for its parent's connections: the server would take the bytes
 * for its parent's.
 *
 * Threads: its user.
 */
#ifndef RELOCK_TLS_H
#define RELOCK_TLS_H

#include "redis/server/server.h"

#include <openssl/bio.h>
#include <stdbool.h>
#include <stddef.h>

struct ssl_st;

/*
 * Turns a failure of OpenSSL into a result and a text that suggests a remedy. On the thread in
 * which OpenSSL has failed, before its next call.
 *
 * `was_asked`: the server has asked for a client certificate. `name`: what the server's certificate
 * must name.
 *
 * Returns RELOCK_E_AUTH if one side rejects the certificate of the other, or the lack of one;
 * RELOCK_E_NOMEM; else RELOCK_E_CONN.
 */
int relock_tls_error(const struct ssl_st *ssl, const char *name, bool was_asked,
                     char why[RELOCK_WHY_MAX]);

/* The bytes that the present step has sent. */
enum relock_tls_bio_step {
    RELOCK_TLS_BIO_UNSENT,
    RELOCK_TLS_BIO_SENT,
    RELOCK_TLS_BIO_FULL, /* the socket took nothing */
};

/* The protocol of the server, by its first byte. */
enum relock_tls_bio_peer {
    RELOCK_TLS_BIO_UNHEARD,
    RELOCK_TLS_BIO_TLS,
    RELOCK_TLS_BIO_PLAIN, /* something else */
};

/* A socket as OpenSSL sees it, which never makes OpenSSL wait. Each step writes to the socket at
 * most once. OpenSSL receives from the socket during the handshake; after that, it reads only bytes
 * that were fed. */
struct relock_tls_bio {
    BIO_METHOD *method;
    int fd;
    enum relock_tls_bio_step step;
    enum relock_tls_bio_peer peer;
    bool may_receive; /* else OpenSSL reads what was fed */
    bool is_ended;    /* the server has closed the socket */
    int err;          /* of the socket; 0: none */
    const char *in;   /* fed */
    size_t n_in;      /* bytes that were fed and not taken by OpenSSL */
};

/* Sets up a connected socket, and makes the BIO for it, which the caller frees. Returns NULL when
 * out of memory; deinit also then. Between relock_tls_guard_enter and leave. */
BIO *relock_tls_bio_init(struct relock_tls_bio *bio, int fd);

/* The BIO is freed already. Between enter and leave. */
void relock_tls_bio_deinit(struct relock_tls_bio *bio);

struct relock_tls;

/* A connected socket. */
struct relock_socket {
    int fd;
    struct relock_tls *tls; /* NULL: it is not encrypted */
};

/* Over a socket that is connected and non-blocking. The server has a TLS context. Returns NULL when
 * out of memory. */
struct relock_tls *relock_tls_new(const struct relock_server *server, int fd);

/* Tells the server, if that is possible at once, that nothing more comes. Leaves the socket open.
 * Takes NULL. Returns NULL. */
struct relock_tls *relock_tls_free(struct relock_tls *tls);

/*
 * Begins or continues the handshake.
 *
 * Returns RELOCK_OK; RELOCK_AGAIN: call again when the socket is ready; RELOCK_E_AUTH,
 * RELOCK_E_CONN, RELOCK_E_NOMEM.
 */
int relock_tls_shake(struct relock_tls *tls);

/* Whether the handshake waits until the socket is writable; else until it is readable. */
bool relock_tls_wants_to_write(const struct relock_tls *tls);

/* The version, the cipher, and whether a session was resumed. */
void relock_tls_describe(const struct relock_tls *tls, char out[RELOCK_WHY_MAX]);

/*
 * Encrypts and sends the beginning of `data`. `*sent`: how much of it. After RELOCK_AGAIN, call
 * again with the same data, and more if there is any, when the socket is writable.
 *
 * Returns RELOCK_OK, RELOCK_AGAIN, RELOCK_E_CONN, RELOCK_E_NOMEM; before the first reply also
 * RELOCK_E_AUTH.
 */
int relock_tls_send(struct relock_tls *tls, const char *data, size_t len, size_t *sent);

/* Gives it bytes that came from the server. They must live until read returns RELOCK_AGAIN or a
 * failure. */
void relock_tls_feed(struct relock_tls *tls, const char *bytes, size_t len);

/*
 * Decrypts. Returns RELOCK_OK with `*len` bytes, at most `size`; RELOCK_AGAIN when more bytes must
 * be fed; RELOCK_E_CONN, RELOCK_E_NOMEM; before the first byte also RELOCK_E_AUTH: a server may
 * reject a certificate only after the handshake.
 */
int relock_tls_read(struct relock_tls *tls, char *data, size_t size, size_t *len);

/* Its user has met an error of the socket, or its end, for which `err` is 0. Returns RELOCK_E_CONN.
 */
int relock_tls_socket_failed(struct relock_tls *tls, int err);

/* The cause of the last failure. */
const char *relock_tls_why(const struct relock_tls *tls);

#endif
