/*
 * Tls bio - a socket as OpenSSL sees it, which never makes OpenSSL wait
 *
 * Each step writes to the socket at most once. OpenSSL receives from the socket during the
 * handshake; after that, it reads only bytes that were fed.
 *
 * Threads: the user of the connection.
 */
#ifndef RELOCK_TLS_BIO_H
#define RELOCK_TLS_BIO_H

#include <openssl/bio.h>
#include <stdbool.h>
#include <stddef.h>

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

#endif
