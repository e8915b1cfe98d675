/*
 * Race - connects to one of several addresses; the first that answers wins
 *
 * If an attempt fails, the next one begins at once; if it gets no answer, the next one begins after
 * a while (RFC 8305). Attempts run beside each other until one has connected. Then the others are
 * closed. Their addresses stay, for another race if the winner turns out to be of no use.
 *
 * All sockets are in one epoll set, so that the user waits for one descriptor.
 *
 * Threads: its user.
 */
#ifndef RELOCK_RACE_H
#define RELOCK_RACE_H

#include "redis/server/resolve.h"

#include <stdint.h>

/* How long an attempt runs alone (RFC 8305, section 8). */
#define RELOCK_RACE_DELAY_MS 250

struct relock_race {
    struct relock_addresses addresses; /* to try, in order; filled in by its user */
    int sockets[RELOCK_ADDRESSES_MAX]; /* of the attempts, which are at the first addresses */
    unsigned n_sockets;
    int fd;               /* the epoll set: readable when an attempt has ended; -1: no attempt */
    uint64_t next_ms;     /* when the next attempt begins */
    uint64_t deadline_ms; /* to wait until then for `fd` */
    int err;              /* of the last attempt that failed; 0: there was no answer in time */
};

void relock_race_init(struct relock_race *race);

/* In a forked child: closes the sockets and does nothing else. */
void relock_race_abandon(const struct relock_race *race);

/*
 * Starts the race, or continues it after `fd` became readable or `deadline_ms` passed.
 *
 * Returns RELOCK_OK with the connected socket, which belongs to the caller, but not at the start;
 * RELOCK_AGAIN to wait; RELOCK_E_CONN when no address is left or `limit_ms` has passed.
 */
int relock_race_step(struct relock_race *race, uint64_t now_ms, uint64_t limit_ms, int *winner);

/* Ends all attempts and forgets the addresses. */
void relock_race_end(struct relock_race *race);

#endif
