#include "redis/pubsub.h"

#include "base/hash.h"
#include "redis/async_conn.h"
#include "redis/explain.h"
#include "redis/loop.h"
#include "redis/reply.h"

#include <stdlib.h>
#include <string.h>

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
    uint64_t subscribe_nth; /* the count of the commands sent, at its last SUBSCRIBE */
    bool is_subscribed;     /* that SUBSCRIBE was acknowledged */
    size_t len;
    char name[];
};

struct relock_pubsub {
    struct relock_async_conn conn;
    struct relock_channel *channels; /* by name */
};

/*
 * When out of memory, it ends the connection and returns false. The next connection subscribes
 * exactly the channels that have subscribers; on this one a waiter would get no messages, or a
 * channel without subscribers would stay subscribed.
 */
static bool send_command(struct relock_pubsub *pubsub, const char *verb,
                         struct relock_channel *channel)
{
    struct relock_buffer *out = relock_async_conn_out(&pubsub->conn);

    relock_command_begin(out, 2);
    relock_command_word(out, verb);
    relock_command_arg(out, channel->name, channel->len);
    if (out->failed) {
        relock_async_conn_fail(&pubsub->conn, "out of memory for a command");
        return false;
    }
    relock_async_conn_send(&pubsub->conn, 1);
    channel->subscribe_nth = pubsub->conn.n_sent;
    return true;
}

static void tell_all(const struct relock_channel *channel, enum relock_channel_event event,
                     const struct redisReply *message)
{
    const struct relock_subscriber *subscriber;
    const char *text = NULL;
    size_t len = 0;

    (void)relock_reply_text(message, &text, &len);
    DL_FOREACH(channel->subscribers, subscriber)
    subscriber->fn(subscriber->arg, event, text, len);
}

static void on_up(void *arg)
{
    struct relock_pubsub *pubsub = arg;

    for (struct relock_channel *at = pubsub->channels; at; at = at->hh.next)
        if (!send_command(pubsub, "SUBSCRIBE", at))
            return;
}

static void on_down(void *arg)
{
    struct relock_pubsub *pubsub = arg;

    for (struct relock_channel *at = pubsub->channels; at; at = at->hh.next) {
        at->is_subscribed = false;
        tell_all(at, RELOCK_CHANNEL_DOWN, NULL);
    }
    if (!pubsub->channels)
        relock_async_conn_close(&pubsub->conn);
}

static void log_refusal(const struct relock_server *server, const struct relock_channel *channel,
                        const char *error)
{
    char name[RELOCK_LOG_NAME_MAX];
    char why[RELOCK_WHY_MAX];

    if (relock_explain_is_missing(error)) {
        relock_explain_extra(server, RELOCK_EXTRA_HEAR, error);
        return;
    }
    relock_explain(why, NULL, error);
    relock_log_write(server->log, RELOCK_LOG_WARNING,
                     "%s: not subscribed: %s; waiters ask more often instead",
                     relock_log_name(channel->name, name), why);
}

static void on_error(struct relock_pubsub *pubsub, const char *error)
{
    /* Replies, errors included, come in the order of the commands. */
    relock_async_conn_answered(&pubsub->conn, true);
    for (struct relock_channel *at = pubsub->channels; at; at = at->hh.next) {
        if (at->subscribe_nth == pubsub->conn.n_answered) {
            log_refusal(pubsub->conn.server, at, error);
            tell_all(at, RELOCK_CHANNEL_REFUSED, NULL);
            return;
        }
    }
}

static void tell(struct relock_pubsub *pubsub, const struct redisReply *name,
                 enum relock_channel_event event, const struct redisReply *message)
{
    struct relock_channel *channel;
    const char *text;
    size_t len;

    if (!relock_reply_text(name, &text, &len))
        return;
    HASH_FIND(hh, pubsub->channels, text, len, channel);
    if (!channel)
        return;
    if (event == RELOCK_CHANNEL_SUBSCRIBED) {
        /* The channel was left and subscribed again since: its own acknowledgement follows. */
        if (pubsub->conn.n_answered != channel->subscribe_nth)
            return;
        channel->is_subscribed = true;
    }
    tell_all(channel, event, message);
}

