#include "lock/subscription.h"

#include "base/clock.h"
#include "lock/keys.h"
#include "lock/sites.h"
#include "redis/pubsub.h"

#include <stddef.h>

#define LINGER_MS 1000

static void change(struct relock_client *client, struct relock_site *site, bool wants)
    RELOCK_REQUIRES(client->mutex)
{
    site->wants_channel = wants;
    site->subscribed = false;
    if (!wants)
        site->drops_channel = true;
    if (site->to_be_synced)
        return;
    site->to_be_synced = true;
    site->refs++;
    DL_APPEND2(client->guarded.to_sync, site, sync_prev, sync_next);
    relock_client_wake(client);
}

void relock_subscription_want(struct relock_client *client, struct relock_site *site)
{
    if (site->kind->channel && !site->wants_channel)
        change(client, site, true);
}

static bool is_idle(const struct relock_site *site)
{
    return site->wants_channel && !site->queue && !site->holder;
}

void relock_subscription_idle(struct relock_client *client, struct relock_site *site)
{
    if (is_idle(site))
        relock_client_set_timer(client, &site->linger,
                                relock_clock_after(relock_clock_now_ms(), LINGER_MS));
}

RELOCK_UNCHECKED void relock_subscription_fire(struct relock_timer *timer, uint64_t now_ms)
{
    struct relock_site *site =
        (struct relock_site *)((char *)timer - offsetof(struct relock_site, linger));

    (void)now_ms;
    if (is_idle(site))
        change(site->client, site, false);
}

static void on_channel(void *arg, enum relock_channel_event event)
{
    struct relock_site *site = arg;
    struct relock_client *client = site->client;

    relock_mutex_lock(&client->mutex);
    switch (event) {
    case RELOCK_CHANNEL_SUBSCRIBED:
        /* Any acknowledgement, also one after a reconnect: the release may have come before. */
        site->subscribed = site->wants_channel;
        relock_site_add_news(site, false);
        break;
    case RELOCK_CHANNEL_MESSAGE:
        relock_site_add_news(site, true);
        break;
    case RELOCK_CHANNEL_DOWN:
        /* The head finds out whether Redis is away. */
        site->subscribed = false;
        relock_site_add_news(site, false);
        break;
    }
    relock_mutex_unlock(&client->mutex);
}

static void subscribe(struct relock_client *client, struct relock_site *site)
{
    char name[RELOCK_CHANNEL_MAX];
    size_t len = relock_keys_channel(name, site->kind->channel, site->name, site->name_len);

    site->channel = relock_pubsub_subscribe(client->pubsub, name, len, on_channel, site);
}

/* Under no mutex: what it does to the connection may end in a log line. */
static void sync_site(struct relock_client *client, struct relock_site *site, bool drops,
                      bool wants)
{
    if (drops && site->channel) {
        relock_pubsub_unsubscribe(client->pubsub, site->channel);
        site->channel = NULL;
    }
    if (wants && !site->channel)
        subscribe(client, site);
}

void relock_subscription_sync(struct relock_client *client)
{
    struct relock_site *site;

    while ((site = client->guarded.to_sync)) {
        bool drops = site->drops_channel;
        bool wants = site->wants_channel;
        bool had_channel = site->channel != NULL;

        DL_DELETE2(client->guarded.to_sync, site, sync_prev, sync_next);
        site->to_be_synced = false;
        site->drops_channel = false;
        relock_mutex_unlock(&client->mutex);
        sync_site(client, site, drops, wants);
        relock_mutex_lock(&client->mutex);

        if (!had_channel && site->channel)
            site->refs++; /* of the channel */
        if (had_channel && !site->channel)
            relock_sites_unref(client, site);
        if (wants && !site->channel)
            site->wants_channel = false; /* out of memory: whoever is refused next wants it again */
        relock_sites_unref(client, site);
    }
}
