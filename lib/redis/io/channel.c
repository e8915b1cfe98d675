#include "redis/io/io.h"
#include "redis/io/private.h"

#include "base/clock.h"
#include "redis/connect/explain.h"
#include "redis/deployment/slot_map.h"
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
    return channel->place == RELOCK_CHANNEL_AT_SLOT ? channel->pubsub->words : &relock_pubsub_plain;
}

bool relock_channel_subscribe(struct relock_channel *channel)
{
    struct relock_pubsub *pubsub = channel->pubsub;

    channel->is_stranded = false;
    channel->has_ended = false;
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
    struct relock_unsubscription *unsubscription = malloc(sizeof(*unsubscription) + channel->len);

    if (!unsubscription) {
        relock_async_conn_fail(&pubsub->conn, "out of memory for a command");
        return;
    }
    if (!send_command(pubsub, words_of(channel)->unsubscribe, channel)) {
        free(unsubscription);
        return;
    }
    unsubscription->nth = pubsub->conn.n_sent;
    unsubscription->len = channel->len;
    memcpy(unsubscription->name, channel->name, channel->len);
    DL_APPEND(pubsub->unsubscriptions, unsubscription);
}

void relock_channel_drop(struct relock_channel *channel)
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

/* No node takes it now: it waits for the next map of the slots, or the next connection. */
static void channel_strand(struct relock_channel *channel)
{
    channel->is_stranded = true;
    channel->n_redirects = 0;
    relock_topology_distrust(channel->pubsub->topology, channel->pubsub->node);
}

/* Its subscribers are not at the mercy of one node: if this one hangs, another one serves them. */
static void notice_sooner(struct relock_async_conn *conn)
{
    uint64_t ping_ms = relock_clock_sooner(conn->ping_ms, conn->server->command_timeout_ms);

    conn->ping_ms = ping_ms;
    conn->pong_ms = ping_ms;
}

void relock_channel_set_place(struct relock_channel *channel, enum relock_channel_place place)
{
    const struct relock_topology *topology = channel->pubsub->topology;

    channel->place = place;
    if (place == RELOCK_CHANNEL_ANYWHERE && topology && topology->is_cluster)
        notice_sooner(&channel->pubsub->conn);
}

void relock_channel_move(struct relock_channel *from, struct relock_node *node)
{
    struct relock_topology *topology = from->pubsub->topology;
    struct relock_channel *to = NULL;
    struct relock_subscriber *at;
    bool is_first;

    if (topology->io.hear(topology, node) == RELOCK_OK)
        to = relock_channel_find_or_make(node->pubsub, relock_channel_name(from));
    if (!to) {
        channel_strand(from);
        return;
    }
    from->is_subscribed = false;
    relock_channel_tell(from, RELOCK_CHANNEL_DOWN, NULL);
    is_first = !to->subscribers;
    to->n_redirects = from->n_redirects;
    relock_channel_set_place(to, from->place);
    DL_FOREACH(from->subscribers, at)
    at->channel = to;
    DL_CONCAT(to->subscribers, from->subscribers);
    from->subscribers = NULL;
    relock_channel_drop(from);
    if (to->is_subscribed)
        relock_channel_tell(to, RELOCK_CHANNEL_SUBSCRIBED, NULL);
    else
        relock_channel_begin(to, is_first);
}

/* NULL: there is no such node but this one. */
static struct relock_node *other_node(const struct relock_pubsub *pubsub)
{
    struct relock_node *first = atomic_load(&pubsub->topology->nodes);
    struct relock_node *at = pubsub->node;

    while ((at = at->next ? at->next : first) != pubsub->node)
        if (relock_topology_uses(pubsub->topology, at) && !atomic_load(&at->is_doubted))
            return at;
    return NULL;
}

void relock_channel_leave_node(struct relock_channel *channel)
{
    struct relock_node *node = other_node(channel->pubsub);

    if (node)
        relock_channel_move(channel, node);
}

/* ---- replies and messages ------------------------------------------------------------------ */

/* Whether the next command to be answered is an UNSUBSCRIBE. */
static bool is_leaving(const struct relock_pubsub *pubsub)
{
    const struct relock_unsubscription *first = pubsub->unsubscriptions;

    return first && first->nth == pubsub->conn.n_answered + 1;
}

/* A command has its reply: returns the channel if it was the last SUBSCRIBE of one. `proves`: see
 * relock_async_conn_answered. */
static struct relock_channel *take_answer(struct relock_pubsub *pubsub, bool proves)
{
    struct relock_unsubscription *first = is_leaving(pubsub) ? pubsub->unsubscriptions : NULL;
    struct relock_channel *at;

    relock_async_conn_answered(&pubsub->conn, proves);
    if (first) {
        DL_DELETE(pubsub->unsubscriptions, first);
        free(first);
        return NULL;
    }
    for (at = pubsub->channels; at; at = at->hh.next)
        if (at->subscribe_nth == pubsub->conn.n_answered)
            return at;
    return NULL;
}

