#include "redis/io/channel.h"

#include "redis/deployment/node.h"
#include "redis/deployment/topology.h"
#include "redis/server/reply.h"

#include <stdlib.h>
#include <string.h>

struct relock_channel *relock_channel_find_or_make(struct relock_pubsub *pubsub,
                                                   struct relock_text name)
{
    struct relock_channel *channel;

    HASH_FIND(hh, pubsub->channels, name.data, name.len, channel);
    if (channel)
        return channel;
    channel = calloc(1, sizeof(*channel) + name.len + 1);
    if (!channel)
        return NULL;
    channel->pubsub = pubsub;
    channel->len = name.len;
    memcpy(channel->name, name.data, name.len);
    HASH_ADD_KEYPTR(hh, pubsub->channels, channel->name, channel->len, channel);
    if (!channel->hh.tbl) {
        free(channel);
        return NULL;
    }
    return channel;
}

static bool send_command(struct relock_pubsub *pubsub, const char *verb,
                         const struct relock_channel *channel)
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
    return true;
}

static const struct relock_pubsub_words *words_of(const struct relock_channel *channel)
{
    return channel->is_local ? &relock_pubsub_plain : channel->pubsub->words;
}

bool relock_channel_subscribe(struct relock_channel *channel)
{
    struct relock_pubsub *pubsub = channel->pubsub;

    channel->is_stranded = false;
    if (!send_command(pubsub, words_of(channel)->subscribe, channel))
        return false;
    channel->subscribe_nth = pubsub->conn.n_sent;
    return true;
}

void relock_channel_begin(struct relock_channel *channel, bool is_first)
{
    struct relock_pubsub *pubsub = channel->pubsub;

    if (!relock_async_conn_is_up(&pubsub->conn))
        relock_async_conn_open(&pubsub->conn);
    else if (is_first)
        (void)relock_channel_subscribe(channel);
}

static void send_unsubscribe(struct relock_pubsub *pubsub, const struct relock_channel *channel)
{
    const struct relock_pubsub_words *words = words_of(channel);
    struct relock_leave *leave = words->may_end ? malloc(sizeof(*leave) + channel->len) : NULL;

    if (words->may_end && !leave) {
        relock_async_conn_fail(&pubsub->conn, "out of memory for a command");
        return;
    }
    if (!send_command(pubsub, words->unsubscribe, channel)) {
        free(leave);
    } else if (leave) {
        leave->nth = pubsub->conn.n_sent;
        leave->len = channel->len;
        memcpy(leave->name, channel->name, channel->len);
        DL_APPEND(pubsub->leaves, leave);
    }
}

void relock_channel_leave(struct relock_channel *channel)
{
    struct relock_pubsub *pubsub = channel->pubsub;

    HASH_DEL(pubsub->channels, channel);
    if (relock_async_conn_is_up(&pubsub->conn) && channel->subscribe_nth > 0)
        send_unsubscribe(pubsub, channel);
    free(channel);
}

static void tell(const struct relock_channel *channel, enum relock_channel_event event,
                 const struct redisReply *message)
{
    const struct relock_subscriber *subscriber;
    const char *text = NULL;
    size_t len = 0;

    (void)relock_reply_text(message, &text, &len);
    DL_FOREACH(channel->subscribers, subscriber)
    subscriber->fn(subscriber->arg, event, text, len);
}

void relock_channel_tell(const struct relock_channel *channel, enum relock_channel_event event,
                         const struct redisReply *message)
{
    const struct redisReply *at = relock_reply_at(message, 0);

    if (!at)
        tell(channel, event, message);
    for (size_t i = 0; at; at = relock_reply_at(message, ++i))
        tell(channel, event, at);
}

void relock_channel_strand(struct relock_channel *channel)
{
    channel->is_stranded = true;
    channel->n_redirects = 0;
    relock_topology_distrust(channel->pubsub->topology, channel->pubsub->node);
}

void relock_channel_move(struct relock_channel *from, struct relock_node *node)
{
    struct relock_topology *topology = from->pubsub->topology;
    struct relock_channel *to = NULL;
    struct relock_subscriber *at;
    bool is_first;

    if (topology->io.open(topology, node) == RELOCK_OK)
        to = relock_channel_find_or_make(node->pubsub, relock_channel_name(from));
    if (!to) {
        relock_channel_strand(from);
        return;
    }
    from->is_subscribed = false;
    relock_channel_tell(from, RELOCK_CHANNEL_DOWN, NULL);
    is_first = !to->subscribers;
    to->n_redirects = from->n_redirects;
    DL_FOREACH(from->subscribers, at)
    at->channel = to;
    DL_CONCAT(to->subscribers, from->subscribers);
    from->subscribers = NULL;
    relock_channel_leave(from);
    if (to->is_subscribed)
        relock_channel_tell(to, RELOCK_CHANNEL_SUBSCRIBED, NULL);
    else
        relock_channel_begin(to, is_first);
}
