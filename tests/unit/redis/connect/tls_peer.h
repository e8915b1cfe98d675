/*
 * Tls peer - a wire with TLS, and a server of the test at the other end of its socket
 *
 * One thread plays both sides, so the sockets are non-blocking and their buffers hold what one side
 * has sent. The server encrypts into a buffer of the test, which sends it on as it likes.
 *
 * After each test no descriptor is left.
 */
#ifndef RELOCK_TEST_TLS_PEER_H
#define RELOCK_TEST_TLS_PEER_H

#include "one_wire.h"

#include <openssl/ssl.h>

struct tls_peer {
    int fd;
    SSL *ssl;
    BIO *sealed; /* what it has encrypted */
};

extern struct tls_peer peer;

/* For the group: makes certificates. */
int tls_peer_start(void **state);
int tls_peer_stop(void **state);

int tls_peer_begin(void **state);
int tls_peer_end(void **state);

/* Connects again, with this version: TLS1_2_VERSION or TLS1_3_VERSION. */
void tls_peer_connect(int version);

/* Likewise; the server sends this text together with its last bytes of the handshake. */
void tls_peer_greet(int version, const char *text);

/* Begins another handshake, in which the server answers with these bytes. It fails with
 * RELOCK_E_CONN. Returns the cause. */
const char *tls_peer_fail(const char *bytes, size_t len);

/* Whether the last handshake resumed a session. */
bool tls_peer_resumed(void);

/* Encrypts without sending. */
void tls_peer_seal(const char *text);

/* Sends at most `n` bytes of what was encrypted; returns how many. */
size_t tls_peer_send(size_t n);

/* Both. */
void tls_peer_say(const char *text);

/* Decrypts what the wire has sent. Returns the length; 0 if nothing came. */
size_t tls_peer_hear(char *text, size_t size);

#define TLS_PEER_TEST(function) \
    cmocka_unit_test_setup_teardown(function, tls_peer_begin, tls_peer_end)

#endif
