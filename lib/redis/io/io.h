/*
 * I/O - the connections of the I/O thread
 *
 * What lib/redis/io offers to the locks: commands, subscriptions and reports of changes, at
 * whichever node has the key.
 */
#ifndef RELOCK_REDIS_IO_H
#define RELOCK_REDIS_IO_H

#include "base/hash.h"
#include "base/thread.h"
#include "redis/deployment/topology.h"
#include "redis/lane/call.h"
#include "redis/server/command.h"
#include "redis/server/peer.h"
#include "redis/server/server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redisReply;
struct relock_conn_id;
struct relock_loop;
struct relock_pipeline;
struct relock_pubsub;
struct relock_subscriber;
struct relock_switches;

/* ---- the connections to a node --------------------------------------------------------------- */

/*
 * Node I/O - the connections of the I/O thread to the nodes of a topology
 *
 * Threads: the I/O thread; start and stop while that does not run.
 */

/* Opens one node, so that the thread has a connection when it first needs one. Returns RELOCK_OK,
 * RELOCK_E_NOMEM. */
int relock_node_io_start(struct relock_topology *topology, const struct relock_topology_io *io);

/* Frees the connections. Takes NULL. */
void relock_node_io_stop(struct relock_topology *topology);

/* The node that holds this key now, or the connections to it; opens them first. NULL while no node
 * is known, or when out of memory. */
struct relock_node *relock_node_io_open(struct relock_topology *topology, struct relock_text key);
struct relock_pipeline *relock_node_io_pipeline(struct relock_topology *topology,
                                                struct relock_text key);
struct relock_pubsub *relock_node_io_pubsub(struct relock_topology *topology,
                                            struct relock_text key);

/*
 * If keys have other nodes now, moves the channels there and calls `up`. If the credentials have
 * changed, makes the connections again. Frees nodes that hold no keys and that nothing has used for
 * a while. So the I/O thread calls it where it has no pointer to a node, under no mutex. Returns
 * when to call it again; RELOCK_NEVER: only after a change.
 */
uint64_t relock_node_io_follow(struct relock_topology *topology);

/* Takes the replies that have come over lanes that no call uses. Under no mutex. */
void relock_node_io_read(struct relock_topology *topology);

/* Turns tracking on where it is wanted. Under no mutex, before the thread waits. Returns when to
 * call it again; RELOCK_NEVER: only after a change. */
uint64_t relock_node_io_track(struct relock_topology *topology);

/* Where no call can connect, gives calls the connection of the pipeline. Under no mutex. */
void relock_node_io_share(struct relock_topology *topology);

/* Turns of the pipelines of all nodes: begins one, and returns whether one is not answered. Also
 * under a mutex. */
void relock_node_io_begin_turn(struct relock_topology *topology);
bool relock_node_io_is_in_turn(struct relock_topology *topology);

/* Writes to all sockets at once, instead of when the loop next finds them writable. */
void relock_node_io_flush(struct relock_topology *topology);

/* In each iteration: reads messages where no other thread does any more. `is_needed`: the I/O
 * thread needs messages itself, so others must not read. */
void relock_node_io_attend(struct relock_topology *topology, bool is_needed);

/* Waits until the gate is open and closes it again, or until `deadline_ms`. Meanwhile the thread
 * may read messages of the node of this key: direct.c. Threads: any, under no mutex, while the I/O
 * thread runs. */
void relock_node_io_wait(struct relock_topology *topology, struct relock_text key,
                         struct relock_gate *gate, uint64_t deadline_ms);

/* Ends the connections that lead to this peer, also those of the lanes. */
void relock_node_io_cut(struct relock_topology *topology, const struct relock_peer *peer);

/* ---- pipeline -------------------------------------------------------------------------------- */

/*
 * Pipeline - the connection over which the I/O thread runs scripts
 *
 * It sends each command without waiting for the replies of earlier ones. When the connection
 * breaks, all commands in flight end with RELOCK_E_CONN, and the pipeline reconnects; `up` tells
 * the user that it can send again. When the server does not have a script, the pipeline loads it
 * and sends the command once more. So each call ends with one answer, but the answers need not come
 * in the order of the calls.
 *
 * If no connection can be made, it takes one of the lanes that no call uses.
 *
 * Threads: the I/O thread; new and free while that does not run.
 */

/*
 * The answer to a call: RELOCK_OK and the reply; RELOCK_E_CONN without one, when the connection
 * ended first, or the key is at a node that is not connected; RELOCK_E_SERVER, RELOCK_E_AUTH and
 * the error. Without a reply, these two say that the server refused to kill the fence.
 */
typedef void relock_pipeline_fn(void *arg, int result, const struct redisReply *reply);

/* The id of the current connection, which the pipeline owns; NULL while there is none, or when the
 * server does not tell it. */
struct relock_conn_id *relock_pipeline_conn_id(const struct relock_pipeline *pipeline);

/*
 * Has the server kill the fence of the call, if it has one, and sends the call. The call need not
 * live longer. Calls `fn` once, later. The fence stays the caller's.
 *
 * Returns RELOCK_OK; RELOCK_E_CONN while the connection is down; RELOCK_E_NOMEM, also if `pipeline`
 * is NULL because there was no memory for it. After a failure, `fn` is not called.
 */
int relock_pipeline_call(struct relock_pipeline *pipeline, const struct relock_call *call,
                         relock_pipeline_fn *fn, void *arg);

