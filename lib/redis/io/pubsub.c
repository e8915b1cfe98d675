#include "redis/io/io.h"
#include "redis/io/private.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/status.h"
#include "redis/connect/explain.h"
#include "redis/deployment/topology.h"
#include "redis/server/loop.h"

#include <stdlib.h>

/* Between making room for the connection for renewals and connecting again. */
#define ROOM_MS 3000

/* The pause after a refusal for now; it begins anew after a connection that was up for so long. */
#define MIN_PAUSE_MS 10
#define MAX_PAUSE_MS 1000
#define LONG_UP_MS 5000

const struct relock_pubsub_words relock_pubsub_plain = {
    .subscribe = "SUBSCRIBE",
    .unsubscribe = "UNSUBSCRIBE",
    .subscribed = "subscribe",
    .unsubscribed = "unsubscribe",
    .message = "message",
};

static const struct relock_pubsub_words sharded = {
    .subscribe = "SSUBSCRIBE",
    .unsubscribe = "SUNSUBSCRIBE",
    .subscribed = "ssubscribe",
    .unsubscribed = "sunsubscribe",
    .message = "smessage",
    .may_end = true,
};

static void on_up(void *arg)
{
    struct relock_pubsub *pubsub = arg;

    for (struct relock_channel *at = pubsub->channels; at; at = at->hh.next)
        if (!relock_channel_subscribe(at))
            return;
}

static void drop_unsubscriptions(struct relock_pubsub *pubsub)
{
    struct relock_unsubscription *at, *next;

    DL_FOREACH_SAFE(pubsub->unsubscriptions, at, next)
    free(at);
    pubsub->unsubscriptions = NULL;
}

static void on_down(void *arg)
{
    struct relock_pubsub *pubsub = arg;

    drop_unsubscriptions(pubsub);
    for (struct relock_channel *at = pubsub->channels; at; at = at->hh.next) {
        at->is_subscribed = false;
        relock_channel_tell(at, RELOCK_CHANNEL_DOWN, NULL);
    }
    if (!pubsub->channels)
        relock_async_conn_close(&pubsub->conn);
}

/* Their subscribers need not wait until this node is back. */
static void send_on(struct relock_pubsub *pubsub)
{
    struct relock_channel *at, *next;

    for (at = pubsub->channels; at; at = next) {
        next = at->hh.next;
        if (at->place == RELOCK_CHANNEL_ANYWHERE)
            relock_channel_leave_node(at);
    }
}

static void on_failure(void *arg)
{
    struct relock_pubsub *pubsub = arg;

    if (!pubsub->topology)
        return;
    relock_topology_distrust(pubsub->topology, pubsub->node);
    send_on(pubsub);
    if (relock_pubsub_is_idle(pubsub) &&
        (!pubsub->channels || !relock_topology_uses(pubsub->topology, pubsub->node)))
        relock_async_conn_close(&pubsub->conn);
}

static const struct relock_async_conn_ops conn_ops = {
    .up = on_up,
    .reply = relock_pubsub_take_reply,
    .down = on_down,
    .failed = on_failure,
};

int relock_pubsub_new(struct relock_loop *loop, const struct relock_server *server,
                      uint64_t ping_ms, struct relock_pubsub **pubsub)
{
    struct relock_pubsub *new = calloc(1, sizeof(*new));

    if (!new)
        return RELOCK_E_NOMEM;
    relock_async_conn_init(&new->conn, relock_loop_ev(loop), server, &conn_ops, new);
    new->words = &relock_pubsub_plain;
    new->conn.ping_ms = ping_ms;
    new->conn.pong_ms = ping_ms;
    new->conn.health.meanwhile = "; waiters ask Redis meanwhile, and learn of releases later";
    *pubsub = new;
    return RELOCK_OK;
}

void relock_pubsub_join(struct relock_pubsub *pubsub, struct relock_topology *topology,
                        struct relock_node *node)
{
    pubsub->topology = topology;
    pubsub->node = node;
    if (atomic_load(&topology->is_sharded))
        pubsub->words = &sharded;
}

