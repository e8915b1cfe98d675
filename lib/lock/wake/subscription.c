/*
 * step() alone changes the state of a subscription. Waiters want it; a timer ends it when it is not
 * used; the I/O thread subscribes and unsubscribes, and reports the answers of Redis.
 *
 * A lock has one subscription to its channel and, in a cluster, one to the client's inbox for it.
 *
 * A subscription that is wanted again before the I/O thread has ended it (TO_RENEW) is made anew.
 * Only a new acknowledgement tells that no message is missed from then on.
 */
#include "lock/wake/wake.h"

#include "base/clock.h"
#include "base/hash.h"
#include "lock/state/keys.h"
#include "lock/state/kind.h"
#include "lock/state/resource.h"
#include "lock/wake/listener.h"
#include "lock/wake/private.h"
#include "redis/io/io.h"

#define LINGER_MS 1000
#define INBOX_LINGER_MS 10000
#define RETRY_MS 100 /* after a subscription for which there was no memory */

enum event {
    WANTED,
    UNWANTED,
    SYNCED,       /* the I/O thread subscribes or unsubscribes as wanted */
    FAILED,       /* out of memory */
    ACKNOWLEDGED, /* also once more after a reconnect */
    DOWN,
    N_EVENTS
};

#define OFF RELOCK_SUBSCRIPTION_OFF
#define TO_BEGIN RELOCK_SUBSCRIPTION_TO_BEGIN
#define PENDING RELOCK_SUBSCRIPTION_PENDING
#define ACTIVE RELOCK_SUBSCRIPTION_ACTIVE
#define TO_END RELOCK_SUBSCRIPTION_TO_END
#define TO_RENEW RELOCK_SUBSCRIPTION_TO_RENEW

/* clang-format off */
static const enum relock_subscription_state next_state[][N_EVENTS] = {
    /*             WANTED    UNWANTED  SYNCED    FAILED    ACKNOWL.  DOWN */
    [OFF]      = { TO_BEGIN, OFF,      OFF,      OFF,      OFF,      OFF },
    [TO_BEGIN] = { TO_BEGIN, TO_END,   PENDING,  TO_BEGIN, TO_BEGIN, TO_BEGIN },
    [PENDING]  = { PENDING,  TO_END,   PENDING,  OFF,      ACTIVE,   PENDING },
    [ACTIVE]   = { ACTIVE,   TO_END,   ACTIVE,   OFF,      ACTIVE,   PENDING },
    [TO_END]   = { TO_RENEW, TO_END,   OFF,      TO_END,   TO_END,   TO_END },
    [TO_RENEW] = { TO_RENEW, TO_END,   PENDING,  TO_RENEW, TO_RENEW, TO_RENEW },
};
/* clang-format on */

/* What the subscriptions to the channel and to the inbox differ in. The channel names are of
 * RELOCK_CHANNEL_MAX. */
struct relock_subscription_ops {
    size_t (*name)(const struct relock_resource *resource, char *name);
    bool (*is_in_use)(struct relock_resource *resource);
    relock_channel_fn *hear;
};

static bool is_wanted(const struct relock_subscription *subscription)
{
    enum relock_subscription_state state = subscription->state;

    return state == TO_BEGIN || state == PENDING || state == ACTIVE || state == TO_RENEW;
}

static bool is_to_be_synced(enum relock_subscription_state state)
{
    return state == TO_BEGIN || state == TO_END || state == TO_RENEW;
}

static void sync_channel(struct relock_client *client, struct relock_task *task)
    RELOCK_REQUIRES(client->mutex);

static void step(struct relock_client *client, struct relock_subscription *subscription,
                 enum event event) RELOCK_REQUIRES(client->mutex)
{
    enum relock_subscription_state was = subscription->state;
    enum relock_subscription_state is = next_state[was][event];

    subscription->state = is;
    if (!is_to_be_synced(is) || is_to_be_synced(was))
        return;
    subscription->resource->refs++;
    subscription->task.run = sync_channel;
    relock_client_post(client, &subscription->task);
}

static void want(struct relock_client *client, struct relock_resource *resource,
                 struct relock_subscription *subscription,
                 const struct relock_subscription_ops *ops) RELOCK_REQUIRES(client->mutex)
{
    if (!subscription->ops) { /* later the I/O thread reads both without the mutex */
        subscription->resource = resource;
        subscription->ops = ops;
    }
    step(client, subscription, WANTED);
}

/* The subscription has not been used for a while, or could not be made. Unchecked: the I/O thread
 * calls it with the mutex of the client, which no parameter names. */
