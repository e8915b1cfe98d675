#include "lock/sites.h"

#include "base/clock.h"
#include "lock/subscription.h"

#include <stdlib.h>
#include <string.h>

static struct relock_site *make(struct relock_client *client, const struct relock_kind *kind,
                                const char *name, size_t len, bool has_kin)
{
    size_t before = has_kin ? sizeof(struct relock_kin) : 0;
    char *memory = calloc(1, before + sizeof(struct relock_site) + len + 1);
    struct relock_site *site;

    if (!memory)
        return NULL;
    site = (struct relock_site *)(void *)(memory + before);
    site->has_kin = has_kin;
    site->client = client;
    site->kind = kind;
    site->refs = 1;
    site->lease_end_ms = RELOCK_NEVER;
    site->name_len = len;
    memcpy(site->name, name, len);
    relock_timer_init(&site->linger, relock_subscription_fire);
    return site;
}

static void destroy(struct relock_site *site)
{
    if (site->has_kin)
        free(relock_site_kin(site));
    else
        free(site);
}

/* ---- by name ------------------------------------------------------------------------------- */

static int get_home(struct relock_client *client, const struct relock_kind *kind, const char *name,
                    size_t len, struct relock_site **site) RELOCK_REQUIRES(client->mutex)
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
    found = make(client, kind, name, len, kind->side != NULL);
    if (!found)
        return RELOCK_E_NOMEM;
    HASH_ADD_KEYPTR(hh, client->guarded.sites, found->name, found->name_len, found);
    if (!found->hh.tbl) {
        destroy(found);
        return RELOCK_E_NOMEM;
    }
    *site = found;
    return RELOCK_OK;
}

/* The reference to the home passes to the readers' site, if that is new. */
static int get_readers(struct relock_client *client, const struct relock_kind *kind,
                       struct relock_site *home, struct relock_site **site)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_kin *kin = relock_site_kin(home);

    if (kin->readers) {
        kin->readers->refs++;
        *site = kin->readers;
        relock_sites_unref(client, home);
        return RELOCK_OK;
    }
    *site = make(client, kind, home->name, home->name_len, true);
    if (!*site) {
        relock_sites_unref(client, home);
        return RELOCK_E_NOMEM;
    }
    relock_site_kin(*site)->home = home;
    kin->readers = *site;
    return RELOCK_OK;
}

int relock_sites_get(struct relock_client *client, const struct relock_kind *kind, const char *name,
                     size_t len, struct relock_site **site)
{
    struct relock_site *home;
    int r;

    if (!kind->home)
        return get_home(client, kind, name, len, site);
    r = get_home(client, kind->home, name, len, &home);
    return r == RELOCK_OK ? get_readers(client, kind, home, site) : r;
}

/* ---- lines --------------------------------------------------------------------------------- */

int relock_sites_line(struct relock_client *client, struct relock_site *home,
                      struct relock_site **line)
{
    struct relock_kin *kin;

    *line = make(client, home->kind, home->name, home->name_len, true);
    if (!*line)
        return RELOCK_E_NOMEM;
    kin = relock_site_kin(*line);
    kin->home = home;
    home->refs++;
    DL_APPEND(client->guarded.lines, kin);
    return RELOCK_OK;
}

/* ---- ending -------------------------------------------------------------------------------- */

void relock_sites_unref(struct relock_client *client, struct relock_site *site)
{
    struct relock_site *home = relock_site_home(site);

    if (--site->refs > 0)
        return;
    relock_client_unset_timer(client, &site->linger);
    if (home == site)
        HASH_DEL(client->guarded.sites, site);
    else if (site->kind->is_queued)
        DL_DELETE(client->guarded.lines, relock_site_kin(site));
    else
        relock_site_kin(home)->readers = NULL;
    destroy(site);
    if (home != site)
        relock_sites_unref(client, home);
}
