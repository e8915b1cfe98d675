/*
 * step() alone changes the state of a subscription. Waiters want it; a timer ends it when it is not
 * used; the I/O thread subscribes and unsubscribes, and reports the answers of Redis.
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

static bool is_wanted(const struct relock_resource *resource)
{
    enum relock_subscription_state state = resource->subscription.state;

    return state == TO_BEGIN || state == PENDING || state == ACTIVE || state == TO_RENEW;
}

static bool is_to_be_synced(enum relock_subscription_state state)
{
    return state == TO_BEGIN || state == TO_END || state == TO_RENEW;
}

static void sync_channel(struct relock_client *client, struct relock_task *task)
    RELOCK_REQUIRES(client->mutex);

static void step(struct relock_client *client, struct relock_resource *resource, enum event event)
    RELOCK_REQUIRES(client->mutex)
{
    enum relock_subscription_state was = resource->subscription.state;
    enum relock_subscription_state is = next_state[was][event];

    resource->subscription.state = is;
    if (!is_to_be_synced(is) || is_to_be_synced(was))
        return;
    resource->refs++;
    resource->subscription.task.run = sync_channel;
    relock_client_post(client, &resource->subscription.task);
}

/* ---- the locks ----------------------------------------------------------------------------- */

bool relock_subscription_is_active(struct relock_resource *resource)
{
    return relock_resource_with_channel(resource)->subscription.state == ACTIVE;
}

void relock_subscription_want(struct relock_client *client, struct relock_resource *resource)
{
    resource = relock_resource_with_channel(resource);
    if (resource->kind->channel)
        step(client, resource, WANTED);
}

static bool is_used(struct relock_resource *resource)
{
    bool is_awaited = relock_listeners_await(resource);

    if (resource->line.state == RELOCK_LINE_OUTSIDE)
        is_awaited |= resource->holder || (resource->kind->is_shared && resource->holds);
    else
        is_awaited &= resource->line.state == RELOCK_LINE_LISTENING;
    return is_awaited || relock_listeners_wait(resource);
}

/* `resource` has the channel. */
static bool is_in_use(struct relock_resource *resource)
{
    struct relock_resource *readers = relock_resource_readers(resource);

    return is_used(resource) || (readers && is_used(readers));
}

/* The subscription has not been used for a while, or could not be made. Unchecked: the I/O thread
 * calls it with the mutex of the client, which no parameter names. */
RELOCK_UNCHECKED static void look_again(struct relock_timer *timer, uint64_t now_ms)
{
    struct relock_resource *resource =
        RELOCK_CONTAINER(struct relock_resource, subscription.timer, timer);

    (void)now_ms;
    if (is_in_use(resource))
        step(resource->client, resource, WANTED);
    else
        step(resource->client, resource, UNWANTED);
}

static void look_again_in(struct relock_client *client, struct relock_resource *resource,
                          uint64_t ms) RELOCK_REQUIRES(client->mutex)
{
    resource->subscription.timer.fire = look_again;
    relock_client_set_timer(client, &resource->subscription.timer, relock_clock_in(ms));
}

void relock_subscription_idle(struct relock_client *client, struct relock_resource *resource)
{
    /* The channel of a fair waiter is its own: no other waiter will want it. Of a line, only the
     * first client listens. */
    bool is_single = resource->kind->is_queued || resource->line.state != RELOCK_LINE_OUTSIDE;

    resource = relock_resource_with_channel(resource);
    if (is_wanted(resource) && !is_in_use(resource))
        look_again_in(client, resource, is_single ? 0 : LINGER_MS);
}

/* ---- the channel --------------------------------------------------------------------------- */

/* A client that is in the line and not first is told when it is its turn. */
static void signal_side(struct relock_resource *resource, bool is_message)
{
    if (resource->line.state == RELOCK_LINE_OUTSIDE ||
        resource->line.state == RELOCK_LINE_LISTENING)
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
    if (event == RELOCK_CHANNEL_SUBSCRIBED)
        step(client, resource, ACKNOWLEDGED);
    else if (event == RELOCK_CHANNEL_DOWN)
        step(client, resource, DOWN);
    signal_sides(resource, is_message);
    relock_listeners_hear(client, resource,
                          is_message ? RELOCK_HEARD_MESSAGE : RELOCK_HEARD_CHANGE);
    relock_mutex_unlock(&client->mutex);
}

/* ---- the I/O thread ------------------------------------------------------------------------ */

static void subscribe(struct relock_client *client, struct relock_resource *resource)
{
    struct relock_pubsub *pubsub =
        relock_node_io_pubsub(client->topology, relock_resource_key(resource));
    char name[RELOCK_CHANNEL_MAX];
    size_t len =
        relock_keys_channel(name, resource->kind->channel, resource->name, resource->name_len);

    if (resource->kind->is_queued) {
        name[len++] = ':';
        len += relock_keys_field(name + len, client->id, resource->number, "");
    }
    resource->subscription.subscriber =
        relock_pubsub_subscribe(pubsub, name, len, on_channel, resource);
}

/* Under no mutex: the call may write a log line. */
static void make_so(struct relock_client *client, struct relock_resource *resource,
                    enum relock_subscription_state wanted)
{
    struct relock_subscription *subscription = &resource->subscription;

    if (wanted != TO_BEGIN && subscription->subscriber) {
        relock_pubsub_unsubscribe(subscription->subscriber);
        subscription->subscriber = NULL;
    }
    if (wanted != TO_END)
        subscribe(client, resource);
}

static void sync_channel(struct relock_client *client, struct relock_task *task)
{
    struct relock_resource *resource =
        RELOCK_CONTAINER(struct relock_resource, subscription.task, task);
    struct relock_subscription *subscription = &resource->subscription;
    enum relock_subscription_state wanted = subscription->state;
    bool had_subscriber = subscription->subscriber != NULL;

    step(client, resource, SYNCED);
    relock_mutex_unlock(&client->mutex);
    make_so(client, resource, wanted);
    relock_mutex_lock(&client->mutex);

    if (!had_subscriber && subscription->subscriber)
        resource->refs++; /* of the subscriber */
    if (had_subscriber && !subscription->subscriber)
        relock_resources_unref(client, resource);
    if (wanted != TO_END && !subscription->subscriber) {
        step(client, resource, FAILED);
        look_again_in(client, resource, RETRY_MS);
    }
    relock_resources_unref(client, resource);
}