RELOCK_UNCHECKED static void look_again(struct relock_timer *timer, uint64_t now_ms)
{
    struct relock_subscription *subscription =
        RELOCK_CONTAINER(struct relock_subscription, timer, timer);
    struct relock_resource *resource = subscription->resource;

    (void)now_ms;
    step(resource->client, subscription,
         subscription->ops->is_in_use(resource) ? WANTED : UNWANTED);
}

static void look_again_in(struct relock_client *client, struct relock_subscription *subscription,
                          uint64_t ms) RELOCK_REQUIRES(client->mutex)
{
    subscription->timer.fire = look_again;
    relock_client_set_timer(client, &subscription->timer, relock_clock_in(ms));
}

/* ---- the locks ----------------------------------------------------------------------------- */

bool relock_subscription_is_active(struct relock_resource *resource)
{
    resource = relock_resource_with_channel(resource);
    return relock_resource_contention(resource)->subscription.state == ACTIVE;
}

static bool is_used(struct relock_resource *resource)
{
    enum relock_line_state state = relock_resource_contention(resource)->line.state;
    bool is_awaited = relock_listeners_await(resource);

    if (state == RELOCK_LINE_OUTSIDE)
        is_awaited |=
            resource->holder || (resource->kind->is_shared && relock_resource_is_owned(resource));
    else
        is_awaited &= state == RELOCK_LINE_LISTENING;
    return is_awaited || relock_listeners_wait(resource);
}

/* `resource` has the channel. */
static bool is_in_use(struct relock_resource *resource)
{
    struct relock_resource *readers = relock_resource_readers(resource);

    return is_used(resource) || (readers && is_used(readers));
}

static bool is_in_line(struct relock_resource *resource)
{
    return relock_listeners_await(resource) || relock_resource_contention(resource)->line.place > 0;
}

/* `resource` is a primary. */
static bool is_inbox_in_use(struct relock_resource *resource)
{
    struct relock_resource *readers = relock_resource_readers(resource);

    return is_in_line(resource) || (readers && is_in_line(readers));
}

void relock_subscription_idle(struct relock_client *client, struct relock_resource *resource)
{
    /* The channel of a fair waiter is its own: no other waiter will want it. Of a line, only the
     * first client listens. */
    bool is_single = resource->kind->is_queued ||
                     relock_resource_contention(resource)->line.state != RELOCK_LINE_OUTSIDE;
    struct relock_contention *contention;

    resource = relock_resource_with_channel(resource);
    contention = resource->contention;
    if (!contention)
        return;
    if (is_wanted(&contention->subscription) && !is_in_use(resource))
        look_again_in(client, &contention->subscription, is_single ? 0 : LINGER_MS);
    if (is_wanted(&contention->inbox) && !is_inbox_in_use(resource))
        look_again_in(client, &contention->inbox, INBOX_LINGER_MS);
}

/* ---- the channel --------------------------------------------------------------------------- */

/* A client that is in the line and not first is told when it is its turn. */
static void signal_side(struct relock_resource *resource, bool is_message)
{
    enum relock_line_state state = relock_resource_contention(resource)->line.state;

    if (state == RELOCK_LINE_OUTSIDE || state == RELOCK_LINE_LISTENING)
        relock_resource_signal(resource, is_message);
}

/* For both sides, if there are two. */
static void signal_sides(struct relock_resource *resource, bool is_message)
{
    struct relock_resource *readers = relock_resource_readers(resource);

    signal_side(resource, is_message);
    if (readers)
        signal_side(readers, is_message);
}

/* A message to a waiter for a fair lock may say nothing but when the lease in the way ends. */
static bool hears_lease(struct relock_client *client, struct relock_resource *resource,
                        const char *text, size_t len)
{
    uint64_t lease_end_ms;

    if (!resource->kind->is_queued || !relock_verdict_message(text, len, &lease_end_ms))
        return false;
    relock_mutex_lock(&client->mutex);
    relock_resource_hear_lease(resource, lease_end_ms);
    relock_mutex_unlock(&client->mutex);
    return true;
}

static void take_event(struct relock_client *client, struct relock_subscription *subscription,
                       enum relock_channel_event event) RELOCK_REQUIRES(client->mutex)
{
    if (event == RELOCK_CHANNEL_SUBSCRIBED)
        step(client, subscription, ACKNOWLEDGED);
    else if (event == RELOCK_CHANNEL_DOWN)
        step(client, subscription, DOWN);
    if (event != RELOCK_CHANNEL_MESSAGE)
        subscription->is_refused = event == RELOCK_CHANNEL_REFUSED;
}

