#include "lock/subscription.h"

#include "base/clock.h"
#include "lock/group.h"
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
    site = relock_site_listener(site);
    if (site->kind->channel && !site->wants_channel)
        change(client, site, true);
}

static bool is_listened_to(const struct relock_site *site)
{
    const struct relock_ear *ear;

    DL_FOREACH(site->ears, ear)
    if (ear->n_listening > 0)
        return true;
    return false;
}

static bool is_used(const struct relock_site *site)
{
    return site->queue || site->holder || (site->kind->is_shared && site->holds) ||
           is_listened_to(site);
}

static bool is_idle(struct relock_site *listener)
{
    struct relock_site *readers = relock_site_readers(listener);

    return listener->wants_channel && !is_used(listener) && !(readers && is_used(readers));
}

void relock_subscription_idle(struct relock_client *client, struct relock_site *site)
{
    bool is_line = site->kind->is_queued; /* a channel of its own, that nobody waits for again */
    uint64_t linger_ms = is_line ? 0 : LINGER_MS;

    site = relock_site_listener(site);
    if (is_idle(site))
        relock_client_set_timer(client, &site->linger,
                                relock_clock_after(relock_clock_now_ms(), linger_ms));
}

RELOCK_UNCHECKED void relock_subscription_fire(struct relock_timer *timer, uint64_t now_ms)
{
    struct relock_site *site =
        (struct relock_site *)((char *)timer - offsetof(struct relock_site, linger));

    (void)now_ms;
    if (is_idle(site))
        change(site->client, site, false);
}

/* For both sides, if there are two. */
static void add_news(struct relock_site *listener, bool is_message)
{
    struct relock_site *readers = relock_site_readers(listener);

    relock_site_add_news(listener, is_message);
    if (readers)
        relock_site_add_news(readers, is_message);
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
        add_news(site, false);
        break;
    case RELOCK_CHANNEL_MESSAGE:
        add_news(site, true);
        break;
    case RELOCK_CHANNEL_DOWN:
        /* The head finds out whether Redis is away. */
        site->subscribed = false;
        add_news(site, false);
        break;
    }
    relock_mutex_unlock(&client->mutex);
    relock_group_hear(site, event == RELOCK_CHANNEL_MESSAGE);
}

static void subscribe(struct relock_client *client, struct relock_site *site)
{
    char name[RELOCK_CHANNEL_MAX];
    size_t len = relock_keys_channel(name, site->kind->channel, site->name, site->name_len);

    if (site->kind->is_queued) {
        name[len++] = ':';
        len += relock_keys_field(name + len, client->id, relock_site_kin(site)->number, "");
    }
    site->listener = relock_pubsub_subscribe(client->pubsub, name, len, on_channel, site);
}

/* Under no mutex: what it does to the connection may end in a log line. */
static void sync_site(struct relock_client *client, struct relock_site *site, bool drops,
                      bool wants)
{
    if (drops && site->listener) {
        relock_pubsub_unsubscribe(client->pubsub, site->listener);
        site->listener = NULL;
    }
    if (wants && !site->listener)
        subscribe(client, site);
}

void relock_subscription_sync(struct relock_client *client)
{
    struct relock_site *site;

    while ((site = client->guarded.to_sync)) {
        bool drops = site->drops_channel;
        bool wants = site->wants_channel;
        bool had_listener = site->listener != NULL;

        DL_DELETE2(client->guarded.to_sync, site, sync_prev, sync_next);
        site->to_be_synced = false;
        site->drops_channel = false;
        relock_mutex_unlock(&client->mutex);
        sync_site(client, site, drops, wants);
        relock_mutex_lock(&client->mutex);

        if (!had_listener && site->listener)
            site->refs++; /* of the listener */
        if (had_listener && !site->listener)
            relock_sites_unref(client, site);
        if (wants && !site->listener)
            site->wants_channel = false; /* out of memory: whoever is refused next wants it again */
        relock_sites_unref(client, site);
    }
}
