/*
 * Health - whether a connection that reconnects has proved to work, and the pause before its next
 * attempt
 *
 * The log gets one line when the connection breaks and one when it is back, however many attempts
 * lie between. Some servers accept a connection and end it at the first command; after the second
 * time only an answered command counts as back.
 *
 * Threads: the I/O thread.
 */
#ifndef RELOCK_HEALTH_H
#define RELOCK_HEALTH_H

#include "redis/server/server.h"

enum relock_health_state {
    RELOCK_HEALTH_FINE,     /* no failure since it last proved to work */
    RELOCK_HEALTH_BROKEN,   /* no connection */
    RELOCK_HEALTH_RETURNED, /* connected again, not proved yet */
    RELOCK_HEALTH_REJECTED, /* it broke again before it had proved */
};

struct relock_health {
    const struct relock_server *server;
    const char *meanwhile; /* constant: the consequence of a failure, for the log; or NULL */
    enum relock_health_state state;
    char why[RELOCK_WHY_MAX]; /* the last failure that was logged */
    uint64_t pause_ms; /* before the next attempt, after the last failure; 0: it has worked since */
};

void relock_health_init(struct relock_health *health, const struct relock_server *server);

/* The connection has failed, or an attempt to make it. The pause grows. */
void relock_health_break(struct relock_health *health, const char *why);

/* It is up. `again`: not for the first time. */
void relock_health_return(struct relock_health *health, bool again);

/* It works: it has answered a command as a master, or was up for a while. */
void relock_health_prove(struct relock_health *health);

#endif
