/*
 * Private - what the files of lib/redis/connect share, and nobody else
 *
 * What a header of this folder says of a module and its threads holds for its part here, too.
 */
#ifndef RELOCK_CONNECT_PRIVATE_H
#define RELOCK_CONNECT_PRIVATE_H

#include "redis/connect/connect.h"
#include "redis/server/command.h"
#include "redis/server/resolve.h"
#include "redis/server/server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct relock_tls;

/* ---- tls ------------------------------------------------------------------------------------- */

/*
 * Tls - encrypts and decrypts the bytes of one connection
 *
 * It never meets the socket. Bytes of the server go in, and plain bytes come out; commands go in,
 * and bytes for the server come out, with those that TLS needs for itself. wire.c receives and
 * sends them. So nothing here waits, and all decrypted bytes are taken at once: poll(2) would not
 * tell of others.
 *
 * A forked child never calls OpenSSL for its parent's connections: the server would take the bytes
 * for its parent's.
 *
 * Threads: its user.
 */

/* Before the handshake. The server has a TLS context. Returns NULL when out of memory. */
struct relock_tls *relock_tls_new(const struct relock_server *server);

/* Takes NULL. Returns NULL. */
struct relock_tls *relock_tls_free(struct relock_tls *tls);

/*
 * Begins the handshake, or continues it with the bytes that were fed.
 *
 * Returns RELOCK_OK; RELOCK_AGAIN: call again when more was fed, or when the answer was sent that
 * had no room; RELOCK_E_AUTH, RELOCK_E_CONN, RELOCK_E_NOMEM.
 */
int relock_tls_shake(struct relock_tls *tls);

/* Whether bytes for the server have to be sent before the handshake goes on; else those of the
 * server are missing. */
bool relock_tls_wants_to_write(const struct relock_tls *tls);

/* The version, the cipher, and whether a session was resumed. */
void relock_tls_describe(const struct relock_tls *tls, char out[RELOCK_WHY_MAX]);

/* Gives it bytes that came from the server, at least one, and at most 16 kB, and copies them. The
 * next call for the handshake, or to read, has the result. Before it feeds again, its user reads
 * until RELOCK_AGAIN. */
void relock_tls_feed(struct relock_tls *tls, const char *bytes, size_t len);

/*
 * Decrypts. Returns RELOCK_OK with `*len` bytes, at most `size`; RELOCK_AGAIN when more bytes must
 * be fed; RELOCK_E_CONN, RELOCK_E_NOMEM; before the first byte also RELOCK_E_AUTH: a server may
 * reject a certificate only after the handshake.
 */
int relock_tls_read(struct relock_tls *tls, char *data, size_t size, size_t *len);

/*
 * Takes commands, and gives bytes to send. If none are left from earlier calls, encrypts the
 * beginning of the commands. After a part was sent, call again with the same commands, and more if
 * there are any.
 *
 * Returns RELOCK_OK, RELOCK_E_CONN, RELOCK_E_NOMEM.
 */
int relock_tls_seal(struct relock_tls *tls, const char **bytes, size_t *len);

/* `n` of the bytes that it gave were sent. Returns how many bytes of commands the server can now
 * decrypt that it could not decrypt before. */
size_t relock_tls_sent(struct relock_tls *tls, size_t n);

/* Gives the bytes of the handshake, of an alert, or of an answer to a message of TLS, and returns
 * how many. There are none while a record of commands is sent in part. */
size_t relock_tls_answer(const struct relock_tls *tls, const char **bytes);

/* The answer then tells the server that nothing more comes. */
void relock_tls_end(struct relock_tls *tls);

/* Its user has met an error of the socket, or its end, for which `err` is 0. Returns RELOCK_E_CONN.
 */
int relock_tls_socket_failed(struct relock_tls *tls, int err);

/* The cause of the last failure. */
const char *relock_tls_why(const struct relock_tls *tls);

/* ---- dial ------------------------------------------------------------------------------------ */

/* How long an attempt runs alone (RFC 8305, section 8). */
#define RELOCK_RACE_DELAY_MS 250

void relock_race_init(struct relock_race *race, const void *scope);

/*
 * Starts the race, or continues it after `fd` became readable or `deadline_ms` passed.
 *
 * Returns RELOCK_OK with the connected socket, which belongs to the caller, but not at the start;
 * RELOCK_AGAIN to wait; RELOCK_E_CONN when no address is left or `limit_ms` has passed.
 */
int relock_race_step(struct relock_race *race, uint64_t now_ms, uint64_t limit_ms, int *winner);

/* Ends all attempts and forgets the addresses. */
void relock_race_end(struct relock_race *race);

/* ---- wire ------------------------------------------------------------------------------------ */

/*
 * Begins or continues the handshake of TLS, without blocking. Receives once, and sends once.
 *
 * Returns RELOCK_OK; RELOCK_AGAIN: call again when the socket is ready; RELOCK_E_AUTH,
 * RELOCK_E_CONN, RELOCK_E_NOMEM.
 */
int relock_socket_shake(struct relock_socket socket);

#endif