/* The server does not take the SUBSCRIBE. */
static void refuse(struct relock_channel *channel, const char *error)
{
    const struct relock_server *server = channel->pubsub->conn.server;
    char name[RELOCK_LOG_NAME_MAX];
    char why[RELOCK_WHY_MAX];

    if (channel->place == RELOCK_CHANNEL_LOCAL) {
        relock_explain_extra(server, RELOCK_EXTRA_TRACK, error);
    } else if (relock_explain_is_missing(error)) {
        relock_explain_extra(server, RELOCK_EXTRA_HEAR, error);
    } else {
        relock_explain(why, NULL, error);
        relock_log_write(server->log, RELOCK_LOG_WARNING,
                         "%s: not subscribed: %s; waiters ask more often instead",
                         relock_log_name(channel->name, name), why);
    }
    relock_channel_tell(channel, RELOCK_CHANNEL_REFUSED, NULL);
}

/* A reply to an UNSUBSCRIBE that crossed with the server's own looks like one to another command.
 */
static bool is_of(const struct relock_channel *channel, const char *moved)
{
    struct relock_redirect redirect;

    return !relock_slot_map_redirect(moved, &redirect) ||
           redirect.slot == relock_slot_of(relock_channel_name(channel));
}

/* Another node has the slot. */
static void redirect(struct relock_channel *channel, const char *error)
{
    struct relock_pubsub *pubsub = channel->pubsub;
    char why[RELOCK_WHY_MAX];
    bool asks;
    struct relock_node *node = relock_topology_redirect(pubsub->topology, pubsub->node, error, NULL,
                                                        &channel->n_redirects, &asks);

    relock_topology_drop(pubsub->topology, node); /* only this thread frees nodes */
    channel->subscribe_nth = 0;
    if (node && node == pubsub->node) { /* the address leads to another server now */
        relock_explain_replaced(why, error);
        relock_async_conn_fail(&pubsub->conn, why);
    } else if (node) {
        relock_channel_move(channel, node);
    } else {
        channel_strand(channel);
    }
}

/* The server has no subscription that would have to be ended. */
static void strand_refused(struct relock_channel *channel)
{
    channel->subscribe_nth = 0;
    channel_strand(channel);
}

static void on_error(struct relock_pubsub *pubsub, const char *error)
{
    enum relock_refusal refusal = relock_refusal_of(error);
    bool is_for_now = refusal == RELOCK_REFUSED_FOR_NOW || refusal == RELOCK_REFUSED_HERE;
    bool is_in_cluster = pubsub->topology && pubsub->topology->is_cluster;
    bool leaves = is_leaving(pubsub);
    struct relock_channel *channel =
        take_answer(pubsub, !is_for_now && refusal != RELOCK_REFUSED_MOVED);

    if (leaves && is_for_now)
        relock_pubsub_put_off(pubsub, error);
    if (!channel)
        return;
    if (is_in_cluster && refusal == RELOCK_REFUSED_MOVED && !is_of(channel, error))
        relock_async_conn_fail(&pubsub->conn, "the server sent a reply to another command");
    else if (is_in_cluster && refusal == RELOCK_REFUSED_MOVED)
        redirect(channel, error);
    else if (is_in_cluster && is_for_now)
        strand_refused(channel);
    else if (is_for_now)
        relock_pubsub_put_off(pubsub, error);
    else
        refuse(channel, error);
}

static struct relock_channel *find(struct relock_pubsub *pubsub, const struct redisReply *name)
{
    struct relock_channel *channel;
    const char *text;
    size_t len;

    if (!relock_reply_text(name, &text, &len))
        return NULL;
    HASH_FIND(hh, pubsub->channels, text, len, channel);
    return channel;
}

static void on_subscribed(struct relock_pubsub *pubsub, const struct redisReply *name)
{
    struct relock_channel *channel = find(pubsub, name);

    relock_async_conn_answered(&pubsub->conn, true);
    /* If the channel was left and subscribed again since, its own acknowledgement follows. */
    if (!channel || channel->subscribe_nth != pubsub->conn.n_answered)
        return;
    channel->is_subscribed = true;
    channel->n_redirects = 0;
    relock_channel_tell(channel, RELOCK_CHANNEL_SUBSCRIBED, NULL);
}

/* Whether this is the reply to the next command, which was to unsubscribe that channel. */
static bool is_left(const struct relock_pubsub *pubsub, const struct redisReply *name)
{
    const struct relock_unsubscription *first = pubsub->unsubscriptions;
    const char *text;
    size_t len;

    return is_leaving(pubsub) && relock_reply_text(name, &text, &len) && len == first->len &&
           memcmp(text, first->name, len) == 0;
}

static void subscribe_again(struct relock_channel *channel)
{
    channel->is_subscribed = false;
    relock_channel_tell(channel, RELOCK_CHANNEL_DOWN, NULL);
    (void)relock_channel_subscribe(channel);
}

