/*
 * Pubsub - the channels on which releases are announced
 *
 * One connection, however many channels. A channel goes by its name on the wire and may have any
 * number of listeners: the first subscribes it, and the last to leave unsubscribes it. It stays
 * subscribed over reconnects; each acknowledgement is told, the one after a reconnect like the
 * first: only from there on is nothing missed, so whoever waits asks once more then.
 *
 * Threads: the I/O thread; new and free while that does not run; reconnects from any.
 */
#ifndef RELOCK_PUBSUB_H
#define RELOCK_PUBSUB_H

#include "redis/server.h"

#include <stdint.h>

struct relock_pubsub;
struct relock_listener;
struct relock_loop;

enum relock_channel_event {
    RELOCK_CHANNEL_SUBSCRIBED, /* from now on messages come */
    RELOCK_CHANNEL_MESSAGE,
    RELOCK_CHANNEL_DOWN, /* they come no more, until subscribed again */
};

typedef void relock_channel_fn(void *arg, enum relock_channel_event event);

/* A connection that is quiet for `ping_ms` is pinged. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_pubsub_new(struct relock_loop *loop, const struct relock_server *server,
                      uint64_t ping_ms, struct relock_pubsub **pubsub);

/* Drops all channels. Takes NULL. Returns NULL. */
struct relock_pubsub *relock_pubsub_free(struct relock_pubsub *pubsub);

/*
 * Listens to a channel: `fn` is told of it until the listener leaves. Where the channel is
 * subscribed already, `fn` is told so before this returns. A server that refuses is not asked
 * again before the connection is made again, and the log says so.
 *
 * Returns NULL when out of memory.
 */
struct relock_listener *relock_pubsub_subscribe(struct relock_pubsub *pubsub, const char *name,
                                                size_t len, relock_channel_fn *fn, void *arg);

/* The listener leaves the channel, and is freed. */
void relock_pubsub_unsubscribe(struct relock_pubsub *pubsub, struct relock_listener *listener);

uint64_t relock_pubsub_reconnects(const struct relock_pubsub *pubsub);
void relock_pubsub_abandon(struct relock_pubsub *pubsub);

#endif
