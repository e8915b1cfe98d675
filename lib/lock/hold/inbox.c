/*
 * The state of the inbox: `guarded.inbox` of a client.
 *
 *   state    becomes  when
 *   UNUSED   WANTED   a waiter was refused, or the client keeps locks, or publishes waits; or there
 *                     was no memory, a while ago
 *   WANTED   PENDING  the I/O thread subscribes
 *   PENDING  OPEN     Redis acknowledges it
 *            REFUSED  the user may not subscribe to it
 *            UNUSED   out of memory
 *   OPEN     PENDING  the connection is lost; it is subscribed again with the next
 *   REFUSED  PENDING  the same
 *
 * The subscription stays until the client is freed. In a cluster, only a client that keeps locks or
 * publishes waits subscribes.
 */
#include "lock/hold/holds.h"

#include "base/clock.h"
#include "base/hash.h"
#include "lock/hold/private.h"
#include "lock/state/keys.h"
#include "lock/state/resource.h"
#include "lock/wake/listener.h"
#include "lock/wake/wake.h"
#include "redis/io/io.h"

#include <string.h>

#define RETRY_MS 100 /* after a subscription for which there was no memory */

/* ---- messages ------------------------------------------------------------------------------ */

/* What "<verb> <name>", "<verb>:<side> <name>" or "recall:<number> <name>" says. */
struct message {
    struct relock_text verb;
    const char *side;
    struct relock_text number; /* or empty */
    struct relock_text name;
};

/* Returns false if it is no such text: another program may publish anything. */
static bool parse(const char *text, size_t len, struct message *message)
{
    const char *end = text ? memchr(text, ' ', len) : NULL;
    const char *colon = end ? memchr(text, ':', (size_t)(end - text)) : NULL;
    struct relock_text more;

    if (!end)
        return false;
    *message = (struct message){
        .verb = {text, (size_t)((colon ? colon : end) - text)},
        .name = {end + 1, len - (size_t)(end + 1 - text)},
    };
    if (!colon)
        return true;
    more = (struct relock_text){colon + 1, (size_t)(end - colon - 1)};
    if (relock_text_is(message->verb, "recall"))
        message->number = more;
    else if (relock_text_is(more, RELOCK_SIDE_READ))
        message->side = RELOCK_SIDE_READ;
    else if (relock_text_is(more, RELOCK_SIDE_WRITE))
        message->side = RELOCK_SIDE_WRITE;
    return message->number.data || message->side;
}

/* Returns whether the message is for a layer above. */
static bool hear_above(struct relock_client *client, struct relock_text text)
    RELOCK_REQUIRES(client->mutex)
{
    const struct relock_client_hook *hook;
    bool is_heard = false;

    RELOCK_HOOKS_FOREACH(client, hook, hear)
    {
        is_heard |= hook->ops->hear(client, text);
    }
    return is_heard;
}

static void hear(struct relock_client *client, const char *text, size_t len)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_resource *resource;
    struct message message;

    if (hear_above(client, (struct relock_text){text, len}) || !parse(text, len, &message))
        return;
    resource = relock_resources_find(client, message.name.data, message.name.len, message.side);
    if (message.number.data) {
        if (resource)
            relock_cache_recall(client, resource, message.number.data, message.number.len);
        return;
    }
    if (resource && relock_listeners_await(resource) && relock_kind_has_line(resource->kind))
        relock_line_hear(client, resource, message.verb);
    else
        (void)relock_line_leave(client, message.name.data, message.name.len, message.side);
}

/* ---- the subscription ---------------------------------------------------------------------- */

/* Recalls are missed from now on. */
static void be_deaf(struct relock_client *client, enum relock_channel_event event)
    RELOCK_REQUIRES(client->mutex)
{
    client->guarded.inbox =
        event == RELOCK_CHANNEL_DOWN ? RELOCK_INBOX_PENDING : RELOCK_INBOX_REFUSED;
    relock_cache_clear(client);
}

static void on_channel(void *arg, enum relock_channel_event event, const char *text, size_t len)
{
    struct relock_client *client = arg;

    relock_mutex_lock(&client->mutex);
    if (event == RELOCK_CHANNEL_MESSAGE) {
        hear(client, text, len);
    } else {
        if (event == RELOCK_CHANNEL_SUBSCRIBED)
            client->guarded.inbox = RELOCK_INBOX_OPEN;
        else
            be_deaf(client, event);
        /* Scripts take a client without a subscription out of the line. In a cluster, that is
         * another one: subscription.c. */
        if (!client->server.url.cluster)
            relock_line_ask_all_again(client);
    }
    relock_mutex_unlock(&client->mutex);
}

/* Unchecked: the I/O thread calls it with the mutex of the client, which no parameter names. */
RELOCK_UNCHECKED static void retry(struct relock_timer *timer, uint64_t now_ms)
{
    struct relock_client *client =
        RELOCK_CONTAINER(struct relock_client, guarded.inbox_retry, timer);

    (void)now_ms;
    relock_inbox_want_recalls(client);
}

static void subscribe(struct relock_client *client, struct relock_task *task)
    RELOCK_REQUIRES(client->mutex)
{
    char name[RELOCK_CHANNEL_MAX];
    size_t len = relock_keys_inbox(name, client->id);
    const struct relock_subscriber *subscriber;
    struct relock_pubsub *pubsub;

    (void)task;
    client->guarded.inbox = RELOCK_INBOX_PENDING;
    relock_mutex_unlock(&client->mutex);
    pubsub = relock_node_io_pubsub(client->topology, (struct relock_text){name, len});
    subscriber = relock_pubsub_subscribe_anywhere(pubsub, name, len, on_channel, client);
    relock_mutex_lock(&client->mutex);
    if (subscriber)
        return;
    client->guarded.inbox = RELOCK_INBOX_UNUSED;
    client->guarded.inbox_retry.fire = retry;
    relock_client_set_timer(client, &client->guarded.inbox_retry, relock_clock_in(RETRY_MS));
}

void relock_inbox_want_recalls(struct relock_client *client)
{
    if (client->guarded.inbox != RELOCK_INBOX_UNUSED)
        return;
    client->guarded.inbox = RELOCK_INBOX_WANTED;
    client->guarded.inbox_task.run = subscribe;
    relock_client_post(client, &client->guarded.inbox_task);
}

bool relock_inbox_want(struct relock_client *client)
{
    relock_inbox_want_recalls(client);
    return !relock_inbox_is_refused(client);
}

/* ---- of one lock --------------------------------------------------------------------------- */

bool relock_inbox_is_open_for(const struct relock_client *client,
                              const struct relock_resource *resource)
{
    if (client->server.url.cluster)
        return relock_resource_contention(resource->primary)->inbox.state ==
               RELOCK_SUBSCRIPTION_ACTIVE;
    return relock_inbox_is_open(client);
}

bool relock_inbox_is_refused_for(const struct relock_client *client,
                                 const struct relock_resource *resource)
{
    if (client->server.url.cluster)
        return relock_resource_contention(resource->primary)->inbox.is_refused;
    return relock_inbox_is_refused(client);
}

bool relock_inbox_want_for(struct relock_client *client, struct relock_resource *resource)
{
    if (!client->server.url.cluster)
        return relock_inbox_want(client);
    relock_alarm_want(client);
    relock_subscription_want_inbox(client, resource);
    return !resource->primary->contention->inbox.is_refused;
}
