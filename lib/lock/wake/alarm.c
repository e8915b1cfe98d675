#include "lock/wake/wake.h"

#include "base/hash.h"
#include "lock/state/keys.h"
#include "lock/state/kind.h"
#include "lock/state/resource.h"
#include "lock/wake/private.h"
#include "redis/io/io.h"

#include <string.h>

static void hear(struct relock_client *client, const char *name, size_t len)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_resource *resource = name ? relock_resources_find_key(client, name, len) : NULL;

    if (resource && relock_kind_has_line(resource->kind))
        relock_line_ask_again_both(client, resource);
}

static void on_channel(void *arg, enum relock_channel_event event, const char *text, size_t len)
{
    struct relock_client *client = arg;

    relock_mutex_lock(&client->mutex);
    if (event == RELOCK_CHANNEL_MESSAGE)
        hear(client, text, len);
    else if (event == RELOCK_CHANNEL_SUBSCRIBED)
        relock_line_ask_all_again(client); /* alarms may have been missed */
    relock_mutex_unlock(&client->mutex);
}

/* Clients subscribe at different nodes. */
static void subscribe(struct relock_client *client, struct relock_task *task)
    RELOCK_REQUIRES(client->mutex)
{
    static const char channel[] = RELOCK_CHANNEL_ALARM;
    const struct relock_text key = relock_text_of(client->id);
    bool has_subscribed;

    (void)task;
    relock_mutex_unlock(&client->mutex);
    has_subscribed =
        relock_pubsub_subscribe_anywhere(relock_node_io_pubsub(client->topology, key), channel,
                                         strlen(channel), on_channel, client) != NULL;
    relock_mutex_lock(&client->mutex);
    client->guarded.has_alarm = has_subscribed; /* if not, the next waiter wants it again */
}

void relock_alarm_want(struct relock_client *client)
{
    if (client->guarded.has_alarm)
        return;
    client->guarded.has_alarm = true;
    client->guarded.alarm_task.run = subscribe;
    relock_client_post(client, &client->guarded.alarm_task);
}
