#include "lock/state/lock.h"

#include "base/clock.h"
#include "lock/state/keys.h"

#include <stdlib.h>
#include <string.h>

static struct relock_lock *make_named(struct relock_client *client,
                                      struct relock_resource *resource,
                                      const struct relock_resource *named)
{
    struct relock_named_lock *new = malloc(sizeof(*new));

    if (!new)
        return NULL;
    *new = (struct relock_named_lock){{.client = client, .resource = resource}, named};
    return &new->lock;
}

/* Other threads read the client of a resource at any time, so `first` has it from the beginning. */
static struct relock_lock *make_room(struct relock_client *client, struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_lock *new;

    if (!resource->has_first) {
        resource->has_first = true;
        return &resource->first;
    }
    new = malloc(sizeof(*new));
    if (new)
        *new = (struct relock_lock){.client = client, .resource = resource};
    return new;
}

struct relock_lock *relock_lock_for(struct relock_client *client, struct relock_resource *resource,
                                    const struct relock_resource *named)
{
    bool has_own_name = resource->role == RELOCK_RESOURCE_UNLISTED;
    struct relock_lock *new =
        has_own_name ? make_named(client, resource, named) : make_room(client, resource);

    if (!new)
        return NULL;
    resource->n_handles++;
    client->guarded.refs++;
    return new;
}

/* A caller wants the name for another kind. Without a handle nobody uses its kept hold, so that
 * ends now: the watchdog releases it, and a later call gets the name. */
static void make_way(struct relock_client *client, const char *name, size_t len)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_resource *found = relock_resources_find_key(client, name, len);
    struct relock_hold *cached = found ? relock_resource_cached(found) : NULL;
    uint64_t now_ms = relock_clock_now_ms();

    if (!cached || found->n_handles > 0)
        return;
    cached->cache_until_ms = now_ms;
    relock_client_set_hold_timer(client, cached, now_ms, false);
}

/* In a cluster, why the keys and channels of this name would not belong to one slot; else NULL. A
 * key has a slot of its own unless the name has a tag, and a list is a key. */
static const char *find_scatter(const struct relock_kind *kind, const char *name, size_t len)
{
    if (kind->channel && !relock_keys_share_slot(kind->channel, name, len))
        return "in a cluster, its key and its channel would belong to different slots: a { in the "
               "name needs a } behind it and text between them, and a } needs a { before it";
    if (kind->announcement && strcmp(kind->announcement->command, "lpush") == 0 &&
        !(memchr(name, '{', len) && relock_keys_share_slot(RELOCK_CHANNEL_LOCK, name, len)))
        return "in a cluster, its key and the list on which the waiters of the other library "
               "block would belong to different slots: the name needs a { and a } with text "
               "between them";
    return NULL;
}

static int make(struct relock_client *client, const struct relock_kind *kind, const char *name,
                size_t len, size_t prefix_len, struct relock_lock **lock, const char **why)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_resource *resource;
    struct relock_lock *new;

    if (client->server.url.cluster)
        *why = find_scatter(kind, name, len);
    if (*why)
        return RELOCK_E_INVALID;
    resource = relock_resources_get(client, kind, name, len, prefix_len, why);
    if (*why)
        make_way(client, name, len);
    if (!resource)
        return *why ? RELOCK_E_INVALID : RELOCK_E_NOMEM;
    new = relock_lock_for(client, resource, resource);
    if (!new) {
        relock_resources_unref(client, resource);
        return RELOCK_E_NOMEM;
    }
    *lock = new;
    return RELOCK_OK;
}

/* The log ends with the client, which handles may outlive. */
static void log_invalid(struct relock_client *client, const struct relock_resource *named,
                        const char *what)
{
    struct relock_cause cause = {what, RELOCK_E_INVALID};
    struct relock_subject subject = {named ? relock_resource_given(named) : NULL, 0,
                                     RELOCK_E_INVALID};
    struct relock_guard guard;
    char name[RELOCK_LOG_NAME_MAX];

    if (!relock_client_enter(client, false, &guard))
        return;
    relock_mutex_unlock(&client->mutex);
    relock_log_about(&client->log, cause, &subject, "%s: invalid argument: %s",
                     named ? relock_log_name(named->name, name) : client->server.label, what);
    relock_mutex_lock(&client->mutex);
    relock_client_exit(client, &guard);
}

void relock_client_log_refusal(struct relock_client *client, const char *what)
{
    if (client)
        log_invalid(client, NULL, what);
}

void relock_lock_log_refusal(const struct relock_lock *lock, const char *what)
{
    if (lock)
        log_invalid(lock->client, relock_lock_named(lock), what);
}