static void on_channel(void *arg, enum relock_channel_event event, const char *text, size_t len)
{
    struct relock_resource *resource = arg;
    struct relock_client *client = resource->client;
    bool is_message = event == RELOCK_CHANNEL_MESSAGE;

    if (is_message && hears_lease(client, resource, text, len))
        return;
    relock_mutex_lock(&client->mutex);
    /* After any acknowledgement a retry is due: the release may have come before. After the end of
     * the connection, too: it may have been lost with it. */
    take_event(client, &resource->contention->subscription, event);
    signal_sides(resource, is_message);
    relock_listeners_hear(client, resource,
                          is_message ? RELOCK_HEARD_MESSAGE : RELOCK_HEARD_CHANGE);
    relock_mutex_unlock(&client->mutex);
}

static size_t name_channel(const struct relock_resource *resource, char *name)
{
    size_t len =
        relock_keys_channel(name, resource->kind->channel, resource->name, resource->name_len);

    if (resource->kind->is_queued) {
        name[len++] = ':';
        len +=
            relock_keys_field(name + len, resource->client->id, resource->as.secondary.number, "");
    }
    return len;
}

static const struct relock_subscription_ops channel_ops = {
    .name = name_channel,
    .is_in_use = is_in_use,
    .hear = on_channel,
};

void relock_subscription_want(struct relock_client *client, struct relock_resource *resource)
{
    resource = relock_resource_with_channel(resource);
    if (resource->kind->channel)
        want(client, resource, &resource->contention->subscription, &channel_ops);
}

/* ---- the inbox ----------------------------------------------------------------------------- */

/* Messages may have been missed, and scripts take a client without a subscription out of the line.
 */
static void on_inbox(void *arg, enum relock_channel_event event, const char *text, size_t len)
{
    struct relock_resource *resource = arg;
    struct relock_client *client = resource->client;

    relock_mutex_lock(&client->mutex);
    take_event(client, &resource->contention->inbox, event);
    if (event == RELOCK_CHANNEL_MESSAGE)
        relock_line_hear_text(client, resource, text, len);
    else
        relock_line_ask_again_both(client, resource);
    relock_mutex_unlock(&client->mutex);
}

static size_t name_inbox(const struct relock_resource *resource, char *name)
{
    return relock_keys_slot_inbox(name, resource->client->id, resource->name, resource->name_len);
}

static const struct relock_subscription_ops inbox_ops = {
    .name = name_inbox,
    .is_in_use = is_inbox_in_use,
    .hear = on_inbox,
};

void relock_subscription_want_inbox(struct relock_client *client, struct relock_resource *resource)
{
    resource = resource->primary;
    want(client, resource, &resource->contention->inbox, &inbox_ops);
}

/* ---- the I/O thread ------------------------------------------------------------------------ */

static void subscribe(struct relock_client *client, struct relock_subscription *subscription)
{
    const struct relock_subscription_ops *ops = subscription->ops;
    struct relock_resource *resource = subscription->resource;
    struct relock_pubsub *pubsub =
        relock_node_io_pubsub(client->topology, relock_resource_key(resource));
    char name[RELOCK_CHANNEL_MAX];
    size_t len = ops->name(resource, name);

    subscription->subscriber = relock_pubsub_subscribe(pubsub, name, len, ops->hear, resource);
}

/* Under no mutex: the call may write a log line. */
static void make_so(struct relock_client *client, struct relock_subscription *subscription,
                    enum relock_subscription_state wanted)
{
    if (wanted != TO_BEGIN && subscription->subscriber) {
        relock_pubsub_unsubscribe(subscription->subscriber);
        subscription->subscriber = NULL;
    }
    if (wanted != TO_END)
        subscribe(client, subscription);
}

static void sync_channel(struct relock_client *client, struct relock_task *task)
{
    struct relock_subscription *subscription =
        RELOCK_CONTAINER(struct relock_subscription, task, task);
    struct relock_resource *resource = subscription->resource;
    enum relock_subscription_state wanted = subscription->state;
    bool had_subscriber = subscription->subscriber != NULL;

    step(client, subscription, SYNCED);
    relock_mutex_unlock(&client->mutex);
    make_so(client, subscription, wanted);
    relock_mutex_lock(&client->mutex);

    if (!had_subscriber && subscription->subscriber)
        resource->refs++; /* of the subscriber */
    if (had_subscriber && !subscription->subscriber)
        relock_resources_unref(client, resource);
    if (wanted != TO_END && !subscription->subscriber) {
        step(client, subscription, FAILED);
        look_again_in(client, subscription, RETRY_MS);
    }
    relock_resources_unref(client, resource);
}
