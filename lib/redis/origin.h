/*
 * Origin - which connection a command went out on
 *
 * A command that was not answered may still run, as long as its connection has an end at the
 * server. Whoever must be sure that it does not has that end killed first, by what the server
 * calls it: a number and the address of the peer.
 *
 * After a restart of the server the numbers begin anew, and over a unix socket all peers have one
 * address, so the name alone may be a stranger's. Hence the run of the server is kept too, an id
 * that is new with each start: no connection outlives its server, so a connection to another run
 * kills nothing, and one to the same run never meets a number twice.
 *
 * Threads: any; counted.
 */
#ifndef RELOCK_ORIGIN_H
#define RELOCK_ORIGIN_H

#include <stddef.h>
#include <stdint.h>

struct relock_origin;

#define RELOCK_RUN_MAX 40

/* `run`: of the server, "" when it does not say. Returns NULL when out of memory. */
struct relock_origin *relock_origin_new(const char *run, uint64_t id, const char *address,
                                        size_t len);
struct relock_origin *relock_origin_ref(struct relock_origin *origin);

/* Takes NULL. Returns NULL. */
struct relock_origin *relock_origin_unref(struct relock_origin *origin);

struct relock_buffer;

/*
 * Appends the command that kills the server's end, to be sent over the connection `killer`, which
 * may be NULL when the server does not say what it calls that. It is a PING where the end is gone,
 * or cannot be told from a stranger's: CLIENT KILL would not do what it is for.
 */
void relock_origin_kill(const struct relock_origin *origin, const struct relock_origin *killer,
                        struct relock_buffer *buffer);

#endif
