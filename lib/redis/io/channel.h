/*
 * Channel - one channel of a pubsub: its subscribers, its SUBSCRIBE, its move to another node, and
 * what comes over the connection
 *
 * Threads: the I/O thread; with the mutex of a shared connection locked.
 */
#ifndef RELOCK_CHANNEL_H
#define RELOCK_CHANNEL_H

#include "base/hash.h"
#include "redis/io/async_conn.h"
#include "redis/server/command.h"

#include <stdbool.h>
#include <stddef.h>

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

struct relock_pubsub;
struct relock_topology;

struct relock_subscriber {
    struct relock_channel *channel;
    relock_channel_fn *fn;
    void *arg;
    struct relock_subscriber *next, *prev;
};

/* A channel by its name on the wire; it exists while it has subscribers. */
struct relock_channel {
    UT_hash_handle hh;
    struct relock_pubsub *pubsub;
    struct relock_subscriber *subscribers;
    uint64_t subscribe_nth; /* `n_sent` of the connection after its last SUBSCRIBE; 0: none */
    bool is_subscribed;     /* that SUBSCRIBE was acknowledged */
    bool is_stranded;       /* no node takes it now: it subscribes again with the next map */
    bool is_local;          /* constant: it is this node's own, and never sharded */
    unsigned n_redirects;   /* since it was last subscribed, or stranded */
    size_t len;
    char name[];
};

/* A SUNSUBSCRIBE without a reply yet. It distinguishes the reply from the same notice that the
 * server may send by itself. */
struct relock_unsubscription {
    uint64_t nth; /* `n_sent` of the connection after it */
    struct relock_unsubscription *next, *prev;
    size_t len;
    char name[]; /* of the channel */
};

/* The words of plain and of sharded channels. */
struct relock_pubsub_words {
    const char *subscribe;
    const char *unsubscribe;
    const char *subscribed;
    const char *unsubscribed;
    const char *message;
    bool may_end; /* the server ends subscriptions by itself */
};

extern const struct relock_pubsub_words relock_pubsub_plain;

struct relock_pubsub {
    struct relock_async_conn conn;
    const struct relock_pubsub_words *words;
    struct relock_topology *topology;              /* NULL: no server refers to another */
    struct relock_node *node;                      /* of the topology */
    struct relock_channel *channels;               /* by name */
    struct relock_unsubscription *unsubscriptions; /* in the order of their replies */
};

static inline struct relock_text relock_channel_name(const struct relock_channel *channel)
{
    return (struct relock_text){channel->name, channel->len};
}

/* Returns NULL when out of memory. */
struct relock_channel *relock_channel_find_or_make(struct relock_pubsub *pubsub,
                                                   struct relock_text name);

/*
 * Sends SUBSCRIBE. When out of memory, it ends the connection and returns false. The next
 * connection subscribes exactly the channels that have subscribers; on this one a waiter would get
 * no messages, or a channel without subscribers would stay subscribed.
 */
bool relock_channel_subscribe(struct relock_channel *channel);

/* The channel has a new subscriber and is not subscribed. `is_first`: this is its first one. */
void relock_channel_begin(struct relock_channel *channel, bool is_first);

/* The channel has lost its last subscriber: unsubscribes it and frees it. */
void relock_channel_drop(struct relock_channel *channel);

/* Calls all subscribers; if the message is a list, for each of its elements. */
void relock_channel_tell(const struct relock_channel *channel, enum relock_channel_event event,
                         const struct redisReply *message);

/* The subscribers go to the channel of that name at another node. */
void relock_channel_move(struct relock_channel *from, struct relock_node *node);

/* Anything that comes while the connection of the pubsub `arg` is up. The I/O thread. */
void relock_pubsub_take_reply(void *arg, const struct redisReply *reply);

/* Takes what comes while no command is unanswered, so that it can only be a message. Returns false
 * for anything else, which ends the connection. Any thread. */
bool relock_pubsub_hear(struct relock_pubsub *pubsub, const struct redisReply *reply);

#endif