static void log_refusal(const struct relock_client *client, const char *name, const char *why)
{
    char text[RELOCK_LOG_NAME_MAX];

    relock_log_write(&client->log, RELOCK_LOG_ERROR, "%s: no handle was made: %s",
                     relock_log_name(name, text), why);
}

int relock_lock_make(struct relock_client *client, const struct relock_kind *kind, const char *name,
                     struct relock_lock **lock)
{
    struct relock_text prefix = {0};

    if (client)
        prefix = (struct relock_text){client->options.name_prefix, client->prefix_len};
    return relock_lock_make_shared(client, kind, prefix, name, lock);
}

int relock_lock_make_shared(struct relock_client *client, const struct relock_kind *kind,
                            struct relock_text prefix, const char *name, struct relock_lock **lock)
{
    char key[RELOCK_NAME_MAX + 1];
    const char *why = NULL;
    struct relock_guard guard;
    size_t len;
    int r;

    if (!client || !lock)
        return relock_client_refuse(client, "no handle was made: `lock` is NULL");
    if (!relock_keys_join(key, prefix.data, prefix.len, name, &len))
        return relock_client_refuse(client, relock_keys_invalid(name));
    if (!relock_client_enter(client, false, &guard))
        return guard.result;
    r = make(client, kind, key, len, prefix.len, lock, &why);
    if (why) {
        relock_mutex_unlock(&client->mutex);
        log_refusal(client, key, why);
        relock_mutex_lock(&client->mutex);
    }
    relock_client_exit(client, &guard);
    return r;
}

/* Warns if this is the last handle of a lock that is held. Unlocks the mutex meanwhile. */
static void warn_if_held(struct relock_client *client, const struct relock_lock *lock)
    RELOCK_REQUIRES(client->mutex)
{
    relock_shortcut_close(lock->resource);
    if (lock->resource->n_handles > 1 || !relock_resource_is_owned(lock->resource))
        return;
    relock_lock_log_under(client, lock, 0,
                          "its last handle was freed while this process holds it; release it "
                          "through a new handle",
                          0, "");
}

/* The reference to the resource, of which the handle may be a part. */
static void drop_resource(struct relock_client *client, struct relock_lock *lock)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_resource *resource = lock->resource;

    resource->n_handles--;
    if (lock == &resource->first)
        resource->has_first = false;
    else
        free(lock);
    relock_resources_unref(client, resource);
}

/* All but the reference to the client. A forked child leaves the resource, which its parent was
 * perhaps changing, and so what is part of it. */
static void drop(struct relock_lock *lock)
{
    struct relock_client *client = lock->client;
    struct relock_guard guard;

    if (relock_client_enter(client, false, &guard)) {
        warn_if_held(client, lock);
        relock_client_exit(client, &guard);
    }
    if (guard.result == RELOCK_E_FORKED) {
        if (lock != &lock->resource->first)
            free(lock);
        return;
    }
    relock_mutex_lock(&client->mutex);
    drop_resource(client, lock);
    relock_mutex_unlock(&client->mutex);
}

void relock_lock_drop(struct relock_lock *lock)
{
    struct relock_client *client = lock->client;

    drop(lock);
    relock_client_unref(client);
}

struct relock_lock *relock_lock_free(struct relock_lock *lock)
{
    struct relock_client *client;

    if (!lock)
        return NULL;
    client = lock->client;
    drop(lock);
    relock_client_reap(client);
    relock_client_unref(client);
    return NULL;
}

const char *relock_lock_name(const struct relock_lock *lock)
{
    return lock ? relock_resource_given(relock_lock_named(lock)) : "";
}

void relock_lock_log(const struct relock_lock *lock, uint64_t owner, const char *what, int result,
                     const char *why)
{
    struct relock_cause cause = {what, result};
    const struct relock_resource *named = relock_lock_named(lock);
    struct relock_subject subject = {relock_resource_given(named), owner, result};
    char name[RELOCK_LOG_NAME_MAX];
    const struct relock_log *log = &lock->client->log;

    (void)relock_log_name(named->name, name);
    if (owner == 0)
        relock_log_about(log, cause, &subject, "%s: %s", name, what);
    else
        relock_log_about(log, cause, &subject, "%s: owner %llu: %s: %s%s%s", name,
                         (unsigned long long)owner, what, relock_strerror(result), *why ? ": " : "",
                         why);
}

void relock_lock_log_under(struct relock_client *client, const struct relock_lock *lock,
                           uint64_t owner, const char *what, int result, const char *why)
{
    relock_mutex_unlock(&client->mutex);
    relock_lock_log(lock, owner, what, result, why);
    relock_mutex_lock(&client->mutex);
}