/*
 * Has the server count the replicas that have the last write of this connection (WAIT), until there
 * are `n` or `timeout_ms` have passed. Until then the server runs no later command. Calls `fn`
 * once, later. Returns as relock_pipeline_call.
 */
int relock_pipeline_count_replicas(struct relock_pipeline *pipeline, unsigned n,
                                   uint64_t timeout_ms, relock_pipeline_fn *fn, void *arg);

/*
 * Turns: the I/O thread sends some renewals, and the next ones when the server has answered these,
 * so the server runs commands of other clients in between.
 *
 * begin_turn: the commands in flight are a turn. If the server has not answered the last turn yet,
 * that goes on, and the server is late. may_take_turn: the connection is up, and the last turn is
 * answered. is_in_turn: the last turn is not answered, and the server is not late.
 */
void relock_pipeline_begin_turn(struct relock_pipeline *pipeline);
bool relock_pipeline_may_take_turn(const struct relock_pipeline *pipeline);
bool relock_pipeline_is_in_turn(const struct relock_pipeline *pipeline);

/* Sends PING, unless a command is in flight. */
void relock_pipeline_ping(struct relock_pipeline *pipeline);

/* Since when the server has owed an answer, over all connections; RELOCK_NEVER when it owes none.
 */
uint64_t relock_pipeline_silent_ms(const struct relock_pipeline *pipeline);

/* ---- events of a channel --------------------------------------------------------------------- */

/* A channel tells its subscribers: */
enum relock_channel_event {
    RELOCK_CHANNEL_SUBSCRIBED, /* from now on all messages arrive */
    RELOCK_CHANNEL_MESSAGE,
    RELOCK_CHANNEL_REFUSED, /* no messages: the user may not subscribe to it */
    RELOCK_CHANNEL_DOWN,    /* no messages until it is subscribed again */
};

/* With a message comes its text, `len` bytes; else NULL. */
typedef void relock_channel_fn(void *arg, enum relock_channel_event event, const char *text,
                               size_t len);

/* ---- pubsub ---------------------------------------------------------------------------------- */

/*
 * Pubsub - subscribes to the channels on which releases are published
 *
 * All channels share one connection. A channel is identified by its name on the wire and may have
 * any number of subscribers: it is subscribed for the first and unsubscribed after the last. It is
 * subscribed again after each reconnect. Subscribers learn of each acknowledgement, since only from
 * then on no message is missed: a waiter retries once at that point.
 *
 * Threads: the I/O thread; new, share and free while that does not run. If it is shared, another
 * thread that waits may read the messages: direct.c.
 */

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

/* As relock_pubsub_subscribe, for a channel to which clients PUBLISH, so that in a cluster its
 * messages come to all nodes. It is never sharded. It stays at this node, whichever has its slot,
 * and goes to another when this one holds no slots any more, or its connection fails; the
 * subscribers hear RELOCK_CHANNEL_DOWN then. */
struct relock_subscriber *relock_pubsub_subscribe_anywhere(struct relock_pubsub *pubsub,
                                                           const char *name, size_t len,
                                                           relock_channel_fn *fn, void *arg);

/* Removes the subscriber from its channel and frees it. */
void relock_pubsub_unsubscribe(struct relock_subscriber *subscriber);

/* ---- tracking -------------------------------------------------------------------------------- */

/*
 * Tracking - a node reports changes of keys that its pipeline has read
 *
 * The server sends each report once, over the connection of the subscriptions, for keys that a
 * call with a `tracker` has read over the pipeline. So it needs both connections: CLIENT TRACKING
 * names the second one over the first. When either is made anew, tracking is off until the server
 * has agreed again, and what was to be reported is forgotten.
 *
 * A user without the right, or a server or a proxy without the command, is not asked again before
 * one of the connections is new. That is logged once.
 *
 * Threads: the I/O thread, under no mutex, unless a function says otherwise.
 */

/* The node is to track. Also under a mutex: it begins with the next step. */
static inline void relock_tracking_want(struct relock_node *node)
{
    node->wants_tracking = true;
}

/* Whether a call with a `tracker` that is sent now is tracked. Also under a mutex. */
bool relock_tracking_is_on(const struct relock_node *node);

/* ---- switches -------------------------------------------------------------------------------- */

/*
 * Switches - hears from the sentinels that another server is the master
 *
 * It subscribes to +switch-master at each sentinel, so it hears of a failover while one of them can
 * be reached. Without it, connections to the old master go on until they break: to one that is cut
 * off from the sentinels, for as long as it answers.
 *
 * Threads: the I/O thread; new and free while that does not run.
 */

/* `old` is the master no more. */
typedef void relock_switch_fn(void *arg, const struct relock_peer *old);

/*
 * Of a server without sentinels, no switches are heard. After `ping_ms` of silence a PING is sent.
 * Returns RELOCK_OK, RELOCK_E_NOMEM.
 */
int relock_switches_new(struct relock_loop *loop, const struct relock_server *server,
                        uint64_t ping_ms, relock_switch_fn *fn, void *arg,
                        struct relock_switches **switches);

/* Takes NULL. Returns NULL. */
struct relock_switches *relock_switches_free(struct relock_switches *switches);

/* Connects to the sentinels. */
void relock_switches_open(struct relock_switches *switches);

#endif
