#include "lock/sites.h"

#include "base/clock.h"
#include "lock/subscription.h"

#include <stdlib.h>
#include <string.h>

static struct relock_site *make(struct relock_client *client, const struct relock_kind *kind,
                                const char *name, size_t len)
{
    struct relock_site *site = calloc(1, sizeof(*site) + len + 1);

    if (!site)
        return NULL;
    site->client = client;
    site->kind = kind;
    site->refs = 1;
    site->lease_end_ms = RELOCK_NEVER;
    site->name_len = len;
    memcpy(site->name, name, len);
    relock_timer_init(&site->linger, relock_subscription_fire);
    return site;
}

int relock_sites_get(struct relock_client *client, const struct relock_kind *kind, const char *name,
                     size_t len, struct relock_site **site)
{
    struct relock_site *found;

    HASH_FIND(hh, client->guarded.sites, name, len, found);
    if (found && found->kind != kind)
        return RELOCK_E_INVALID;
    if (found) {
        found->refs++;
        *site = found;
        return RELOCK_OK;
    }
    found = make(client, kind, name, len);
    if (!found)
        return RELOCK_E_NOMEM;
    HASH_ADD_KEYPTR(hh, client->guarded.sites, found->name, found->name_len, found);
    if (!found->hh.tbl) {
        free(found);
        return RELOCK_E_NOMEM;
    }
    *site = found;
    return RELOCK_OK;
}

void relock_sites_unref(struct relock_client *client, struct relock_site *site)
{
    if (--site->refs > 0)
        return;
    relock_client_unset_timer(client, &site->linger);
    HASH_DEL(client->guarded.sites, site);
    free(site);
}
