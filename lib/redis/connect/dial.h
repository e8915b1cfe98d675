/*
 * Dial - connects to the server without blocking
 *
 * Each time, it looks up the server anew and races its addresses: if an attempt fails, the next one
 * begins at once; if it gets no answer, the next one begins after a while (RFC 8305). Attempts run
 * beside each other until one has connected. Then the others are closed. With TLS, the winner also
 * has to complete the handshake; if it does not, the others race again. Its user waits for `fd`,
 * until `deadline_ms` at the latest, and steps again: the I/O thread waits in libev, a calling
 * thread in poll(2).
 *
 * Threads: its user.
 */
#ifndef RELOCK_DIAL_H
#define RELOCK_DIAL_H

#include "redis/connect/wire.h"
#include "redis/server/resolve.h"
#include "redis/server/server.h"

#include <stdbool.h>
#include <stdint.h>

/* How long an attempt runs alone (RFC 8305, section 8). */
#define RELOCK_RACE_DELAY_MS 250

/* Connects to one of several addresses; the first that answers wins. All sockets are in one epoll
 * set, so that the user waits for one descriptor. */
struct relock_race {
    const void *scope;                 /* of its descriptors */
    struct relock_addresses addresses; /* to try, in order; filled in by its user */
    int sockets[RELOCK_ADDRESSES_MAX]; /* of the attempts, which are at the first addresses */
    unsigned n_sockets;
    int fd;               /* the epoll set: readable when an attempt has ended; -1: no attempt */
    uint64_t next_ms;     /* when the next attempt begins */
    uint64_t deadline_ms; /* to wait until then for `fd` */
    int err;              /* of the last attempt that failed; 0: there was no answer in time */
};

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

enum relock_dial_state {
    RELOCK_DIAL_IDLE,
    RELOCK_DIAL_RESOLVING,  /* the host is looked up: `fd` becomes readable */
    RELOCK_DIAL_CONNECTING, /* to the addresses: `fd` becomes readable */
    RELOCK_DIAL_SECURING,   /* the TLS handshake: `fd` becomes readable or writable */
    RELOCK_DIAL_PAUSING,    /* the queue of the unix socket is full: there is no `fd` */
};

/* Room for the longest address and its port, and the words around them. */
#define RELOCK_DIAL_MASTER_MAX 112

struct relock_dial {
    const struct relock_server *server;
    enum relock_dial_state state;
    int fd;               /* to wait for; -1: wait for `deadline_ms` alone */
    uint64_t deadline_ms; /* of the current state */
    uint64_t limit_ms;    /* of all attempts together */

    struct relock_lookup *lookup;        /* used in RESOLVING */
    struct relock_race race;             /* used in CONNECTING; has the addresses that are left */
    char master[RELOCK_DIAL_MASTER_MAX]; /* "; a sentinel says ...", or "" */
    uint64_t pause_ms;                   /* the last pause */
    struct relock_tls *tls;              /* used in SECURING */
    int result;               /* RELOCK_E_AUTH when an address was rejected for a certificate */
    char why[RELOCK_WHY_MAX]; /* the last failure; one with RELOCK_E_AUTH stays */
};

void relock_dial_init(struct relock_dial *dial, const struct relock_server *server);

/* Whether to wait until `fd` is writable; else until it is readable. */
bool relock_dial_wants_to_write(const struct relock_dial *dial);

/* Whether it tries the addresses that it has found, and has not connected yet. */
bool relock_dial_has_addresses(const struct relock_dial *dial);

/* Whether a sentinel has reported a failover since the addresses were found. To be called from
 * CONNECTING on; also after the dial has connected. */
bool relock_dial_is_outdated(const struct relock_dial *dial);

/* Ends the attempt in any state; the dial can be used again. */
void relock_dial_end(struct relock_dial *dial);

/*
 * Starts the attempt, or continues after `fd` became ready or `deadline_ms` passed.
 *
 * Returns RELOCK_OK when connected: `*socket` belongs to the caller and is non-blocking;
 * RELOCK_AGAIN to wait; RELOCK_E_CONN when no address could be reached, or the addresses are
 * outdated; RELOCK_E_AUTH when one was rejected for its certificate, or for ours; RELOCK_E_NOMEM;
 * the answers of sentinels, as relock_sentinels_attach says. A failure has its cause in `why`.
 */
int relock_dial_step(struct relock_dial *dial, uint64_t now_ms, struct relock_socket *socket);

#endif
