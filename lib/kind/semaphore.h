/*
 * Semaphore - reads how many permits there are
 *
 * Threads: any.
 */
#ifndef RELOCK_KIND_SEMAPHORE_H
#define RELOCK_KIND_SEMAPHORE_H

#include <stdbool.h>
#include <stdint.h>

struct redisReply;
struct relock_permits;

/* Reads the reply to semaphore_permits.lua. Returns false if it is no such reply, or if its numbers
 * are those of no semaphore: another program may have stored any number under the key. `*done` is
 * what the script says besides. */
bool relock_semaphore_reply(const struct redisReply *reply, struct relock_permits *permits,
                            int64_t *done);

#endif