/* The server ends a subscription when the slot of the channel goes to another node. That is where
 * the next command is sent on to. */
static void on_unsubscribed(struct relock_pubsub *pubsub, const struct relock_pubsub_words *words,
                            const struct redisReply *name)
{
    struct relock_channel *channel = find(pubsub, name);

    if (!words->may_end || is_left(pubsub, name)) {
        (void)take_answer(pubsub, true);
    } else if (channel && channel->is_subscribed) {
        subscribe_again(channel);
    }
}

/* Only the I/O thread sends. */
static void leave_notice(struct relock_pubsub *pubsub, const struct redisReply *name)
{
    struct relock_channel *channel = find(pubsub, name);

    if (channel)
        channel->has_ended = true;
    pubsub->conn.met_a_notice = true;
}

void relock_pubsub_take_notices(struct relock_pubsub *pubsub)
{
    struct relock_channel *at;

    if (!pubsub->conn.met_a_notice)
        return;
    pubsub->conn.met_a_notice = false;
    for (at = pubsub->channels; at && relock_async_conn_is_up(&pubsub->conn); at = at->hh.next)
        if (at->has_ended && at->is_subscribed)
            subscribe_again(at);
}

static void on_message(struct relock_pubsub *pubsub, const struct redisReply *name,
                       const struct redisReply *message)
{
    const struct relock_channel *channel = find(pubsub, name);

    if (channel)
        relock_channel_tell(channel, RELOCK_CHANNEL_MESSAGE, message);
}

/* Beside sharded channels, the node's own is a plain one. */
static const struct relock_pubsub_words *words_in(const struct relock_pubsub *pubsub,
                                                  const struct redisReply *kind)
{
    const struct relock_pubsub_words *plain = &relock_pubsub_plain;

    return kind && (relock_reply_is(kind, plain->message) ||
                    relock_reply_is(kind, plain->subscribed) ||
                    relock_reply_is(kind, plain->unsubscribed))
               ? plain
               : pubsub->words;
}

/* The server's own end of a subscription may come at any time. */
static bool is_notice(const struct relock_pubsub_words *words, const struct redisReply *reply)
{
    const struct redisReply *kind = relock_reply_at(reply, 0);

    return kind && words->may_end && relock_reply_fits(reply, RELOCK_REPLY_ARRAY_OF(3)) &&
           relock_reply_is(kind, words->unsubscribed);
}

/* A message may come at any time. Returns whether it is one. */
static bool take_message(struct relock_pubsub *pubsub, const struct relock_pubsub_words *words,
                         const struct redisReply *reply)
{
    const struct redisReply *kind = relock_reply_at(reply, 0);

    if (!kind || !relock_reply_fits(reply, RELOCK_REPLY_ARRAY_OF(3)) ||
        !relock_reply_is(kind, words->message))
        return false;
    on_message(pubsub, relock_reply_at(reply, 1), relock_reply_at(reply, 2));
    return true;
}

/* Returns false if the reply is one that no command of this connection has. */
static bool take_answer_of(struct relock_pubsub *pubsub, const struct relock_pubsub_words *words,
                           const struct redisReply *reply)
{
    const struct redisReply *kind = relock_reply_at(reply, 0);
    const struct redisReply *name = relock_reply_at(reply, 1);
    bool is_about_channel = kind && relock_reply_fits(reply, RELOCK_REPLY_ARRAY_OF(3));
    const char *error = relock_reply_error(reply);

    if (error)
        on_error(pubsub, error);
    else if (relock_reply_is(kind ? kind : reply, kind ? "pong" : "PONG"))
        relock_async_conn_answered(&pubsub->conn, true);
    else if (is_about_channel && relock_reply_is(kind, words->subscribed))
        on_subscribed(pubsub, name);
    else if (is_about_channel && relock_reply_is(kind, words->unsubscribed))
        on_unsubscribed(pubsub, words, name);
    else
        return false;
    return true;
}

void relock_pubsub_take_reply(void *arg, const struct redisReply *reply)
{
    struct relock_pubsub *pubsub = arg;
    const struct relock_pubsub_words *words = words_in(pubsub, relock_reply_at(reply, 0));

    if (take_message(pubsub, words, reply))
        return;
    if (is_notice(words, reply))
        on_unsubscribed(pubsub, words, relock_reply_at(reply, 1));
    else if (!relock_async_wait_is_owed(&pubsub->conn))
        relock_async_conn_fail(&pubsub->conn, RELOCK_REPLY_UNASKED);
    else if (!take_answer_of(pubsub, words, reply))
        relock_async_conn_fail(&pubsub->conn, RELOCK_REPLY_MISFIT);
}

bool relock_pubsub_hear(struct relock_pubsub *pubsub, const struct redisReply *reply)
{
    const struct relock_pubsub_words *words = words_in(pubsub, relock_reply_at(reply, 0));

    if (!is_notice(words, reply))
        return take_message(pubsub, words, reply);
    leave_notice(pubsub, relock_reply_at(reply, 1));
    return true;
}
