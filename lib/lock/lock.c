#include "lock/lock.h"

#include "lock/group.h"
#include "lock/keys.h"
#include "lock/sites.h"

#include <stdlib.h>

const struct relock_kind relock_kind_reentrant = {
    .lock = &relock_script_lock,
    .unlock = &relock_script_unlock,
    .renew = &relock_script_renew,
    .extend = &relock_script_extend,
    .inspect = &relock_script_inspect,
    .force_unlock = &relock_script_force_unlock,
    .channel = RELOCK_CHANNEL_LOCK,
    .message = RELOCK_MESSAGE_FREE,
    .field_suffix = "",
    .is_passed_on = true,
};

struct relock_lock *relock_lock_for(struct relock_client *client, struct relock_site *site,
                                    const char *name)
{
    struct relock_lock *new = calloc(1, sizeof(*new));

    if (!new)
        return NULL;
    *new = (struct relock_lock){.client = client, .site = site, .name = name};
    site->n_handles++;
    client->guarded.refs++;
    return new;
}

static int make(struct relock_client *client, const struct relock_kind *kind, const char *name,
                size_t len, struct relock_lock **lock, const char **why)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_lock *new;
    struct relock_site *site;
    int r;

    r = relock_sites_get(client, kind, name, len, &site, why);
    if (r < 0)
        return r;
    new = relock_lock_for(client, site, site->name);
    if (!new) {
        relock_sites_unref(client, site);
        return RELOCK_E_NOMEM;
    }
    *lock = new;
    return RELOCK_OK;
}

static void log_refusal(const struct relock_client *client, const char *name, const char *why)
{
    char text[RELOCK_LOG_NAME_MAX];

    relock_log_write(&client->log, RELOCK_LOG_ERROR, "%s: no handle was made: %s",
                     relock_log_name(name, text), why);
}

RELOCK_UNCHECKED int relock_lock_make(struct relock_client *client, const struct relock_kind *kind,
                                      const char *name, struct relock_lock **lock)
{
    const char *why = NULL;
    struct relock_visit visit;
    size_t len;
    int r;

    if (!client || !lock || !relock_keys_name(name, &len))
        return RELOCK_E_INVALID;
    r = relock_client_enter(client, false, &visit);
    if (r < 0)
        return r;
    r = make(client, kind, name, len, lock, &why);
    if (why) {
        relock_mutex_unlock(&client->mutex);
        log_refusal(client, name, why);
        relock_mutex_lock(&client->mutex);
    }
    relock_client_leave(client, &visit);
    return r;
}

int relock_lock_new(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    return relock_lock_make(client, &relock_kind_reentrant, name, lock);
}

/* Says so when the name is held here and this is its last handle. Gives the mutex up meanwhile. */
static void warn_if_held(const struct relock_lock *lock) RELOCK_REQUIRES(lock->client->mutex)
{
    if (lock->site->n_handles > 1 || !lock->site->holds)
        return;
    relock_mutex_unlock(&lock->client->mutex);
    relock_lock_log(lock, 0, "its last handle was freed while it is held here", 0, "");
    relock_mutex_lock(&lock->client->mutex);
}

RELOCK_UNCHECKED void relock_lock_drop(struct relock_lock *lock)
{
    struct relock_visit visit;
    int r;

    r = relock_client_enter(lock->client, false, &visit);
    if (r == RELOCK_OK) {
        warn_if_held(lock);
        relock_client_leave(lock->client, &visit);
    }
    if (r != RELOCK_E_FORKED) {
        relock_mutex_lock(&lock->client->mutex);
        lock->site->n_handles--;
        relock_sites_unref(lock->client, lock->site);
        relock_client_unref(lock->client);
    }
    free(lock);
}

struct relock_lock *relock_lock_free(struct relock_lock *lock)
{
    if (!lock)
        return NULL;
    relock_lock_drop(lock);
    relock_group_bury();
    return NULL;
}

const char *relock_lock_name(const struct relock_lock *lock)
{
    return lock ? lock->name : "";
}

void relock_lock_log(const struct relock_lock *lock, uint64_t owner, const char *what, int result,
                     const char *why)
{
    struct relock_cause cause = {what, result};
    char name[RELOCK_LOG_NAME_MAX];
    const struct relock_log *log = &lock->client->log;

    (void)relock_log_name(lock->name, name);
    if (owner == 0)
        relock_log_cause(log, cause, RELOCK_LOG_WARNING, "%s: %s", name, what);
    else
        relock_log_cause(log, cause, RELOCK_LOG_WARNING, "%s: owner %llu: %s: %s%s%s", name,
                         (unsigned long long)owner, what, relock_strerror(result), *why ? ": " : "",
                         why);
}