static void on_reply(void *arg, const struct redisReply *reply)
{
    struct relock_pubsub *pubsub = arg;
    const char *error = relock_reply_error(reply);
    const struct redisReply *kind = relock_reply_at(reply, 0);
    const struct redisReply *name = relock_reply_at(reply, 1);

    if (error) {
        on_error(pubsub, error);
    } else if (kind && relock_reply_is(kind, "message")) {
        tell(pubsub, name, RELOCK_CHANNEL_MESSAGE, relock_reply_at(reply, 2));
    } else {
        /* The reply to SUBSCRIBE, UNSUBSCRIBE or PING. */
        relock_async_conn_answered(&pubsub->conn, true);
        if (kind && relock_reply_is(kind, "subscribe"))
            tell(pubsub, name, RELOCK_CHANNEL_SUBSCRIBED, NULL);
    }
}

static const struct relock_async_conn_ops conn_ops = {
    .up = on_up,
    .reply = on_reply,
    .down = on_down,
};

int relock_pubsub_new(struct relock_loop *loop, const struct relock_server *server,
                      uint64_t ping_ms, struct relock_pubsub **pubsub)
{
    struct relock_pubsub *new = calloc(1, sizeof(*new));

    if (!new)
        return RELOCK_E_NOMEM;
    relock_async_conn_init(&new->conn, relock_loop_ev(loop), server, &conn_ops, new);
    new->conn.ping_ms = ping_ms;
    new->conn.pong_ms = ping_ms;
    *pubsub = new;
    return RELOCK_OK;
}

/* ---- channels ------------------------------------------------------------------------------ */

/* Returns NULL when out of memory. */
static struct relock_channel *find_or_make(struct relock_pubsub *pubsub, const char *name,
                                           size_t len)
{
    struct relock_channel *channel;

    HASH_FIND(hh, pubsub->channels, name, len, channel);
    if (channel)
        return channel;
    channel = calloc(1, sizeof(*channel) + len + 1);
    if (!channel)
        return NULL;
    channel->pubsub = pubsub;
    channel->len = len;
    memcpy(channel->name, name, len);
    HASH_ADD_KEYPTR(hh, pubsub->channels, channel->name, channel->len, channel);
    if (!channel->hh.tbl) {
        free(channel);
        return NULL;
    }
    return channel;
}

struct relock_subscriber *relock_pubsub_subscribe(struct relock_pubsub *pubsub, const char *name,
                                                  size_t len, relock_channel_fn *fn, void *arg)
{
    struct relock_subscriber *subscriber = pubsub ? malloc(sizeof(*subscriber)) : NULL;
    struct relock_channel *channel = subscriber ? find_or_make(pubsub, name, len) : NULL;
    bool is_first;

    if (!channel) {
        free(subscriber);
        return NULL;
    }
    *subscriber = (struct relock_subscriber){.channel = channel, .fn = fn, .arg = arg};
    is_first = !channel->subscribers;
    DL_APPEND(channel->subscribers, subscriber);
    if (channel->is_subscribed)
        fn(arg, RELOCK_CHANNEL_SUBSCRIBED, NULL, 0); /* no acknowledgement will come */
    else if (!relock_async_conn_is_up(&pubsub->conn))
        relock_async_conn_open(&pubsub->conn);
    else if (is_first)
        (void)send_command(pubsub, "SUBSCRIBE", channel);
    return subscriber;
}

void relock_pubsub_unsubscribe(struct relock_subscriber *subscriber)
{
    struct relock_channel *channel = subscriber->channel;
    struct relock_pubsub *pubsub = channel->pubsub;

    DL_DELETE(channel->subscribers, subscriber);
    free(subscriber);
    if (channel->subscribers)
        return;
    HASH_DEL(pubsub->channels, channel);
    if (relock_async_conn_is_up(&pubsub->conn))
        (void)send_command(pubsub, "UNSUBSCRIBE", channel);
    free(channel);
}

struct relock_pubsub *relock_pubsub_free(struct relock_pubsub *pubsub)
{
    struct relock_channel *channel;

    if (!pubsub)
        return NULL;
    relock_async_conn_deinit(&pubsub->conn);
    channel = pubsub->channels;
    HASH_CLEAR(hh, pubsub->channels);
    while (channel) {
        struct relock_channel *next = channel->hh.next;
        struct relock_subscriber *subscriber, *other;

        DL_FOREACH_SAFE(channel->subscribers, subscriber, other)
        free(subscriber);
        free(channel);
        channel = next;
    }
    free(pubsub);
    return NULL;
}

void relock_pubsub_abandon(struct relock_pubsub *pubsub)
{
    relock_async_conn_abandon(&pubsub->conn);
}

void relock_pubsub_cut(struct relock_pubsub *pubsub, const struct relock_peer *peer)
{
    relock_async_conn_cut(&pubsub->conn, peer);
}
