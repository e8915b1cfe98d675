#include "lock/state/resources.h"

#include "base/clock.h"
#include "lock/state/keys.h"

#include <stdlib.h>
#include <string.h>

/* A primary, until it is made a secondary. Returns NULL when out of memory. */
static struct relock_resource *new_resource(struct relock_client *client,
                                            const struct relock_kind *kind, const char *name,
                                            size_t len, enum relock_resource_role role)
{
    struct relock_resource *new = calloc(1, sizeof(*new) + len + 1);

    if (!new)
        return NULL;
    new->client = client;
    new->mutex = &client->mutex;
    new->kind = kind;
    new->lease_ms = client->options.watchdog_timeout_ms;
    new->role = role;
    new->primary = new;
    new->refs = 1;
    new->lease_end_ms = RELOCK_NEVER;
    new->pause_min_ms = RELOCK_POLL_MIN_MS;
    new->pause_max_ms = RELOCK_POLL_MAX_MS;
    atomic_init(&new->patience_ms, 0);
    new->name_len = len;
    memcpy(new->name, name, len);
    new->given = new->name + client->prefix_len;
    return new;
}

static struct relock_resource *
new_secondary(struct relock_client *client, const struct relock_kind *kind,
              struct relock_resource *primary, enum relock_resource_role role)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_resource *new =
        new_resource(client, kind, primary->name, primary->name_len, role);

    if (!new)
        return NULL;
    new->primary = primary;
    primary->refs++;
    DL_APPEND(primary->secondaries, new);
    return new;
}

/* ---- by name ------------------------------------------------------------------------------- */

/* Two fair locks whose waiters would stand in one queue, and be in each other's way. */
static bool shares_its_queue(const struct relock_client *client, const struct relock_kind *kind,
                             const char *name, size_t len) RELOCK_REQUIRES(client->mutex)
{
    struct relock_resource *found;
    char twin[RELOCK_TWIN_MAX];

    if (!kind->is_queued)
        return false;
    len = relock_keys_twin(twin, name, len);
    HASH_FIND(hh, client->guarded.resources, twin, len, found);
    return found && found->kind->is_queued;
}

static struct relock_resource *get_primary(struct relock_client *client,
                                           const struct relock_kind *kind, const char *name,
                                           size_t len, const char **why)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_resource *found;

    HASH_FIND(hh, client->guarded.resources, name, len, found);
    if (found && found->kind != kind) {
        *why = "this client uses the name for a lock of another kind";
        return NULL;
    }
    if (found) {
        found->refs++;
        return found;
    }
    if (shares_its_queue(client, kind, name, len)) {
        *why = "this client has a fair lock whose name differs from it only in braces, and "
               "in Redis both would share one queue";
        return NULL;
    }
    found = new_resource(client, kind, name, len, RELOCK_RESOURCE_NAMED);
    if (!found)
        return NULL;
    HASH_ADD_KEYPTR(hh, client->guarded.resources, found->name, found->name_len, found);
    if (found->hh.tbl)
        return found;
    free(found);
    return NULL;
}

struct relock_resource *relock_resources_get(struct relock_client *client,
                                             const struct relock_kind *kind, const char *name,
                                             size_t len, const char **why)
{
    struct relock_resource *primary, *readers;

    *why = NULL;
    if (!kind->primary)
        return get_primary(client, kind, name, len, why);
    primary = get_primary(client, kind->primary, name, len, why);
    if (!primary)
        return NULL;
    readers = relock_resource_readers(primary);
    if (readers)
        readers->refs++;
    else
        readers = new_secondary(client, kind, primary, RELOCK_RESOURCE_READERS);
    relock_resources_unref(client, primary); /* a secondary has a reference of its own */
    return readers;
}

struct relock_resource *relock_resources_find(struct relock_client *client, const char *name,
                                              size_t len, const char *side)
{
    struct relock_resource *found;

    HASH_FIND(hh, client->guarded.resources, name, len, found);
    if (!found || (side == NULL) != (found->kind->side == NULL))
        return NULL;
    if (side && strcmp(side, found->kind->side) != 0)
        return relock_resource_readers(found);
    return found;
}

struct relock_resource *relock_resources_find_key(struct relock_client *client, const char *key,
                                                  size_t len)
{
    struct relock_resource *found;

    HASH_FIND(hh, client->guarded.resources, key, len, found);
    return found;
}

/* ---- not by name --------------------------------------------------------------------------- */

struct relock_resource *relock_resources_new_unlisted(struct relock_client *client,
                                                      const struct relock_kind *kind,
                                                      const struct relock_resource *named,
                                                      void *data,
                                                      relock_resource_free_fn *free_data)
{
    struct relock_resource *new =
        new_resource(client, kind, named->name, named->name_len, RELOCK_RESOURCE_UNLISTED);

    if (!new)
        return NULL;
    new->given = new->name + (named->given - named->name);
    new->data = data;
    new->free_data = free_data;
    return new;
}

struct relock_resource *relock_resources_new_fair_waiter(struct relock_client *client,
                                                         struct relock_resource *primary)
{
    return new_secondary(client, primary->kind, primary, RELOCK_RESOURCE_FAIR_WAITER);
}

/* ---- ending -------------------------------------------------------------------------------- */

static void destroy(struct relock_client *client, struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex)
{
    relock_client_unset_timer(client, &resource->subscription.timer);
    relock_client_unset_timer(client, &resource->line.timer);
    switch (resource->role) {
    case RELOCK_RESOURCE_NAMED:
        HASH_DEL(client->guarded.resources, resource);
        break;
    case RELOCK_RESOURCE_UNLISTED:
        resource->free_data(client, resource->data);
        break;
    case RELOCK_RESOURCE_READERS:
    case RELOCK_RESOURCE_FAIR_WAITER:
        DL_DELETE(resource->primary->secondaries, resource);
        break;
    }
    free(resource);
}

void relock_resources_unref(struct relock_client *client, struct relock_resource *resource)
{
    while (resource && --resource->refs == 0) {
        struct relock_resource *primary = resource->primary;

        if (primary == resource)
            primary = NULL;
        destroy(client, resource);
        resource = primary; /* loses the reference of its secondary */
    }
}

/* Of the references to it, `n_kept` stay. */
static void drop(struct relock_client *client, struct relock_resource *resource, unsigned n_kept)
    RELOCK_REQUIRES(client->mutex)
{
    relock_client_unset_timer(client, &resource->subscription.timer);
    relock_client_unset_timer(client, &resource->line.timer);
    resource->refs = n_kept + 1;
    relock_resources_unref(client, resource);
}

void relock_resources_drop(struct relock_client *client, struct relock_resource *primary)
{
    struct relock_resource *at, *next;
    unsigned n_secondaries = 0;

    primary->refs++; /* the secondaries may have the only others */
    DL_FOREACH_SAFE(primary->secondaries, at, next)
    {
        n_secondaries += at->n_handles > 0; /* it stays */
        drop(client, at, at->n_handles);
    }
    drop(client, primary, primary->n_handles + n_secondaries);
}