void relock_pubsub_share(struct relock_pubsub *pubsub, struct relock_reading *reading)
{
    pubsub->conn.reading = reading;
}

static void follow(struct relock_channel *channel)
{
    struct relock_pubsub *pubsub = channel->pubsub;
    struct relock_node *node = pubsub->node;

    if (channel->place == RELOCK_CHANNEL_AT_SLOT)
        node = relock_topology_find(pubsub->topology, relock_channel_name(channel));
    if (node && node != pubsub->node)
        relock_channel_move(channel, node);
    else if (channel->place == RELOCK_CHANNEL_ANYWHERE &&
             !relock_topology_uses(pubsub->topology, node))
        relock_channel_leave_node(channel);
    else if (channel->is_stranded && relock_async_conn_is_up(&pubsub->conn))
        (void)relock_channel_subscribe(channel);
}

static void follow_all(struct relock_pubsub *pubsub)
{
    bool is_up = relock_async_conn_is_up(&pubsub->conn);
    struct relock_channel *at, *next;

    for (at = pubsub->channels; at; at = next) {
        next = at->hh.next;
        follow(at);
        if (is_up && !relock_async_conn_is_up(&pubsub->conn))
            return; /* out of memory: the next map follows, and `next` may have gone */
    }
}

void relock_pubsub_follow(struct relock_pubsub *pubsub)
{
    relock_reading_lock(pubsub->conn.reading);
    follow_all(pubsub);
    relock_reading_unlock(pubsub->conn.reading);
}

/* ---- subscribers --------------------------------------------------------------------------- */

static struct relock_subscriber *subscribe(struct relock_pubsub *pubsub, struct relock_text name,
                                           enum relock_channel_place place, relock_channel_fn *fn,
                                           void *arg)
{
    struct relock_subscriber *subscriber = malloc(sizeof(*subscriber));
    struct relock_channel *channel = subscriber ? relock_channel_find_or_make(pubsub, name) : NULL;
    bool is_first;

    if (!channel) {
        free(subscriber);
        return NULL;
    }
    *subscriber = (struct relock_subscriber){.channel = channel, .fn = fn, .arg = arg};
    is_first = !channel->subscribers;
    relock_channel_set_place(channel, place);
    DL_APPEND(channel->subscribers, subscriber);
    if (channel->is_subscribed)
        fn(arg, RELOCK_CHANNEL_SUBSCRIBED, NULL, 0); /* no acknowledgement will come */
    else
        relock_channel_begin(channel, is_first);
    return subscriber;
}

static struct relock_subscriber *lock_and_subscribe(struct relock_pubsub *pubsub,
                                                    struct relock_text name,
                                                    enum relock_channel_place place,
                                                    relock_channel_fn *fn, void *arg)
{
    struct relock_subscriber *subscriber;

    if (!pubsub)
        return NULL;
    relock_reading_lock(pubsub->conn.reading);
    subscriber = subscribe(pubsub, name, place, fn, arg);
    relock_reading_unlock(pubsub->conn.reading);
    return subscriber;
}

struct relock_subscriber *relock_pubsub_subscribe(struct relock_pubsub *pubsub, const char *name,
                                                  size_t len, relock_channel_fn *fn, void *arg)
{
    return lock_and_subscribe(pubsub, (struct relock_text){name, len}, RELOCK_CHANNEL_AT_SLOT, fn,
                              arg);
}

struct relock_subscriber *relock_pubsub_subscribe_here(struct relock_pubsub *pubsub,
                                                       const char *name, size_t len,
                                                       relock_channel_fn *fn, void *arg)
{
    return lock_and_subscribe(pubsub, (struct relock_text){name, len}, RELOCK_CHANNEL_LOCAL, fn,
                              arg);
}

struct relock_subscriber *relock_pubsub_subscribe_anywhere(struct relock_pubsub *pubsub,
                                                           const char *name, size_t len,
                                                           relock_channel_fn *fn, void *arg)
{
    return lock_and_subscribe(pubsub, (struct relock_text){name, len}, RELOCK_CHANNEL_ANYWHERE, fn,
                              arg);
}

