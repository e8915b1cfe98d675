/*
 * Origin - which connection a command went out on
 *
 * A command that was not answered may still run, as long as its connection has an end at the
 * server. Whoever must be sure that it does not has that end killed first, by what the server
 * calls it. The address is part of that: after a restart the numbers begin anew, and the
 * connection of a stranger must not be taken for ours.
 *
 * Threads: any; counted.
 */
#ifndef RELOCK_ORIGIN_H
#define RELOCK_ORIGIN_H

#include <stddef.h>
#include <stdint.h>

struct relock_origin;

/* Returns NULL when out of memory. */
struct relock_origin *relock_origin_new(uint64_t id, const char *address, size_t len);
struct relock_origin *relock_origin_ref(struct relock_origin *origin);

/* Takes NULL. Returns NULL. */
struct relock_origin *relock_origin_unref(struct relock_origin *origin);

struct relock_buffer;

/* Appends the command that kills the server's end. */
void relock_origin_kill(const struct relock_origin *origin, struct relock_buffer *buffer);

#endif
