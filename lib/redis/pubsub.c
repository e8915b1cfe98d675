#include "redis/pubsub.h"

#include "base/hash.h"
#include "redis/conn.h"
#include "redis/explain.h"
#include "redis/loop.h"
#include "redis/reply.h"

#include <stdlib.h>
#include <string.h>

struct relock_listener {
    struct relock_channel *channel;
    relock_channel_fn *fn;
    void *arg;
    struct relock_listener *next, *prev;
};

/* A channel by its name on the wire; it exists while it has listeners. */
struct relock_channel {
    UT_hash_handle hh;
    struct relock_listener *listeners;
    uint64_t asked;     /* which command of the connection subscribed it last */
    bool is_subscribed; /* that command was acknowledged */
    size_t len;
    char name[];
};

struct relock_pubsub {
    struct relock_conn conn;
    struct relock_channel *channels; /* by name */
};

/*
 * Returns false when there is no memory, and then there is no connection any more. What a new one
 * has subscribed is what is wanted: on this one who waits would get no message for as long as it
 * lasts, and what nobody wants would stay subscribed.
 */
static bool send_command(struct relock_pubsub *pubsub, const char *verb,
                         struct relock_channel *channel)
{
    struct relock_buffer *out = relock_conn_out(&pubsub->conn);

    relock_command_begin(out, 2);
    relock_command_word(out, verb);
    relock_command_arg(out, channel->name, channel->len);
    if (out->failed) {
        relock_conn_fail(&pubsub->conn, "out of memory for a command");
        return false;
    }
    relock_conn_send(&pubsub->conn, 1);
    channel->asked = pubsub->conn.n_sent;
    return true;
}

static void tell_all(const struct relock_channel *channel, enum relock_channel_event event)
{
    const struct relock_listener *listener;

    DL_FOREACH(channel->listeners, listener)
    listener->fn(listener->arg, event);
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
        tell_all(at, RELOCK_CHANNEL_DOWN);
    }
    if (!pubsub->channels)
        relock_conn_close(&pubsub->conn);
}

static void on_error(struct relock_pubsub *pubsub, const char *error)
{
    char name[RELOCK_LOG_NAME_MAX];
    char why[RELOCK_WHY_MAX];

    /* Answers come in the order of the commands, an error like the others. */
    relock_conn_answered(&pubsub->conn);
    for (struct relock_channel *at = pubsub->channels; at; at = at->hh.next) {
        if (at->asked == pubsub->conn.n_answered) {
            relock_explain(why, NULL, error);
            relock_log_write(pubsub->conn.server->log, RELOCK_LOG_WARNING,
                             "%s: not subscribed, waiting goes on without messages: %s",
                             relock_log_name(at->name, name), why);
            return;
        }
    }
}

static void tell(struct relock_pubsub *pubsub, const struct redisReply *name,
                 enum relock_channel_event event)
{
    struct relock_channel *channel;
    const char *text;
    size_t len;

    if (!relock_reply_text(name, &text, &len))
        return;
    HASH_FIND(hh, pubsub->channels, text, len, channel);
    if (!channel)
        return;
    if (event == RELOCK_CHANNEL_SUBSCRIBED)
        channel->is_subscribed = pubsub->conn.n_answered == channel->asked;
    tell_all(channel, event);
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
        tell(pubsub, name, RELOCK_CHANNEL_MESSAGE);
    } else {
        /* To SUBSCRIBE, UNSUBSCRIBE or PING, which is answered in one form or another. */
        relock_conn_answered(&pubsub->conn);
        if (kind && relock_reply_is(kind, "subscribe"))
            tell(pubsub, name, RELOCK_CHANNEL_SUBSCRIBED);
    }
}

static const struct relock_conn_ops conn_ops = {
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
    relock_conn_init(&new->conn, relock_loop_ev(loop), server, &conn_ops, new);
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
    channel->len = len;
    memcpy(channel->name, name, len);
    HASH_ADD_KEYPTR(hh, pubsub->channels, channel->name, channel->len, channel);
    if (!channel->hh.tbl) {
        free(channel);
        return NULL;
    }
    return channel;
}

struct relock_listener *relock_pubsub_subscribe(struct relock_pubsub *pubsub, const char *name,
                                                size_t len, relock_channel_fn *fn, void *arg)
{
    struct relock_listener *listener = malloc(sizeof(*listener));
    struct relock_channel *channel = listener ? find_or_make(pubsub, name, len) : NULL;
    bool is_first;

    if (!channel) {
        free(listener);
        return NULL;
    }
    *listener = (struct relock_listener){.channel = channel, .fn = fn, .arg = arg};
    is_first = !channel->listeners;
    DL_APPEND(channel->listeners, listener);
    if (channel->is_subscribed)
        fn(arg, RELOCK_CHANNEL_SUBSCRIBED); /* no acknowledgement is to come */
    else if (!relock_conn_is_up(&pubsub->conn))
        relock_conn_open(&pubsub->conn);
    else if (is_first)
        (void)send_command(pubsub, "SUBSCRIBE", channel);
    return listener;
}

void relock_pubsub_unsubscribe(struct relock_pubsub *pubsub, struct relock_listener *listener)
{
    struct relock_channel *channel = listener->channel;

    DL_DELETE(channel->listeners, listener);
    free(listener);
    if (channel->listeners)
        return;
    HASH_DEL(pubsub->channels, channel);
    if (relock_conn_is_up(&pubsub->conn))
        (void)send_command(pubsub, "UNSUBSCRIBE", channel);
    free(channel);
}

struct relock_pubsub *relock_pubsub_free(struct relock_pubsub *pubsub)
{
    struct relock_channel *channel;

    if (!pubsub)
        return NULL;
    relock_conn_deinit(&pubsub->conn);
    channel = pubsub->channels;
    HASH_CLEAR(hh, pubsub->channels);
    while (channel) {
        struct relock_channel *next = channel->hh.next;
        struct relock_listener *listener, *other;

        DL_FOREACH_SAFE(channel->listeners, listener, other)
        free(listener);
        free(channel);
        channel = next;
    }
    free(pubsub);
    return NULL;
}

uint64_t relock_pubsub_reconnects(const struct relock_pubsub *pubsub)
{
    return atomic_load(&pubsub->conn.reconnects);
}

void relock_pubsub_abandon(struct relock_pubsub *pubsub)
{
    relock_conn_abandon(&pubsub->conn);
}
