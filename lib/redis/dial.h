/*
 * Dial - a connection being made, without waiting for it
 *
 * Looks the host up and tries its addresses in turn. It never blocks: whoever drives it waits for
 * `fd`, until `deadline_ms` at the latest, and steps again. So the I/O thread drives it from
 * libev and a calling thread from poll(2).
 *
 * Threads: the one that drives it.
 */
#ifndef RELOCK_DIAL_H
#define RELOCK_DIAL_H

#include "redis/server.h"

#include <stdbool.h>
#include <stdint.h>

struct relock_dial {
    const struct relock_server *server;
    int fd;               /* to wait for, -1 when there is nothing to wait for */
    bool for_writing;     /* else for reading */
    uint64_t deadline_ms; /* of what is being tried */
    uint64_t limit_ms;    /* of the whole */

    struct relock_resolve *resolve; /* while the host is looked up */
    struct addrinfo *addresses;
    struct addrinfo *next; /* the address to be tried after this one */
    bool connecting;
    uint64_t pause_ms; /* before the next try, while the server takes no connection; else 0 */
    char why[RELOCK_WHY_MAX]; /* the last failure */
};

void relock_dial_init(struct relock_dial *dial, const struct relock_server *server);

/* Ends it, wherever it is; it can begin again. */
void relock_dial_end(struct relock_dial *dial);

/*
 * Begins when it has not begun, else goes on after `fd` became ready or `deadline_ms` passed.
 *
 * Returns RELOCK_OK when connected: `*fd` is the caller's, non-blocking; RELOCK_AGAIN to wait;
 * RELOCK_E_CONN when no address could be reached, RELOCK_E_NOMEM. `why` says what happened.
 */
int relock_dial_step(struct relock_dial *dial, uint64_t now_ms, int *fd);

#endif
