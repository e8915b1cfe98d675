/*
 * Seal - the server's end of TLS on one connection, without a socket
 *
 * Encrypted bytes go in and come out in memory, so a relay can break the stream anywhere: between
 * records, in the middle of one, or during the handshake.
 *
 * Threads: one at a time for each seal; one key serves many.
 */
#ifndef RELOCK_TEST_SEAL_H
#define RELOCK_TEST_SEAL_H

#include <stddef.h>

struct seal;
struct seal_key;

/* The key and certificate of support/certs.h in that folder. Aborts if there is no OpenSSL. */
struct seal_key *seal_key_new(const char *certs);
struct seal_key *seal_key_free(struct seal_key *key);

struct seal *seal_new(struct seal_key *key);
struct seal *seal_free(struct seal *seal);

/* Encrypted bytes that came from the client, and what they say; 0: that is all for now. */
void seal_take(struct seal *seal, const char *data, size_t n);
size_t seal_read(struct seal *seal, char *data, size_t size);

/* Encrypts these bytes, after the handshake; and returns the bytes for the client, 0: that is all
 * for now. */
void seal_write(struct seal *seal, const char *data, size_t n);
size_t seal_fetch(struct seal *seal, char *data, size_t size);

#endif
