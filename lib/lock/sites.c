#include "lock/sites.h"

#include "base/clock.h"
#include "lock/group.h"
#include "lock/keys.h"
#include "lock/subscription.h"

#include <stdlib.h>
#include <string.h>

/* Returns the memory in which it stands, NULL when there is none. */
static void *make(struct relock_client *client, const struct relock_kind *kind, const char *name,
                  size_t len, bool has_kin, struct relock_site **new)
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
    *new = site;
    return memory;
}

/* ---- by name ------------------------------------------------------------------------------- */

/* Two fair locks whose waiters would stand in one queue, and be in each other's way. */
static bool shares_its_queue(const struct relock_client *client, const struct relock_kind *kind,
                             const char *name, size_t len) RELOCK_REQUIRES(client->mutex)
{
    struct relock_site *found;
    char twin[RELOCK_TWIN_MAX];

    if (!kind->is_queued)
        return false;
    len = relock_keys_twin(twin, name, len);
    HASH_FIND(hh, client->guarded.sites, twin, len, found);
    return found && found->kind->is_queued;
}

static int get_home(struct relock_client *client, const struct relock_kind *kind, const char *name,
                    size_t len, struct relock_site **site, const char **why)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_site *found;
    void *memory;

    HASH_FIND(hh, client->guarded.sites, name, len, found);
    if (found && found->kind != kind) {
        *why = "this client uses the name for a lock of another kind";
        return RELOCK_E_INVALID;
    }
    if (found) {
        found->refs++;
        *site = found;
        return RELOCK_OK;
    }
    if (shares_its_queue(client, kind, name, len)) {
        *why = "this client has a fair lock whose name differs from it in braces alone, and "
               "in Redis the two have one queue";
        return RELOCK_E_INVALID;
    }
    memory = make(client, kind, name, len, kind->side != NULL, &found);
    if (!memory)
        return RELOCK_E_NOMEM;
    HASH_ADD_KEYPTR(hh, client->guarded.sites, found->name, found->name_len, found);
    if (!found->hh.tbl) {
        free(memory);
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
    if (!make(client, kind, home->name, home->name_len, true, site)) {
        relock_sites_unref(client, home);
        return RELOCK_E_NOMEM;
    }
    relock_site_kin(*site)->home = home;
    kin->readers = *site;
    return RELOCK_OK;
}

int relock_sites_get(struct relock_client *client, const struct relock_kind *kind, const char *name,
                     size_t len, struct relock_site **site, const char **why)
{
    struct relock_site *home;
    int r;

    if (!kind->home)
        return get_home(client, kind, name, len, site, why);
    r = get_home(client, kind->home, name, len, &home, why);
    return r == RELOCK_OK ? get_readers(client, kind, home, site) : r;
}

/* ---- groups -------------------------------------------------------------------------------- */

struct relock_site *relock_sites_find_group(struct relock_client *client,
                                            const struct relock_group *group)
{
    struct relock_site *found;

    HASH_FIND(hh, client->guarded.groups, group->key, group->key_size, found);
    return found;
}

int relock_sites_get_group(struct relock_client *client, struct relock_group *group,
                           const char *name, struct relock_site **site)
{
    struct relock_site *found = relock_sites_find_group(client, group);
    void *memory;

    if (found) {
        found->refs++;
        *site = found;
        return RELOCK_OK;
    }
    memory = make(client, group->kind, name, strlen(name), false, &found);
    if (!memory)
        return RELOCK_E_NOMEM;
    HASH_ADD_KEYPTR(hh, client->guarded.groups, group->key, group->key_size, found);
    if (!found->hh.tbl) {
        free(memory);
        return RELOCK_E_NOMEM;
    }
    found->group = relock_group_ref(group);
    *site = found;
    return RELOCK_OK;
}

/* ---- lines --------------------------------------------------------------------------------- */

int relock_sites_line(struct relock_client *client, struct relock_site *home,
                      struct relock_site **line)
{
    struct relock_kin *kin;

    if (!make(client, home->kind, home->name, home->name_len, true, line))
        return RELOCK_E_NOMEM;
    kin = relock_site_kin(*line);
    kin->home = home;
    home->refs++;
    DL_APPEND(client->guarded.lines, kin);
    return RELOCK_OK;
}

/* ---- ending -------------------------------------------------------------------------------- */

static void destroy(struct relock_site *site)
{
    struct relock_kin *kin = relock_site_kin(site);

    free(kin ? (void *)kin : (void *)site);
}

static void remove_site(struct relock_client *client, struct relock_site *site,
                        struct relock_site *home) RELOCK_REQUIRES(client->mutex)
{
    relock_client_unset_timer(client, &site->linger);
    if (site->group) {
        HASH_DEL(client->guarded.groups, site);
        relock_group_unref(site->group);
    } else if (home == site)
        HASH_DEL(client->guarded.sites, site);
    else if (site->kind->is_queued)
        DL_DELETE(client->guarded.lines, relock_site_kin(site));
    else
        relock_site_kin(home)->readers = NULL;
    destroy(site);
}

void relock_sites_unref(struct relock_client *client, struct relock_site *site)
{
    /* With the last reference to a line, or to the readers, goes one to its home. */
    while (site && --site->refs == 0) {
        struct relock_site *home = relock_site_home(site);
        bool is_home = home == site;

        remove_site(client, site, home);
        site = is_home ? NULL : home;
    }
}
