/*
 * Pubsub - subscribes to the channels on which releases are published
 *
 * All channels share one connection. A channel is identified by its name on the wire and may have
 * any number of subscribers: it is subscribed for the first and unsubscribed after the last. It is
 * subscribed again after each reconnect. Subscribers learn of each acknowledgement, since only from
 * then on no message is missed: a waiter retries once at that point.
 *
 * Threads: the I/O thread; new, share and free while that does not run. If it is shared, another
 * thread that waits may read the messages: direct.h.
 */
#ifndef RELOCK_PUBSUB_H
#define RELOCK_PUBSUB_H

#include "redis/io/channel.h"
#include "redis/server/server.h"

#include <stdint.h>

struct relock_loop;

/* After `ping_ms` of silence a PING is sent. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_pubsub_new(struct relock_loop *loop, const struct relock_server *server,
                      uint64_t ping_ms, struct relock_pubsub **pubsub);

/*
 * Sets the node of a topology to which the pubsub leads. In a cluster, a channel belongs to the
 * node that has the slot of its name. If that is another one, by now or from the start, the channel
 * goes there with its subscribers, which hear RELOCK_CHANNEL_DOWN and then
 * RELOCK_CHANNEL_SUBSCRIBED.
 */
void relock_pubsub_join(struct relock_pubsub *pubsub, struct relock_topology *topology,
                        struct relock_node *node);

/* From now on, other threads may read the messages. Not in a cluster. Returns RELOCK_OK,
 * RELOCK_E_NOMEM. */
int relock_pubsub_share(struct relock_pubsub *pubsub, struct relock_loop *loop);

/* Keys may have other nodes now: moves their channels there. */
void relock_pubsub_follow(struct relock_pubsub *pubsub);

/* The id of the current connection, which the pubsub owns; NULL while there is none, or when the
 * server does not tell it. */
struct relock_conn_id *relock_pubsub_conn_id(const struct relock_pubsub *pubsub);

/* Connects, if it has a channel, after relock_pubsub_close_idle(). */
void relock_pubsub_reopen(struct relock_pubsub *pubsub);

/* Whether there is no channel but the node's own. */
bool relock_pubsub_is_idle(const struct relock_pubsub *pubsub);

/* Closes the connection if there is no channel but the node's own, which is down then. */
void relock_pubsub_close_idle(struct relock_pubsub *pubsub);

/* Drops all channels. Takes NULL. Returns NULL. */
struct relock_pubsub *relock_pubsub_free(struct relock_pubsub *pubsub);

/*
 * Adds a subscriber to a channel; its `fn` is called for each event until it unsubscribes. If the
 * channel is subscribed already, `fn` is called before this returns. If the server refuses
 * SUBSCRIBE, that is logged, `fn` is called, and SUBSCRIBE is repeated only on a new connection. If
 * the pubsub is shared, `fn` may call none of these functions, and any thread may call it with a
 * message.
 *
 * Returns NULL when out of memory, also if there was none for the pubsub.
 */
struct relock_subscriber *relock_pubsub_subscribe(struct relock_pubsub *pubsub, const char *name,
                                                  size_t len, relock_channel_fn *fn, void *arg);

/* As relock_pubsub_subscribe, for a channel of this node's own: it is never sharded, goes to no
 * other node, and does not keep the pubsub from being idle. If SUBSCRIBE is refused, the log says
 * that CLIENT TRACKING is missing. */
struct relock_subscriber *relock_pubsub_subscribe_here(struct relock_pubsub *pubsub,
                                                       const char *name, size_t len,
                                                       relock_channel_fn *fn, void *arg);

/* Removes the subscriber from its channel and frees it. */
void relock_pubsub_unsubscribe(struct relock_subscriber *subscriber);

/* Makes the connection again, if it is up: its server was replaced, and `why` says how that was
 * noticed. */
void relock_pubsub_reconnect(struct relock_pubsub *pubsub, const char *why);

/* No connection for renewals can be made beside this one: if it has been up for a while, it ends,
 * and is made again after a pause. Returns whether it ended. */
bool relock_pubsub_make_room(struct relock_pubsub *pubsub);

/* In each turn of the I/O thread, of a shared pubsub: reads again if no other thread does any more.
 * `is_needed`: the I/O thread needs messages itself, so others must not read. */
void relock_pubsub_attend(struct relock_pubsub *pubsub, bool is_needed);

#endif