void relock_pubsub_unsubscribe(struct relock_subscriber *subscriber)
{
    struct relock_channel *channel = subscriber->channel;
    struct relock_reading *reading = channel->pubsub->conn.reading;

    relock_reading_lock(reading);
    DL_DELETE(channel->subscribers, subscriber);
    free(subscriber);
    if (!channel->subscribers)
        relock_channel_drop(channel);
    relock_reading_unlock(reading);
}

bool relock_pubsub_is_idle(const struct relock_pubsub *pubsub)
{
    for (const struct relock_channel *at = pubsub->channels; at; at = at->hh.next)
        if (at->place != RELOCK_CHANNEL_LOCAL)
            return false;
    return true;
}

void relock_pubsub_close_idle(struct relock_pubsub *pubsub)
{
    if (!relock_pubsub_is_idle(pubsub))
        return;
    relock_reading_lock(pubsub->conn.reading);
    relock_async_conn_close(&pubsub->conn);
    on_down(pubsub);
    relock_reading_unlock(pubsub->conn.reading);
}

void relock_pubsub_reopen(struct relock_pubsub *pubsub)
{
    relock_reading_lock(pubsub->conn.reading);
    if (pubsub->channels)
        relock_async_conn_open(&pubsub->conn);
    relock_reading_unlock(pubsub->conn.reading);
}

struct relock_conn_id *relock_pubsub_conn_id(const struct relock_pubsub *pubsub)
{
    return relock_async_conn_is_up(&pubsub->conn) ? pubsub->conn.login.conn_id : NULL;
}

struct relock_pubsub *relock_pubsub_free(struct relock_pubsub *pubsub)
{
    struct relock_channel *channel;

    if (!pubsub)
        return NULL;
    relock_reading_lock(pubsub->conn.reading);
    relock_async_conn_deinit(&pubsub->conn);
    relock_reading_unlock(pubsub->conn.reading);
    drop_unsubscriptions(pubsub);
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

/* ---- the I/O thread ------------------------------------------------------------------------ */

void relock_pubsub_attend(struct relock_pubsub *pubsub, bool is_needed)
{
    struct relock_reading *reading = pubsub->conn.reading;

    if (!reading)
        return;
    relock_reading_lock(reading);
    reading->shared.is_needed = is_needed;
    relock_async_conn_attend(&pubsub->conn);
    relock_pubsub_take_notices(pubsub);
    relock_reading_unlock(reading);
}

void relock_pubsub_reconnect(struct relock_pubsub *pubsub, const char *why)
{
    relock_reading_lock(pubsub->conn.reading);
    if (relock_async_conn_is_up(&pubsub->conn))
        relock_async_conn_fail(&pubsub->conn, why);
    relock_reading_unlock(pubsub->conn.reading);
}

void relock_pubsub_put_off(struct relock_pubsub *pubsub, const char *error)
{
    bool was_long_up = relock_clock_now_ms() - pubsub->conn.since_ms >= LONG_UP_MS;
    char why[RELOCK_WHY_MAX];

    relock_explain(why, NULL, error);
    pubsub->pause_ms =
        relock_backoff_ms(was_long_up ? 0 : pubsub->pause_ms, MIN_PAUSE_MS, MAX_PAUSE_MS);
    relock_async_conn_fail(&pubsub->conn, why);
    relock_async_conn_retry_in(&pubsub->conn,
                               relock_clock_later(pubsub->pause_ms, pubsub->conn.health.pause_ms));
}

bool relock_pubsub_make_room(struct relock_pubsub *pubsub)
{
    bool may_end;

    relock_reading_lock(pubsub->conn.reading);
    may_end = relock_async_conn_is_up(&pubsub->conn) && relock_async_conn_is_fine(&pubsub->conn);
    if (may_end) {
        relock_async_conn_fail(&pubsub->conn, "it makes room for the connection for renewals");
        relock_async_conn_retry_in(&pubsub->conn, ROOM_MS);
    }
    relock_reading_unlock(pubsub->conn.reading);
    return may_end;
}
