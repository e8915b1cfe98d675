/*
 * Redlock - one lock on several independent servers, held while more than half of them say so
 *
 * All are asked at the same time and the first quorum decides, so a server that is down, hangs or
 * is late costs nothing. A hold of the whole, on the client of the first member, counts the levels;
 * how long it is certain its ballot says. Waiting is that of any lock, with the servers asked
 * instead of a script.
 *
 * No answer is waited for beyond `deadline_ms`.
 *
 * Threads: with the mutex of the home held, which is given up meanwhile.
 */
#ifndef RELOCK_REDLOCK_H
#define RELOCK_REDLOCK_H

#include "lock/acquire.h"

/* As relock_acquire_ask. */
int relock_redlock_ask(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex);

/* The wait is over: releases are no more listened to for it. */
void relock_redlock_stop_listening(struct relock_acquire *acquire)
    RELOCK_REQUIRES(acquire->client->mutex);

/* The owner wants a level more, with a lease of its own if that is above 0. As relock_acquire. */
int relock_redlock_nest(struct relock_client *client, struct relock_hold *hold, uint64_t lease_ms,
                        uint64_t deadline_ms) RELOCK_REQUIRES(client->mutex);

/* Returns as relock_extend. */
int relock_redlock_extend(struct relock_client *client, struct relock_hold *hold, uint64_t lease_ms,
                          uint64_t deadline_ms) RELOCK_REQUIRES(client->mutex);

/* The last level, which has been given up. Returns as relock_release. */
int relock_redlock_release(struct relock_client *client, struct relock_hold *hold,
                           uint64_t deadline_ms) RELOCK_REQUIRES(client->mutex);

/* Nobody holds it any more: each server is told in the background. Does nothing to other holds. */
void relock_redlock_let_go(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* Asks the servers again that do not have it for us. The I/O thread. */
void relock_redlock_renew(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/* A client is about to be freed: its votes are lost, and released. */
void relock_redlock_drop_votes(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
